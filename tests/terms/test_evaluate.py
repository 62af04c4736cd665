"""Evaluated for many threads at once, a term has the values that it has for each of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsw.terms import op
from ptxsw.terms.evaluate import column, value_of
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms
from tests.terms.shapes import BINARY, constants

THREADS = 5


def made(source: random.Random, width: int) -> dict[str, Term]:
    """A term of every kind over atoms, by what made it."""
    terms = Terms()
    names = ("a", "b", "c")
    a, b, c = (terms.atom(name, width, Variance.LANE) for name in names)
    p = terms.atom("p", 1, Variance.LANE)
    low = source.randrange(width)
    return {
        **{name: getattr(terms, name)(a, b) for name in BINARY},
        "mul3": terms.mul(terms.mul(a, b), c),
        "sum": terms.add(terms.mul(a, terms.const(source.getrandbits(width), width)), b),
        "not": terms.not_(p),
        "ite": terms.ite(p, a, b),
        "extract": terms.extract(a, low, source.randrange(1, width - low + 1)),
        "concat": terms.concat(a, b),
        "zext": terms.zext(a, 2 * width),
        "sext": terms.sext(a, 2 * width),
    }


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([8, 32, 64]))
def test_each_thread_has_its_value(seed: int, width: int) -> None:
    """Arguments are the same for all threads, or not; most are values at which something turns."""
    source = random.Random(seed)

    def one(arg: Term) -> int:
        values = [*constants(arg.width), source.getrandbits(arg.width)]
        return source.choice(values) & ((1 << arg.width) - 1)

    for name, term in made(source, width).items():
        if term.kind in op.OPAQUE:  # such as a product by 1
            continue
        args = [tuple(one(arg) for _ in range(source.choice([1, THREADS]))) for arg in term.args]
        got = column(term, args)
        assert len(got) == max(map(len, args), default=1)
        for thread in range(THREADS):
            expected = value_of(term, [each[thread % len(each)] for each in args])
            assert got[thread % len(got)] == expected, name


def test_a_constant_is_one_for_all() -> None:
    assert column(Terms().const(7, 8), []) == (7,)


@pytest.mark.parametrize("divisor", [0, 1, 3, 128, 255])
def test_quotients_round_toward_zero(divisor: int) -> None:
    """The divisor of all threads is one number: read as signed it may be negative."""
    terms = Terms()
    a, b = (terms.atom(name, 8, Variance.LANE) for name in "ab")
    values = tuple(range(256))
    quotient, remainder = terms.sdiv(a, b), terms.srem(a, b)
    by = divisor - (divisor >> 7 << 8)
    for value in values:
        signed = value - (value >> 7 << 8)
        # By zero as Z3 has it: plus or minus one, by the sign, and the dividend.
        expected = int(signed / by) if by else (1 if signed < 0 else -1)
        assert column(quotient, [values, (divisor,)])[value] == expected & 255
        assert column(remainder, [values, (divisor,)])[value] == signed - expected * by & 255
