"""Questions that Z3 would write out as large circuits are not asked."""

from __future__ import annotations

import resource

import pytest

from ptxsw.terms import solver
from ptxsw.terms.node import Term, Variance, walk
from ptxsw.terms.solver import Proved, Solver, Unknown
from ptxsw.terms.terms import Terms
from ptxsw.terms.z3_terms import is_too_large

TERMS = Terms()
A, B, C = (TERMS.atom(name, 64, Variance.LANE) for name in "abc")


def small(term: Term) -> Term:
    return TERMS.zext(TERMS.extract(term, 0, 16), 64)


@pytest.mark.parametrize(
    ("term", "too_large"),
    [
        (TERMS.udiv(A, B), True),
        (TERMS.srem(A, B), True),
        (TERMS.udiv(A, TERMS.const(1_000_003, 64)), False),
        (TERMS.udiv(TERMS.extract(A, 0, 32), TERMS.extract(B, 0, 32)), False),
        (TERMS.mul(A, B), False),
        (TERMS.mul(TERMS.mul(small(A), small(B)), small(C)), False),
    ],
)
def test_single_terms(term: Term, too_large: bool) -> None:
    assert is_too_large(walk(term), exact=True) is too_large
    assert not is_too_large(walk(term), exact=False)


def test_terms_add_up() -> None:
    products = [TERMS.mul(A, TERMS.xor(B, TERMS.const(1 << n, 64))) for n in range(20)]
    assert not is_too_large(walk(*products[:8]), exact=True)
    assert is_too_large(walk(*products), exact=True)


def test_a_hash_is_large_in_any_form() -> None:
    value = A
    for n in range(40):
        value = TERMS.add(TERMS.scale(value, 0x5851F42D4C957F2D), TERMS.const(n, 64))
        value = TERMS.xor(value, TERMS.extract(TERMS.sext(B, 128), n, 64))
    assert is_too_large(walk(value), exact=False)


def test_a_quotient_in_what_is_known_takes_no_memory() -> None:
    """`i / n < m` was written out in 190 MB."""
    claim = TERMS.ult(A, TERMS.const(1 << 31, 64))
    known = [TERMS.slt(TERMS.sdiv(A, B), C), TERMS.slt(TERMS.sdiv(C, B), A)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not isinstance(Solver().prove(claim, known), Proved)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10


def test_what_takes_more_than_there_is_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next question is answered."""
    monkeypatch.setattr(solver, "_LAST_RESORT_MB", 1)
    asked = Solver()
    low = TERMS.extract(A, 0, 8)
    claim, known = TERMS.ult(low, TERMS.const(9, 8)), [TERMS.ult(low, TERMS.const(7, 8))]
    assert isinstance(asked.prove(claim, known), Unknown)
    monkeypatch.undo()
    assert isinstance(asked.prove(TERMS.ule(low, TERMS.const(9, 8)), known), Proved)
