"""What a test at entry has to establish, so that loops may keep values in registers.

While a loop is examined, every question that a test could answer is answered with yes and noted.
The test is then written for the noted questions.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.codegen.entry_test import EntryTest
from ptxsw.facts.disjoint import facts
from ptxsw.facts.exact_sums import ExactSums
from ptxsw.facts.ranges import Range
from ptxsw.rewrites.base import Kernel
from ptxsw.rewrites.entry_test import entry_test, grid_below
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial


class Supposed:
    """Collects what one test has to find, where numbers are tested to be below 2^`bits`."""

    def __init__(self, kernel: Kernel, bits: int) -> None:
        self._kernel = kernel
        self._grid = grid_below(kernel, kernel.trace.accesses, bits)
        self._needs: dict[Polynomial, None] = {}
        self._pairs: dict[tuple[Range, Range], None] = {}

    def sums(self, given: Iterable[Term]) -> ExactSums:
        """Polynomials of values where some conditions hold, and what is supposed."""
        conditions = tuple(given)
        # At once: the test is about the numbers that the grid has met, in their order.
        known = facts(conditions, self._grid)
        return ExactSums(
            self._kernel.trace.terms, self._grid, conditions, known, supposed=self._needs
        )

    def apart(self, a: Range, b: Range) -> bool:
        """Can a test tell that two ranges have no byte in common?"""
        if a.base is b.base:
            return False
        # The same pair may be asked either way round; it is tested once.
        self._pairs[(a, b) if a.base.id < b.base.id else (b, a)] = None
        return True

    def test(self) -> EntryTest | str:
        """The test for all that was asked; a text where there can be none."""
        return entry_test(self._grid, list(self._pairs), self._needs)
