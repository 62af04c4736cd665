"""Rules that lean on one another: what is missing or unknown makes those above it unknown."""

from __future__ import annotations

from ptxsw.correctness.deciding import _verdict
from ptxsw.correctness.reasons import without_weaker
from ptxsw.correctness.verdict import Proof, VerdictKind


def leaning(**needs: str) -> dict[str, Proof | None]:
    """Closed proofs of rules, by what each leans on; "?" is an open one."""
    return {
        name: Proof(unknown="not followed") if on == "?" else Proof(needs=frozenset(on.split()))
        for name, on in needs.items()
    }


def test_rules_that_lean_on_each_other_are_absent_together() -> None:
    proofs = leaning(barriers="races", races="barriers bounds", bounds="")
    assert {_verdict(name, proofs, ()).kind for name in proofs} == {VerdictKind.ABSENT}


def test_what_is_unknown_is_so_for_all_that_lean_on_it() -> None:
    proofs = leaning(barriers="races", races="barriers bounds", bounds="?")
    assert {_verdict(name, proofs, ()).kind for name in proofs} == {VerdictKind.UNKNOWN}
    assert _verdict("races", proofs, ()).reason == "it leans on bounds, which is unknown"


def test_a_rule_that_is_not_there() -> None:
    verdict = _verdict("barriers", leaning(barriers="races"), ())
    assert verdict.kind is VerdictKind.UNKNOWN
    assert verdict.reason == "it leans on races, which is not looked for"


def test_of_two_limits_of_one_size_the_smaller_is_told() -> None:
    told = without_weaker(["blockDim.x <= 64", "ldc >= 16", "blockDim.x <= 1,024", "w <= pitch"])
    assert told == "blockDim.x <= 64 and ldc >= 16 and w <= pitch"
