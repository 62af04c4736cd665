"""Loads by `.nc` that the second text makes by other addresses, beside stores."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Mismatch, Proved, validate

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	setp.ge.u32 %p1, %r2, 4096;
	@%p1 bra DONE;
	mul.wide.s32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s32 %r3, %r2, 1;
	mul.wide.s32 %rd5, %r3, 4;
	add.s64 %rd6, %rd1, %rd5;
	add.s32 %r4, %r3, %r1;
	mul.wide.s32 %rd7, %r4, 4;
	add.s64 %rd8, %rd1, %rd7;
"""
TAIL = """	add.f32 %f3, %f1, %f2;
	st.global.f32 [%rd2], %f3;
DONE:
	ret;
}
"""
FIRST = "	ld.global.nc.f32 %f1, [%rd6];\n	ld.global.f32 %f2, [%rd8];\n"


@pytest.mark.parametrize(
    ("second", "right"),
    [
        ("	ld.global.nc.f32 %f1, [%rd4+4];\n	ld.global.f32 %f2, [%rd8];\n", True),
        ("	ld.global.nc.f32 %f1, [%rd4+4];\n	ld.global.nc.f32 %f2, [%rd8];\n", False),
        ("	ld.global.f32 %f1, [%rd4+4];\n	ld.global.nc.f32 %f2, [%rd8];\n", False),
        ("	ld.global.nc.f32 %f1, [%rd4];\n	ld.global.f32 %f2, [%rd8];\n", False),
    ],
)
def test_what_the_first_text_reads_by_nc_may_be_read_so(second: str, right: bool) -> None:
    """However the address is computed, and nothing else beside it."""
    old, new = parse(HEAD + FIRST + TAIL), parse(HEAD + second + TAIL)
    outcome = validate((old, old.kernels[0]), (new, new.kernels[0]))
    assert isinstance(outcome, Proved if right else Mismatch)
    if isinstance(outcome, Proved):
        assert "no-fault-in-struct" not in outcome.assumptions
