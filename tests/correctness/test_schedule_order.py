"""Accesses that do not race and whose order decides, and code that needs lanes in lockstep."""

from __future__ import annotations

import pytest

import ptxsw

TAIL = """
.version 6.3
.target TARGET
.address_size 64
.visible .entry k(.param .u64 p) .reqntid 32
{
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .shared .align 4 .b8 s[256];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, s;
    add.u32 %r4, %r3, %r2;
    ld.volatile.shared.f32 %f1, [%r4+64];
    ld.volatile.shared.f32 %f2, [%r4];
    add.f32 %f3, %f1, %f2;
BETWEEN
    st.volatile.shared.f32 [%r4], %f3;
    ret;
}
"""


def said(target: str, between: str = "") -> tuple[list[tuple[str, int]], str]:
    text = TAIL.replace("TARGET", target).replace("BETWEEN", between)
    [kernel] = ptxsw.check(text, select="data-race").kernels
    assert kernel.verdicts is not None
    found = [(f.level, f.line) for f in kernel.findings or ()]
    return found, kernel.verdicts["data-race"].reason


def test_volatile_accesses_do_not_race_and_depend_on_the_schedule() -> None:
    found, reason = said("sm_70")
    assert found == [] and "what lines 14 and 18 leave may depend on the schedule" in reason


@pytest.mark.parametrize("target", ["sm_35", "sm_61"])
def test_code_that_needs_lanes_in_step_is_named_once(target: str) -> None:
    found, reason = said(target)
    assert found == [("warning", 14)] and reason == "needs lanes in lockstep"


@pytest.mark.parametrize("target", ["sm_61", "sm_70"])
def test_a_barrier_between_them_orders_the_lanes(target: str) -> None:
    found, reason = said(target, "    bar.sync 0;")
    assert found == [] and "schedule" not in reason


def test_a_kernel_that_may_be_meant_for_one_thread_has_no_error() -> None:
    """Nobody declares the block, and nothing shows that it is written for several threads."""
    body = """
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    st.global.u32 [%rd1], %r1;
    ret;
"""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    text = f"{head}.visible .entry k(.param .u64 p)\n{{{body}}}"
    [kernel] = ptxsw.check(text, select="data-race").kernels
    [finding] = kernel.findings or ()
    assert (finding.level, finding.condition) == ("warning", "more than one thread")
    [kernel] = ptxsw.check(text, select="data-race", block=64).kernels
    assert [f.level for f in kernel.findings or ()] == ["error"]
