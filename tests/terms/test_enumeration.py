"""Contradictions told by trying every value: what is told is true, and Z3 is not asked."""

from __future__ import annotations

import pytest

from ptxsw.terms.enumeration import Enumeration
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms

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
    run, told = Enumeration(), 0
    for chosen in range(1, 1 << len(pool)):
        some = [each for at, each in enumerate(pool) if chosen >> at & 1]
        possible = any(all(evaluate(c, {n: v}) for c in some) for v in range(1 << WIDTH))
        answer = run.contradict(some)
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
    assert Enumeration().contradict([few, *others]) == (mask == 0x5)  # whose bit for 2 is never set


def test_conditions_about_two_unknowns_are_left_out() -> None:
    terms = Terms()
    n, m = (terms.atom(name, WIDTH, Variance.UNIFORM) for name in "nm")
    few, other = terms.ult(n, terms.const(3, WIDTH)), terms.ult(n, m)
    assert not Enumeration().contradict([few, other, terms.eq(m, terms.const(0, WIDTH))])
    assert Enumeration().contradict([few, terms.eq(n, terms.const(5, WIDTH)), other])


def test_of_low_bits_nothing_is_concluded_about_others() -> None:
    """As of a loop's count, which has 64 bits and steps an index of 32."""
    terms = Terms()
    n = terms.atom("n", 2 * WIDTH, Variance.UNIFORM)
    low, lowest = terms.extract(n, 0, WIDTH), terms.extract(n, 0, 2)
    few = terms.ult(terms.sub(low, terms.const(1, WIDTH)), terms.const(3, WIDTH))  # 1, 2 or 3
    none = terms.eq(lowest, terms.const(0, 2))
    assert Enumeration().contradict([none, few]) and Enumeration().contradict([few, none])
    assert Enumeration().contradict([few, none, terms.ult(n, terms.const(300, 2 * WIDTH))])
    assert not Enumeration().contradict([terms.eq(lowest, terms.const(1, 2)), few])
    # 257, whose low bits are 1, is below none of these; what is read of all bits is left out.
    assert not Enumeration().contradict([few, terms.ult(terms.const(255, 2 * WIDTH), n)])
    assert not Enumeration().contradict(
        [few, terms.eq(terms.extract(n, 1, WIDTH), terms.const(200, WIDTH))]
    )


@pytest.mark.parametrize("wide", [False, True])
def test_what_is_told_of_low_bits_is_true(wide: bool) -> None:
    """As above, where the conditions speak of the low bits of a wider unknown."""
    terms = Terms()
    n = terms.atom("n", 10, Variance.UNIFORM)
    pool = conditions(terms, terms.extract(n, 0, WIDTH))
    if wide:
        pool[5] = terms.ult(n, terms.const(600, 10))
    run, told = Enumeration(), 0
    for chosen in range(1, 1 << len(pool)):
        some = [each for at, each in enumerate(pool) if chosen >> at & 1]
        answer = run.contradict(some)
        if answer:
            assert not any(all(evaluate(c, {n: v}) for c in some) for v in range(1 << 10))
        told += answer
    assert told > 50
