"""May a store meet a load? Where a pointer of unknown distance stands between them, certainly."""

from __future__ import annotations

import pytest

from ptxsw.emulator.trace import AccessView
from ptxsw.facts.lane_equality import prove_disjoint
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms


class Addresses:
    """Two arrays and an index."""

    def __init__(self) -> None:
        self.terms, self.solver = Terms(), Solver()
        self.p, self.q = (self.terms.atom(n, 64, Variance.UNIFORM) for n in "pq")
        self.index = self.terms.atom("%tid.x", 32, Variance.LANE, 0x3FF)

    def at(self, base: Term, scale: int, offset: int) -> Term:
        terms = self.terms
        scaled = terms.scale(terms.zext(self.index, 64), scale)
        return terms.add(base, terms.add(scaled, terms.const(offset, 64)))

    def prove_disjoint(self, store: Term, load: Term) -> bool:
        one = self.terms.const(1, 1)
        views = [AccessView(address, one, frozenset()) for address in (store, load)]
        return prove_disjoint(self.terms, self.solver, views[0], 4, views[1], 4) is not None


def test_two_pointers_may_be_any_distance_apart() -> None:
    a = Addresses()
    assert not a.prove_disjoint(a.at(a.p, 4, 0), a.at(a.q, 4, 0))
    assert not a.prove_disjoint(a.at(a.terms.scale(a.p, 4), 4, 0), a.at(a.p, 4, 0x1000))
    assert a.solver.questions == 0


@pytest.mark.parametrize(
    ("scale", "offset", "never"),
    [(4, 0x1000, True), (4, 4092, False), (4, 2, False), (8, 4, True), (8, 0x2000, True)],
)
def test_of_one_array_the_offsets_decide(scale: int, offset: int, never: bool) -> None:
    """Lanes 0 to 1023 store to p[0] on; any lane may meet a load below p[1024]."""
    a = Addresses()
    assert a.prove_disjoint(a.at(a.p, scale, 0), a.at(a.p, scale, offset)) == never


def test_a_pointer_that_stands_in_an_index_too_is_asked_for() -> None:
    """A pointer less itself with one bit set is one of two numbers, and not any."""
    a = Addresses()
    odd = a.terms.or_(a.p, a.terms.const(1 << 40, 64))
    far = a.terms.add(a.terms.add(a.p, a.terms.neg(odd)), a.terms.const(1 << 41, 64))
    assert a.prove_disjoint(a.terms.const(0, 64), far)
    assert a.solver.questions > 0
