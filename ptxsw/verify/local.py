"""Do the spliced lines say what the plan says? A quick check of every rewrite, without Z3.

The lines that code generation added are run over terms, block by block, in which a register of
the original is one unknown for each place that sets it. A shuffle is read as the neighbour's
value of its source. For each load that is no longer made by every lane, its register must hold

- what the load itself gives, or
- what the planned source gave lane i + delta, and that only where the warp is whole, there is
  such a lane, rows do not wrap inside the warp, and no index wraps that the plan wants tested.

The check knows the plan and both texts, and nothing of how the lines were made.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsw import isa
from ptxsw.cfg import Cfg, build
from ptxsw.emulator.node import Term, Variance, split
from ptxsw.emulator.state import Machine, State
from ptxsw.emulator.terms import Terms
from ptxsw.ir import Function, Instruction, Int, Module, Reg
from ptxsw.isa import Effect
from ptxsw.semantics import meaning
from ptxsw.shuffle.plan import Plan, Rewrite, WrapGuard
from ptxsw.verify.align import Aligned, Apart, align, registers

_ENDS_SEGMENT = Effect.BARRIER | Effect.CALL | Effect.ASYNC | Effect.EXIT
_FULL = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Problem:
    """A rewrite that is not what the plan says: our own bug. `line` is of the rewritten text."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def check(plan: Plan, rewritten: Module) -> Problem | None:
    """What is wrong with the plan's function in a rewritten module; None where all is well.

    Raises ParseError where the rewritten body does not parse.
    """
    found = [f for f in rewritten.functions if f.name == plan.function.name and f.body_span]
    if not found:
        return Problem(1, f"{plan.function.name} is gone")
    function = found[0]
    line = rewritten.source.line
    aligned = align(plan.function, function)
    if isinstance(aligned, Apart):
        place = aligned.instruction.span if aligned.instruction is not None else function.span
        return Problem(line(place.start), aligned.reason)
    try:
        _Checker(plan, rewritten, function, aligned).run()
    except _Wrong as wrong:
        return Problem(line(wrong.instruction.span.start), wrong.reason)
    return None


class _Wrong(Exception):
    def __init__(self, instruction: Instruction, reason: str) -> None:
        super().__init__(reason)
        self.instruction, self.reason = instruction, reason


@dataclass(frozen=True, slots=True)
class _Made:
    """Where a value came into being: block and segment of the rewritten body."""

    block: int
    segment: int


