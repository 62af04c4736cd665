"""Is what is newly read by `.nc` apart from all that any thread writes?

The bytes of each write are bounded over the whole grid, from a symbolic run of the first text
(`analysis.ranges`). That they lie apart from those of a load has to follow from conditions on what
all threads share: such as a test that the second text makes where it begins. The test is read as it
stands in the text, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from ptxsw.emulator.trace import Access
from ptxsw.facts.conditions import conjuncts
from ptxsw.facts.disjoint import Facts, facts, kept_apart, stands, upper_limits
from ptxsw.facts.grid import Grid, Unbounded
from ptxsw.facts.prover import Prover
from ptxsw.facts.ranges import Range, touched_ranges
from ptxsw.terms.node import Term
from ptxsw.validate.lanes import KernelLanes

_MOST_PAIRS = 4096


class WrittenRanges:
    """What the first text writes, as ranges under the conditions of a path."""

    def __init__(self, lanes: KernelLanes, prover: Prover) -> None:
        self._lanes, self._prover = lanes, prover
        self._answers: dict[tuple[tuple[Range, ...], frozenset[Term]], bool] = {}
        self._shared: dict[tuple[Term, ...], frozenset[Term]] = {}
        self._facts: dict[frozenset[Term], Facts] = {}
        self._grids: dict[frozenset[Term], Grid] = {}
        self._ranges: dict[tuple[int, Grid], tuple[Range, ...] | None] = {}

    def apart(self, loads: Collection[int], given: Sequence[Term]) -> bool:
        """Does no thread write what one of the loads, instructions of the first text, reads?"""
        writers = self._lanes.writers
        if writers is None:
            return False
        shared = self._shared_among(tuple(given))
        grid = self._grids.get(shared)
        if grid is None:
            most = upper_limits(shared, self._lanes.terms)
            grid = self._grids[shared] = Grid.of(self._lanes.trace, most, self._holds)
        for access in self._lanes.trace.accesses:
            ranges = self._of(access, grid) if access.index in loads else None
            if ranges is None:
                continue
            key = (ranges, shared)
            if key not in self._answers:
                if shared not in self._facts:
                    self._facts[shared] = facts(shared, grid)
                self._answers[key] = self._is_apart(ranges, writers, self._facts[shared], grid)
            if self._answers[key]:
                return True
        return False

    def _shared_among(self, given: tuple[Term, ...]) -> frozenset[Term]:
        """Those conditions that speak of what all threads share, and of nothing else. No other one
        says anything of the whole grid."""
        if given not in self._shared:
            parts = conjuncts(given, self._lanes.terms)
            self._shared[given] = frozenset(filter(self._no_facts.is_uniform, parts))
        return self._shared[given]

    @cached_property
    def _no_facts(self) -> Grid:
        return Grid.of(self._lanes.trace, {}, self._holds)

    def _is_apart(
        self, ranges: tuple[Range, ...], writers: Iterable[Access], grid_facts: Facts, grid: Grid
    ) -> bool:
        for writer in writers:
            written = self._of(writer, grid)
            if written is None or len(ranges) * len(written) > _MOST_PAIRS:
                return False
            both = (*ranges, *written) if ranges and written else ()
            if not all(stands(one, grid_facts, grid) for one in both):
                return False
            if not all(kept_apart(a, b, grid_facts, grid) for a in ranges for b in written):
                return False
        return True

    def _of(self, access: Access, grid: Grid) -> tuple[Range, ...] | None:
        key = (access.index, grid)
        if key not in self._ranges:
            try:
                self._ranges[key] = touched_ranges(grid, access)
            except Unbounded:
                self._ranges[key] = None
        return self._ranges[key]

    def _holds(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._prover.holds(claim, tuple(given))
