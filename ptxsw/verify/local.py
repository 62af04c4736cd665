"""Do the spliced lines say what the plan says? A quick check of every rewrite, without Z3.

The lines that code generation added are run over terms (`ptxsw.verify.segment_runner`) and
judged lane by lane, for each of the 32 lanes of a warp (`ptxsw.verify.lanes`). Each register of a
load that is no longer made by every lane must hold

- what the load itself gives, or
- what the plan says another load gave the planned lane, and that only where the warp is whole,
  rows do not wrap inside the warp, no index wraps that the plan wants tested, and registers differ
  between the lanes as it says.

A load that was added must be one of the original made a little earlier, as the plan says, or
touch only what a lane of the warp loads anyway. The check knows the plan and both texts, and
nothing of how the lines were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ptxsw.emulator.budget import Budget, OutOfTime
from ptxsw.emulator.node import Term, Variance, walk
from ptxsw.emulator.substitution import substitute
from ptxsw.ir import Function, Instruction, Mem, Module, Reg
from ptxsw.plan import ElementSource, Halo, LaneStep, Plan, ServedLoad, WrapGuard
from ptxsw.validate.scopes import renumbered
from ptxsw.verify.align import COPIES_DIFFER, Aligned, Divergence, align
from ptxsw.verify.lanes import WARP, Facts, Pattern
from ptxsw.verify.segment_runner import Extra, Loaded, Mismatch, SegmentRunner


class Problem(Struct, frozen=True):
    """A rewrite that is not what the plan says: our own bug. `line` is of the rewritten text."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def check(
    plan: Plan, rewritten: Module, budget: Budget | None = None, share: float = 1.0
) -> Problem | None:
    """What is wrong with the plan's function in a rewritten module; None where all is well.

    Raises ParseError where the rewritten body does not parse, and OutOfTime where that share of
    the budget is spent before it is known: `done` are the loads that were found to be right.
    """
    found = [f for f in rewritten.functions if f.name == plan.function.name and f.body_span]
    if not found:
        return Problem(1, f"{plan.function.name} is gone")
    function = found[0]
    line = rewritten.source.line
    aligned = beside(plan.function, function)
    if isinstance(aligned, Divergence):
        place = aligned.instruction.span if aligned.instruction is not None else function.span
        return Problem(line(place.start), aligned.reason)
    try:
        _Checker(plan, rewritten, *aligned, budget or Budget(), share).run()
    except Mismatch as wrong:
        return Problem(line(wrong.instruction.span.start), wrong.reason)
    return None


def beside(first: Function, second: Function) -> tuple[Function, tuple[Aligned, ...]] | Divergence:
    """The rewritten function with the scopes of the original, and its instructions beside the
    original's."""
    alike = renumbered(first.body, second)
    if alike is None:
        return COPIES_DIFFER
    aligned = align(first, alike)
    return aligned if isinstance(aligned, Divergence) else (alike, aligned)


class _Found(Struct, frozen=True):
    """Where a value comes from: a load of the original in a lane, at its own address or so many
    bytes further on."""

    loaded: Loaded
    lane: int
    displacement: int = 0


