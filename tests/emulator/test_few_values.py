"""Contradictions told by trying every value: what is told is true, and Z3 is not asked."""

from __future__ import annotations

import pytest

from ptxsw.emulator.evaluate import evaluate
from ptxsw.emulator.few_values import contradict
from ptxsw.emulator.node import Term, Variance
from ptxsw.emulator.terms import Terms

WIDTH = 8


def conditions(terms: Terms, n: Term) -> list[Term]:
    def number(value: int, width: int = WIDTH) -> Term:
        return terms.const(value, width)

    less = terms.sub(n, number(1))
    return [
        terms.slt(number(0), n),
        terms.ult(less, number(3)),
        terms.ule(terms.add(n, number(250)), number(2)),
        terms.not_(terms.ult(n, number(4))),
        terms.eq(terms.extract(n, 0, 2), number(0, 2)),
        terms.not_(terms.eq(terms.extract(n, 0, 2), number(1, 2))),
        terms.eq(number(7), n),
        terms.slt(n, number(0)),
    ]


def test_what_is_told_is_true() -> None:
    """Of all sets of some conditions: where they are said to contradict each other no value fits,
    and where one of them leaves few values that is told of all that do."""
    terms = Terms()
    n = terms.atom("n", WIDTH, Variance.UNIFORM)
    pool = conditions(terms, n)
    told = 0
    for chosen in range(1, 1 << len(pool)):
        some = [each for at, each in enumerate(pool) if chosen >> at & 1]
        possible = any(all(evaluate(c, {n: v}) for c in some) for v in range(1 << WIDTH))
        answer = contradict(some)
        assert not (answer and possible)
        few = not {pool[1], pool[2], pool[6]}.isdisjoint(some)
        assert answer == (few and not possible)
        told += answer
    assert told > 50


@pytest.mark.parametrize("mask", [0xFF, 0x5])
def test_values_that_an_unknown_cannot_have_do_not_count(mask: int) -> None:
    terms = Terms()
    n = terms.atom("n", WIDTH, Variance.LANE, mask)
    few = terms.ult(n, terms.const(3, WIDTH))
    others = [terms.not_(terms.eq(n, terms.const(value, WIDTH))) for value in (0, 1)]
    assert contradict([few, *others]) == (mask == 0x5)  # whose bit for 2 is never set


def test_conditions_about_two_unknowns_are_left_out() -> None:
    terms = Terms()
    n, m = (terms.atom(name, WIDTH, Variance.UNIFORM) for name in "nm")
    few, other = terms.ult(n, terms.const(3, WIDTH)), terms.ult(n, m)
    assert not contradict([few, other, terms.eq(m, terms.const(0, WIDTH))])
    assert contradict([few, terms.eq(n, terms.const(5, WIDTH)), other])
