"""A generic pointer that a loop moves along keeps its window: an access may name it. Refused where
the pointer may have come from elsewhere, or its address is not the window's."""

from __future__ import annotations

import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head

OLD = (
    head()
    + """.visible .entry k(.param .u64 out, .param .u32 n, .param .u64 other)
{
	.shared .align 4 .b8 tile[4096];
	.local .align 4 .b8 mine[256];
	.reg .pred %p<4>;
	.reg .f32 %f<9>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<19>;
	ld.param.u64 %rd1, [out];
	cvta.to.global.u64 %rd1, %rd1;
	ld.param.u32 %r1, [n];
	ld.param.u64 %rd8, [other];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd1, %rd1, %rd2;
	mov.u64 %rd3, tile;
	cvta.shared.u64 %rd4, %rd3;
	mov.u64 %rd9, mine;
	cvta.local.u64 %rd10, %rd9;
	mov.f32 %f1, 0f00000000;
	mov.u32 %r3, 0;
	add.s64 %rd5, %rd4, %rd2;
LOOP:
	ld.f32 %f2, [%rd5];
	add.f32 %f1, %f1, %f2;
	add.s64 %rd5, %rd5, 12;
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p1, %r3, %r1;
	@%p1 bra LOOP;
	st.global.f32 [%rd1], %f1;
	ret;
}
"""
)
LOAD, START = "ld.f32 %f2, [%rd5];", "add.s64 %rd5, %rd4, %rd2;"
NAMED = "cvta.to.shared.u64 %sw, %rd5;\n\tld.shared.f32 %f2, [%sw];"
STEP = "add.s64 %rd5, %rd5, 12;"


def judged(old: str, load: str) -> Outcome:
    new = old.replace(LOAD, load).replace(".reg .pred", ".reg .b64 %sw;\n\t.reg .pred", 1)
    first, second = parse(old), parse(new)
    return validate((first, first.kernels[0]), (second, second.kernels[0]))


def test_the_loop_is_rewritten() -> None:
    result = optimize(OLD, Options(mode="force", rewrites=("memory-spaces",)))
    (kernel,) = result.report.kernels
    assert "ld.shared.f32" in result.text, kernel.refusals


def test_a_pointer_that_is_moved_keeps_its_window() -> None:
    assert judged(OLD, NAMED) == Proved()
    local = OLD.replace(START, "add.s64 %rd5, %rd10, %rd2;")
    assert judged(local, NAMED.replace("shared", "local")) == Proved()


@pytest.mark.parametrize(
    "load",
    [
        "ld.shared.f32 %f2, [%rd5];",  # a generic address is none of the window
        NAMED.replace("[%sw]", "[%sw+4]"),
        NAMED.replace("shared", "local"),
        "cvta.to.shared.u64 %sw, %rd4;\n\tld.shared.f32 %f2, [%sw];",  # of the first iteration
        "ld.global.f32 %f2, [%rd5];",
    ],
)
def test_another_address(load: str) -> None:
    assert not isinstance(judged(OLD, load), Proved)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (START, "add.s64 %rd5, %rd8, %rd2;"),  # a pointer of the caller
        (START, "setp.eq.s32 %p2, %r1, 7;\n\tselp.b64 %rd5, %rd4, %rd8, %p2;"),
        (START, "setp.eq.s32 %p2, %r1, 7;\n\tselp.b64 %rd5, %rd4, %rd10, %p2;"),
        (START, "add.s64 %rd5, %rd4, %rd8;"),
        (START, "add.s64 %rd5, %rd4, %rd10;"),
        (START, "sub.s64 %rd5, %rd2, %rd4;"),
        (START, "setp.eq.s32 %p2, %r1, 7;\n\tmov.u64 %rd5, %rd8;\n\t@%p2 mov.u64 %rd5, %rd4;"),
        (STEP, "mov.u64 %rd5, %rd8;"),  # from the second iteration on
        (STEP, "add.s64 %rd5, %rd5, %rd8;"),
        (STEP, "ld.global.u64 %rd5, [%rd1];"),
    ],
)
def test_a_pointer_that_may_come_from_elsewhere(line: str, other: str) -> None:
    assert not isinstance(judged(OLD.replace(line, other), NAMED), Proved)
