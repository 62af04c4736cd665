"""Three answers, a budget, and questions that another solver can check."""

from __future__ import annotations

import z3

from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.solver import Proved, Refuted, Solver, Unknown
from ptxsw.terms.terms import Terms


def atom(terms: Terms, name: str, width: int = 32) -> Term:
    return terms.atom(name, width, Variance.LANE)


def hard(terms: Terms) -> Term:
    """True, and beyond a short search: x * x is never 2^32 - 5, a square only modulo 2^32."""
    x, y = atom(terms, "x", 64), atom(terms, "y", 64)
    left = terms.mul(terms.urem(x, y), terms.udiv(y, terms.add(x, terms.const(3, 64))))
    return terms.not_(terms.eq(terms.mul(left, left), terms.const(0x123456789ABCDEF1, 64)))


def test_proved() -> None:
    terms, solver = Terms(), Solver()
    x, n = atom(terms, "x"), atom(terms, "n")
    below = terms.slt(x, n)
    claim = terms.sle(terms.add(x, terms.const(1, 32)), n)
    assert isinstance(solver.prove(claim, [below]), Proved)
    asked = solver.questions
    assert isinstance(solver.prove(claim, [below]), Proved)
    assert solver.questions == asked == 1  # remembered


def test_refuted_in_thread_terms() -> None:
    terms, solver = Terms(), Solver()
    tid = terms.atom("%tid.x", 32, Variance.LANE, 0x3FF)
    verdict = solver.prove(terms.ult(tid, terms.const(1000, 32)))
    assert isinstance(verdict, Refuted)
    ((name, value),) = verdict.example.items()
    assert name == "%tid.x" and 1000 <= value < 1024
    n = terms.atom("n", 64, Variance.UNIFORM)
    loads = [terms.apply(("load", "global", at), 64, (n,), Variance.LANE) for at in (0, 1)]
    verdict = solver.prove(terms.ult(*loads), [terms.eq(n, terms.const(7, 64))])
    assert isinstance(verdict, Refuted)
    assert set(verdict.example) == {"n", "load(n)", "load(n), another"}
    assert verdict.example["n"] == 7
    assert verdict.example["load(n)"] <= verdict.example["load(n), another"]


def test_constants_need_no_question() -> None:
    terms, solver = Terms(), Solver()
    assert isinstance(solver.prove(terms.const(1, 1)), Proved)
    assert isinstance(solver.prove(terms.const(0, 1)), Refuted)
    assert solver.questions == 0


def test_general_then_exact() -> None:
    """With the product as a variable one question does; where the product matters, two."""
    terms, solver = Terms(), Solver()
    x, y = atom(terms, "x"), atom(terms, "y")
    product = terms.mul(x, y)
    assert isinstance(solver.prove(terms.ule(product, terms.or_(product, x))), Proved)
    assert solver.questions == 1
    even = terms.eq(terms.extract(terms.scale(product, 1), 0, 1), terms.const(0, 1))
    given = [terms.eq(terms.extract(x, 0, 1), terms.const(0, 1))]
    shifted = terms.shl(x, y)
    assert isinstance(solver.prove(even, given), Proved)
    asked = solver.questions
    positive = terms.eq(terms.and_(shifted, terms.const(1, 32)), terms.const(0, 32))
    assert isinstance(solver.prove(positive, given), Proved)
    assert solver.questions == asked + 2


def test_unknown_and_budget() -> None:
    """What takes too long is given up, quotients by unknowns without a try in the exact form."""
    terms, solver = Terms(), Solver()
    x, y = (terms.zext(atom(terms, name, 31), 64) for name in "xy")
    one, prime = terms.const(1, 64), terms.const(0xFFF_FFFF_FFFF_FFA3, 64)
    given = [terms.ult(one, x), terms.ult(one, y)]
    assert isinstance(solver.prove(terms.not_(terms.eq(terms.mul(x, y), prime)), given), Unknown)
    assert solver.questions == 2
    assert isinstance(solver.prove(hard(terms)), Unknown)
    assert solver.questions == 3
    spent = Solver(budget_s=-1.0)
    x = atom(terms, "z")
    assert isinstance(spent.prove(terms.ule(x, terms.or_(x, terms.const(1, 32)))), Unknown)
    assert spent.questions == 0


