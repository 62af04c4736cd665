"""What is known over the whole grid: values as polynomials, and accesses that lie apart.

`base + 4·sext(i + 4·n)` and `base + 4·sext(i) + 16·sext(n)` are one polynomial where neither index
wraps. That it does not is read off the bounds of the index over the grid and over the iterations of
loops (`ranges`), under what is known of the values that all threads share.

What is known of those comes from conditions: tests that a text makes where it begins, or a branch
anywhere on parameters. Whoever goes that way, the values are those of the whole grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.conditions import conjuncts
from ptxsw.facts.grid import FARTHEST, Grid, Holds, Unbounded
from ptxsw.facts.ranges import Range, as_number, touched_ranges
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, walk
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.readings import modulo
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_MAX_SIZE = 2000  # nodes of a value


class Facts(Struct, frozen=True):
    """Polynomials that are at most 0, and groups of polynomials of which at least one is."""

    at_most_0: tuple[Polynomial, ...] = ()
    one_of: tuple[tuple[Polynomial, ...], ...] = ()


def upper_limits(conditions: Iterable[Term], terms: Terms) -> Mapping[Term, int]:
    """The highest values of atoms that conditions compare with numbers, all read as unsigned."""
    most: dict[Term, int] = {}
    for term in conjuncts(conditions, terms):
        if term.kind in (op.ULT, op.ULE) and term.args[1].kind is op.CONST:
            atom, bound = term.args[0], term.args[1].value - (term.kind is op.ULT)
            if atom.kind is op.ATOM and bound >= 0:
                most[atom] = min(bound, most.get(atom, bound))
    return most


def facts(conditions: Iterable[Term], grid: Grid) -> Facts:
    """What conditions say of values that all threads share."""
    certain: list[Polynomial] = []
    either: list[tuple[Polynomial, ...]] = []
    for term in conjuncts(conditions, grid.terms):
        if term.kind is op.OR:
            parts = [_fact(part, grid) for part in _disjuncts(term)]
            inequalities = tuple(part for part in parts if part is not None)
            if len(inequalities) == len(parts):
                either.append(inequalities)
        elif (fact := _fact(term, grid)) is not None:
            certain.append(fact)
    return Facts(tuple(certain), tuple(either))


def _disjuncts(term: Term) -> list[Term]:
    work, disjuncts = [term], []
    while work:
        part = work.pop()
        if part.kind is op.OR:
            work.extend(part.args)
        else:
            disjuncts.append(part)
    return disjuncts


def _fact(term: Term, grid: Grid) -> Polynomial | None:
    """A signed comparison of shared values as a polynomial that is at most 0; None for all else,
    and where a side may wrap."""
    if term.kind not in op.SIGNED:
        return None
    sides = []
    for side in term.args:
        try:
            value, needs = as_number(grid, side)
        except Unbounded:
            return None
        if needs or not all(map(grid.is_shared, value.atoms)):
            return None
        sides.append(value)
    return sides[0] - sides[1] + (term.kind is op.SLT)


def proved(excess: Polynomial, given: Facts, grid: Grid) -> bool:
    """Is a polynomial at most 0, by numbers alone or by one fact?"""
    # To combine several facts would take a search. One is enough for the comparisons that our own
    # tests make.
    if grid.span(excess)[1] <= 0:
        return True
    return any(grid.span(excess - fact)[1] <= 0 for fact in given.at_most_0)


def orders(a: Range, b: Range) -> tuple[Polynomial, Polynomial]:
    """Two polynomials of which one is at most 0 if and only if the ranges have no byte in
    common."""
    first, second = Polynomial(), Polynomial()
    if a.base is not b.base:
        first, second = Polynomial.atom(a.base), Polynomial.atom(b.base)
    return (first + a.high) - (second + b.low), (second + b.high) - (first + a.low)


class Supposed(Protocol):
    """What a test where the kernel begins may establish: it is answered with yes, and noted."""

    def at_most_0(self, need: Polynomial) -> bool:
        """Can the test find that a polynomial is at most 0?"""

    def apart(self, a: Range, b: Range) -> bool:
        """Can the test find that two ranges have no byte in common?"""


class GridFacts(Struct):
    """What holds over the grid where the conditions `given` do, of which `known` is what they say
    of values that all threads share, once it has been asked for. `ahead` is the count of a loop
    whose next iteration is certain to come: an index that does not wrap in that iteration is
    exact. What is not known may be `supposed`."""

    grid: Grid
    given: tuple[Term, ...] = ()
    known: Facts | None = None
    ahead: Term | None = None
    supposed: Supposed | None = None
    _numbers: dict[Term, Polynomial | None] = field(default_factory=dict)
    _polynomials: dict[Term, Polynomial] = field(default_factory=dict)
    _touched: dict[int, tuple[Range, ...] | str] = field(default_factory=dict)
    _stands: dict[Range, bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls, trace: Trace, given: Iterable[Term], holds: Holds, ahead: Term | None = None
    ) -> GridFacts:
        """Those of a kernel that was run symbolically."""
        conditions = tuple(given)
        grid = Grid.of(trace, upper_limits(conditions, trace.terms), holds)
        return cls(grid, conditions, ahead=ahead)

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
        return rest.is_whole and all(factor % (1 << a.width) == 0 for _, factor in rest)

    def polynomial(self, term: Term) -> Polynomial:
        """A polynomial equal to a value modulo 2^width."""
        polynomial = self._polynomials.get(term)
        if polynomial is None:
            polynomial = self._polynomials[term] = self._polynomial(term)
        return polynomial

    def _polynomial(self, term: Term) -> Polynomial:
        arithmetic = modulo(term, self.polynomial)
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
        return self.supposed is not None and self.supposed.at_most_0(need)

    def _next(self, index: Term, count: Term, *, signed: bool) -> Polynomial | None:
        """An index of the next iteration of a loop, in the count of this one."""
        # Bounds are known for iterations that are run. Written with the count less 1, the index is
        # one of those; its polynomial is then moved on by one step.
        terms = self.grid.terms
        before = terms.sub(count, terms.const(1, count.width))
        if count not in walk(index):
            return None
        earlier = substitute(terms, index, lambda node: before if node is count else None)
        number = self._fitting(earlier, signed=signed)
        parted = None if number is None else number.parted(count)
        if parted is None:
            return None
        return parted[0] * (Polynomial.atom(count) + 1) + parted[1]

    # ------------------------------------------------------------ bytes apart

    def touched(self, access: Access) -> tuple[Range, ...] | str:
        """The bytes that all threads touch by an access, for each way to it; a text where they
        have no bounds."""
        ranges = self._touched.get(access.index)
        if ranges is None:
            try:
                ranges = touched_ranges(self.grid, access)
            except Unbounded as reason:
                ranges = str(reason)
            self._touched[access.index] = ranges
        return ranges

    def accesses_apart(self, a: Access, b: Access) -> bool:
        """Do two accesses have no byte in common, whichever threads make them?"""
        if not a.space == b.space == "global":
            return False
        # A test is about the numbers of all ranges, in the order in which they are met.
        if self.supposed is None and isinstance(self.touched(b), str):
            return False
        first, second = self.touched(a), self.touched(b)
        if isinstance(first, str) or isinstance(second, str) or not first or not second:
            return False
        return all(self.apart(x, y) for x in first for y in second)

    def apart(self, a: Range, b: Range) -> bool:
        """Do two ranges have no byte in common, and are they what they claim to be?"""
        if self.stands(a) and self.stands(b) and self._kept_apart(a, b):
            return True
        return self.supposed is not None and self.supposed.apart(a, b)

    def stands(self, bounds: Range) -> bool:
        """Is a range what it claims to be?"""
        stands = self._stands.get(bounds)
        if stands is None:
            needs = (proved(need, self.facts, self.grid) for need in bounds.needs)
            stands = self._stands[bounds] = all(needs)
        return stands

    def _kept_apart(self, a: Range, b: Range) -> bool:
        """Are two ranges apart that are what they claim to be? Pointers that are compared must be
        known not to be so large that an address would wrap."""
        grid, facts = self.grid, self.facts
        if a.base is not b.base and any(grid.limits(r.base)[1] >= FARTHEST for r in (a, b)):
            return False
        both_orders = orders(a, b)
        if any(proved(order, facts, grid) for order in both_orders):
            return True
        # An `or` of our test says "this range ends before that one, or the other way round" without
        # saying which: either case has to keep these ranges apart.
        return any(
            all(any(proved(order, Facts((fact,)), grid) for order in both_orders) for fact in group)
            for group in facts.one_of
        )

    def misses(
        self, distance: Polynomial, size: int, other: int, width: int, farthest: int = FARTHEST
    ) -> bool:
        """Do `other` bytes that begin `distance` behind the first of `size` bytes surely miss
        these? Addresses have `width` bits, and those of a space lie less than `farthest` apart."""
        number = as_offset(distance, width)
        if number is not None:
            return abs(number) < farthest and (number >= size or -number >= other)
        # A distance such as 4·n - 8 with n from the parameters.
        least, most = self.grid.span(distance)
        if not all(map(self.grid.is_shared, distance.atoms)):
            return False
        if not -farthest < least < most < farthest:
            return False
        behind, before = distance * -1 + size, distance + other
        if self.supposed is None:
            return self.holds(behind) or self.holds(before)
        # If all its terms have one sign, only a smallest n has to be known, which a test gives.
        signs = {factor > 0 for product, factor in distance if product}
        return len(signs) == 1 and self.holds(behind if True in signs else before)


def as_offset(distance: Polynomial, width: int) -> int | None:
    """A difference of two addresses of `width` bits in bytes, where it is one number."""
    # Polynomials are exact, but addresses count modulo 2^width, where multiples of that vanish.
    left = [(product, factor) for product, factor in distance if factor % (1 << width)]
    if not distance.is_whole or any(product for product, _ in left):
        return None
    return wrapped(left[0][1], width) if left else 0
