"""Where a thread of a role is: its segment, and how often it has gone round the loops around that.

Two threads are looked at together, so of iterations no more is kept than what tells them apart.
"""

from __future__ import annotations

from typing import NamedTuple

from ptxsw.correctness.may_happen_in_parallel import AHEAD, MOST_ROUNDS, IterationFact


class Turns(NamedTuple):
    """Iterations of a loop: their number, and whether it counts from somewhere in the loop, so that
    only the difference to the other thread's means anything; and whether this is the first."""

    number: int | None = 0
    relative: bool = False
    first: bool = True


Counts = tuple[tuple[int, Turns], ...]
"""By the headers of the loops around, outermost first."""


class RolePlace(NamedTuple):
    """Where a thread is. `waits` at the barrier behind a segment. `leaves`: it comes to no barrier
    any more, so that nobody waits for it at those without a count."""

    segment: int
    waits: bool
    leaves: bool
    counts: Counts


def facts_of(t: Counts, u: Counts) -> frozenset[IterationFact]:
    """How far u is ahead of t in the loops around both."""
    theirs = dict(u)
    return frozenset(
        (AHEAD, header, there - turns.number) for header, turns in t
        if turns.number is not None and header in theirs
        and (there := theirs[header].number) is not None
    )  # fmt: skip


def related(t: RolePlace, u: RolePlace) -> tuple[RolePlace, RolePlace]:
    """Two places with small counts of iterations: of two in one loop the smaller is 0."""
    mine, theirs = dict(t.counts), dict(u.counts)
    for header in {*mine, *theirs}:
        sides = [side for side in (mine, theirs) if header in side]
        numbers = [n for side in sides if (n := side[header].number) is not None]
        if len(sides) == 1:
            turns = sides[0][header]
            if turns.relative or not numbers or numbers[0] > MOST_ROUNDS:
                sides[0][header] = Turns(None, True, turns.first)
            continue
        known = len(numbers) == 2 and abs(numbers[0] - numbers[1]) <= MOST_ROUNDS
        for side in sides:
            count, relative, first = side[header]
            less = count - min(numbers) if known and count is not None else None
            side[header] = Turns(less, relative or less != count, first)
    return (
        t._replace(counts=tuple((h, mine[h]) for h, _ in t.counts)),
        u._replace(counts=tuple((h, theirs[h]) for h, _ in u.counts)),
    )
