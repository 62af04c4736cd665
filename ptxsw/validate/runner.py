"""Running one text along its paths from one place to the next places of comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce
from typing import Any

from msgspec.structs import replace

from ptxsw.analysis.instruction_kinds import SPACE_WORDS, Kind, clobbers, kind, may_part
from ptxsw.emulator.operand_reader import converted_space
from ptxsw.emulator.state import elements
from ptxsw.facts.conditions import assumed, decided
from ptxsw.facts.loads import CONSTANT
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs
from ptxsw.flow.pointer_spaces import Points
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg, Symbol, flatten, type_width
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms
from ptxsw.validate.evaluate import Evaluator, is_integer_division, shape
from ptxsw.validate.layout import Origin
from ptxsw.validate.memory import Memory, holds_first, stores_before, used_part
from ptxsw.validate.memory_ssa import Bytes, Store
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.path import End, Event, Path, Touch
from ptxsw.validate.spaces import Windows
from ptxsw.validate.warp import WarpView

MAX_PATHS = 64
"""Paths of one segment of one text."""
MAX_STEPS = 20_000
"""Instructions of all paths of one segment, beyond those of one pass over the text."""

# Events whose space may be told by the address instead of a modifier.
_SPACE_MAY_DIFFER = isa.opcodes(isa.Trait.SCALAR_ACCESS)


@isa.by_name
def _moved(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, int, int]:
    """The type of what an access moves, its size in bytes, and how many of it."""
    named = Instruction(opcode, modifiers, (), None, 0, 0)
    type_name = isa.access_type(named) or ""
    return type_name, type_width(type_name) // 8, elements(named)


Constant = Callable[[Touch, Sequence[Term]], bool]
"""Does the first text read the bytes of a load by `.nc` wherever some conditions hold?"""


class Runner:
    """Runs the instructions of one text. `constant` tells which bytes the first text reads by
    `.nc`, so that nobody writes them. A `witness` shows by what it does where addresses lie.
    `origin` gives the bytes of the first text that correspond to those of an access, from these,
    what is known on the path, the instruction and the size of the access. `written` gives a place
    in a form that equal ones share. `points` tells by data flow where a register points before an
    instruction."""

    def __init__(
        self,
        cfg: Cfg,
        evaluator: Evaluator,
        memory: Memory,
        windows: Windows,
        *,
        witness: bool,
        constant: Constant = lambda _, __: False,
        warp: WarpView | None = None,
        origin: Origin | None = None,
        written: Callable[[Term], Term] | None = None,
        points: Callable[[int, Reg], Points | None] | None = None,
    ) -> None:
        self.cfg = cfg
        self.evaluator = evaluator
        self.memory = memory
        self.windows = windows
        self._terms: Terms = evaluator.terms
        self._witness = witness
        self._constant = constant
        self._warp = warp
        self._origin = origin
        self.written = written
        self._points = points
        self._true = self._terms.const(1, 1)
        self._besides = 0  # loads of bytes beside those that are read by `.nc`

    # ------------------------------------------------------------ paths

    def paths(self, start: Path, stops: Collection[int]) -> list[Path]:
        """All paths from `start` to the next positions in `stops`, or to an end. Raises GiveUp
        where there are too many."""
        done: list[Path] = []
        work, steps = [start], 0
        limit = MAX_STEPS + len(self.cfg.instructions)
        begun = False  # a path begins at a stop, and may end there after a loop
        while work:
            path = work.pop()
            while path.end is None:
                if begun and path.position in stops:
                    path.end = End("cut", path.position - 1, path.position)
                    break
                begun = True
                if path.position >= len(self.cfg.instructions):
                    path.end = End("exit", path.position - 1)
                    break
                steps += 1
                self.memory.check()
                if steps > limit or len(done) + len(work) > MAX_PATHS:
                    raise GiveUp("a part of the kernel has too many paths to be compared")
                other = self.step(path)
                if other is not None:
                    work.append(other)
            done.append(path)
        return done

    def step(self, path: Path) -> Path | None:
        """Run the next instruction of a path. Returns a second path where it forks; ends a path
        that it takes nowhere."""
        index = path.position
        instruction = self.cfg.instructions[index]
        if kind(instruction) is not Kind.CONTROL:
            self.run(path, instruction, index)
            path.position += 1
            if self._ends_path(index):
                path.end = End("exit", index)
            return None
        return self._control(path, instruction, index)

    def _ends_path(self, index: int) -> bool:
        """Is it a call that never returns?"""
        if self.cfg.instructions[index].opcode != "call":
            return False
        block = self.cfg.blocks[self.cfg.block_of[index]]
        return index == block.end - 1 and not block.successors

    def _control(self, path: Path, instruction: Instruction, index: int) -> Path | None:
        # Lanes may part here, so the lanes that were asked for before need not all be here.
        taken = self.guard(path, instruction)
        if taken.variance is not Variance.UNIFORM:
            path.parted, path.mask = True, None
        if instruction.opcode == "brx":
            if instruction.guard is not None:
                raise GiveUp("an indirect branch is guarded")
            path.end = self._indirect(path, instruction, index)
            return None
        self._check_uniform(path, instruction, taken)
        path.forked = path.forked or instruction.guard is not None
        verdict = decided(self._terms, taken, path.conditions)
        fallen = None
        if verdict is None:
            fallen = path.fork(self._terms.not_(taken), self._terms)
            fallen.position = index + 1
            path.conditions = assumed(path.conditions, taken, self._terms)
        elif not verdict:
            path.position = index + 1
            return None
        if instruction.opcode == "bra":
            block = self.cfg.blocks[self.cfg.block_of[index]]
            path.position = self.cfg.blocks[block.successors[0]].start
        else:
            ended = "trap" if instruction.opcode == "trap" else "exit"
            path.end = End(ended, index)
        return fallen

    def _check_uniform(self, path: Path, instruction: Instruction, taken: Term) -> None:
        """A guarded `bra.uni` says that all lanes decide alike, which the first text must say of
        the same condition."""
        if "uni" in instruction.modifiers and taken.kind is not op.CONST:
            epoch = len(path.stores) - 1
            event = Event(path.position, instruction, ("uni",), (taken,), self._true, epoch)
            path.events.append(event)

    def _indirect(self, path: Path, instruction: Instruction, index: int) -> End:
        block = self.cfg.blocks[self.cfg.block_of[index]]
        chosen = self.evaluator.read(instruction.operands[0], path.get)
        if not block.table or isinstance(chosen, int):
            raise GiveUp("an indirect branch goes to unknown places")
        targets = tuple(self.cfg.blocks[n].start for n in block.table)
        return End("brx", index, 0, chosen, targets)

    # ------------------------------------------------------------ instructions

    def tells(self, instruction: Instruction) -> bool:
        """Does the result of a computation or plain load follow from its operands at any time? By
        zero, the first text may have been read as giving anything."""
        if is_integer_division(instruction):
            return False
        if kind(instruction) is Kind.COMPUTE or "const" in instruction.modifiers:
            return True
        if "nc" in instruction.modifiers:
            return self._witness  # the second text's `.nc` has yet to be justified
        base = isa.address(instruction).base
        return "param" in instruction.modifiers and (
            isinstance(base, Symbol)
            and self.memory.is_parameter(self.evaluator.symbol(base.name, base.scope))
        )

    def guard(self, path: Path, instruction: Instruction) -> Term:
        if instruction.guard is None:
            return self._true
        value = path.get(instruction.guard.reg)
        if value.width != 1:
            raise GiveUp("a guard is not a predicate")
        return self._terms.not_(value) if instruction.guard.negated else value

    def run(self, path: Path, instruction: Instruction, index: int) -> None:
        """Run one instruction that does not decide where the path goes."""
        guard = self._true
        if instruction.guard is not None:
            guard = self.guard(path, instruction)
            if decided(self._terms, guard, path.conditions) is False:
                return
            if guard in path.conditions:
                guard = self._true
        is_a = kind(instruction)
        if is_a is Kind.COMPUTE:
            if instruction.opcode == "cvta":
                self._note_conversion(path, instruction, guard)
            written = self.evaluator.compute(instruction, path.get)
        elif is_a is Kind.LOAD:
            written = self._load(path, instruction, index, guard)
        elif is_a is Kind.STORE:
            self._store(path, instruction, index, guard)
            return
        else:
            written = self._event(path, instruction, index, guard)
        if guard is self._true:
            path.written.update(written)
            return
        for reg, value in written:
            path.written[reg] = self._terms.ite(guard, value, path.get(reg))

    def _note_conversion(self, path: Path, instruction: Instruction, guard: Term) -> None:
        if "to" not in instruction.modifiers:
            return
        # Behind a branch a conversion may be made by some threads only: it tells nothing of the
        # same pointer elsewhere.
        if not self._witness or path.forked:
            return
        value = self.evaluator.read(instruction.operands[1], path.get)
        if guard is self._true and not isinstance(value, int):
            self.windows.shows(value, converted_space(instruction.modifiers))

    def _target(self, path: Path, instruction: Instruction, index: int, size: int) -> Bytes:
        operand = isa.address(instruction)
        address = self.evaluator.address(operand, path.get)
        space = isa.space(instruction) or "generic"
        if self._witness and instruction.guard is None and not path.forked:
            self.windows.shows(address, space)
        target = self.windows.resolve(space, address, size)
        if target.space == "generic" and self._points is not None and type(operand.base) is Reg:
            target = self.windows.told(self._points(index, operand.base), target)
        if self.written is not None:
            target = Bytes(target.space, self.written(target.place), target.size)
        if self._origin is None:
            return target
        type_name = isa.access_type(instruction) or ""
        moved = size or type_width(type_name) * elements(instruction) // 8
        return self._origin(target, path.conditions, path.position, moved)

    def _load(
        self, path: Path, instruction: Instruction, index: int, guard: Term
    ) -> list[tuple[Reg, Term]]:
        type_name, size, count = _moved(instruction.opcode, instruction.modifiers)
        first = instruction.operands[0]
        dests = [first] if type(first) is Reg else list(flatten((first,)))
        if count != len(dests):
            raise GiveUp("a load has another number of registers than of elements")
        whole = self._target(path, instruction, index, size * count)
        given = (
            path.conditions if guard is self._true else assumed(path.conditions, guard, self._terms)
        )
        if self._witness:
            self.memory.aliases.note_access(index, whole, given)
        nc = "nc" in instruction.modifiers
        touch = Touch(whole, guard, index, len(path.events), True, nc, path.parted, path.mask)
        touches = [touch]
        if count > 1:
            parts = (self.memory.part(whole, at * size, size) for at in range(count))
            touches = [replace(touch, target=part) for part in parts]
        epochs = self._epochs(path, touches, given)
        written, fresh = [], False
        behind: frozenset[Bytes] | None = None
        for at, (part, dest, (epoch, _)) in enumerate(zip(touches, dests, epochs, strict=True)):
            stores = path.stores[-1] if epoch >= 0 else ()
            value = self.memory.load(stores, epoch, part.target, given)
            fresh = fresh or holds_first(value)
            if self._witness and stores:
                told = stores_before(value)
                behind = told if behind is None else behind & told
            value = used_part(self._terms, value, instruction.used_bytes, at * size)
            if isinstance(dest, Reg):
                written.append((dest, self._filled(value, type_name, self.evaluator.width(dest))))
        claims = any(claims for _, claims in epochs)
        if claims != nc or not fresh or behind:
            touch = replace(touch, nc=claims, fresh=fresh, behind=behind or frozenset())
        path.touches.append(touch)
        return written

    def _epochs(
        self, path: Path, parts: Sequence[Touch], given: Sequence[Term]
    ) -> list[tuple[int, bool]]:
        """The epoch of each element of a load. Where a load by `.nc` covers bytes beside those
        that the first text reads so, nothing is known of them: they belong to an epoch in which
        nothing else happens."""
        epochs = [self._epoch(path, part, given) for part in parts]
        if parts[0].nc and not self._witness and any(epoch == CONSTANT for epoch, _ in epochs):
            self._besides += 1
            return [(CONSTANT - self._besides if c else e, False) for e, c in epochs]
        return epochs

    def _epoch(self, path: Path, touch: Touch, given: Sequence[Term]) -> tuple[int, bool]:
        """The epoch in which a load reads its bytes, and whether the load claims that nobody writes
        them. What the first text reads by `.nc` is the same at all times, by whichever load the
        second reads it."""
        now, source, nc = len(path.stores) - 1, touch.target, touch.nc
        if source.space == "const":
            return CONSTANT, False
        if source.space == "param" and self.memory.is_parameter(source.place):
            return CONSTANT, False
        if self._witness:
            return (CONSTANT if nc else now), nc
        if self._constant(touch, given):
            return CONSTANT, False
        return now, nc

    def _filled(self, value: Term, type_name: str, width: int) -> Term:
        """A loaded value in a register that may be wider."""
        if width == value.width:
            return value
        if width < value.width:
            raise GiveUp("a load has a narrower register than element")
        extend = self._terms.sext if type_name.startswith("s") else self._terms.zext
        return extend(value, width)

    def _store(self, path: Path, instruction: Instruction, index: int, guard: Term) -> None:
        bits = type_width(isa.access_type(instruction) or "")
        sources = list(flatten(instruction.operands[1:2]))
        if elements(instruction) != len(sources):
            raise GiveUp("a store has another number of values than of elements")
        target = self._target(path, instruction, index, bits * len(sources) // 8)
        parts = (self.evaluator.value(source, path.get, bits) for source in sources)
        value = reduce(lambda low, high: self._terms.concat(high, low), parts)
        if self._witness:
            sure = guard is self._true
            given = path.conditions if sure else (*path.conditions, guard)
            self.memory.aliases.note_access(index, target, given)
        path.stores[-1].append(Store(target, value, guard, index))
        path.touches.append(Touch(target, guard, index, len(path.events), False))

    # ------------------------------------------------------------ events

    def _event(
        self, path: Path, instruction: Instruction, index: int, guard: Term
    ) -> list[tuple[Reg, Term]]:
        if self._warp is not None and self._warp.asks(instruction):
            return self._warp.run(path, instruction, index)
        if guard.variance is not Variance.UNIFORM or may_part(instruction):
            path.mask = None
        what, operands = self._signature(path, instruction, index)
        number, epoch = len(path.events), len(path.stores) - 1
        path.events.append(Event(index, instruction, what, operands, guard, epoch, path.mask))
        if clobbers(instruction):
            path.stores.append([])  # another epoch of memory begins
        return [
            (reg, self._result(number, instruction, at, reg))
            for at, reg in enumerate(dict.fromkeys(defs(instruction)))
        ]

    def _result(self, number: int, instruction: Instruction, at: int, reg: Reg) -> Term:
        """What an event leaves in a register: unknown, and the same in both texts."""
        name = f"{instruction.opcode} {number}.{at}"
        return self._terms.atom(name, self.evaluator.width(reg), Variance.LANE)

    def _signature(
        self, path: Path, instruction: Instruction, index: int
    ) -> tuple[tuple[Any, ...], tuple[Term, ...]]:
        """What an event is, and its operands as values."""
        operands, modifiers = instruction.operands, instruction.modifiers
        told: tuple[Any, ...] = ()
        values: list[Term] = []
        addresses = [o for o in operands if isinstance(o, Mem)]
        if instruction.opcode in _SPACE_MAY_DIFFER and len(addresses) == 1 and operands:
            target = self._target(path, instruction, index, 0)
            told = (target.space,)
            modifiers = tuple(m for m in modifiers if m not in SPACE_WORDS)
            values.append(target.place)
            operands = tuple(o for o in operands if o is not addresses[0])
        plain = instruction._replace(guard=None, operands=operands)
        values.extend(path.get(r) for r in isa.uses(plain) if isinstance(r, Reg))
        widths = tuple(self.evaluator.width(r) for r in defs(instruction))
        what = (instruction.opcode, modifiers, told, tuple(map(shape, operands)), widths)
        return what, tuple(values)
