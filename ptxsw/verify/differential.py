"""Two kernels run side by side on the same launches: all they leave behind must be equal.

Both run with threads that meet again where paths join, and under fuzzed schedules. What the
second does that no machine defines (an undefined value used, a deadlock, an access out of bounds)
and the first does not is a difference, too. A launch in which the first kernel's own results
depend on the schedule says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import prod

from msgspec.structs import replace

from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Module
from ptxsw.simt import MemoryFault
from ptxsw.simt.state import Livelock, PastDynamicShared, Race, Runaway
from ptxsw.verify.comparison import Comparison, Difference, body_of
from ptxsw.verify.contraction import fused_otherwise
from ptxsw.verify.invented import Inventor
from ptxsw.verify.launches import Launch, Shape, repaired, reseeded
from ptxsw.verify.runs import LIMIT, Outcome, differing, run
from ptxsw.verify.witness import described, index_in, simpler, simpler_grids, smaller

_ATTEMPTS = 12  # at a launch in which the original stays in bounds
MOST_SHARED = 227 << 10
"""Bytes of shared memory that a block may have on the GPUs that allow most."""
WORK = 300_000
"""What invented launches of one kernel may cost: steps of groups of threads, those of many threads
counted several times. It is a few seconds. Half as much again goes into fuzzed schedules."""
_FEW_FUZZED = 3  # launches: so many small ones run under other schedules in any case
_RACED = 3  # launches in which races are looked for, in blocks of other shapes
_ORDERS = 16  # schedules, each with other contents, of a launch in which threads race
_STEADY = 100_000  # steps that go into finding out whether results depend on the schedule
_PLAIN_LIMIT, _VARIED_LIMIT = 1 << 18, 1 << 14  # steps of invented launches


# ---------------------------------------------------------------- comparing


def compare(
    a: Module,
    b: Module,
    kernel: str,
    launches: Iterable[Launch] | Inventor,
    *,
    seeds: Sequence[int] = (1, 2, 3),
    repair_launch: bool = True,
    merge_iterations: bool = False,
    work: int = WORK,
    conditions: bool = True,
) -> Comparison:
    """Runs both on each launch until they differ. With `repair_launch` a launch in which the first
    leaves its buffers is changed until it does not; with `merge_iterations` fuzzed schedules may
    merge lanes of the second kernel that are in different iterations of a loop. Invented launches
    end when they have cost `work`; without `conditions` those are left out that need one. A
    difference that needs one counts if no other is found.

    Raises Unsupported for what the interpreter does not model.
    """
    inventor = launches if isinstance(launches, Inventor) else None
    proposals = _given(launches, repair_launch) if not isinstance(launches, Inventor) else (
        launches.launches()
    )  # fmt: skip
    both = _Both(a, b, kernel, seeds, merge_iterations, Comparison(), inventor)
    for launch, grows in proposals:
        if inventor is not None and both.comparison.work > work:
            break
        if launch.condition and not (conditions and both.conditional is None):
            continue
        if both.tried(launch, grows):
            return both.comparison
    for found in (both.fuzz, both.race):
        if both.comparison.difference is None:
            found(work // 2 if inventor is not None else None)
    if both.comparison.difference is None:
        both.comparison.difference = both.conditional
    return both.comparison


def _given(launches: Iterable[Launch], repair_launch: bool) -> Iterator[tuple[Launch, bool]]:
    return ((launch, repair_launch) for launch in launches)


class _Both:
    """Two kernels, and what became of them so far."""

    def __init__(
        self, a: Module, b: Module, kernel: str, seeds: Sequence[int], merge: bool,
        comparison: Comparison, inventor: Inventor | None,
    ) -> None:  # fmt: skip
        self.a, self.b, self.kernel, self.seeds, self.merge = a, b, kernel, seeds, merge
        self.comparison, self.inventor = comparison, inventor
        self.conditional: Difference | None = None  # the first one found that needs a condition
        self._to_fuzz: list[tuple[Launch, Outcome]] = []
        self._same: dict[Shape, Launch] = {}  # by blocks
        self._most = 0  # steps of the longest launch so far
        shape = body_of(a, kernel).block_shape
        self._fixed = shape is not None

    def tried(self, launch: Launch, grows: bool) -> bool:
        """As `differ`; an invented launch that reaches what the interpreter does not model says
        nothing, for others may not."""
        try:
            return self.differ(launch, grows)
        except Unsupported as error:
            if self.inventor is None:
                raise
            self._told(None)
            self.comparison.skipped.append(str(error))
            return False

    def differ(self, proposed: Launch, grows: bool) -> bool:
        """Is a launch run on both shown to differ?"""
        launch, first = self._first(proposed, grows)
        if first.error is not None:
            self._told(None)
            self.comparison.skipped.append(f"the first kernel fails: {first.error.message}")
            return False
        if launch.condition and run(self.a, self.kernel, launch, races=True).error is not None:
            self._told(None)
            return False
        second = self._second(launch, first)
        if (grows or self.inventor is not None) and not launch.shared:
            launch, first, second = _with_room(self.a, self.b, self.kernel, launch, first, second)
        self._told(launch, idle=first.idle)
        same = second.same(first)
        if not same and self._is_open(launch):
            return False
        if same:
            if first.idle:
                self.comparison.skipped.append("the first kernel has no visible effect")
                return False
            self.comparison.launches += 1
            if not launch.condition:
                self._same.setdefault(launch.block, launch)
            few = self.inventor is not None and len(self._to_fuzz) < _FEW_FUZZED
            if launch.fuzz or (few and launch.threads <= 128):
                self._to_fuzz.append((launch, first))
            return False
        shown = self._shown(launch, first, second)
        if shown is None:
            # Blocks that race may be what the results depend on.
            alone = replace(launch, grid=(1, 1, 1), fuzz=False)
            return self.inventor is not None and alone != launch and self.differ(alone, False)
        if shown.condition:
            self.conditional = shown
            return False
        self.comparison.difference = shown
        return True

    def _first(self, proposed: Launch, grows: bool) -> tuple[Launch, Outcome]:
        """What the first kernel does, on a launch in which it stays within its buffers if one is
        found."""
        limit = LIMIT
        if self.inventor is not None:
            limit = _PLAIN_LIMIT if grows else max(_VARIED_LIMIT, 8 * self._most)
        launch, first = cleaned(self.a, self.kernel, proposed, grows, limit=limit)
        self.comparison.ran(0, launch, first)
        if first.error is None and grows:
            self._most = max(self._most, first.steps)
        return launch, first

    def _told(self, launch: Launch | None, *, idle: bool = False) -> None:
        """Tells who invents launches of one that ran clean; None: it did not."""
        if self.inventor is not None:
            self.inventor.ran(launch, idle=idle)

    def _second(self, launch: Launch, first: Outcome) -> Outcome:
        """What the second kernel does. If it only takes much longer it is given the time."""
        limit = LIMIT if self.inventor is None else max(_VARIED_LIMIT, 8 * first.steps)
        second = run(self.b, self.kernel, launch, limit=limit)
        late = isinstance(second.error, Runaway) and not isinstance(second.error, Livelock)
        if late and limit < LIMIT:
            second = run(self.b, self.kernel, launch)
        return self.comparison.ran(1, launch, second)

    def _is_open(self, launch: Launch, seed: int | None = None) -> bool:
        """Do the kernels do the same if ptxas fuses what products and sums it may? Asked only once
        they differ as they stand."""
        same = any(
            run(b, self.kernel, launch, seed).same(run(a, self.kernel, launch))
            for a, b in self._fused
        )
        self.comparison.open |= same
        return same

    @cached_property
    def _fused(self) -> list[tuple[Module, Module]]:
        return fused_otherwise(self.a, self.b, self.kernel)

    def _steady(self, launch: Launch, first: Outcome, seeds: Sequence[int]) -> bool:
        self.comparison.work += min(_STEADY, 8 * first.steps)
        if _steady(self.a, self.kernel, launch, first, seeds):
            return True
        self.comparison.skipped.append("the results of the first kernel depend on the schedule")
        return False

    def fuzz(self, work: int | None) -> None:
        """Small launches that were the same, under other schedules; until they differ, or have cost
        `work`."""
        end = None if work is None else self.comparison.work + work
        for launch, first in self._to_fuzz:
            for seed in self.seeds:
                if end is not None and self.comparison.work > end:
                    return
                differ = self._differ_under(launch, first, seed)
                if differ is False:
                    self.comparison.launches -= 1
                    break
                if differ:
                    return

    def _differ_under(self, launch: Launch, first: Outcome, seed: int) -> bool | None:
        """Do the kernels differ under a schedule? False where the first one's results depend on
        it, too; None where both do the same."""
        outcome = run(self.b, self.kernel, launch, seed, merge_iterations=self.merge)
        self.comparison.ran(1, launch, outcome)
        if outcome.same(first) or self._is_open(launch, seed):
            return None
        if not self._steady(launch, first, (seed, *self.seeds)):
            return False
        what = described(self.a, self.b, self.kernel, launch, seed, first, outcome)
        race = self._race_in(launch)
        what += f"\nthreads race in the second kernel, and not in the first: {race}" if race else ""
        self.comparison.difference = Difference(launch, seed, what)
        return True

    def race(self, work: int | None) -> None:
        """Launches that were the same although threads race in the second kernel alone: in other
        orders, and with other contents, for a sum shows what a largest element hides."""
        end = None if work is None else self.comparison.work + work
        for launch, race in self._launches_that_race() if self.seeds else ():
            self.comparison.race = race
            for seed in range(1, _ORDERS + 1):
                if end is not None and self.comparison.work > end:
                    return
                other = launch if self.inventor is None else reseeded(launch, seed)
                first = self.comparison.ran(0, other, run(self.a, self.kernel, other))
                if first.error is not None:
                    continue
                differ = self._differ_under(other, first, seed)
                if differ is False:
                    break
                if differ:
                    return

    def _launches_that_race(self) -> Iterator[tuple[Launch, str]]:
        """Such launches, of few blocks, and the race."""
        for launch in sorted(self._same.values(), key=lambda it: -prod(it.block))[:_RACED]:
            if self._race_in(launch):
                few = smaller(launch, lambda it: bool(self._race_in(it)), simpler_grids)
                yield few, self._race_in(few)

    def _race_in(self, launch: Launch) -> str:
        """The race of the second kernel, if the first has none."""
        raced = run(self.b, self.kernel, launch, races=True)
        self.comparison.ran(1, launch, raced)
        if not isinstance(raced.error, Race):
            return ""
        own = self.comparison.ran(0, launch, run(self.a, self.kernel, launch, races=True))
        return raced.error.message if own.error is None else ""

    def _shown(self, launch: Launch, first: Outcome, second: Outcome) -> Difference | None:
        """The difference on a launch that was made as small as can be; None where the results of
        the first kernel depend on the schedule."""
        if not self._steady(launch, first, self.seeds[:1]):
            return None
        found = differing(first, second)
        at = 0 if found is None else index_in(self.b, self.kernel, launch, found[0], found[1])

        def differs(other: Launch) -> bool:
            one = run(self.a, self.kernel, other, limit=max(_VARIED_LIMIT, first.steps))
            if one.error is not None:
                return False
            two = run(self.b, self.kernel, other, limit=max(_VARIED_LIMIT, 8 * one.steps))
            late = isinstance(two.error, Runaway) and not isinstance(second.error, Runaway)
            return not (late or two.same(one) or self._is_open(other))

        # A launch that was given keeps its block and its arguments.
        changes = simpler_grids if self.inventor is None else partial(
            simpler, fixed_block=self._fixed, element=at
        )  # fmt: skip
        other = smaller(launch, differs, changes)
        used = replace(other, shared=run(self.a, self.kernel, other).dynamic_shared)
        if self.inventor is not None and used.shared < other.shared and differs(used):
            other = used
        one, two = (run(module, self.kernel, other) for module in (self.a, self.b))
        if other is launch or not _steady(self.a, self.kernel, other, one, self.seeds):
            other, one, two = launch, first, second
            if not self._steady(launch, first, self.seeds):
                return None
        what = described(self.a, self.b, self.kernel, other, None, one, two)
        return Difference(other, None, what)


def cleaned(
    a: Module, kernel: str, launch: Launch, repair_launch: bool = True, *, limit: int = LIMIT
) -> tuple[Launch, Outcome]:
    """A launch in which the first kernel stays within its buffers, if one is found. Dynamic shared
    memory is as large as it needs, and no larger."""
    outcome = run(a, kernel, launch, limit=limit)
    given = launch.shared
    for _ in range(_ATTEMPTS if repair_launch else 0):
        if not isinstance(outcome.error, MemoryFault):
            break
        other = roomier(a, launch, outcome.error) or repaired(launch, outcome.error.message)
        if other is None:
            break
        launch, outcome = other, run(a, kernel, other, limit=limit)
    if outcome.error is None and launch.shared > max(given, outcome.dynamic_shared):
        launch = replace(launch, shared=max(given, outcome.dynamic_shared))
        outcome = run(a, kernel, launch)
    return launch, outcome


def roomier(module: Module, launch: Launch, fault: MemoryFault) -> Launch | None:
    """The launch with all the dynamic shared memory that a block may have, after a fault past what
    it has; None if that is not what went wrong."""
    if not isinstance(fault, PastDynamicShared):
        return None
    static = sum(v.size for v in module.variables if v.space == "shared")
    most = (MOST_SHARED - static) // 16 * 16
    return replace(launch, shared=most) if launch.shared < most else None


def _with_room(
    a: Module, b: Module, kernel: str, launch: Launch, first: Outcome, second: Outcome
) -> tuple[Launch, Outcome, Outcome]:
    """A launch that gives the second kernel the dynamic shared memory that the first does without,
    and what both do in it."""
    if not isinstance(second.error, MemoryFault) or roomier(b, launch, second.error) is None:
        return launch, first, second
    more, again = cleaned(b, kernel, launch)
    if replace(more, shared=0) != launch:
        return launch, first, second
    return more, run(a, kernel, more), again


def _steady(a: Module, kernel: str, launch: Launch, first: Outcome, seeds: Sequence[int]) -> bool:
    """Does the first kernel do the same however its threads are scheduled? Asked only once the
    second differs. Blocks are run one after the other, and under more schedules; under many if
    threads race, which need not matter: they may all store the same."""
    if not run(a, kernel, launch, resident=1).same(first):
        return False
    small = launch.fuzz or launch.threads <= 256
    racing = run(a, kernel, launch, races=True).error is not None
    count = (32 if racing else 5) if small else (4 if racing else 1)
    more = list(dict.fromkeys((*seeds, *range(1, count + 1))))[: max(count, len(seeds))]
    affordable = max(len(seeds), _STEADY // (first.steps + 1))
    return all(run(a, kernel, launch, seed).same(first) for seed in more[:affordable])
