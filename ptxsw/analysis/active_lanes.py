"""How many lanes of a warp execute an access together, by the conditions on its paths.

if (threadIdx.x == 0) atomicAdd(p, x);                  one lane
if (threadIdx.x == blockDim.x - 1) atomicAdd(p, x);     one lane, whatever blockDim.x is
if (threadIdx.x % 8 == 0) atomicAdd(p, x);              four lanes
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.lane_values import LaneValues, aligned
from ptxsw.analysis.warp_lane import WarpLane
from ptxsw.analysis.warps import Warps
from ptxsw.emulator.trace import Access
from ptxsw.terms.node import Term, Variance, unknowns
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.terms import Terms

_LARGEST = 500  # nodes of a condition that is looked at
_BLOCK = 1024  # threads of the largest block
_UNITS = 2_000_000  # of work that Z3 may do for the questions about one kernel


class ActiveLanes:
    """Counts the lanes of the warps of a block that meet conditions. Conditions on the position
    of a thread in its block are evaluated. Others, on the size of the block or on a parameter, may
    still leave no more than one lane: that is proved."""

    def __init__(self, terms: Terms, warps: Warps) -> None:
        self._threads = _BLOCK if warps.block is None else prod(warps.block)
        self._lane, self._other = WarpLane(terms, warps), WarpLane(terms, warps)
        self._same = terms.eq(self._lane.lane, self._other.lane)
        self._solver = Solver(units=_UNITS)
        self._counts: dict[tuple[Term, ...], int] = {}

    def of(self, access: Access) -> int:
        """The most lanes of any warp that make an access together; 0 if no thread ever does."""
        return max(
            (self._meeting((view.guard, *view.conditions)) for view in access.variants), default=0
        )

    def _meeting(self, every: Sequence[Term]) -> int:
        """The most lanes of a warp that meet all conditions."""
        relevant = {c for c in every if c.variance is not Variance.UNIFORM and c.size <= _LARGEST}
        conditions = tuple(sorted(relevant, key=lambda condition: condition.id))
        count = self._counts.get(conditions)
        if count is None:
            seen = [self._lane(condition) for condition in conditions]
            count = self._at_positions([c for c in seen if self._is_known(c)])
            if count > 1 and self._at_most_one(seen, [self._other(c) for c in conditions]):
                count = 1
            self._counts[conditions] = count
        return count

    def _is_known(self, condition: Term) -> bool:
        """Does it depend on nothing but the position of the thread?"""
        return {self._lane.lane, self._lane.warp}.issuperset(unknowns(condition))

    def _at_positions(self, conditions: Sequence[Term]) -> int:
        """The lanes of the warp in which most meet all conditions on positions."""
        meets = [1] * self._threads
        for condition in conditions:
            value = self._values.of(condition)
            column = (value,) * len(meets) if isinstance(value, int) else value
            meets = [a & b for a, b in zip(meets, column, strict=True)]
        return max(sum(meets[at : at + LANES]) for at in range(0, len(meets), LANES))

    @cached_property
    def _values(self) -> LaneValues:
        threads = range(self._threads)
        places = {
            self._lane.lane.value: tuple(thread % LANES for thread in threads),
            self._lane.warp.value: tuple(thread // LANES for thread in threads),
        }
        return LaneValues(places, {}, aligned(1), {})

    def _at_most_one(self, seen: Sequence[Term], by_other: Sequence[Term]) -> bool:
        """Are two lanes of one warp that meet the conditions always the same lane?"""
        return bool(seen) and isinstance(self._solver.prove(self._same, (*seen, *by_other)), Proved)
