"""Sectors, lines and banks against figures worked out by hand."""

from __future__ import annotations

import pytest

from ptxsw.analysis.banks import bank_ways
from ptxsw.analysis.coalescing import LINE, common_step, sectors, touched, used
from ptxsw.driver import pipeline
from ptxsw.report import Access
from tests.heads import head

KERNEL = (
    head()
    + """\
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
)


def load(index: str, shape: str = "", access: str = "ld.global.u32 %r4, [%rd3]") -> Access:
    text = KERNEL.format(index=index, shape=shape)
    text = text.replace("ld.global.u32 %r4, [%rd3]", access)
    [kernel] = pipeline.analyze(text).kernels
    return (kernel.accesses or ())[-1]


@pytest.mark.parametrize(
    ("stride", "size", "of", "lines", "asked", "ways"),
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
def test_strides(stride: int, size: int, of: int, lines: int, asked: int, ways: int) -> None:
    at = tuple(lane * stride for lane in range(32))
    assert (sectors(at, size), len(touched(at, size, LINE))) == (of, lines)
    assert (used(at, size), bank_ways(at, size)) == (asked, ways)
    assert common_step(at) == stride


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


PITCH = "cvt.u32.u64 %r5, %rd1; mad.lo.u32 %r3, %r2, %r5, %r1;"  # tid.y * width + tid.x


@pytest.mark.parametrize(
    ("index", "phase", "sectors", "efficiency"),
    [
        ("add.u32 %r3, %r1, 0;", 0, 4, 1.0),
        ("add.u32 %r3, %r1, 1;", 4, 5, 0.8),  # begins 4 bytes into a sector
        ("add.u32 %r3, %r1, 8;", 32, 4, 1.0),  # at the next one
        ("sub.u32 %r3, 31, %r1;", 124, 4, 1.0),  # backwards, and ends where a line begins
        ("sub.u32 %r3, 32, %r1;", 0, 5, 0.8),
        ("xor.b32 %r3, %r1, 1;", 4, 4, 1.0),
        ("xor.b32 %r3, %r1, 1; add.u32 %r3, %r3, 1;", 8, 5, 0.8),
        ("mov.u32 %r5, %ctaid.x; mad.lo.u32 %r3, %r5, 96, %r1;", 0, 4, 1.0),
    ],
)
def test_where_a_warp_begins(index: str, phase: int, sectors: int, efficiency: float) -> None:
    access = load(index)
    assert (access.phase, access.sectors, access.efficiency) == (phase, sectors, efficiency)


def test_a_stride_that_only_the_run_knows() -> None:
    access = load("cvt.u32.u64 %r5, %rd1; mul.lo.u32 %r3, %r1, %r5;")
    assert (access.lanes, access.lane_stride, access.lane_step) == (None, None, "4*p")
    assert (access.sectors, access.efficiency) == (32, 0.125)


@pytest.mark.parametrize(
    ("shape", "sectors"),
    [("32, 8", 4), ("64, 4", 4), ("16, 16", 4), ("8, 8", 4), ("4, 8", 8), ("2, 64", 16)],
)
def test_rows_of_a_block(shape: str, sectors: int) -> None:
    """A warp of a block 4 wide reads 16 bytes of each of 8 rows."""
    access = load(PITCH, f".reqntid {shape}, 1")
    assert (access.sectors, access.efficiency) == (sectors, round(4 / sectors, 4))
    assert access.lane_stride == (4 if int(shape.split(",")[0]) >= 32 else None)


def test_the_warp_of_a_block_that_touches_most_is_told() -> None:
    """24 wide: warps begin at x = 0, 8 and 16 of their row."""
    access = load(PITCH, ".reqntid 24, 8, 1")
    assert (access.lane_stride, access.lanes, access.sectors) == (None, None, 4)
    access = load(f"{PITCH} add.u32 %r3, %r3, 1;", ".reqntid 24, 8, 1")
    assert access.sectors == 6


def test_a_block_without_a_full_warp() -> None:
    """4 wide and 4 high: 16 bytes in each of 4 rows."""
    access = load(PITCH, ".reqntid 4, 4, 1")
    assert (access.lanes, access.lane_stride, access.sectors) == (None, None, 4)


@pytest.mark.parametrize(("shape", "sectors", "used"), [("16", 2, 1.0), ("3", 1, 0.375)])
def test_a_row_of_fewer_lanes_than_a_warp(shape: str, sectors: int, used: float) -> None:
    access = load("mov.u32 %r3, %r1;", f".reqntid {shape}, 1, 1")
    assert (access.lane_stride, access.sectors, access.efficiency) == (4, sectors, used)


def test_a_last_warp_of_fewer_lanes() -> None:
    """48 threads: the second warp is half as long, and goes on as the first."""
    access = load("mov.u32 %r3, %r1;", ".reqntid 48, 1, 1")
    assert (access.lane_stride, access.sectors, access.efficiency) == (4, 4, 1.0)


SHARED = "mov.u64 %rd4, tile; add.s64 %rd3, %rd4, %rd2; {} ld.shared.u32 %r4, [%rd3]"


@pytest.mark.parametrize(
    ("index", "ways"),
    [
        ("add.u32 %r3, %r1, 1;", 1),
        ("mul.lo.u32 %r3, %r1, 2;", 2),
        ("cvt.u32.u64 %r5, %rd1; mul.lo.u32 %r3, %r1, %r5;", None),
        # The column is the lane, the row comes from memory: no two lanes meet.
        ("ld.global.u32 %r5, [%rd1+0]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;"
         "ld.global.u32 %r5, [%rd3]; mad.lo.u32 %r3, %r5, 32, %r1;", 1),
        # All lanes are in one column.
        ("mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;"
         "ld.global.u32 %r5, [%rd3]; mul.lo.u32 %r3, %r5, 32;", None),
    ],
)  # fmt: skip
def test_banks(index: str, ways: int | None) -> None:
    assert load(index, access=SHARED.format("")).bank_conflicts == ways


def test_atomics_on_one_word_wait_for_each_other() -> None:
    atomic = "mov.u64 %rd4, tile; add.s64 %rd3, %rd4, %rd2; atom.shared.add.u32 %r4, [%rd3], 1"
    assert load("mov.u32 %r3, 0;", access=SHARED.format("")).bank_conflicts == 1
    for index, ways, met in (
        ("mov.u32 %r3, 0;", 1, 32),  # that is contention, no conflict of banks
        ("shr.u32 %r3, %r1, 1;", 1, 2),
        ("mov.u32 %r3, %r1;", 1, 1),
        ("shl.b32 %r3, %r1, 1;", 2, 1),
    ):
        found = load(index, access=atomic)
        assert (found.bank_conflicts, found.contention) == (ways, met), index
    assert load("mov.u32 %r3, 0;", access=SHARED.format("")).contention is None


def test_local_memory_lies_side_by_side() -> None:
    """The same place of 32 lanes is 128 bytes in a row, other places are elsewhere."""
    local = ".local .align 8 .b8 own[512]; mov.u64 %rd4, own; add.s64 %rd3, %rd4, %rd2; {}"
    one = load("mov.u32 %r3, 3;", access=local.format("ld.local.u32 %r4, [%rd3]"))
    assert (one.sectors, one.efficiency) == (4, 1.0)
    wide = load("mov.u32 %r3, 2;", access=local.format("ld.local.u64 %rd5, [%rd3]"))
    assert (wide.sectors, wide.efficiency) == (8, 1.0)
    own = load("and.b32 %r3, %r1, 7;", access=local.format("ld.local.u32 %r4, [%rd3]"))
    assert (own.sectors, own.efficiency) == (32, 0.125)


@pytest.mark.parametrize(
    ("index", "matrices", "ways"),
    [
        ("mul.lo.u32 %r3, %r1, 4;", "x4", 1),  # rows of 16 bytes side by side
        ("mul.lo.u32 %r3, %r1, 8;", "x4", 2),
        ("mul.lo.u32 %r3, %r1, 32;", "x4", 8),  # rows of 128 bytes: all in the same banks
        ("mad.lo.u32 %r3, %r1, 36, 0;", "x4", 1),  # padded by one row
        ("and.b32 %r5, %r1, 7; xor.b32 %r3, %r5, 3; mul.lo.u32 %r3, %r3, 4;"
         "mad.lo.u32 %r3, %r1, 32, %r3;", "x4", 1),  # swizzled
        ("shr.u32 %r5, %r1, 3; mul.lo.u32 %r3, %r5, 4;", "x1", 1),  # eight lanes give addresses
    ],
)  # fmt: skip
def test_rows_of_matrices(index: str, matrices: str, ways: int) -> None:
    """Eight rows of 16 bytes are fetched together."""
    names = {"x1": "{%r4}", "x4": "{%r4, %r6, %r7, %r8}"}[matrices]
    matrix = f"ldmatrix.sync.aligned.m8n8.{matrices}.shared.b16 {names}, [%rd3]"
    access = load(index, access=f"mov.u64 %rd4, tile; add.s64 %rd3, %rd4, %rd2; {matrix}")
    assert (access.bytes, access.bank_conflicts) == (16, ways)


def test_instructions_that_decide_themselves_what_they_touch() -> None:
    registers = "{%r3, %r4, %r5, %r6, %r3, %r4, %r5, %r6}"
    wmma = f"wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {registers}, [%rd3]"
    access = load("mov.u32 %r3, 0;", access=wmma)
    assert (access.bytes, access.sectors, access.efficiency) == (None, None, None)
    copy = (
        "mov.u64 %rd4, tile; add.s64 %rd3, %rd4, %rd2; cp.async.cg.shared.global [%rd3], [%rd1], 16"
    )
    access = load("mul.lo.u32 %r3, %r1, 8;", access=copy)
    assert (access.bytes, access.lane_stride, access.bank_conflicts) == (16, 32, 2)


@pytest.mark.parametrize(
    ("row", "stride"),
    [
        ("shr.u32 %r5, %r1, 5;", 4),  # one for each warp
        ("shr.u32 %r5, %r1, 4;", None),  # two in a warp
        ("mov.u32 %r5, %r1;", None),
        ("mov.u32 %r5, %ntid.x; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r5, %r6, %r5, %r1;"
         "shr.u32 %r5, %r5, 5;", 4),
    ],
)  # fmt: skip
def test_a_row_start_that_the_whole_warp_loads(row: str, stride: int | None) -> None:
    """What all lanes load from one address is the same for all of them."""
    start = "mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r5, [%rd3];"
    access = load(f"{row} {start.replace('[%rd3]', '[%rd3+0]')} add.u32 %r3, %r5, %r1;")
    assert (access.lane_stride, access.sectors) == (stride, stride)
