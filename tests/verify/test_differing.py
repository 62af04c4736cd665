"""Pairs that differ in one place are found to differ, and never proved."""

from __future__ import annotations

import pytest

from ptxsw.verify import Different, Proved, verify
from tests.verify.differing import Pair, by_hand
from tests.verify.differing.mutants import mutants

EVERY = by_hand()
SAMPLE = EVERY[::12]
KINDS = [
    "order of two stores", "wider stores", "a table in global memory", "a side that few data reach",
    "truncated counts", "a barrier",
]  # fmt: skip


def found(pair: Pair) -> None:
    verdict = verify(pair.first, pair.second, kernel=pair.kernel)
    assert isinstance(verdict, Different), str(verdict)


@pytest.mark.parametrize("pair", SAMPLE, ids=lambda pair: pair.name)
def test_a_sample_is_found(pair: Pair) -> None:
    found(pair)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_launch_finds_what_it_is_for(name: str) -> None:
    """Overlap, alignment, variables, both sides of a comparison, counts, schedules."""
    found(next(pair for pair in EVERY if pair.name == name))


@pytest.mark.slow
@pytest.mark.parametrize("pair", EVERY, ids=lambda pair: pair.name)
def test_every_pair_is_found(pair: Pair) -> None:
    found(pair)


def test_no_two_texts_of_a_pair_are_one() -> None:
    assert all(pair.first != pair.second for pair in EVERY)
    assert len({pair.name for pair in EVERY}) == len(EVERY) > 150


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ptxas")
def test_nineteen_of_twenty_mutants_are_found() -> None:
    """Of those that the interpreter runs, and that are not proved to be the same."""
    every = [verify(p.first, p.second, kernel=p.kernel) for p in mutants(60)]
    ran = [v for v in every if isinstance(v, Different) or v.launches]
    open_ones = [v for v in ran if not isinstance(v, Different | Proved)]
    assert len(open_ones) <= len(ran) // 20
