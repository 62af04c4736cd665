"""Sectors, lines and banks against figures worked out by hand."""

from __future__ import annotations

import pytest

from ptxsw import pipeline
from ptxsw.report import Access, lanes

KERNEL = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {shape}
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 4 .b8 tile[8192];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    {index}
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r4, [%rd3];
    ret;
}}
"""


def load(index: str, shape: str = "") -> Access:
    [kernel] = pipeline.analyze(KERNEL.format(index=index, shape=shape)).kernels
    [access] = kernel.accesses or ()
    return access


@pytest.mark.parametrize(
    ("stride", "size", "sectors", "lines", "used", "ways"),
    [
        (0, 4, 1, 1, 4, 1),
        (4, 4, 4, 1, 128, 1),
        (8, 4, 8, 2, 128, 2),
        (8, 8, 8, 2, 256, 1),
        (16, 16, 16, 4, 512, 1),
        (-4, 4, 5, 2, 128, 1),
        (4, 8, 5, 2, 132, 1),
        (128, 4, 32, 32, 128, 32),
        (132, 4, 32, 32, 128, 1),
        (2, 2, 2, 1, 64, 1),
        (1, 1, 1, 1, 32, 1),
    ],
)
def test_strides(stride: int, size: int, sectors: int, lines: int, used: int, ways: int) -> None:
    at = tuple(lane * stride for lane in range(32))
    assert lanes.sectors(at, size) == sectors
    assert lanes.lines(at, size) == lines
    assert lanes.used(at, size) == used
    assert lanes.bank_ways(at, size) == ways
    assert lanes.stride(at) == stride


def test_a_butterfly_is_irregular_and_coalesced() -> None:
    access = load("xor.b32 %r3, %r1, 1;")
    assert access.lanes == tuple(4 * ((lane ^ 1) - 1) for lane in range(32))
    assert access.lane_stride is None


def test_lanes_of_a_masked_index() -> None:
    access = load("and.b32 %r3, %r1, 7;")
    assert access.lanes == tuple(4 * (lane % 8) for lane in range(32))
    assert (access.sectors, access.efficiency) == (1, 1.0)


def test_a_narrow_block_wraps_inside_a_warp() -> None:
    """16 x 16 threads: lane 16 is in the next row."""
    index = "mad.lo.u32 %r3, %r2, 100, %r1;"
    assert load(index).lane_stride == 4
    access = load(index, ".reqntid 16, 16, 1")
    assert access.lanes == tuple(4 * (lane % 16 + lane // 16 * 100) for lane in range(32))
    assert access.lane_stride is None and access.sectors == 5


def test_what_depends_on_a_parameter_is_not_known() -> None:
    access = load("cvt.u32.u64 %r5, %rd1; and.b32 %r3, %r1, %r5;")
    assert (access.lanes, access.lane_stride, access.sectors) == (None, None, None)
