"""A check that takes longer than the kernel's time allows ends, and what it would have allowed is
left alone."""

from __future__ import annotations

import pytest

from ptxsw import checking
from ptxsw.emulator.budget import OUT_OF_TIME, Budget, OutOfTime
from ptxsw.parser import parse
from ptxsw.pipeline import Options, optimize
from ptxsw.validate import Proved, validate

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

    monkeypatch.setattr(checking, "validate", late)
    result = optimize(PAIR, VECTORS)
    assert result.text == PAIR
    (kernel,) = result.report.kernels
    assert kernel.refusals and {refusal.reason for refusal in kernel.refusals} == {OUT_OF_TIME}
