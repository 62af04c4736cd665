"""Which instructions may run unordered, held against threads that walk through random flow."""

from __future__ import annotations

from random import Random

import pytest

from ptxsw.correctness.may_happen_in_parallel import (
    AHEAD,
    FIRST,
    Intervals,
    IterationFact,
    UnorderedPair,
)
from ptxsw.correctness.segments import EXIT
from tests.correctness.random_flow import Visit, barriers, program, thread, unordered


def _covers(pair: UnorderedPair, a: Visit, b: Visit) -> bool:
    if (pair.first, pair.second) != (a.at, b.at):
        return False
    return all(_holds(fact, a, b) for fact in pair.facts)


def _holds(fact: IterationFact, a: Visit, b: Visit) -> bool:
    """Does it, or is nothing known of the count of a loop?"""
    kind, header, count = fact
    if kind == AHEAD:
        known = header in a.counts and header in b.counts
        return not known or b.counts[header] - a.counts[header] == count
    return (a if kind == FIRST else b).counts.get(header, count) == count


def _check(seed: int) -> int:
    """How many pairs of visits were compared; 0 where threads may part."""
    text = program(Random(seed))
    of = barriers(text)
    if of.parting:
        return 0
    asked = [at for at, i in enumerate(of.cfg.instructions) if i.name == "ld.shared.u32"]
    pairs = list(Intervals(of).pairs(asked, lambda a, b: True))
    compared = 0
    for run in range(6):
        threads = [thread(of, run, number) for number in range(4)]
        for one in threads:
            for two in threads:
                common = min(len(one.events), len(two.events))
                mine, theirs = ([e for e in t.events[:common] if e[0] != EXIT] for t in (one, two))
                common = min(len(mine), len(theirs))
                assert mine[:common] == theirs[:common], (seed, text)
                for a, b in unordered(one, two):
                    compared += 1
                    assert any(_covers(p, a, b) or _covers(p, b, a) for p in pairs), (
                        seed, text, a, b,
                    )  # fmt: skip
    return compared


def test_random_flow() -> None:
    compared = [_check(seed) for seed in range(30)]
    assert sum(map(bool, compared)) > 8


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_much_random_flow(start: int) -> None:
    for seed in range(start, start + 100):
        _check(seed)