class _Checker:
    def __init__(
        self, plan: Plan, module: Module, function: Function, aligned: tuple[Aligned, ...]
    ) -> None:
        self.plan, self.aligned = plan, aligned
        self.rewrites = {r.dest: r for r in plan.rewrites}
        self.original = plan.function.body
        self.terms = Terms()
        self.machine = Machine(module, function, self.terms)
        self.cfg: Cfg = build(function.body)
        self.state = State({})
        self.loads: dict[Term, int] = {}  # the value of each load of the original
        self.masks: dict[Term, _Made] = {}
        self.shuffles: dict[Term, _Made] = {}
        self.defined: dict[Reg, int] = {}  # block that sets an added register
        self.tested = {(g.index, g.reg) for r in plan.rewrites for g in r.proof.guards}
        self.values: dict[tuple[int, Reg], Term] = {}  # of registers where they are tested
        self.here = _Made(0, 0)

    def run(self) -> None:
        segment = 0
        for block in self.cfg.blocks:
            segment += 1
            self.here = _Made(block.number, segment)
            for reg in [r for r in self.state.env if self._is_old(r)]:
                del self.state.env[reg]
            for one in self.aligned[block.start : block.end]:
                self._step(one)
                ins = one.instruction
                if isa.effects(ins.opcode, ins.modifiers) & _ENDS_SEGMENT:
                    segment += 1
                    self.here = _Made(block.number, segment)

    def _is_old(self, reg: Reg) -> bool:
        return self.original.declaration(reg) is not None

    # ------------------------------------------------------------ running

    def _step(self, one: Aligned) -> None:
        for reg in registers(one.instruction):
            self._have(reg, one.instruction)
        match one.kind:
            case "same":
                self._original(one)
            case "guarded":
                guard = self.machine.guard(self.state, one.instruction)
                before = self.state.env[self._dest(one)]
                value = self.terms.ite(guard, self._load(one), before)
                self._settle(one, value)
            case "replaces":
                self._settle(one, self._added(one))
            case _:
                self._added(one)

    def _have(self, reg: Reg, instruction: Instruction) -> None:
        """A register has a value here: a name for what the block found in it, or its own."""
        if self._is_old(reg):
            if reg not in self.state.env:
                name = f"{reg.name}@{reg.scope} in block {self.here.block}"
                self.state.env[reg] = self.terms.atom(name, self.machine.width(reg), Variance.LANE)
        elif reg not in isa.defs(instruction):
            block = self.defined.get(reg)
            if block is None or not self.cfg.dominates(block, self.here.block):
                raise _Wrong(instruction, f"{reg.name} may not have been set")

    def _original(self, one: Aligned) -> None:
        instruction = one.instruction
        for index, reg in self.tested:
            if index == one.index:
                self._have(reg, instruction)
                self.values[index, reg] = self.state.env[reg]
        if one.index in self.rewrites:
            return  # made as ever: nothing to show
        for reg in isa.defs(instruction):
            self.state.env[reg] = self._set_by(one.index, reg)
            if instruction.opcode == "ld" and instruction.guard is None:
                self.loads[self.state.env[reg]] = one.index

    def _set_by(self, index: int, reg: Reg) -> Term:
        name = f"{reg.name}@{reg.scope} of {index}"
        return self.terms.atom(name, self.machine.width(reg), Variance.LANE)

    def _dest(self, one: Aligned) -> Reg:
        dest = one.instruction.operands[0]
        if not isinstance(dest, Reg):
            raise _Wrong(one.instruction, "a load into something else than a register")
        return dest

    def _load(self, one: Aligned) -> Term:
        """What the original's load gives here."""
        value = self._set_by(one.index, self._dest(one))
        self.loads[value] = one.index
        return value

    def _added(self, one: Aligned) -> Term:
        """Runs an added instruction; its (last) value."""
        instruction = one.instruction
        if instruction.opcode == "activemask":
            value = self.terms.fresh("activemask", 32)
            self.masks[value] = self.here
            self._no_guard(instruction)
            self._set(instruction, value)
        elif instruction.opcode == "shfl":
            value = self._shuffle(instruction)
            self.shuffles[value] = self.here
            self._set(instruction, value)
        else:
            value = self._compute(instruction, one.index)
        block = self.here.block
        for reg in isa.defs(instruction):
            if not self._is_old(reg) and self.defined.setdefault(reg, block) != block:
                raise _Wrong(instruction, f"{reg.name} is set in two blocks")
        return value

    def _no_guard(self, instruction: Instruction) -> None:
        if instruction.guard is not None:
            raise _Wrong(instruction, f"{instruction.opcode} under a guard")

    def _set(self, instruction: Instruction, value: Term) -> None:
        dest = instruction.operands[0]
        if not isinstance(dest, Reg):
            raise _Wrong(instruction, f"{instruction.opcode} with two results")
        self.state.env[dest] = value

    def _compute(self, instruction: Instruction, index: int) -> Term:
        if meaning(instruction.opcode, instruction.modifiers) is None:
            raise _Wrong(instruction, f"an added {instruction.opcode}")
        regs = isa.defs(instruction)
        step = self.machine.prepare(instruction, frozenset(regs))
        assert step is not None
        self.machine.run(step, self.state, index)
        return self.state.env[regs[-1]]

    def _shuffle(self, instruction: Instruction) -> Term:
        self._no_guard(instruction)
        mode = next((m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx")), "")
        if len(instruction.operands) != 5 or "sync" not in instruction.modifiers:
            raise _Wrong(instruction, "not a shuffle that can be read")
        operands = [
            self.terms.const(o.value, 32)
            if isinstance(o, Int)
            else self.machine.read(self.state, o)
            for o in instruction.operands[1:]
        ]
        terms = [o for o in operands if isinstance(o, Term)]
        if len(terms) != 4:
            raise _Wrong(instruction, "not a shuffle that can be read")
        return self.terms.apply(("shfl", mode, instruction.span), 32, terms, Variance.LANE)

    # ------------------------------------------------------------ judging

    def _settle(self, one: Aligned, value: Term) -> None:
        """The register of a rewritten load has the planned value; from here on it is the load's."""
        rewrite = self.rewrites.get(one.index)
        if rewrite is None:
            raise _Wrong(one.instruction, "the plan keeps this load")
        loaded = self._load(one)
        self._value(one.instruction, rewrite, value, loaded, frozenset())
        self.state.env[self._dest(one)] = loaded

    def _value(
        self, at: Instruction, rewrite: Rewrite, value: Term, loaded: Term, facts: frozenset[Term]
    ) -> None:
        if value is loaded:
            return
        if value.kind == "ite":
            condition, yes, no = value.args
            other = self.terms.not_(condition)
            for fact, arm in ((condition, yes), (other, no)):
                more = facts | frozenset(self._parts(fact))
                if not any(self.terms.not_(f) in more for f in more):
                    self._value(at, rewrite, arm, loaded, more)
            return
        moved = self._moved(value)
        if moved is not None:
            for shuffle, source in moved:
                self._shuffled(at, rewrite, shuffle, source, facts)
            return
        if self.loads.get(value) != rewrite.source or rewrite.delta:
            raise _Wrong(at, "the register does not hold the planned value")
        self._wraps(at, rewrite, facts)

    def _moved(self, value: Term) -> list[tuple[Term, Term]] | None:
        """A value put together from shuffles: each with the load of which it must move this very
        part. 64 bits are two words, 16 bits the low half of one."""
        words = list(value.args[::-1]) if value.kind == "concat" else [value]
        if value.kind == "extract" and value.value == 0 and value.width == 16:
            words = [value.args[0]]
        if not all(word in self.shuffles for word in words):
            return None
        found = []
        for at, word in enumerate(words):
            sent = word.args[0]
            if value.width == 64 and (sent.kind, sent.value) == ("extract", 32 * at):
                found.append((word, sent.args[0]))
            elif value.width == 32:
                found.append((word, sent))
            elif value.width == 16 and self.terms.extract(sent, 0, 16) in self.loads:
                found.append((word, self.terms.extract(sent, 0, 16)))
            else:
                return None
        return found

    def _parts(self, fact: Term) -> list[Term]:
        """A condition as conditions that all hold."""
        if fact.kind == "and":
            return [p for a in fact.args for p in self._parts(a)]
        if fact.kind == "not" and fact.args[0].kind == "or":
            return [p for a in fact.args[0].args for p in self._parts(self.terms.not_(a))]
        return [fact]

    def _shuffled(
        self,
        at: Instruction,
        rewrite: Rewrite,
        value: Term,
        source: Term,
        facts: frozenset[Term],
    ) -> None:
        _, distance, clamp, mask = value.args
        mode = value.value[0][1]
        delta = rewrite.delta
        way, last = ("up", 0) if delta < 0 else ("down", 31)
        if self.loads.get(source) != rewrite.source:
            raise _Wrong(at, "the shuffle is not of the planned load")
        if mode != way or distance.kind != "const" or distance.value != abs(delta):
            raise _Wrong(at, f"the shuffle is not from lane i{delta:+}")
        if clamp.kind != "const" or clamp.value != last:
            raise _Wrong(at, "the shuffle does not reach over the whole warp")
        if self.masks.get(mask) != self.shuffles[value]:
            raise _Wrong(at, "the shuffle's mask was not taken in the same stretch of code")
        self._neighbour(at, rewrite, mask, facts)
        self._wraps(at, rewrite, facts)

    def _neighbour(
        self, at: Instruction, rewrite: Rewrite, mask: Term, facts: frozenset[Term]
    ) -> None:
        terms = self.terms
        if terms.eq(mask, terms.const(_FULL, 32)) not in facts:
            raise _Wrong(at, "the shuffled value is used where the warp may not be whole")
        low, high = 0, 31
        for fact in facts:
            bounds = self._bounds(fact, self.machine.special("%laneid"))
            if bounds is not None:
                low, high = max(low, bounds[0]), min(high, bounds[1])
        if low + rewrite.delta < 0 or high + rewrite.delta > 31:
            raise _Wrong(at, f"lane i{rewrite.delta:+} may not exist")
        if rewrite.proof.block_shape and not self._one_row(facts):
            raise _Wrong(at, "rows of the block may wrap inside a warp")

    def _one_row(self, facts: frozenset[Term]) -> bool:
        """Is the block one row, or its width a multiple of 32?"""
        terms = self.terms
        x, y, z = (self.machine.special(f"%ntid.{axis}") for axis in "xyz")
        whole = terms.eq(terms.and_(x, terms.const(31, 32)), terms.const(0, 32))
        flat = terms.eq(terms.or_(y, z), terms.const(1, 32))
        wrapping = terms.and_(terms.not_(whole), terms.not_(flat))
        return not facts.isdisjoint((whole, flat, terms.not_(wrapping)))

    def _wraps(self, at: Instruction, rewrite: Rewrite, facts: frozenset[Term]) -> None:
        for guard in rewrite.proof.guards:
            value = self.values.get((guard.index, guard.reg))
            if value is None:
                raise _Wrong(at, f"{guard.reg.name} is not tested where it is extended")
            if not any(self._grants(fact, guard, value) for fact in facts):
                raise _Wrong(at, f"{guard.reg.name} {guard.step:+} may overflow")

    def _grants(self, fact: Term, guard: WrapGuard, value: Term) -> bool:
        """Does the condition keep `value + addend + step` within its type?"""
        for moved in fact.args:
            constant, items = split(moved)
            if items != ((value, 1),):
                continue
            bounds = self._bounds(fact, moved)
            if bounds is None:
                return False
            size = 1 << guard.width
            first = (bounds[0] + guard.addend - constant) % size
            if guard.signed and first >= size // 2:
                first -= size
            last = first + bounds[1] - bounds[0]
            least, most = (-size // 2, size // 2 - 1) if guard.signed else (0, size - 1)
            return least <= first + min(guard.step, 0) and last + max(guard.step, 0) <= most
        return False

    def _bounds(self, fact: Term, term: Term) -> tuple[int, int] | None:
        """The unsigned range in which a comparison with a constant keeps a term."""
        if fact.kind not in ("ult", "ule"):
            return None
        left, right = fact.args
        strict = int(fact.kind == "ult")
        if left is term and right.kind == "const":
            return 0, right.value - strict
        if right is term and left.kind == "const":
            return left.value + strict, (1 << term.width) - 1
        return None
