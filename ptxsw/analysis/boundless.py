"""Which accesses have no bounds over the grid, however small the numbers of a launch are.

`ranges` finds that out, too, but only where it has proved what the address depends on, and once for
each limit that is tried. Here the shape of the address is enough: nothing bounds an index that was
loaded, nor the iterations of a loop that goes on by steps of which neither the number nor the ratio
to those of the address is known.
"""

from __future__ import annotations

from ptxsw.emulator.trace import Access
from ptxsw.facts.comparisons import MAX_SIZE, comparisons
from ptxsw.facts.grid import Grid, loop_counted, per_thread
from ptxsw.facts.ranges import OPAQUE_BITS, quotient, sum_or_product
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones
from ptxsw.terms.polynomial import Polynomial


class Shapes:
    """The addresses of one kernel, read as if no index wrapped."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._read: dict[Term, Polynomial] = {}

    def is_boundless(self, access: Access) -> bool:
        """Has an access surely no range of bytes that all threads share? A no may mean that it is
        not seen."""
        return any(self._has_no_bounds(variant.address) for variant in access.variants)

    def _has_no_bounds(self, address: Term) -> bool:
        if self._grid.pointer(address) is None:
            return True
        if address.size > MAX_SIZE:
            return True
        whole = self._reading(address)
        return any(self._is_unbounded(atom, whole) for atom in whole.atoms)

    def _is_unbounded(self, atom: Term, whole: Polynomial) -> bool:
        """Does an atom of an address surely have no bounds?"""
        if self._grid.is_uniform(atom) or per_thread((atom,)):
            return False
        # A byte or short that was loaded is bounded by its width.
        label = loop_counted(atom)
        if label not in self._grid.again:
            return bool(ones(atom) >> OPAQUE_BITS)
        count, again = self._grid.again[label]
        (condition,) = again if len(again) == 1 else (None,)
        return condition is None or self._is_endless(condition, count, whole.parted(atom))

    def _is_endless(
        self, condition: Term, count: Term, parted: tuple[Polynomial, Polynomial] | None
    ) -> bool:
        """Does a condition for another iteration surely not tell how far an address goes, which is
        `parted` by the count of the iterations?"""
        if condition.size > MAX_SIZE or parted is None:
            return True
        if condition.kind is op.NOT and condition.args[0].kind is op.EQ:
            a, b = map(self._reading, condition.args[0].args)
            step = (a - b).parted(count)
            return step is None or not _is_number(step[0])
        compared = list(comparisons([condition], self._grid.terms))
        if len(compared) != 1:
            return True
        a, b = self._reading(compared[0].a), self._reading(compared[0].b)
        step = (a if count in a.atoms else b).parted(count)
        if step is None or _is_number(step[0]):
            return step is None
        return count not in a.atoms or quotient(parted[0], step[0]) is None

    def _reading(self, term: Term) -> Polynomial:
        polynomial = self._read.get(term)
        if polynomial is None:
            polynomial = self._read[term] = self._polynomial(term)
        return polynomial

    def _polynomial(self, term: Term) -> Polynomial:
        """As `ranges` reads it, where nothing is needed."""
        arithmetic = sum_or_product(term, self._reading)
        if arithmetic is not None:
            return arithmetic
        match term.kind:
            case op.ZEXT | op.SEXT if term.args[0].width >= OPAQUE_BITS:
                return self._reading(term.args[0])
            case op.ZEXT if term.args[0].kind is op.EXTRACT:
                return self._reading(term.args[0])
            case op.CONCAT if term.args[1].kind is op.CONST:
                high, low = term.args
                return self._reading(high) * (1 << low.width) + int(low.value)
            case op.EXTRACT if term.value == 0 and term.width >= OPAQUE_BITS:
                return self._reading(term.args[0])
        if self._grid.is_shared(term) and not self._grid.is_parameter(term):
            return self._grid.size(str(term.value))
        return Polynomial.atom(term)


def _is_number(value: Polynomial) -> bool:
    return not value.atoms
