"""Rows of loads as one full load, one of what lies beyond the warp, and rotations; and lanes in
reverse. What is wrong by one detail is refused."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.validate.stories import Twin as T
from tests.validate.test_warp import BLOCKS, END, HEAD, ROWS, START, done, judged, twin

MORE = ".reg .pred %sw_first, %sw_halo;\n.reg .b32 %sw_beyond, %sw_sent, %sw_from;\n"
HALO = """
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
not.pred %sw_halo, %sw_part;
setp.lt.u32 %sw_first, %sw_lane, 1;
and.pred %sw_halo, %sw_halo, %sw_first;
@%sw_halo ld.global.nc.f32 %sw_beyond, [%rd6+128];
ld.global.nc.f32 %f1, [%rd6];
selp.b32 %sw_sent, %sw_beyond, %f1, %sw_first;
add.s32 %sw_from, %sw_lane, 1;
shfl.sync.idx.b32 %f2, %sw_sent, %sw_from, 31, %sw_mask;
@%sw_part ld.global.nc.f32 %f2, [%rd6+4];
"""
LOADS = """
ld.global.nc.f32 %f1, [%rd6];
ld.global.nc.f32 %f2, [%rd6+4];
"""
WIDE = START.replace(
    "mul.wide.u32 %rd5, %r4, 4;",
    "mul.wide.u32 %rd8, %r3, 256;\nmul.wide.u32 %rd5, %r2, 4;\nadd.s64 %rd5, %rd5, %rd8;",
)
BEFORE = HEAD + MORE + WIDE + LOADS + END
AFTER = HEAD + MORE + ROWS + WIDE + HALO + END

TWINS = (
    T("two lanes on", "%sw_from, %sw_lane, 1", "%sw_from, %sw_lane, 2"),
    T("a lane down", "%sw_from, %sw_lane, 1", "%sw_from, %sw_lane, -1"),
    T("from the same lane", "add.s32 %sw_from, %sw_lane, 1", "mov.u32 %sw_from, 1"),
    T("half a warp", "%sw_from, 31,", "%sw_from, 0x101f,"),
    T("a far element", "[%rd6+128]", "[%rd6+132]"),
    T("a near element", "[%rd6+128]", "[%rd6+124]"),
    T("the far element of two lanes", "%sw_lane, 1;\nand", "%sw_lane, 2;\nand"),
    T("the far element of none", "%sw_lane, 1;\nand", "%sw_lane, 0;\nand"),
    T("read by all lanes", "@%sw_halo ld", "ld"),
    T("read by the first lane, always", "@%sw_halo ld", "@%sw_first ld"),
    T("sent by all", "%f1, %sw_first;", "%f1, %sw_part;"),
    T("sent by the others", "%sw_beyond, %f1, %sw_first", "%f1, %sw_beyond, %sw_first"),
    T("rows may wrap", "%sw_mask, -1, %sw_rows", "%sw_mask, -1, %p1"),
    T("lanes may be missing", "setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;",
      "mov.pred %sw_part, %sw_rows;"),
    T("nobody loads itself", "@%sw_part ld.global.nc.f32 %f2, [%rd6+4];\n", ""),
    T("the others load themselves", "@%sw_part ld", "@!%sw_part ld"),
    T("of another row", "%rd8, %r3, 256", "%rd8, %r3, 252"),
    T("two elements a lane", "%rd5, %r2, 4", "%rd5, %r2, 8"),
    T("the lane is no longer known", "%f1, [%rd6];", "%f1, [%rd6];\nactivemask.b32 %sw_lane;"),
)  # fmt: skip
# A warp of the machine that is imitated is whole where its first lane is.
SILENT = {"half a warp", "read by the first lane, always",
          "read by all lanes", "the far element of two lanes"}  # fmt: skip


def test_a_halo() -> None:
    assert judged(BEFORE, AFTER) == Proved()


def test_of_memory_that_may_be_written() -> None:
    plain = [text.replace(".nc", "") for text in (BEFORE, AFTER)]
    assert judged(*plain) == Proved()  # nothing is stored before, nor ordered


@pytest.mark.parametrize("of", TWINS, ids=lambda t: t.name)
def test_what_is_wrong_is_refused(of: T) -> None:
    assert not isinstance(judged(BEFORE, twin(of, AFTER)), Proved)


def test_the_interpreter_sees_the_difference() -> None:
    for block in BLOCKS:
        assert done(AFTER, block, 64) == done(BEFORE, block, 64) is not None
    unseen = {
        of.name
        for of in TWINS
        if all(done(twin(of, AFTER), b, n) == done(BEFORE, b, n) for b in BLOCKS for n in (64, 31))
    }
    assert unseen <= SILENT


STARTS = {
    "lane": "mul.wide.u32 %rd8, %sw_lane, 4;\nadd.s64 %rd9, %rd3, %rd8;\n"
    "sub.s32 %r7, 31, %sw_lane;\nmul.wide.s32 %rd10, %r7, 4;\nadd.s64 %rd11, %rd3, %rd10;\n",
    "column": "mul.wide.u32 %rd8, %r2, 4;\nadd.s64 %rd9, %rd3, %rd8;\n"
    "and.b32 %r8, %r2, -32;\nand.b32 %r9, %r2, 31;\nadd.s32 %r10, %r8, 31;\n"
    "sub.s32 %r10, %r10, %r9;\nmul.wide.u32 %rd10, %r10, 4;\nadd.s64 %rd11, %rd3, %rd10;\n",
}
BACK = """
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
sub.s32 %sw_from, 31, %sw_lane;
ld.global.nc.f32 %f1, [%rd9];
shfl.sync.idx.b32 %f2, %f1, %sw_from, 31, %sw_mask;
@%sw_part ld.global.nc.f32 %f2, [%rd11];
"""
TURNED = "ld.global.nc.f32 %f1, [%rd9];\nld.global.nc.f32 %f2, [%rd11];\n"
ITERATIONS = (
    T("another mirror", "%sw_from, 31, %sw_lane", "%sw_from, 30, %sw_lane"),
    T("no mirror", "sub.s32 %sw_from, 31, %sw_lane", "add.s32 %sw_from, %sw_lane, 31"),
    T("an element on", "ld.global.nc.f32 %f1, [%rd9]", "ld.global.nc.f32 %f1, [%rd9+4]"),
    T("the address", "shfl.sync.idx.b32 %f2, %f1,", "shfl.sync.idx.b32 %f2, %r2,"),
)


def turned(way: str) -> tuple[str, str]:
    head = HEAD + MORE + ROWS + START + STARTS[way]
    return head + TURNED + END, head + BACK + END


@pytest.mark.parametrize("way", STARTS)
def test_lanes_in_reverse(way: str) -> None:
    assert judged(*turned(way)) == Proved()


@pytest.mark.parametrize("way", STARTS)
@pytest.mark.parametrize("of", ITERATIONS, ids=lambda t: t.name)
def test_lanes_in_a_wrong_order(way: str, of: T) -> None:
    before, after = turned(way)
    assert not isinstance(judged(before, twin(of, after)), Proved)
    assert done(before, (64, 1, 1), 64) != done(twin(of, after), (64, 1, 1), 64)


def test_columns_in_reverse_need_rows_of_whole_warps() -> None:
    before, after = turned("column")
    after = after.replace("%sw_mask, -1, %sw_rows", "%sw_mask, -1, %p1")
    assert not isinstance(judged(before, after), Proved)
    before, after = turned("lane")
    assert judged(before, after.replace("%sw_mask, -1, %sw_rows", "%sw_mask, -1, %p1")) == Proved()


# ---------------------------------------------------------------- between the loads

PASSED = ("membar.cta;", "fence.acq_rel.gpu;", "red.relaxed.gpu.global.add.u32 [%rd7+4096], 1;",
          "ld.volatile.global.u32 %r9, [%rd7];")  # fmt: skip
WAITING = ("bar.sync 0;", "barrier.sync 1, %r1;", "cp.async.wait_all;", "griddepcontrol.wait;")


def parted(between: str) -> tuple[str, str]:
    """Before and after, with a line between the loads of the first text."""
    first, second = LOADS.split("[%rd6];")
    full = "ld.global.nc.f32 %f1, [%rd6];\n"
    before = BEFORE.replace(LOADS, f"{first}[%rd6];\n{between}{second}")
    return before, AFTER.replace(full, f"{full}{between}\n")


@pytest.mark.parametrize("between", [*PASSED, *WAITING])
def test_what_another_lane_surely_comes_to_read(between: str) -> None:
    """Past a fence every lane comes. At a barrier it may wait for ever for those who have left,
    and never read."""
    before, after = parted(between)
    assert isinstance(judged(before, after), Proved) == (between in PASSED)


@pytest.mark.parametrize(
    ("reads", "right"),
    [
        ("ld.global.f32 %f5, [%rd6+4];\nld.global.nc.f32 %f2, [%rd6+4];", True),
        ("ld.global.nc.f32 %f2, [%rd6+4];\nld.global.f32 %f5, [%rd6+4];", True),
        ("ld.global.f32 %f2, [%rd6+4];", False),
    ],
)
def test_what_some_lane_reads_by_nc(reads: str, right: bool) -> None:
    """The far element may be read by `.nc` if a lane of the first text reads it so, beside what
    others do. The kernel writes: so a plain load alone says nothing."""
    second = "ld.global.nc.f32 %f2, [%rd6+4];"
    before = BEFORE.replace(second, reads)
    after = AFTER.replace(f"@%sw_part {second}", f"@%sw_part ld.global{reads.split('global')[-1]}")
    if "%f5" in reads:
        after = AFTER.replace("selp", "ld.global.f32 %f5, [%rd6+4];\nselp")
    assert isinstance(judged(before, after), Proved) == right


def test_a_load_is_made_before_a_fence_or_not_at_all() -> None:
    before = HEAD + MORE + WIDE + "BLOCK:\nHERE\n" + LOADS + END
    moved = "ld.global.nc.f32 %f1, [%rd6];\n"
    after = before.replace("BLOCK:", f"{moved}BLOCK:").replace(LOADS, LOADS.replace(moved, ""))
    for line in (*PASSED, *WAITING):
        judgement = judged(before.replace("HERE", line), after.replace("HERE", line))
        assert isinstance(judgement, Proved) == (line in PASSED), line
