"""How often a loop goes round over the whole grid, as a bound over what all threads share.

Two kinds of loops have one: a loop that goes on while `a < b`, one of which changes by a constant
in each iteration, and one that goes on until `a == b`. That neither steps over its end is proved,
or made a need of the path that asks (`ranges`).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ptxsw.facts.conditions import Inequality, comparisons
from ptxsw.facts.grid import Grid, Unbounded, per_thread
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.substitution import substitute
from ptxsw.terms.terms import Terms

_UNKNOWN = "the trip count of a loop is not known"


class Path(Protocol):
    """Reads terms as polynomials where some conditions hold, and notes what that needs."""

    grid: Grid
    terms: Terms
    given: tuple[Term, ...]

    def read(self, term: Term) -> Polynomial:
        """A polynomial equal to a term modulo 2^width."""

    def fits(self, value: Polynomial, least: int, most: int) -> None:
        """Note that a value has to lie in an interval."""

    def extremes(self, value: Polynomial) -> tuple[Polynomial, Polynomial]:
        """The lowest and the highest value for any thread."""

    def indexed(self, value: Polynomial) -> Polynomial:
        """A value in which the index of a thread in the grid is one number."""


class Line(Struct, frozen=True):
    """`start + step · count`, between `low` and `high` in every iteration of a loop."""

    start: Polynomial
    step: Polynomial
    low: Polynomial
    high: Polynomial


def most_iterations(path: Path, count: Term, again: frozenset[Term]) -> Polynomial:
    """The highest count of a loop's iterations before any of them."""
    if len(again) != 1:
        raise Unbounded(_UNKNOWN)
    (condition,) = again
    if condition.kind is op.NOT and condition.args[0].kind is op.EQ:
        return _until_equal(path, count, *condition.args[0].args)
    compared = list(comparisons([condition], path.terms))
    if len(compared) != 1:
        raise Unbounded(_UNKNOWN)
    first = _at_entry(path, count, condition)
    return _while_less(path, count, compared[0], guarded=path.grid.holds(first, path.given))


def _until_equal(path: Path, count: Term, a: Term, b: Term) -> Polynomial:
    """A loop that goes on while `a != b`, whose difference changes by a constant: it ends
    where that meets 0, which it must not step over."""
    terms = path.terms
    difference = terms.sub(a, b)
    start, step = _linear(path, count, path.read(difference))
    first = _at_entry(path, count, difference)
    distance = terms.neg(first) if step > 0 else first
    width = distance.width
    exact = terms.urem(distance, terms.const(abs(step), width))
    # Otherwise it would step over 0, or start beyond it, and wrap through all values of its type.
    for claim in (
        terms.slt(terms.const(0, width), distance),
        terms.eq(exact, terms.const(0, width)),
    ):
        if not path.grid.holds(claim, path.given):
            raise Unbounded(_UNKNOWN)
    away = start * (-1 if step > 0 else 1)
    top = 1 << width - 1
    path.fits(away, -top, top - 1)
    return away / abs(step) - 1


def _at_entry(path: Path, count: Term, term: Term) -> Term:
    """The value of a term in the first iteration."""
    zero = path.terms.const(0, count.width)
    return substitute(path.terms, term, lambda node: zero if node is count else None)


def _while_less(path: Path, count: Term, comparison: Inequality, *, guarded: bool) -> Polynomial:
    """The bound for a loop that goes on while `a < b`, where one of the two changes by a constant
    step. `guarded`: the condition is known to hold in the first iteration, too. The counter never
    wraps if its last step does not."""
    if not guarded:
        raise Unbounded(_UNKNOWN)
    a, b = path.read(comparison.a), path.read(comparison.b)
    top = 1 << comparison.a.width - comparison.signed
    least, most = -top if comparison.signed else 0, top - 1
    grows = count in a.atoms
    if grows == (count in b.atoms):
        raise Unbounded(_UNKNOWN)
    start, step = _linear(path, count, a if grows else b)
    if (step > 0) != grows:
        raise Unbounded("a loop counter moves away from its bound")
    end = b if grows else a
    if not all(map(path.grid.is_uniform, end.atoms)):
        raise Unbounded(_UNKNOWN)
    # `end + step` is the farthest that the counter gets: one step behind its bound. If that does
    # not wrap, no earlier value does, and the count is a division of numbers.
    path.fits(start, least, most)
    path.fits(end, least, most)
    path.fits(end + step, least, most)
    distance = end - start if grows else start - end
    return (distance - int(comparison.strict)) / abs(step)


def line_in_loop(path: Path, count: Term, again: frozenset[Term]) -> Line | None:
    """What grows in a loop that goes on while it is below an end that all threads share."""
    compared = list(comparisons(again, path.terms)) if len(again) == 1 else []
    if len(compared) != 1:
        return None
    (comparison,) = compared
    (condition,) = again
    value, end = path.read(comparison.a), path.read(comparison.b)
    parted = value.parted(count)
    if parted is None or not all(map(path.grid.is_uniform, (*parted[0].atoms, *end.atoms))):
        return None
    step, start = parted[0], path.indexed(parted[1])
    shares = start.atoms - per_thread(start.atoms)
    if not all(map(path.grid.is_uniform, shares)) or path.grid.span(step)[0] < 0:
        return None
    if not path.grid.holds(_at_entry(path, count, condition), path.given):
        return None
    most = (1 << comparison.a.width - comparison.signed) - 1
    low = path.extremes(start)[0]
    if path.grid.span(low)[0] < 0:
        return None
    path.fits(start, 0, most)
    path.fits(end + step, 0, most)
    return Line(start, step, low, end - int(comparison.strict))


def _linear(path: Path, count: Term, value: Polynomial) -> tuple[Polynomial, int]:
    """`start` and `step` of `start + step · count`, the first the same for all threads."""
    parted = value.parted(count)
    if parted is not None:
        factor, start = parted
        step = factor.number
        if step and all(map(path.grid.is_uniform, start.atoms)):
            return start, step
    raise Unbounded(_UNKNOWN)
