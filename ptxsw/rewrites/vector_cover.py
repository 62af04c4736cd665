"""Which of several vectors that share places to make: those that leave the fewest wavefronts, and
of these the fewest instructions.

    places    4   8  12  16  20        floats at these offsets, vectors aligned to their size
    before    .  [8  12][16  20]       two vectors and a scalar load

A dynamic programme over the places, from the last to the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

_T = TypeVar("_T")

Cost = tuple[float, float]
"""Wavefronts, then instructions."""


class CandidateVector(Struct, Generic[_T], frozen=True):
    """A vector that stands for all places from `start` up to `end`, those excluded."""

    start: int
    end: int
    cost: Cost
    what: _T


def best_cover(
    places: Sequence[int],
    single: Cost,
    candidates: Callable[[int], Iterable[CandidateVector[_T]]],
) -> list[CandidateVector[_T]]:
    """The vectors to make over places in ascending order, each of which costs `single` alone.
    `candidates(place)` are those of which this is the first place."""
    best: list[tuple[Cost, CandidateVector[_T] | None, int]] = [((0.0, 0.0), None, 0)]
    for at in reversed(range(len(places))):
        left = len(places) - at - 1  # how many lie behind this one: best[n] is for the last n
        choice = (_sum(single, best[left][0]), None, left)
        options: list[tuple[Cost, CandidateVector[_T] | None, int]] = [choice]
        for candidate in candidates(places[at]):
            rest = len(places) - bisect_left(places, candidate.end)
            options.append((_sum(candidate.cost, best[rest][0]), candidate, rest))
        best.append(min(options, key=lambda option: option[0]))
    cover: list[CandidateVector[_T]] = []
    left = len(places)
    while left:
        _, taken, left = best[left]
        if taken is not None:
            cover.append(taken)
    return cover


def _sum(one: Cost, other: Cost) -> Cost:
    return one[0] + other[0], one[1] + other[1]
