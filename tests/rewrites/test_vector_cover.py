"""The best vectors over places, against all choices there are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from ptxsw.rewrites.vectorize import CandidateVector, Cost, best_cover


def total(places: Sequence[int], single: Cost, chosen: Sequence[CandidateVector[int]]) -> Cost:
    covered = {p for p in places for c in chosen if c.start <= p < c.end}
    alone = len(places) - len(covered)
    return tuple(single[n] * alone + sum(c.cost[n] for c in chosen) for n in (0, 1))  # type: ignore[return-value]


def disjoint(chosen: Sequence[CandidateVector[int]]) -> bool:
    return all(a.end <= b.start or b.end <= a.start for a, b in combinations(chosen, 2))


@pytest.mark.parametrize("seed", range(60))
def test_the_best_of_all_choices(seed: int) -> None:
    rng = random.Random(seed)
    places = sorted(rng.sample(range(10), rng.randint(1, 8)))
    single = (2.0, 1.0)
    found = []
    for number in range(rng.randint(0, 7)):
        start = rng.choice(places)
        end = start + rng.choice((2, 4, 8))
        found.append(
            CandidateVector(start, end, (rng.randint(1, 9) / 2, rng.randint(1, 3)), number)
        )

    def candidates(place: int) -> Iterator[CandidateVector[int]]:
        return (c for c in found if c.start == place)

    chosen = best_cover(places, single, candidates)
    assert disjoint(chosen)
    choices = (c for n in range(len(found) + 1) for c in combinations(found, n))
    assert total(places, single, chosen) == min(
        total(places, single, choice) for choice in choices if disjoint(choice)
    )
