"""Witnesses: values that are met make the conditions as wanted, and hold of any launch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, ones, walk
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms
from ptxsw.terms.witness import witness
from tests.terms.shapes import random_term


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_a_witness_makes_all_conditions_as_wanted(seed: int) -> None:
    source = random.Random(seed)
    terms, atoms = Terms(), list[Term]()
    wanted = [
        (random_term(terms, source, 1, 3, atoms), source.random() < 0.5)
        for _ in range(source.randrange(1, 4))
    ]
    starts = [lambda node: node.id * 7 & ones(node), lambda _: 0]
    values = witness(wanted, starts)
    if values is None:
        return
    assert all(value & ~ones(node) == 0 for node, value in values.items())
    rest = {n: 0 for n in walk(*(c for c, _ in wanted)) if n.kind in op.OPAQUE and n not in values}
    assert all(evaluate(each, {**rest, **values}) == truth for each, truth in wanted)


def last_iteration(terms: Terms) -> tuple[Term, list[Term]]:
    """The next index of a grid-stride loop is outside, this one is inside, and the warp's vote
    went one way."""
    lane = terms.atom("%tid.x", 32, Variance.LANE, 0x3FF)
    threads = terms.atom("%ntid.x", 32, Variance.UNIFORM, 0x7FF)
    block = terms.atom("%ctaid.x", 32, Variance.UNIFORM)
    grid, iterations, size = (
        terms.atom(n, 32, Variance.UNIFORM) for n in ("grid", "iterations", "n")
    )
    first = terms.add(terms.mul(threads, block), lane)
    index = terms.add(first, terms.mul(terms.mul(threads, grid), iterations))
    following = terms.add(index, terms.mul(threads, grid))
    vote = terms.atom("voted", 1, Variance.UNIFORM)
    outside = terms.sle(size, following)
    facts = [
        terms.not_(terms.eq(threads, terms.const(0, 32))),
        terms.slt(first, size),
        terms.slt(index, size),
        terms.or_(outside, vote),
        terms.not_(vote),
    ]
    return outside, facts


def test_the_last_iteration_of_a_loop_needs_no_question() -> None:
    terms, solver = Terms(), Solver()
    outside, facts = last_iteration(terms)
    assert not solver.contradicts(outside, facts)
    assert solver.questions == 0


def test_what_contradicts_itself_has_no_witness() -> None:
    terms, solver = Terms(), Solver()
    outside, facts = last_iteration(terms)
    wanted = [(outside, False), *((fact, True) for fact in facts)]  # neither outside nor voted
    assert witness(wanted, [lambda _: 0, lambda _: 1]) is None
    assert solver.contradicts(terms.not_(outside), facts)


@pytest.mark.parametrize(
    "condition",
    [
        lambda t, x, _: t.eq(t.extract(x, 4, 8), t.const(0x5A, 8)),
        lambda t, x, _: t.eq(t.zext(t.extract(x, 0, 16), 32), t.const(999, 32)),
        lambda t, x, _: t.slt(t.sext(t.extract(x, 0, 16), 32), t.const(-300, 32)),
        lambda t, x, y: t.eq(t.add(t.scale(x, 6), t.scale(y, 4)), t.const(1002, 32)),
        lambda t, x, y: t.eq(t.mul(x, y), t.const(78, 32)),
        lambda t, x, y: t.eq(t.concat(t.extract(x, 0, 16), t.extract(y, 0, 16)), t.const(1, 32)),
        lambda t, x, y: t.eq(t.or_(x, y), t.const(0, 32)),
        lambda t, x, y: t.eq(t.and_(x, y), t.const(0xF0F, 32)),
        lambda t, x, y: t.ult(t.const(0xFFFFFF00, 32), t.ite(t.ult(x, y), x, y)),
    ],
)
def test_each_operation_is_followed_to_an_unknown(
    condition: Callable[[Terms, Term, Term], Term],
) -> None:
    terms = Terms()
    x, y = (terms.atom(name, 32, Variance.LANE) for name in "xy")
    claim = condition(terms, x, y)
    start = {x: 7, y: 11}
    values = witness([(claim, True)], [start.__getitem__])
    assert values is not None and values != start
    assert evaluate(claim, values)
