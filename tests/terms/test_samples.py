"""Samples: what they refute is false under values that may be, and what holds they leave alone."""

from __future__ import annotations

import random

import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, Variance, ones, walk
from ptxsw.terms.samples import Samples
from ptxsw.terms.solver import Refuted, Solver
from ptxsw.terms.terms import Terms
from ptxsw.terms.z3_terms import Z3Terms
from tests.terms.shapes import random_term
from tests.terms.test_terms import bits

SEEDS = st.integers(0, 2**32)


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_what_a_sample_refutes_is_false(seed: int) -> None:
    """Under the values of the sample, which fit their unknowns, the facts hold and the claim does
    not; so Z3 cannot prove it."""
    source = random.Random(seed)
    terms, samples, atoms = Terms(), Samples(), list[Term]()
    facts = [random_term(terms, source, 1, 3, atoms) for _ in range(source.randrange(3))]
    claim = random_term(terms, source, 1, 3, atoms)
    number = samples.refutes(claim, facts)
    if number is None:
        return
    unknowns = {n for n in walk(claim, *facts) if n.kind in op.OPAQUE}
    values = {node: samples.value(node, number) for node in unknowns}
    assert all(value & ~ones(node) == 0 for node, value in values.items())
    assert not evaluate(claim, values)
    assert all(evaluate(fact, values) for fact in facts)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_what_holds_is_not_refuted(seed: int) -> None:
    source = random.Random(seed)
    terms, atoms = Terms(), list[Term]()
    claim, fact = (random_term(terms, source, 1, 3, atoms) for _ in range(2))
    expression = Z3Terms().expression
    other = z3.SolverFor("QF_BV")
    other.set("rlimit", 100_000)
    other.add(bits(expression(fact)) == 1, bits(expression(claim)) == 0)
    other.add(*(z3.ULE(expression(a), ones(a)) for a in atoms if a.width > 1))
    if other.check() == z3.unsat:
        assert Samples().refutes(claim, [fact]) is None


def test_refuted_without_a_question() -> None:
    """The element of the next lane: the same quotient, but not where a row ends."""
    terms, solver = Terms(), Solver()
    row = terms.atom("width", 32, Variance.UNIFORM)
    lane = terms.atom("%tid.x", 32, Variance.LANE, 0x3FF)
    following = terms.add(lane, terms.const(1, 32))
    claim = terms.eq(terms.udiv(lane, row), terms.udiv(following, row))
    verdict = solver.prove(claim, [terms.slt(terms.const(1, 32), row)])
    assert isinstance(verdict, Refuted) and solver.questions == 0
    assert set(verdict.example) == {"%tid.x", "width"}
    at, width = verdict.example["%tid.x"], verdict.example["width"]
    assert at // width != (at + 1) // width and width > 1


def test_paths_that_some_launch_takes_need_no_question() -> None:
    terms, solver = Terms(), Solver()
    size = terms.atom("n", 32, Variance.UNIFORM)
    lane = terms.atom("%tid.x", 32, Variance.LANE, 0x3FF)
    inside, later = terms.slt(lane, size), terms.slt(terms.const(3, 32), lane)
    assert not solver.contradicts(later, [inside])
    assert not solver.soon(later, [inside])
    assert solver.questions == 0
    assert solver.contradicts(terms.not_(inside), [inside])
