"""Addresses whose indices are extended, compared by what bounds the indices.

Inside a loop an index does not wrap since the last one does not. That follows from how often the
loop goes round and from tests that the text has made, and is read off a symbolic run of the first
text (`analysis.exact_sums`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.analysis.exact_sums import ExactSums
from ptxsw.emulator.node import Term
from ptxsw.validate.equality import Equality, Exact
from ptxsw.validate.lanes import KernelLanes


class Indices:
    """Compares sums over what the symbolic run of the first text knows."""

    def __init__(self, lanes: KernelLanes, equality: Equality) -> None:
        self._lanes, self._equality = lanes, equality
        self._within: dict[int | None, Exact] = {}
        self._sums: dict[tuple[frozenset[Term], int | None], ExactSums] = {}

    def within(self, header: int | None) -> Exact:
        """A comparison where the loop with this header surely goes round once more (None: any
        place)."""
        if header not in self._within:
            self._within[header] = lambda a, b, given: self._same(a, b, given, header)
        return self._within[header]

    def _same(self, a: Term, b: Term, given: tuple[Term, ...], header: int | None) -> bool:
        trace = self._lanes.trace
        if trace.statistics.timed_out:
            return False
        key = (frozenset(given), header)
        if key not in self._sums:
            count = None
            if header is not None:
                count = self._lanes.terms.iteration(trace.cfg.name(header))
            self._sums[key] = ExactSums.of(trace, given, self._holds, count)
        return self._sums[key].same(a, b)

    def _holds(self, claim: Term, given: Iterable[Term]) -> bool:
        return self._equality.holds(claim, tuple(given))
