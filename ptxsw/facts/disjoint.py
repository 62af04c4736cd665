"""Are the bytes of two accesses apart for all threads of the grid, given what is known of the
values that all threads share?

What is known comes from conditions: tests that a text makes where it begins, or a branch anywhere
on parameters. Whoever goes that way, the values are those of the whole grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ptxsw.facts.conditions import conjuncts
from ptxsw.facts.grid import FARTHEST, Grid, Unbounded
from ptxsw.facts.ranges import Range, as_number
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.terms import Terms


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


def apart(a: Range, b: Range, given: Facts, grid: Grid) -> bool:
    """Do the ranges surely have no byte in common, and are they what they claim to be? Pointers
    that are compared must be known not to be so large that an address would wrap."""
    return all(stands(one, given, grid) for one in (a, b)) and kept_apart(a, b, given, grid)


def stands(bounds: Range, given: Facts, grid: Grid) -> bool:
    """Is a range what it claims to be?"""
    return all(proved(need, given, grid) for need in bounds.needs)


def kept_apart(a: Range, b: Range, given: Facts, grid: Grid) -> bool:
    """The same of two ranges that are what they claim to be."""
    if a.base is not b.base and any(grid.limits(r.base)[1] >= FARTHEST for r in (a, b)):
        return False
    both_orders = orders(a, b)
    if any(proved(order, given, grid) for order in both_orders):
        return True
    # An `or` of our test says "this range ends before that one, or the other way round" without
    # saying which: either case has to keep these ranges apart.
    return any(
        all(any(proved(order, Facts((fact,)), grid) for order in both_orders) for fact in group)
        for group in given.one_of
    )
