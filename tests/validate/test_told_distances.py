"""Loads behind a store whose distance is told by bounds of indices, not by the addresses alone."""

from __future__ import annotations

import pytest

from ptxsw.terms.node import Term, Variance, split
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes, Store


class ToldDistance:
    """Bounds that tell how many bytes one pointer is behind the other, and call nothing apart."""

    def __init__(self, bytes_: int) -> None:
        self._bytes = bytes_

    def distance(self, a: Term, b: Term, given: tuple[Term, ...]) -> int | None:
        return self._bytes + split(a)[0] - split(b)[0]

    def apart(self, a: Bytes, b: Bytes, given: tuple[Term, ...]) -> bool:
        return False


@pytest.mark.parametrize("behind", [-64, -8, 4, 32])
def test_a_store_whose_distance_is_told_to_be_far_is_passed_over(behind: int) -> None:
    """It raised an AssertionError: bytes were taken from the store that it has not."""
    terms = Terms()
    memory = Memory(terms, Solver())
    p, q = (terms.atom(name, 64, Variance.UNIFORM) for name in "pq")
    store = Store(
        Bytes("global", q, 4), terms.atom("stored", 32, Variance.LANE), terms.const(1, 1), 0
    )
    source = Bytes("global", p, 8)
    memory.aliases.bounds = ToldDistance(behind)
    assert memory.load([store], 0, source, ()) is memory.load([], 0, source, ())


def test_a_store_whose_distance_is_told_to_be_near_is_read() -> None:
    terms = Terms()
    memory = Memory(terms, Solver())
    p, q = (terms.atom(name, 64, Variance.UNIFORM) for name in "pq")
    value = terms.atom("stored", 64, Variance.LANE)
    store = Store(Bytes("global", q, 8), value, terms.const(1, 1), 0)
    memory.aliases.bounds = ToldDistance(4)
    read = memory.load([store], 0, Bytes("global", p, 4), ())
    assert read is terms.extract(value, 32, 32)
