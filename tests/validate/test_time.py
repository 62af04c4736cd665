"""A check that takes longer than the kernel's time allows ends, and what it would have allowed is
left alone."""

from __future__ import annotations

from typing import Any

import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.budget import OUT_OF_TIME, Budget, OutOfTime
from ptxsw.parser import parse
from ptxsw.validate import Mismatch, Proved, validate
from ptxsw.validate.alias_analysis import AliasAnalysis
from ptxsw.verify import proving
from ptxsw.verify.verdict import Undecided, verify

PAIR = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr .global .align 16 b)
{
	.reg .b32 %r<8>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.global.u32 %r1, [%rd1];
	ld.global.u32 %r2, [%rd1+4];
	st.global.u32 [%rd2], %r1;
	st.global.u32 [%rd2+4], %r2;
	ret;
}
"""
VECTORS = Options(mode="force", rewrites=("vectorize",))


def test_a_proof_ends_with_its_budget() -> None:
    old, new = parse(PAIR), parse(optimize(PAIR, VECTORS).text)
    texts = (old, old.kernels[0]), (new, new.kernels[0])
    assert isinstance(validate(*texts), Proved)
    with Budget(3600.0) as budget:
        assert isinstance(validate(*texts, budget=budget), Proved)
    with Budget(0.0) as budget, pytest.raises(OutOfTime):
        validate(*texts, budget=budget)


def test_what_is_not_checked_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*args: object, budget: Budget, **more: object) -> object:
        with Budget(0.0) as spent:
            return validate(*args, budget=spent, **more)  # type: ignore[arg-type, misc]

    monkeypatch.setattr("ptxsw.validate.validate", late)
    result = optimize(PAIR, VECTORS)
    assert result.text == PAIR
    (kernel,) = result.report.kernels
    assert kernel.refusals and {refusal.reason for refusal in kernel.refusals} == {OUT_OF_TIME}


LOOP = """
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	mov.u32 %r1, 0;
ROUND:
	ld.global.u64 %rd3, [%rd1];
	ld.global.u64 %rd4, [%rd3+8];
	st.global.u64 [%rd2], %rd4;
	st.global.u64 [%rd4], %rd3;
	mov.u64 %rd1, %rd4;
	add.s32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 1000;
	@%p1 bra ROUND;
	ret;
}
"""


def test_a_look_ahead_does_not_go_round_and_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that the first text never reads are not sought in all iterations of its loop, and what
    the stores of these iterations leave is not asked."""
    start = PAIR[: PAIR.index("\tld.param")].replace("{", "{\n\t.reg .pred %p<2>;", 1)
    old = parse(start + LOOP)
    new = parse(start + LOOP.replace("ROUND:", "ld.global.u64 %rd5, [%rd1+64];\nROUND:"))
    asked, apart = [], AliasAnalysis.apart

    def counted(*given: Any) -> bool:
        asked.append(given)
        return apart(*given)

    monkeypatch.setattr(AliasAnalysis, "apart", counted)
    refused = validate((old, old.kernels[0]), (new, new.kernels[0]))
    assert isinstance(refused, Mismatch) and "does not read here" in refused.reason
    assert len(asked) < 200, len(asked)


def test_verify_says_that_a_proof_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "SECONDS", 0.0)
    new = optimize(PAIR, VECTORS).text
    verdict = verify(PAIR, new)
    assert isinstance(verdict, Undecided) and verdict.launches
    assert "a proof would take more than 0 s" in str(verdict)
