"""Values as polynomials, with indices that are extended from 32 bits written out.

`base + 4·sext(i + 4·n)` and `base + 4·sext(i) + 16·sext(n)` are one polynomial where neither index
wraps. That it does not is read off the bounds of the index over the grid and over the iterations of
loops (`ranges`), under what is known of the values that all threads share.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from ptxsw.emulator.trace import Trace
from ptxsw.facts.disjoint import Facts, facts, proved, upper_limits
from ptxsw.facts.grid import Grid, Holds, Unbounded
from ptxsw.facts.ranges import as_number, sum_or_product
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_MAX_SIZE = 2000  # nodes of a value


class ExactSums(Struct):
    """Polynomials of values where the conditions `given` hold, of which `known` is what they say of
    values that all threads share, once it has been asked for. `ahead` is the count of a loop whose
    next iteration is certain to come: an index that does not wrap in that iteration is exact. With
    `supposed`, an index is taken not to wrap if some polynomials are at most 0; these are collected
    in `supposed`."""

    terms: Terms
    grid: Grid
    given: tuple[Term, ...]
    known: Facts | None = None
    ahead: Term | None = None
    supposed: dict[Polynomial, None] | None = None
    _numbers: dict[Term, Polynomial | None] = field(default_factory=dict)
    _polynomials: dict[Term, Polynomial] = field(default_factory=dict)

    @classmethod
    def of(
        cls, trace: Trace, given: Iterable[Term], holds: Holds, ahead: Term | None = None
    ) -> ExactSums:
        """Those of a kernel that was run symbolically."""
        conditions = tuple(given)
        grid = Grid.of(trace, upper_limits(conditions, trace.terms), holds)
        return cls(trace.terms, grid, conditions, ahead=ahead)

    @property
    def facts(self) -> Facts:
        """What the conditions say of values that all threads share."""
        if self.known is None:
            self.known = facts(self.given, self.grid)
        return self.known

    def same(self, a: Term, b: Term) -> bool:
        """Are two values of one width equal? A no may mean that it is not known."""
        if a.width != b.width or max(a.size, b.size) > _MAX_SIZE:
            return False
        rest = self.polynomial(a) - self.polynomial(b)
        return all(factor % (1 << a.width) == 0 for _, factor in rest)

    def polynomial(self, term: Term) -> Polynomial:
        """A polynomial equal to a value modulo 2^width."""
        polynomial = self._polynomials.get(term)
        if polynomial is None:
            polynomial = self._polynomials[term] = self._polynomial(term)
        return polynomial

    def _polynomial(self, term: Term) -> Polynomial:
        arithmetic = sum_or_product(term, self.polynomial)
        if arithmetic is not None:
            return arithmetic
        match term.kind:
            case op.EXTRACT if term.value == 0:
                return self.polynomial(term.args[0])
            case op.ZEXT | op.SEXT:
                number = self._number(term)
                if number is not None:
                    return number
        return Polynomial.atom(term)

    def _number(self, extended: Term) -> Polynomial | None:
        """What an extended index is as a number; None where it may wrap."""
        if extended not in self._numbers:
            (index,) = extended.args
            number = self._fitting(index, signed=extended.kind is op.SEXT)
            if number is None and self.ahead is not None:
                number = self._next(index, self.ahead, signed=extended.kind is op.SEXT)
            self._numbers[extended] = number
        return self._numbers[extended]

    def _fitting(self, index: Term, *, signed: bool) -> Polynomial | None:
        try:
            number, needs = as_number(self.grid, index, signed=signed, given=self.given)
        except Unbounded:
            return None
        return number if all(map(self.holds, needs)) else None

    def holds(self, need: Polynomial) -> bool:
        """Is a polynomial at most 0, as far as is known or supposed?"""
        if self.grid.span(need)[1] <= 0 or proved(need, self.facts, self.grid):
            return True
        if self.supposed is not None:
            self.supposed[need] = None
        return self.supposed is not None

    def _next(self, index: Term, count: Term, *, signed: bool) -> Polynomial | None:
        """An index of the next iteration of a loop, in the count of this one."""
        # Bounds are known for iterations that are run. Written with the count less 1, the index is
        # one of those; its polynomial is then moved on by one step.
        terms = self.terms
        before = terms.sub(count, terms.const(1, count.width))
        if count not in walk(index):
            return None
        earlier = substitute(terms, index, lambda node: before if node is count else None)
        number = self._fitting(earlier, signed=signed)
        parted = None if number is None else number.parted(count)
        if parted is None:
            return None
        return parted[0] * (Polynomial.atom(count) + 1) + parted[1]