class _Checker(SegmentRunner):
    def __init__(
        self, plan: Plan, module: Module, function: Function, aligned: tuple[Aligned, ...],
        budget: Budget, share: float,
    ) -> None:  # fmt: skip
        super().__init__(plan.function, module, function, aligned)
        self.budget, self.share = budget, share
        self.right: set[int] = set()  # rewritten loads that have the planned values
        self.plan = plan
        self.rewrites = {r.dest: r for r in plan.rewrites}
        self.tested: dict[int, set[Reg]] = {}
        for guard in _guards(plan):
            self.tested.setdefault(guard.index, set()).add(guard.reg)
        for rewrite in plan.rewrites:
            for step in rewrite.proof.steps:
                self.tested.setdefault(rewrite.dest, set()).add(step.reg)
        self.values: dict[tuple[int, Reg], Term] = {}  # of registers where they are tested
        self.moved: dict[int, Extra] = {}  # loads of this stretch that were made early
        self.placed: set[int] = set()  # of which the place has come
        self.reached: set[int] = set()  # loads of this stretch of which the address is known
        self.open: list[Extra] = []  # added loads not yet judged

    # ------------------------------------------------------------ running

    def watch(self, index: int) -> None:
        if self.budget.spent(self.share):
            raise OutOfTime(frozenset(self.right))
        for reg in self.tested.get(index, ()):
            self._have(reg, self.instructions[index])
            self.values[index, reg] = self.state.env[reg]

    def added_load(self, extra: Extra) -> None:
        self.open.append(extra)
        for hoist in self.plan.hoists:
            load = self.instructions[hoist.load]
            if hoist.load in self.moved and extra.guard is not self.machine.true:
                continue  # a partial load of a halo may read the same bytes a second time
            if hoist.at == extra.index and _names(extra.instruction, hoist.base, hoist.offset):
                if load.name != extra.instruction.name or extra.guard is not self.machine.true:
                    raise Mismatch(extra.instruction, "not the load that the plan moves up")
                self.moved[hoist.load] = extra
                self.addresses[hoist.load] = extra.address
                self.reached.add(hoist.load)
        self._judge_loads()

    def passed(self, one: Aligned) -> None:
        """The place of a load, where it is made or was."""
        extra = self.moved.get(one.index)
        if extra is not None:
            if extra.address is not self.addresses[one.index]:
                raise Mismatch(one.instruction, "the load was made early from another address")
            self.placed.add(one.index)
        self.reached.add(one.index)
        self._judge_loads()

    def finish(self) -> None:
        """Every added load of the stretch must have been one that may be made."""
        for extra in self.open:
            raise Mismatch(extra.instruction, "an added load that the plan does not know")
        for index, extra in self.moved.items():
            if index not in self.placed:
                raise Mismatch(extra.instruction, "a load is made early and its place never comes")
        self.moved.clear()
        self.placed.clear()
        self.reached.clear()

    def discharge(self, one: Aligned, values: tuple[Term, ...]) -> None:
        """The registers of a rewritten load have the planned values."""
        at, rewrite = one.instruction, self.rewrites.get(one.index)
        own = self.loaded(one.index)
        if rewrite is None:
            if one.index not in self.plan.hoisted:
                raise Mismatch(at, "the plan keeps this load")
            parts: tuple[ElementSource | None, ...] = (None,) * len(own)
        else:
            parts = rewrite.parts
        if not len(values) == len(own) == len(parts):
            raise Mismatch(at, "the plan is for another number of registers")
        for value, mine, part in zip(values, own, parts, strict=True):
            if value is not mine:
                self._register(at, rewrite, part, value, mine)
        self.passed(one)
        self.right.add(one.index)

    # ------------------------------------------------------------ judging a register

    def _register(
        self,
        at: Instruction,
        rewrite: ServedLoad | None,
        part: ElementSource | None,
        value: Term,
        mine: Term,
    ) -> None:
        """One register, in every lane; lanes that do the same are looked at once."""
        same = all(fact.variance == Variance.UNIFORM for fact in self.facts)
        seen: set[Pattern] = set()
        for lane in range(WARP):
            if same and (part is None or not part.mirror):
                pattern = self.lanes.pattern(value, lane, self._by_lane)
                if pattern in seen:
                    continue
                seen.add(pattern)
            self._in_lane(at, rewrite, part, value, mine, lane)

    def _by_lane(self, value: Term) -> bool:
        """Does what an added load gives depend on the number of the lane?"""
        if value not in self.extras:
            return False
        extra, _ = self.extras[value]
        return any(node is self.lanes.lane for node in walk(extra.address))

    def _in_lane(
        self, at: Instruction, rewrite: ServedLoad | None, part: ElementSource | None, value: Term,
        mine: Term, lane: int,
    ) -> None:  # fmt: skip
        """One register in one lane, case by case."""
        known = self._known(self.facts, lane)
        own = self.lanes.at(mine, lane)
        for leaf, facts in self.cases(at, self.lanes.at(value, lane), known, lane):
            if leaf is own:
                continue
            found = self._found(leaf)
            if _Found(self.loads[mine], lane) in found:
                continue  # itself, made a little earlier
            if rewrite is None or part is None:
                raise Mismatch(at, self._unknown(leaf))
            if self._never(at, rewrite, part, facts, lane):
                continue
            if not found:
                raise Mismatch(at, self._unknown(leaf))
            planned = Loaded(part.source, part.element)
            taken = next((f for f in found if f.loaded == planned), None)
            if taken is None:
                raise Mismatch(at, "the register does not hold what the planned load gave")
            self._from_part(at, rewrite, part, taken, facts, lane)

    def _never(
        self, at: Instruction, rewrite: ServedLoad, part: ElementSource, facts: Facts, lane: int
    ) -> bool:
        """Is it the case that the source was not made in the planned lane, which the plan says
        never comes where all lanes are here and what its proof needs is known?"""
        wanted = part.delta - lane if part.mirror else lane + part.delta
        made = self.was_made(part.source)
        planned = any(around.source == part.source for around in rewrite.proof.bypasses)
        if made is None or not planned or not 0 <= wanted < WARP:
            return False
        if self.terms.not_(self.lanes.at(made, wanted)) not in facts:
            return False
        crosses = part.mirror or part.delta != 0
        if crosses and facts.isdisjoint(self._whole()):
            return False
        shape = rewrite.proof.block_shape and not rewrite.is_copy
        self._allowed(at, rewrite.proof.guards, shape, facts, lane)
        return True

    def _known(self, facts: Facts, lane: int) -> Facts:
        return frozenset(f for fact in facts for f in self.lanes.facts_of(fact, lane))

    def _unknown(self, leaf: Term) -> str:
        if self.lanes.is_poison(leaf):
            return "the shuffled value is used where the warp may not be whole"
        if self.lanes.is_unset(leaf):
            return "the value is used where its source may not have been made"
        return "the register does not hold the planned value"

    def _found(self, leaf: Term) -> tuple[_Found, ...]:
        """All that a value is known to be."""
        origin = self.lanes.origin(leaf)
        if origin is None:
            return ()
        term, lane = origin
        loaded = self.loads.get(term)
        if loaded is not None:
            return (_Found(loaded, lane),)
        extra, element = self.extras.get(term, (None, 0))
        return () if extra is None else tuple(self._as_original(extra, element, lane))

    def _as_original(self, extra: Extra, element: int, lane: int) -> Iterator[_Found]:
        """An added load as one of the original, made at another time, or as one that a lane
        beyond the warp would have made: it may be several where rows begin at one place."""
        for index in self._meant(extra):
            load = self.instructions[index]
            if index not in self.addresses or not _reads_alike(load, extra.instruction):
                continue
            if extra.widths != tuple(map(self.machine.width, self.registers_of(index))):
                continue
            distance = self.terms.sub(extra.address, self.addresses[index])
            distance = self.lanes.at(distance, lane)
            if distance.kind == "const":
                signed = distance.value - (distance.value >> (distance.width - 1) << distance.width)
                yield _Found(Loaded(index, element), lane, signed)

    def _meant(self, extra: Extra) -> Iterator[int]:
        """The loads of the original that an added one may stand for."""
        yield from (i for i, moved in self.moved.items() if moved is extra)
        for row in self.plan.halos:
            hoist = self.plan.hoisted.get(row.lead)
            if extra.index == (row.lead if hoist is None else hoist.at):
                yield row.lead
        if extra.index in self.rewrites:
            yield extra.index

    def _from_part(
        self,
        at: Instruction,
        rewrite: ServedLoad,
        part: ElementSource,
        found: _Found,
        facts: Facts,
        lane: int,
    ) -> None:
        """The value, which is one of the planned load, must be that of the planned lane."""
        wanted = part.delta - lane if part.mirror else lane + part.delta
        guards, shape = rewrite.proof.guards, rewrite.proof.block_shape
        if found.displacement:
            row = self.plan.rows.get(part.source)
            if row is None or abs(found.displacement) != WARP * abs(row.stride) or part.mirror:
                raise Mismatch(at, "the value was loaded from another address")
            wanted -= found.displacement // row.stride
            guards, shape = (*guards, *row.proof.guards), shape or row.proof.block_shape
        if found.lane != wanted:
            raise Mismatch(at, f"lane {lane} does not get the value of lane {wanted}")
        self._allowed(at, guards, shape and not rewrite.is_copy, facts, lane)
        for step in rewrite.proof.steps:
            if step.delta == part.delta and not self._steps(rewrite, step, facts, lane):
                reason = f"{step.reg.name} may be another in lane i{step.delta:+}"
                raise Mismatch(at, reason)

    def _steps(self, rewrite: ServedLoad, step: LaneStep, facts: Facts, lane: int) -> bool:
        """Is it known that a register differs between two lanes as the plan says?"""
        terms, value = self.terms, self.values[rewrite.dest, step.reg]
        here, there = (self.lanes.at(value, where) for where in (lane, lane + step.delta))
        wanted = terms.eq(there, terms.add(here, terms.const(step.step, here.width)))
        true = terms.const(1, 1)
        whole = self._whole() & facts
        if step.pointer:
            local = self.lanes.at(self.lies_in_local(value), lane)
            if terms.not_(local) not in facts:
                return False

        def leaf(node: Term) -> Term | None:
            return true if node in whole else None

        return wanted is true or any(
            fact.kind == "eq" and substitute(terms, fact, leaf) is wanted for fact in facts
        )

    def _allowed(
        self, at: Instruction, guards: Sequence[WrapGuard], shape: bool, facts: Facts, lane: int
    ) -> None:
        """What the proof needs is known here."""
        if shape and not self._one_row(facts):
            raise Mismatch(at, "rows of the block may wrap inside a warp")
        for guard in guards:
            value = self.values.get((guard.index, guard.reg))
            if value is None:
                raise Mismatch(at, f"{guard.reg.name} is not tested where it is extended")
            own = self.lanes.at(value, lane)
            if not any(self._grants(fact, guard, own) for fact in facts):
                raise Mismatch(at, f"{guard.reg.name} {guard.step:+} may overflow")

    # ------------------------------------------------------------ judging an added load

    def _judge_loads(self) -> None:
        """Those of which all loads that they may stand for have a known address."""
        for extra in list(self.open):
            meant = set(self._meant(extra))
            if meant and meant <= self.reached:
                self._judge_load(extra)
                self.open.remove(extra)

    def _judge_load(self, extra: Extra) -> None:
        """It must touch nothing that the warp would not touch anyway."""
        if any(moved is extra for moved in self.moved.values()):
            return
        if self._is_next(extra):
            return
        for lane in range(WARP):
            known = self._known(extra.facts, lane)
            guard = self.lanes.at(extra.guard, lane)
            for made, facts in self.cases(extra.instruction, guard, known, lane):
                holds = frozenset(self.lanes.facts_of(made, lane))
                if self.lanes.possible(holds, facts):
                    self._judge_lane(extra, facts | holds, lane)

    def _is_next(self, extra: Extra) -> bool:
        """Is it the very load before which it stands?"""
        return (
            extra.index in self.rewrites
            and self.addresses.get(extra.index) is extra.address
            and self.instructions[extra.index].name == extra.instruction.name
        )

    def _judge_lane(self, extra: Extra, facts: Facts, lane: int) -> None:
        at = extra.instruction
        beyond = list(self._beyond(extra, lane))
        if not beyond:
            raise Mismatch(at, "an added load that the plan does not know")
        served = ((row, self._takers(extra, row, ahead)) for row, ahead in beyond)
        row, takers = next((pair for pair in served if pair[1]), (beyond[0][0], []))
        if not takers:
            raise Mismatch(at, f"lane {lane} loads what no lane of the warp loads")
        if facts.isdisjoint(extra.whole):
            raise Mismatch(at, "the load is made where the warp may not be whole")
        shared = frozenset(f for f in facts if f.variance == Variance.UNIFORM)
        known = self._known(shared, takers[0])
        self._allowed(at, row.proof.guards, row.proof.block_shape, known, takers[0])

    def _beyond(self, extra: Extra, lane: int) -> Iterator[tuple[Halo, int]]:
        """The rows for which a lane may make an added load, and for which lane beyond the warp."""
        for found in self._as_original(extra, 0, lane):
            row = self.plan.rows.get(found.loaded.index)
            if row is not None and abs(found.displacement) == WARP * abs(row.stride):
                yield row, lane + found.displacement // row.stride

    def _takers(self, extra: Extra, row: Halo, ahead: int) -> list[int]:
        """The lanes of the warp that would load what lane `ahead` of the row has."""
        return [
            ahead - part.delta
            for rewrite in self.plan.rewrites
            if self.plan.segments[rewrite.dest] == self.plan.segments[extra.index]
            for part in rewrite.parts
            if part.source == row.lead and 0 <= ahead - part.delta < WARP and not part.mirror
        ]

    # ------------------------------------------------------------ facts

    def _one_row(self, facts: Facts) -> bool:
        """Is the block one row, or its width a multiple of 32?"""
        terms = self.terms
        x, y, z = (self.machine.special(f"%ntid.{axis}") for axis in "xyz")
        whole = terms.eq(terms.and_(x, terms.const(31, 32)), terms.const(0, 32))
        flat = terms.eq(terms.or_(y, z), terms.const(1, 32))
        wrapping = terms.and_(terms.not_(whole), terms.not_(flat))
        return any(known in facts for known in (whole, flat, terms.not_(wrapping)))

    def _grants(self, fact: Term, guard: WrapGuard, value: Term) -> bool:
        """Does the condition keep `value + addend + step` within its type?"""
        for moved in fact.args:
            if moved.width != value.width or moved.kind == "const":
                continue
            distance = self.terms.sub(moved, value)
            if distance.kind != "const":
                continue
            bounds = _bounds(fact, moved)
            if bounds is None:
                return False
            size = 1 << guard.width
            first: int = (bounds[0] + guard.addend - distance.value) % size
            if guard.signed and first >= size // 2:
                first -= size
            last = first + bounds[1] - bounds[0]
            least, most = (-size // 2, size // 2 - 1) if guard.signed else (0, size - 1)
            return least <= first + min(guard.step, 0) and last + max(guard.step, 0) <= most
        return False


def _bounds(fact: Term, term: Term) -> tuple[int, int] | None:
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


def _reads_alike(load: Instruction, added: Instruction) -> bool:
    """Is an added load as that of the original, or without its `.nc`?"""
    modifiers = tuple(m for m in load.modifiers if m != "nc")
    return added.opcode == load.opcode and added.modifiers in (load.modifiers, modifiers)


def _guards(plan: Plan) -> Iterator[WrapGuard]:
    for rewrite in plan.rewrites:
        yield from rewrite.proof.guards
    for row in plan.halos:
        yield from row.proof.guards


def _names(load: Instruction, base: Reg, offset: int) -> bool:
    """Is it a load from this register and offset?"""
    memory = load.operands[1]
    return isinstance(memory, Mem) and (memory.base, memory.offset) == (base, offset)
