"""Tests before a loop that what one thread accesses in all its iterations lies apart.

    LOOP: ld.global.f32 %f1, [%a];       distance = %y - %a, which falls by 4 in an iteration
          …
          st.global.f32 [%y], %f2;       a test, modulo 2^64:
          add.s64 %a, %a, 4;                 distance + 3 >= 4·(%n - %i - 1) + 7
          add.s32 %i, %i, 1;
          setp.lt.s32 %p, %i, %n;
          @%p bra LOOP;

The number of iterations and the pointers may be a thread's own. Both addresses may be any numbers:
the test is about their distance alone, on the circle of 2^64 bytes, and nothing in it can overflow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.codegen.loop_guard import AddressSum, Apart, Compared, Condition
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg
from ptxsw.rewrites.loop_counter import LIMIT, Counting, LoopCounter, UncountedLoop
from ptxsw.terms import op
from ptxsw.terms.node import Term, split

_MOST_TESTS = 8
_LARGEST = 1 << 20
"""Bytes by which an access may move in an iteration, or for each unit of its step."""
_NEAR = 64
"""Ranges that are no more bytes apart are tested as one."""


class _Approach(Struct, frozen=True):
    """How a distance changes in an iteration: by `times`, or `times · of`."""

    times: int
    of: Term | None = None


class _Meeting(Struct, frozen=True):
    """Two accesses meet where `distance`, a sum without a number, is from `low` to `high`, or is
    so after up to `further` more steps of what it approaches by."""

    distance: Term
    approach: _Approach
    low: int
    high: int
    further: int = 0


class LoopRanges:
    """What a test before one innermost loop has to establish. Every question that a test could
    answer is answered with yes and noted; for the first that none could, `reason` says why. The
    loads `invariant` are supposed to read the same in all iterations."""

    def __init__(self, trace: Trace, loop: Loop, invariant: Mapping[int, Reg]) -> None:
        self._trace, self._loop, self._invariant = trace, loop, invariant
        self._pairs: dict[tuple[int, int], _Meeting] = {}
        self.reason: str | None = None

    def apart(self, one: Access, store: Access) -> bool:
        """Can a test tell that two accesses have no byte in common in any one iteration?"""
        key = (one.index, store.index)
        if key not in self._pairs:
            try:
                self._pairs[key] = self._meeting(one, store)
            except UncountedLoop as unfit:
                self.reason = self.reason or str(unfit)
                return False
        return True

    def conditions(self, served: Collection[int]) -> tuple[Condition, ...]:
        """The test for what was asked of some accesses. Raises UncountedLoop where it is too
        long."""
        pairs = dict.fromkeys(p for (at, _), p in self._pairs.items() if at in served)
        joined = _joined(self._level(pairs))
        tests = dict.fromkeys(test for together in joined for test in self._tests(together))
        # How many iterations are left matters only if a distance changes from one to the next.
        moving = any(pair.approach.times for pair in pairs)
        counted = self._counter.conditions if moving else ()
        if len(tests) > _MOST_TESTS:
            raise UncountedLoop("it would have to compare too many ranges")
        return tuple(dict.fromkeys((*counted, *tests)))

    # ------------------------------------------------------------ two accesses

    @cached_property
    def _sums(self) -> LoopSums:
        return LoopSums(self._trace, self._loop, self._invariant)

    @cached_property
    def _counting(self) -> Counting:
        return Counting(self._sums)

    @cached_property
    def _counter(self) -> LoopCounter:
        return self._counting.counter()

    @cached_property
    def _addresses(self) -> dict[int, Term]:
        return {place.index: place.address for place in self._sums.places}

    def _meeting(self, one: Access, store: Access) -> _Meeting:
        """Raises UncountedLoop."""
        if not one.space == store.space == "global":
            raise UncountedLoop("an access is not known to be to global memory")
        terms = self._sums.terms
        addresses = [self._addresses[access.index] for access in (store, one)]
        if any(address.width != 64 for address in addresses):
            raise UncountedLoop("an address has 32 bits")
        constant, items = split(terms.sub(*addresses))
        distance = terms.sum(64, 0, items)
        grown = self._sums.step(distance)
        if grown is None:
            raise UncountedLoop(
                "an address does not grow by the same number of bytes in every iteration"
            )
        # A constant distance that missed would have been proved without a test.
        if not items:
            raise UncountedLoop("they overlap")
        at = wrapped(constant, 64)
        if abs(at) > _LARGEST:
            raise UncountedLoop("an offset is too large")
        # From "the last byte of the store is the first of the other access" to the reverse.
        return _Meeting(distance, self._approach(grown), 1 - store.bytes - at, one.bytes - 1 - at)

    def _approach(self, grown: Term) -> _Approach:
        """Raises UncountedLoop where a test cannot say how far a distance goes."""
        constant, items = split(grown)
        times = wrapped(items[0][1], 64) if items else wrapped(constant, 64)
        if abs(times) > _LARGEST:
            raise UncountedLoop("the step of an address is too large")
        if not times:
            return _Approach(0)
        if self._counter.step.kind is not op.CONST:
            raise UncountedLoop("the step of the loop counter is not a number")
        if not items:
            return _Approach(times)
        of = items[0][0]
        if constant or len(items) > 1 or of.kind not in op.EXTENSIONS or of.args[0].width != 32:
            raise UncountedLoop("the step of an address is not a multiple of a 32-bit number")
        return _Approach(times, of.args[0])

    # ------------------------------------------------------------ tests

    def _tests(self, pair: _Meeting) -> Iterator[Condition]:
        """That a distance stays out of a range until the loop ends."""
        # The distance is a point on a circle of 2^64 bytes, and must stay out of an interval. If it
        # grows, it is measured from the interval's other end, with its sign changed. So it always
        # falls towards the interval, and one unsigned comparison is exact (docs/soundness.md).
        terms, times = self._sums.terms, pair.approach.times
        far = terms.sub(terms.const(pair.high, 64), pair.distance)
        if times <= 0:
            far = terms.sub(pair.distance, terms.const(pair.low, 64))
        distance = tuple(sorted(self._counting.parts(far), key=lambda part: part.factor != 1))
        size = pair.high - pair.low + 1
        if not times:
            yield Apart(distance, size)
            return
        counter = self._counter
        left, of = self._counting.sum(counter.left), None
        nearer = -(-abs(times) // counter.step.value)
        last = counter.last - -(-pair.further // nearer)
        if pair.approach.of is not None:
            # Both factors get half of the bits, so that nearer · of · left stays below 2^63.
            most = AddressSum((), 1 << min(LIMIT.bit_length() - 1, 31 - nearer.bit_length() // 2))
            of = self._counting.sum(pair.approach.of)
            yield Compared("le.u32", of, most)
            yield Compared("le.u32", left, most)
        yield Apart(distance, size, nearer, left, last, of)

    def _level(self, pairs: Iterable[_Meeting]) -> Iterator[_Meeting]:
        """Distances that differ by whole steps, such as those to the rows `a + n`, `a + 2·n` of a
        loop that goes down by `n`, as one: the farthest of them, with as many steps `further`."""
        terms = self._sums.terms
        groups: dict[tuple[Term, _Approach], list[tuple[int, _Meeting]]] = {}
        for pair in pairs:
            of, steps, rest = pair.approach.of, 0, pair.distance
            for part, factor in split(pair.distance)[1]:
                if of is not None and part.kind in op.EXTENSIONS and part.args[0] is of:
                    steps = wrapped(factor, 64)
                    rest = terms.sub(rest, terms.scale(part, factor))
            if abs(steps) > _LARGEST:
                raise UncountedLoop("an offset is too large")
            groups.setdefault((rest, pair.approach), []).append((steps, pair))
        for (_, approach), members in groups.items():
            step_counts = [number for number, _ in members]
            far = step_counts.index(min(step_counts) if approach.times > 0 else max(step_counts))
            low, high = min(p.low for _, p in members), max(p.high for _, p in members)
            if min(step_counts) == max(step_counts) or high - low > _LARGEST:
                yield from (pair for _, pair in members)
            else:
                distance = members[far][1].distance
                yield _Meeting(distance, approach, low, high, max(step_counts) - min(step_counts))


def _joined(pairs: Iterable[_Meeting]) -> Iterator[_Meeting]:
    """Ranges of one distance as few as are worth a test each."""
    groups: dict[tuple[Term, _Approach, int], list[_Meeting]] = {}
    for pair in pairs:
        groups.setdefault((pair.distance, pair.approach, pair.further), []).append(pair)
    for (distance, approach, further), members in groups.items():
        members.sort(key=lambda pair: pair.low)
        low, high = members[0].low, members[0].high
        for pair in members[1:]:
            if pair.low > high + _NEAR:
                yield _Meeting(distance, approach, low, high, further)
                low, high = pair.low, pair.high
            high = max(high, pair.high)
        yield _Meeting(distance, approach, low, high, further)
