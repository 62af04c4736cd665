"""Addresses that may be one polynomial have one fingerprint; others nearly never."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.analysis.address_fingerprint import Fingerprints
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.rewrites.loop_streams import LoopStreams
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms

PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs" / "ptx"

T = Terms()
COUNT, INDEX, N = (T.atom(name, 32, Variance.LANE) for name in ("count", "index", "n"))
BASE = T.atom("base", 64, Variance.UNIFORM)


def place(index: Term, *, signed: bool = True) -> Term:
    """`base + 4 · index`, the index extended."""
    wide = T.sext(index, 64) if signed else T.zext(index, 64)
    return T.add(BASE, T.scale(wide, 4))


def plus(*parts: Term | int) -> Term:
    total = T.const(0, 32)
    for part in parts:
        total = T.add(total, part if isinstance(part, Term) else T.const(part % (1 << 32), 32))
    return total


FINGERPRINTS = Fingerprints(COUNT, None)


def now(term: Term) -> int:
    return FINGERPRINTS.of(term)[0]


def later(term: Term) -> int:
    return FINGERPRINTS.of(term)[1]


def test_one_iteration_on_is_what_the_next_element_is_now() -> None:
    here, ahead = place(plus(INDEX, COUNT)), place(plus(INDEX, COUNT, 1))
    assert later(here) == now(ahead)
    assert len({now(here), now(ahead), later(ahead)}) == 3


def test_an_address_without_the_count_stays() -> None:
    assert now(place(plus(INDEX, N))) == later(place(plus(INDEX, N)))


def test_an_extended_sum_counts_as_the_sum_of_what_is_extended() -> None:
    """Where nothing wraps the two are one polynomial, and proofs may find out that it does not."""
    whole = place(plus(INDEX, N, -1))
    parts = T.add(place(INDEX), T.add(T.scale(T.sext(N, 64), 4), T.const(-4 % (1 << 64), 64)))
    assert whole is not parts
    assert now(whole) == now(parts)


def test_signed_and_unsigned_indices_may_be_one_number() -> None:
    assert now(place(plus(INDEX, COUNT))) == now(place(plus(INDEX, COUNT), signed=False))


def test_the_size_of_a_block_is_its_number_where_that_is_declared() -> None:
    size = T.atom("%ntid.x", 32, Variance.UNIFORM)
    declared = Fingerprints(COUNT, (128, 1, 1))
    assert declared.of(place(size)) == declared.of(place(plus(128)))
    assert now(place(size)) != now(place(plus(128)))


@pytest.mark.parametrize("name", ["box-nvcc-rolled", "column-scale", "matmul-float"])
def test_nothing_is_lost_by_looking_at_accesses_that_may_meet(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, options = (PROGRAMS / f"{name}.ptx").read_text(), Options(mode="force")
    found = optimize(text, options).text
    everything = property(lambda loop: frozenset(a.index for a in loop.accesses))
    monkeypatch.setattr(LoopStreams, "meeting", everything)
    assert optimize(text, options).text == found
