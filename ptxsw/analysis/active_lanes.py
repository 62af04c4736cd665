"""How many lanes of a warp execute an access together, by the conditions on its paths.

if (threadIdx.x == 0) atomicAdd(p, x);                  one lane
if (threadIdx.x == blockDim.x - 1) atomicAdd(p, x);     one lane, whatever blockDim.x is
if (threadIdx.x % 8 == 0) atomicAdd(p, x);              four lanes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.warps import Columns, WarpColumns, WarpLanes, Warps
from ptxsw.emulator.trace import Access
from ptxsw.ptx.target import MOST_THREADS
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_BITS = 5  # of a lane's number, and of the number of a warp in its block
_WIDTH = 32  # of a special register
_LARGEST = 500  # nodes of a condition that is looked at
_UNITS = 2_000_000  # of work that Z3 may do for the questions about one kernel


class ActiveLanes:
    """Counts the lanes of the warps of a block that meet conditions. Conditions on the position
    of a thread in its block are evaluated. Others, on the size of the block or on a parameter, may
    still leave no more than one lane: that is proved."""

    def __init__(self, terms: Terms, warps: Warps) -> None:
        threads = MOST_THREADS if warps.block is None else prod(warps.block)
        self._lanes = WarpLanes(((threads, 1, 1),), -(-threads // LANES))
        self._columns = WarpColumns(self._lanes, self._position)
        self._lane, self._other = _WarpLane(terms, warps), _WarpLane(terms, warps)
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
        (meet,) = self._columns.taking(conditions)
        if meet is None:
            return min(LANES, self._lanes.count)
        return max((sum(meet[warp]) for warp in self._lanes.warps if meet), default=0)

    def _position(self, leaf: Term) -> Columns:
        threads = range(self._lanes.count)
        if leaf is self._lane.lane:
            return (tuple([thread % LANES for thread in threads]),)
        return (tuple([thread // LANES for thread in threads]),)

    def _at_most_one(self, seen: Sequence[Term], by_other: Sequence[Term]) -> bool:
        """Are two lanes of one warp that meet the conditions always the same lane?"""
        return bool(seen) and isinstance(self._solver.prove(self._same, (*seen, *by_other)), Proved)


class _WarpLane:
    """Terms as lane `lane` of warp `warp` of a block sees them. Two such views of a condition say
    what it takes for two lanes of one warp to meet it: whatever is the same in the whole warp is
    the same term in both. What differs over lanes, and is no
    special register, has in each view a value of its own."""

    def __init__(self, terms: Terms, warps: Warps) -> None:
        self._terms, self._warps = terms, warps
        self.lane = terms.fresh("lane", _BITS)
        self.warp = terms.atom("number of the warp", _BITS, Variance.UNIFORM)
        self._memo: dict[Term, Term] = {}
        self._registers = dict(self._special_registers())

    def __call__(self, term: Term) -> Term:
        return substitute(self._terms, term, self._leaf, self._memo)

    def _leaf(self, node: Term) -> Term | None:
        if node.kind not in op.OPAQUE:
            return None
        if node.kind is op.ATOM and node.value in self._registers:
            return self._registers[node.value]
        if self._warps.uniform(node):
            return node
        if node.origin is Origin.ELECTED and node.width == 1:
            elected = self._terms.atom(f"elected {node.id}", _BITS, Variance.UNIFORM)
            return self._terms.eq(self.lane, elected)
        return self._terms.fresh("of a lane", node.width)

    def _special_registers(self) -> Iterator[tuple[str, Term]]:
        terms = self._terms
        thread = terms.zext(terms.concat(self.warp, self.lane), _WIDTH)
        yield "%laneid", terms.zext(self.lane, _WIDTH)
        if self._warps.block is None:  # a warp lies in one row, as rows of whole warps have it
            whole = terms.atom("warps of a row", _WIDTH - _BITS, Variance.UNIFORM)
            yield "%tid.x", thread
            yield "%ntid.x", terms.concat(whole, terms.const(0, _BITS))
            return
        for axis, size in zip("xyz", self._warps.block, strict=True):
            count = terms.const(size, _WIDTH)
            yield f"%ntid.{axis}", count
            yield f"%tid.{axis}", terms.urem(thread, count)
            thread = terms.udiv(thread, count)
