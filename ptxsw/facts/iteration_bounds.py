"""How often a loop goes round over the whole grid, as a bound over what all threads share.

Two kinds of loops have one: a loop that goes on while `a < b`, one of which changes by a constant
in each iteration, and one that goes on until `a == b`. That neither steps over its end is proved,
or made a need of the path that asks (`ranges`).

    for (int i = t; i < n; i += s)        with a bound of 64 bits, it goes on while sext(i) < n:
                                          i does not wrap where n + s - 1 fits 32 bits

A loop may be entered on several ways, as compilers enter what is left of an unrolled one: each that
the path may have come by has a bound, and the highest counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from ptxsw.emulator.recurrences import LoopEntry
from ptxsw.facts.conditions import Inequality, comparisons
from ptxsw.facts.grid import Grid, Unbounded, per_thread
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, positive, split, walk
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


# ---------------------------------------------------------------- how a loop ends


def until_0(again: Term, terms: Terms) -> Term | None:
    """The difference on which a loop goes round until it is 0."""
    if again.kind is op.NOT and again.args[0].kind is op.EQ:
        return terms.sub(*again.args[0].args)
    return None


def while_ordered(again: Term, terms: Terms) -> Inequality | None:
    """The one comparison of numbers on which a loop goes round."""
    compared = list(comparisons([again], terms))
    return compared[0] if len(compared) == 1 else None


class _Race(Struct, frozen=True):
    """A number `runs` until it passes another one, its `end`, and goes up or down (`grows`). Both
    are what they are as numbers where the first lies from `least` to `most` in each iteration."""

    runs: Term
    end: Term
    grows: bool
    strict: bool
    least: int
    most: int


def _race(again: Term, count: Term, terms: Terms) -> _Race | None:
    """What changes from iteration to iteration in the comparison on which a loop goes round."""
    comparison = while_ordered(again, terms)
    if comparison is None:
        return None
    a, b = comparison.a, comparison.b
    grows = _speaks_of(a, count)
    if grows == _speaks_of(b, count):
        return None
    runs, end = (a, b) if grows else (b, a)
    signed = comparison.signed
    # An extended number runs in its own type, and is compared in the wider one.
    if runs.kind in op.EXTENSIONS and (signed or runs.kind is op.ZEXT):
        signed, runs = runs.kind is op.SEXT, runs.args[0]
    top = 1 << runs.width - signed
    return _Race(runs, end, grows, comparison.strict, -top if signed else 0, top - 1)


def _speaks_of(term: Term, count: Term) -> bool:
    return any(node is count for node in walk(term))


def _at_entry(path: Path, count: Term, term: Term) -> Term:
    """The value of a term in the first iteration."""
    zero = path.terms.const(0, count.width)
    return substitute(path.terms, term, lambda node: zero if node is count else None)


def _ways(path: Path, entries: Sequence[LoopEntry]) -> Iterator[LoopEntry]:
    """The ways into a loop by which the path may have come."""
    contrary = set(map(path.terms.not_, path.given))
    return (entry for entry in entries if contrary.isdisjoint(entry.given))


# ---------------------------------------------------------------- bounds of the count


def most_iterations(path: Path, count: Term, entries: Sequence[LoopEntry]) -> Polynomial:
    """The highest count of a loop's iterations before any of them."""
    most: Polynomial | None = None
    for entry in _ways(path, entries):
        bound = _most_by(path, count, entry)
        most = bound if most is None else _higher(path, most, bound)
    if most is None:
        raise Unbounded(_UNKNOWN)
    return most


def _higher(path: Path, a: Polynomial, b: Polynomial) -> Polynomial:
    least, most = path.grid.span(a - b)
    if least < 0 < most:
        raise Unbounded(_UNKNOWN)
    return a if least >= 0 else b


def _most_by(path: Path, count: Term, entry: LoopEntry) -> Polynomial:
    """The highest count of those who came by one way."""
    difference = until_0(entry.again, path.terms)
    if difference is not None:
        return _until_0(path, count, difference, (*path.given, *entry.given))
    race = _held_race(path, count, entry)
    if race is None:
        raise Unbounded(_UNKNOWN)
    return _until_passed(path, count, race)


def _held_race(path: Path, count: Term, entry: LoopEntry) -> _Race | None:
    """The race of those who came by one way, where its comparison is known to hold in every
    iteration up to this one."""
    again, given = entry.again, (*path.given, *entry.given)
    passed = of_this_iteration(path.terms, count, again)
    if passed in path.given:  # as behind a test inside the loop
        return _race(passed, count, path.terms)
    race, first = _race(again, count, path.terms), _at_entry(path, count, again)
    if race is None or path.grid.holds(first, given):
        return race
    unwrapped = _start_is_exact(path, count, race)
    if unwrapped is None or not path.grid.holds(first, (*given, unwrapped)):
        return None
    return race