def test_contradicts() -> None:
    terms, solver = Terms(), Solver()
    x, five = atom(terms, "x"), terms.const(5, 32)
    low, high = terms.slt(x, five), terms.slt(terms.const(9, 32), x)
    assert solver.contradicts(high, [low])
    assert not solver.contradicts(terms.slt(x, terms.const(7, 32)), [low])
    assert not solver.contradicts(high, [])  # nothing to contradict
    solver.pruning = 10**9
    assert solver.contradicts(high, [low])  # known by now
    higher = terms.slt(terms.const(10, 32), x)
    assert not solver.contradicts(higher, [low])  # a spent budget prunes nothing


def test_soon() -> None:
    """Proofs on the side, of claims that need no conditions, too."""
    terms, solver = Terms(), Solver()
    x, y = atom(terms, "x"), atom(terms, "y")
    small = terms.and_(x, terms.const(31, 32))
    assert solver.soon(terms.ult(small, terms.add(small, terms.const(1, 32))), [])
    assert solver.soon(terms.not_(terms.eq(x, y)), [terms.slt(x, y)])
    assert not solver.soon(terms.not_(terms.eq(x, y)), [terms.sle(x, y)])
    asked = solver.questions
    assert not solver.soon(terms.not_(terms.eq(x, y)), [terms.sle(x, y)])
    assert solver.questions == asked
    solver.pruning = 10**9
    assert not solver.soon(terms.not_(terms.eq(y, x)), [terms.slt(y, x)])


def test_smt2_stands_alone() -> None:
    """The text is unsatisfiable where the claim holds, in a solver of its own."""
    terms, solver = Terms(), Solver()
    x, n = atom(terms, "x"), atom(terms, "n")
    claim = terms.sle(terms.add(terms.mul(x, n), terms.const(1, 32)), n)
    cases = [
        (claim, [terms.slt(terms.mul(x, n), n)], z3.unsat),
        (terms.eq(terms.and_(terms.scale(x, 2), terms.const(1, 32)), terms.const(0, 32)), [], None),
        (terms.ule(x, n), [], z3.sat),
    ]
    for question, given, wanted in cases:
        if question.kind is op.CONST:
            continue
        other = z3.Solver(ctx=z3.Context())
        other.from_string(solver.smt2(question, given))
        assert other.check() == (wanted or z3.unsat)


def test_orders_of_one_bit() -> None:
    terms, solver = Terms(), Solver()
    p, q = atom(terms, "p", 1), atom(terms, "q", 1)
    claim = terms.or_(terms.ule(p, q), terms.ult(q, p))
    assert isinstance(solver.prove(claim), Proved)
    assert isinstance(solver.prove(terms.ult(p, q)), Refuted)


def test_answers_do_not_depend_on_earlier_questions_of_others() -> None:
    """How much work a question takes, and so whether it is answered, is the same behind other
    solvers, some of which still hold their expressions."""

    def asked(first: str, second: str, factor: int) -> Solver:
        terms, solver = Terms(), Solver()
        x, y = atom(terms, first), atom(terms, second)
        total = terms.add(terms.scale(x, 5), terms.scale(y, factor))
        claim = terms.ule(terms.and_(total, x), terms.or_(terms.add(total, y), x))
        near = terms.ult(x, terms.add(y, terms.const(77, 32)))
        assert isinstance(solver.prove(claim, [terms.slt(y, x), near]), Proved)
        return solver

    units, held = set(), []
    for number in range(12):
        units.add(asked("x", "y", 7).units)
        asked("a", "b", 3 + number)
        held.append(asked("c", "d", 11 * number + 1))
    assert len(units) == 1


def test_a_rested_solver_answers_again() -> None:
    terms, solver = Terms(), Solver()
    x, n = atom(terms, "x"), atom(terms, "n")
    below = terms.slt(x, n)
    for added in (1, 0):
        solver.rest()
        claim = terms.sle(terms.add(x, terms.const(added, 32)), n)
        assert isinstance(solver.prove(claim, [below]), Proved)
    assert solver.questions == 2
