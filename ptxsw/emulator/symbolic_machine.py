"""Runs the instructions of one function over terms: what each does to the state of a path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import combinations

from ptxsw.emulator.memory import SPACES, Aliasing, Store, ended, stored
from ptxsw.emulator.operand_reader import Get, OperandReader
from ptxsw.emulator.spaces import Spaces
from ptxsw.emulator.state import (
    MemoryAccess,
    State,
    Step,
    needs_type,
    reach,
    stored_bytes,
    undefined,
)
from ptxsw.emulator.warp_values import Broadcasts, SpecialRegisters
from ptxsw.flow.dataflow import CARRY, defs
from ptxsw.ptx import isa
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import (
    Body,
    Function,
    Instruction,
    Mem,
    Module,
    Operand,
    Reg,
    RegisterPart,
    Symbol,
    flatten,
    type_width,
)
from ptxsw.semantics import Meaning, meaning
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Solver
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms

# A term of more nodes is given up: nobody reads it and no proof about it ends in time.
_MAX_SIZE = 4000


_TOLD = {"elect": Origin.ELECTED, "bar": Origin.OF_BLOCK, "barrier": Origin.OF_BLOCK}


class SymbolicMachine(OperandReader):
    """Runs instructions of one function over terms."""

    def __init__(self, module: Module, function: Function, terms: Terms) -> None:
        """Raises Unsupported for a parameter that has the name of a special register."""
        hidden = next((p for p in function.params if p.name in SPECIALS), None)
        if hidden is not None:
            message = f"{hidden.name} is a special register; rename the parameter"
            raise Unsupported(message, module.source, hidden.span)
        super().__init__(terms, module, function)
        self._aliasing = Aliasing(terms)
        self._spaces = Spaces(terms)
        self._module = module
        self._params = {p.name: p for p in function.params}
        self._specials = SpecialRegisters(terms, function)
        self.broadcasts = Broadcasts(terms)
        self.true = terms.const(1, 1)

    @cached_property
    def _overwritten(self) -> frozenset[str]:
        return _named_outside_loads(self._body)

    def ask(self, solver: Solver) -> None:
        """From now on the solver may be asked whether a store misses a load."""
        self._aliasing = Aliasing(self.terms, solver)

    # ------------------------------------------------------------ preparing

    def prepare(self, instruction: Instruction, tracked: frozenset[Reg]) -> Step | None:
        """The step of an instruction; None where it neither writes a tracked register nor
        touches memory. Raises Unsupported for a load or store of an unknown type."""
        written = [r for r in defs(instruction) if r in tracked]
        where = reach(instruction.opcode, instruction.modifiers)
        if not (written or where.touches):
            return None
        sense = meaning(instruction.opcode, instruction.modifiers)
        if needs_type(instruction) and not isa.access_type(instruction):
            raise Unsupported(
                f"{instruction.name} has no type that ptxsw knows: how much it accesses is unknown",
                self._module.source,
                instruction.span,
            )
        count, operands = isa.destinations(instruction), instruction.operands
        targets = tuple(flatten(operands[:count]))
        dests = tuple([self._destination(target) for target in targets])
        address = _named_address(operands) if where.touches else None
        sources = tuple(flatten(operands[count:]))
        partial = any([type(target) is RegisterPart for target in targets])
        if partial or (sense is None and instruction.opcode != "ld"):
            sense = None
            # What an unmodelled instruction may write is every register that it names.
            dests = tuple((reg, self.width(reg)) for reg in defs(instruction))
        if not written:
            dests = ()  # of an access only the address counts
        return Step(
            instruction,
            dests,
            sources,
            sense,
            address,
            isa.space(instruction) or "",
            where.clobbers,
            where.elsewhere,
            stored_bytes(instruction),
            self._widened(sense, dests, sources),
            partial,
            _copied(instruction),
        )

    def _destination(self, operand: Operand) -> tuple[Reg | None, int]:
        return (operand, self.width(operand)) if isinstance(operand, Reg) else (None, 0)

    def _widened(
        self,
        sense: Meaning | None,
        dests: Sequence[tuple[Reg | None, int]],
        sources: Sequence[Operand],
    ) -> tuple[Reg, ...]:
        if sense is None or not dests:
            return ()
        widest = dests[0][1]
        return tuple([r for r in sources if type(r) is Reg and 1 < self.width(r) < widest])

    # ------------------------------------------------------------ running

    def run(self, step: Step, state: State, index: int) -> MemoryAccess | None:
        """Advance the state over one instruction. `index` names the memory epochs that it
        begins. Returns the access, if it makes one."""
        instruction = step.instruction
        guard = self.guard(state, instruction)
        touch = None
        if step.address is not None:
            at, get = step.copied, self.get(state)
            copied = None if at is None else self.address(at, get)
            touch = self._touch(step.space, self.address(step.address, get), guard, copied)
        values = self._values(step, state, touch, index)
        for (reg, width), value in zip(step.dests, values, strict=False):
            if reg is None:
                continue
            if value.size > _MAX_SIZE:
                value = self.terms.fresh(f"big({reg.name})", width, value.variance, Origin.MERGED)
            self._write(state, reg, value, guard)
        if step.meaning is not None and step.meaning.writes_carry:
            self._write(state, CARRY, values[-1], guard)
        if step.clobbers:
            self._clobber(step, state, touch, index + 1)
        return touch

    def _touch(self, space: str, address: Term, guard: Term, copied: Term | None) -> MemoryAccess:
        place = address
        if space == "generic":
            space, place = self._spaces.resolve(address)
        return MemoryAccess(address, guard, space, place, copied)

    def _clobber(self, step: Step, state: State, touch: MemoryAccess | None, mark: int) -> None:
        """End the epochs of what the instruction may write."""
        spaces = step.clobbers
        if touch is not None and not step.elsewhere and touch.space in SPACES:
            spaces = (touch.space,)
        if touch is None or not step.stores:
            state.epochs = ended(state.epochs, spaces, mark)
            return
        happens = state.assume(touch.guard)
        store = Store(touch.space, touch.place, step.stores, happens)
        state.epochs = stored(state.epochs, spaces, store, mark)

    def _write(self, state: State, reg: Reg, value: Term, guard: Term) -> None:
        if guard is not self.true:
            value = self.terms.ite(guard, value, self.read_reg(state, reg))
        state.env[reg] = value

    def _values(
        self, step: Step, state: State, touch: MemoryAccess | None, index: int
    ) -> tuple[Term, ...]:
        get = self.get(state)
        if step.instruction.opcode == "cvta" and len(step.dests) == len(step.sources) == 1:
            (source,), width = step.sources, step.dests[0][1] or 64
            return (self.converted(step.instruction.modifiers, source, get, width),)
        if step.meaning is not None:
            sources = [self.read(o, get) for o in step.sources]
            carry = self.read_reg(state, CARRY) if step.meaning.reads_carry else None
            widths = [width for _, width in step.dests]
            try:
                return step.meaning.run(self.terms, sources, widths, carry)
            except ValueError:
                pass  # operands of a shape the table does not know: nothing is known of it
        elif step.instruction.opcode == "ld" and touch is not None and not step.opaque:
            return tuple(self._loaded(step, state, touch, index))
        elif index in self.broadcasts.places:
            return (self._broadcast(step, state, index),)
        widths = [width or 32 for _, width in step.dests]
        if step.meaning is not None and step.meaning.writes_carry:
            widths.append(self.width(CARRY))
        name = step.instruction.opcode
        origin = _TOLD.get(name, Origin.UNKNOWN)
        return tuple(self.terms.fresh(name, width, origin=origin) for width in widths)

    def _broadcast(self, step: Step, state: State, index: int) -> Term:
        """What all lanes get of one."""
        width = step.dests[0][1] or 32
        own = self.read(step.sources[0], self.get(state))
        own = self.terms.const(own, width) if isinstance(own, int) else own
        return self.broadcasts.given(index, own, width)

    def _loaded(self, step: Step, state: State, touch: MemoryAccess, index: int) -> Iterator[Term]:
        type_name = isa.access_type(step.instruction) or ""
        bits = type_width(type_name)
        for at, (_, width) in enumerate(step.dests):
            address = touch.place
            if at:
                address = self.terms.add(address, self.terms.const(at * bits // 8, address.width))
            value = self._memory(step, state, touch.space, address, bits or width or 32)
            wide = width or value.width
            if wide < value.width:
                value = self.terms.extract(value, 0, wide)
            elif type_name.startswith("s"):
                value = self.terms.sext(value, wide)
            yield self.terms.zext(value, wide)

    def _memory(self, step: Step, state: State, space: str, address: Term, bits: int) -> Term:
        """The value of `bits` at an address."""
        terms, modifiers = self.terms, step.instruction.modifiers
        if space == "param":
            return self._parameter(address, bits)
        if space == "const" or "nc" in modifiers:
            return terms.apply(("load", space), bits, (address,), Variance.UNIFORM)
        if isa.effects("ld", modifiers) & ~isa.Effect.READ or "cv" in modifiers:
            return terms.fresh("load", bits)  # it may find what another thread has just written
        space = space if space in SPACES else "generic"
        marks = (
            self._aliasing.epoch(history, space, address, bits // 8, state.conditions)
            for name, history in zip(SPACES, state.epochs, strict=True)
            if space in (name, "generic")
        )
        return terms.apply(("load", space, *marks), bits, (address,), Variance.LANE)

    def _parameter(self, address: Term, bits: int) -> Term:
        """A kernel parameter is one value for the whole grid; a device function's is not."""
        base, offset = address, 0
        if address.kind is op.SUM and len(address.args) == 1:
            base, offset = address.args[0], address.value[0]
        name = str(base.value)[1:] if base.kind is op.ATOM else ""
        if name not in self._params:
            if base.kind is op.ATOM or self.function.kind != "entry":
                return self.terms.fresh("param", bits)
            return self.terms.apply(("load", "param"), bits, (address,), Variance.UNIFORM)
        entry = self.function.kind == "entry"
        if not entry and name in self._overwritten:
            return self.terms.fresh("param", bits)
        attributes = () if offset or not entry else self._params[name].attributes
        shown = f"{name}+{offset}" if offset else name
        variance = Variance.UNIFORM if entry else Variance.LANE
        of = (name, str(offset))
        value = self.terms.atom(shown, bits, variance, None, Origin.PARAMETER, of)
        promised = "ptr" in attributes and "global" in attributes
        return self._spaces.points(value, "global") if promised else value

    # ------------------------------------------------------------ operands

    def mutually_exclusive(self, paths: Sequence[frozenset[Term]]) -> bool:
        """Do all lanes of a warp go the same one of several ways? So it is where of each two there
        is a condition that all lanes share, and that holds on one and not on the other."""
        shared = [frozenset(c for c in path if c.variance is Variance.UNIFORM) for path in paths]
        contrary = [frozenset(map(self.terms.not_, path)) for path in shared]
        return not any(
            shared[a].isdisjoint(contrary[b]) for a, b in combinations(range(len(paths)), 2)
        )

    def guard(self, state: State, instruction: Instruction) -> Term:
        if instruction.guard is None:
            return self.true
        value = self.read_reg(state, instruction.guard.reg)
        if value.width != 1:  # no predicate, as ptxas will say
            return self.terms.fresh("guard", 1)
        return self.terms.not_(value) if instruction.guard.negated else value

    def read_reg(self, state: State, reg: Reg) -> Term:
        value = state.env.get(reg)
        if value is None:
            value = state.env[reg] = undefined(self.terms, reg, self.width(reg))
        return value

    def get(self, state: State) -> Get:
        """What registers hold in a state."""
        return partial(self.read_reg, state)

    def special(self, name: str) -> Term:
        return self._specials.value(name)

    def window(self, space: str, width: int) -> Term:
        return self._spaces.window(space, width)

    def unreadable(self, operand: Operand) -> Term:
        return self.terms.fresh("part" if type(operand) is RegisterPart else "operand", 32)

    def symbol(self, name: str, scope: int = 0, offset: int = 0) -> Term:
        width = self._address_size
        spaces = {v.space for v in self._body.variables if v.name == name and v.scope == scope}
        shown = f"&{name}@{scope}" if scope and spaces else f"&{name}"
        own = bool(spaces & {"local", "param"}) and (scope > 0 or name not in self._params)
        variance = Variance.LANE if own else Variance.UNIFORM
        base = self.terms.atom(shown, width, variance, None, Origin.SYMBOL, (shown[1:],))
        if not spaces:
            entry = self.function.kind == "entry"
            given = {"param"} if name in self._params and entry else set()
            spaces = given or {v.space for v in self._module.variables if v.name == name}
        if len(spaces) == 1:
            self._spaces.points(base, *spaces)
        return self.terms.add(base, self.terms.const(offset, width)) if offset else base


def _copied(instruction: Instruction) -> Mem | None:
    """The second address of `cp.async`, which each lane gives."""
    if instruction.opcode != "cp" or "bulk" in instruction.modifiers:
        return None
    addresses = [o for o in instruction.operands if isinstance(o, Mem)]
    return addresses[1] if len(addresses) == 2 else None


def _named_address(operands: Iterable[Operand]) -> Mem | None:
    """The first address among some operands."""
    for operand in operands:
        if type(operand) is Mem:
            return operand
    return None


def _named_outside_loads(body: Body) -> frozenset[str]:
    """Symbols whose memory may be written, here or through their address: a device function may
    do that to its parameters."""
    names: set[str] = set()
    for instruction in body.instructions:
        if instruction.opcode != "ld":
            for operand in flatten(instruction.operands):
                base = operand.base if isinstance(operand, Mem) else operand
                if isinstance(base, Symbol):
                    names.add(base.name)
    return frozenset(names)