def of_this_iteration(terms: Terms, count: Term, again: Term) -> Term:
    """What held before every iteration but the first, of this iteration."""
    following = terms.add(count, terms.const(1, count.width))
    return substitute(terms, again, lambda node: following if node is count else None)


def _start_is_exact(path: Path, count: Term, race: _Race) -> Term | None:
    """That a number does not wrap which is added to what a counter starts at, as a condition. The
    path is made to need it: `for (i = n; i > 0; i -= 4)` ends with a test of `i + 4 > 4`."""
    terms, start = path.terms, _at_entry(path, count, race.runs)
    number = wrapped(split(start)[0], start.width)
    if not number or start.kind is op.CONST:
        return None
    rest = terms.sub(start, terms.const(number, start.width))
    path.fits(path.read(rest), race.least, race.most)
    path.fits(path.read(start), race.least, race.most)
    low, high = (rest, start) if number > 0 else (start, rest)
    return terms.slt(low, high) if race.least < 0 else terms.ult(low, high)


def _until_0(path: Path, count: Term, difference: Term, given: tuple[Term, ...]) -> Polynomial:
    """A loop whose difference changes by a constant: it ends where that meets 0, which it must not
    step over."""
    terms = path.terms
    start, step = _linear(path, count, path.read(difference))
    first = _at_entry(path, count, difference)
    distance = terms.neg(first) if step > 0 else first
    width = distance.width
    exact = terms.urem(distance, terms.const(abs(step), width))
    zero = terms.const(0, width)
    ahead = terms.not_(terms.eq(distance, zero))
    # Otherwise it would step over 0, or start beyond it, and wrap through all values of its type.
    for claim in (
        ahead if positive(distance) else terms.slt(zero, distance),
        terms.eq(exact, zero),
    ):
        if not path.grid.holds(claim, given):
            raise Unbounded(_UNKNOWN)
    away = start * (-1 if step > 0 else 1)
    top = 1 << width - 1
    path.fits(away, -top, top - 1)
    return _farthest(path, away) / abs(step) - 1


def _until_passed(path: Path, count: Term, race: _Race) -> Polynomial:
    """The bound for a loop that is entered before its counter has passed the end. The counter never
    wraps if its last step does not."""
    end = path.read(race.end)
    start, step = _linear(path, count, path.read(race.runs))
    if (step > 0) != race.grows:
        raise Unbounded("a loop counter moves away from its bound")
    # `end + step` is the farthest that the counter gets: one step behind its bound. If that does
    # not wrap, no earlier value does, and the count is a division of numbers.
    path.fits(start, race.least, race.most)
    path.fits(end, race.least, race.most)
    path.fits(end + step, race.least, race.most)
    distance = end - start if race.grows else start - end
    return (_farthest(path, distance) - int(race.strict)) / abs(step)


def _farthest(path: Path, distance: Polynomial) -> Polynomial:
    """The longest way to an end that a thread may have."""
    if all(map(path.grid.is_uniform, distance.atoms)):
        return distance
    return path.extremes(distance)[1]


def _linear(path: Path, count: Term, value: Polynomial) -> tuple[Polynomial, int]:
    """`start` and `step` of `start + step · count`, the second a number."""
    parted = value.parted(count)
    if parted is not None:
        factor, start = parted
        step = factor.number
        if step and count not in start.atoms:
            return start, step
    raise Unbounded(_UNKNOWN)


# ---------------------------------------------------------------- what grows up to an end


def line_in_loop(path: Path, count: Term, entries: Sequence[LoopEntry]) -> Line | None:
    """What grows in a loop that goes on while it is below an end that all threads share, where the
    path can have come by one way only."""
    ways = list(_ways(path, entries))
    race = _held_race(path, count, ways[0]) if len(ways) == 1 else None
    if race is None or not race.grows:
        return None
    value, end = path.read(race.runs), path.read(race.end)
    parted = value.parted(count)
    if parted is None or not all(map(path.grid.is_uniform, (*parted[0].atoms, *end.atoms))):
        return None
    step, start = parted[0], path.indexed(parted[1])
    shares = start.atoms - per_thread(start.atoms)
    if not all(map(path.grid.is_uniform, shares)) or path.grid.span(step)[0] < 0:
        return None
    low = path.extremes(start)[0]
    if path.grid.span(low)[0] < 0:
        return None
    path.fits(start, 0, race.most)
    path.fits(end + step, 0, race.most)
    return Line(start, step, low, end - int(race.strict))
