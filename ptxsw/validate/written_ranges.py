"""Is what is newly read by `.nc` apart from all that any thread writes?

The bytes of each write are bounded over the whole grid, from a symbolic run of the first text
(`facts.ranges`). That they lie apart from those of a load has to follow from conditions on what
all threads share: such as a test that the second text makes where it begins. The test is read as it
stands in the text, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from ptxsw.emulator.trace import Access
from ptxsw.facts.conditions import conjuncts
from ptxsw.facts.grid import Grid
from ptxsw.facts.grid_facts import GridFacts
from ptxsw.facts.prover import Prover
from ptxsw.facts.ranges import Range
from ptxsw.terms.node import Term
from ptxsw.validate.lanes import KernelLanes

_MOST_PAIRS = 4096


class WrittenRanges:
    """What the first text writes, as ranges under the conditions of a path."""

    def __init__(self, lanes: KernelLanes, prover: Prover) -> None:
        self._lanes, self._prover = lanes, prover
        self._answers: dict[tuple[tuple[Range, ...], frozenset[Term]], bool] = {}
        self._shared: dict[tuple[Term, ...], frozenset[Term]] = {}
        self._facts: dict[frozenset[Term], GridFacts] = {}

    def apart(self, loads: Collection[int], given: Sequence[Term]) -> bool:
        """Does no thread write what one of the loads, instructions of the first text, reads?"""
        if self._lanes.writers is None:
            return False
        shared = self._shared_among(tuple(given))
        if shared not in self._facts:
            self._facts[shared] = GridFacts.of(self._lanes.trace, shared, self._holds)
        facts = self._facts[shared]
        for access in self._lanes.trace.accesses:
            ranges = facts.touched(access) if access.index in loads else ""
            if isinstance(ranges, str):
                continue
            key = (ranges, shared)
            if key not in self._answers:
                self._answers[key] = self._is_apart(ranges, self._lanes.writers, facts)
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
        self, ranges: tuple[Range, ...], writers: Iterable[Access], facts: GridFacts
    ) -> bool:
        for writer in writers:
            written = facts.touched(writer)
            if isinstance(written, str) or len(ranges) * len(written) > _MOST_PAIRS:
                return False
            if not all(facts.apart(a, b) for a in ranges for b in written):
                return False
        return True

    def _holds(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._prover.holds(claim, tuple(given))
