"""Distances of bytes, modulo 2^64, that are known to be at least a number."""

from __future__ import annotations

from ptxsw.facts.integer_facts import Numbers
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.terms import Terms

TERMS = Terms()
LEFT = TERMS.atom("left", 32, Variance.LANE)
FAR = TERMS.sub(TERMS.atom("y", 64, Variance.LANE), TERMS.atom("a", 64, Variance.LANE))


def number(value: int, width: int = 64) -> Term:
    return TERMS.const(value, width)


def reach(left: Term, more: int) -> Term:
    """`4·left + more`."""
    return TERMS.add(TERMS.scale(TERMS.zext(left, 64), 4), number(more))


def further(distance: Term, by: int) -> Term:
    return TERMS.add(distance, number(by))


KNOWN = TERMS.ule(reach(LEFT, 3), further(FAR, 3))
"""From here the loop goes on for `LEFT` iterations, in each of which a load comes 4 bytes
nearer."""
AGAIN = TERMS.ult(number(1, 32), LEFT)
NEXT = TERMS.sub(LEFT, number(1, 32))


def follows(claim: Term, *given: Term) -> bool:
    solver = Solver()

    def ask(question: Term) -> bool:
        return isinstance(solver.prove(question, given), Proved)

    return Numbers(TERMS, given, ask).holds(claim)


def test_a_distance_falls_with_what_it_has_to_be_at_least() -> None:
    claim = TERMS.ule(reach(NEXT, 3), further(FAR, -1))
    assert follows(claim, KNOWN, AGAIN)
    assert not follows(claim, AGAIN)


def test_a_distance_may_wrap_that_falls_by_more() -> None:
    assert not follows(TERMS.ule(reach(NEXT, 3), further(FAR, -2)), KNOWN, AGAIN)
    assert not follows(TERMS.ule(number(1), further(FAR, -8)), KNOWN)
    assert not follows(
        TERMS.ule(reach(NEXT, 3), further(FAR, -1)), KNOWN
    )  # no iteration may be left


def test_two_accesses_of_a_iteration_are_apart() -> None:
    """Of 4 bytes each: where an iteration is left, and in no other case."""
    apart = TERMS.ule(number(7), further(FAR, 3))
    assert follows(apart, KNOWN, AGAIN)
    assert not follows(apart, KNOWN)
    assert not follows(TERMS.ule(number(12), further(FAR, 3)), KNOWN, AGAIN)


def test_where_a_number_is_below_another_something_is_left() -> None:
    """`n - i` is no 0 where `i < n`; of that no solver need be asked."""
    n, i = (TERMS.atom(name, 32, Variance.LANE) for name in "ni")
    left = TERMS.sub(n, i)
    apart = TERMS.ule(number(7), further(FAR, 3))
    known = TERMS.ule(reach(left, 3), further(FAR, 3))
    for below, follow in (
        (TERMS.slt(i, n), True), (TERMS.ult(n, i), True), (TERMS.sle(i, n), False),
    ):  # fmt: skip
        assert Numbers(TERMS, (known, below), lambda _: False).holds(apart) is follow


def test_a_distance_that_grows_may_wrap() -> None:
    assert not follows(TERMS.ule(reach(LEFT, 3), further(FAR, 4)), KNOWN, AGAIN)


def test_more_than_is_known_does_not_follow() -> None:
    assert follows(TERMS.ule(reach(LEFT, 2), further(FAR, 3)), KNOWN)
    assert not follows(TERMS.ule(reach(LEFT, 4), further(FAR, 3)), KNOWN)
