"""Conflicts of the banks where a condition leaves out lanes: no more than there are lanes left."""

from __future__ import annotations

import pytest

from ptxsw.driver.checking import check
from tests.heads import head

TEXT = (
    head("8.0", "sm_80")
    + """.visible .entry k(.param .u64 out, .param .u32 n)
{{
	.shared .align 4 .b8 tile[4096];
	.reg .pred %p<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r8, [n];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	shl.b32 %r3, %r1, 7;
	add.s32 %r4, %r2, %r3;
	{condition}
	@%p1 bra DONE;
	ld.shared.u32 %r5, [%r4];
	red.global.add.u32 [%rd1], %r5;
DONE:
	ret;
}}
"""
)


@pytest.mark.parametrize(
    ("condition", "measure"),
    [
        ("setp.gt.u32 %p1, %r1, 3;", "4-way conflict"),  # if (threadIdx.x < 4)
        ("setp.gt.u32 %p1, %r3, 1023;", "8-way conflict"),  # if (threadIdx.x * 128 < 1024)
        ("setp.ne.u32 %p1, %r1, 5;", None),  # one lane
        ("setp.ge.u32 %p1, %r1, %r8;", "32-way conflict"),  # n may be large
        ("setp.lt.u32 %p1, %r1, 40;", "32-way conflict"),  # warp 2 is whole
    ],
)
def test_no_more_ways_than_lanes(condition: str, measure: str | None) -> None:
    report = check(
        TEXT.format(condition=condition), block=(256, 1, 1), select=["bank-conflicts"], ptxas=False
    )
    found = [f.measure for k in report.kernels for f in k.findings or ()]
    assert found == ([measure] if measure else [])
