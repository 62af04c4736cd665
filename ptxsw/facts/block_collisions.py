"""Pairs of threads of one block that touch a common byte, found by computing where each goes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ptxsw.facts.loop_values import Assignment, loop_assignments
from ptxsw.facts.memory_objects import ThreadSide
from ptxsw.facts.thread_columns import BlockColumns, collisions
from ptxsw.facts.thread_distances import Distance
from ptxsw.facts.thread_views import ThreadViews
from ptxsw.terms.node import Term

_MOST_PAIRS = 3


def colliding(
    columns: BlockColumns,
    views: ThreadViews,
    distance: Distance,
    t: ThreadSide,
    u: ThreadSide,
    differs: Sequence[Term],
) -> list[tuple[int, int, Assignment]] | None:
    """Some pairs, by the numbers of their threads, as far as their places and the iterations of
    loops decide where they go; None where other things decide it, too. `u` is what the second
    thread does, in the names of the first; of the values `differs` one at least is another one
    there."""
    if not all(spot.offset.is_whole for spot in (distance.first, distance.second)):
        return None
    used = t.place.offset, u.place.offset, *t.conditions, *u.conditions
    found: list[tuple[int, int, Assignment]] = []
    for chosen in loop_assignments(views, distance.other, used) or ({},):
        pairs = _at(columns.where(chosen) if chosen else columns, distance, t, u, differs)
        if pairs is None:
            return None
        found += [(*pair, chosen) for pair in pairs]
        if len(found) >= _MOST_PAIRS:
            break
    return found


def _at(
    columns: BlockColumns,
    distance: Distance,
    t: ThreadSide,
    u: ThreadSide,
    differs: Sequence[Term],
) -> list[tuple[int, int]] | None:
    """The same where loops have come to some iteration."""
    first, rest = columns.parted(distance.first.offset)
    second, others = columns.parted(distance.second.offset)
    shift = (distance.renamed(others) - rest).number
    groups = columns.groups(differs)
    if shift is None or groups is None:
        return None
    mine, theirs = columns.taking(t.conditions), columns.taking(u.conditions)
    pairs = collisions(
        {n: place for n, place in enumerate(first) if mine[n]},
        {n: place + shift for n, place in enumerate(second) if theirs[n]},
        (t.size, u.size),
        t.place.offset.width,
        groups,
    )
    return None if pairs is None else list(islice(pairs, _MOST_PAIRS))
