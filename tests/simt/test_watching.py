"""The race detector and the counters."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.simt import Race, launch
from ptxsw.simt.counters import sectors
from tests.simt.programs import from_body

HEAD = (
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r9, %ctaid.x;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
)


def run(body: str, block: int = 64, grid: int = 1, *, counters: bool = True) -> np.ndarray:
    module = from_body(HEAD + body + "\nret;")
    data = [np.zeros(256, np.uint32)]
    result = launch(module, "k", grid, block, data, races=True, counters=counters)
    return result.buffers[0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("st.global.u32 [%rd1], %r1;", r"thread \(1,0,0\).* with thread \(0,0,0\).* same instr"),
        ("st.global.u32 [%rd3], 1;\nld.global.u32 %r2, [%rd1+8];", r"with thread \(2,0,0\)"),
        ("ld.global.u32 %r2, [%rd1+8];\nst.global.u32 [%rd3], 1;", r"thread \(2,0,0\) of"),
        # One byte of a word.
        ("st.global.u32 [%rd3], 1;\nld.global.u8 %r2, [%rd1+7];", r"with thread \(1,0,0\)"),
        # An atomic access and a plain one.
        ("red.global.add.u32 [%rd1], 1;\nld.global.u32 %r2, [%rd1];", "a race with thread"),
        # A barrier of the warp does not order other warps.
        ("st.global.u32 [%rd3], 1;\nbar.warp.sync -1;\nld.global.u32 %r2, [%rd3+128];", "a race"),
    ],
)
def test_races(body: str, message: str) -> None:
    with pytest.raises(Race, match=message) as caught:
        run(body)
    assert "k: thread (" in str(caught.value)
    assert "^" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "st.global.u32 [%rd3], 1;\nbar.sync 0;\nld.global.u32 %r2, [%rd1+8];",
        "st.global.u32 [%rd3], 1;\nld.global.u32 %r2, [%rd3];\nst.global.u32 [%rd3], %r2;",
        "red.global.add.u32 [%rd1], 1;\natom.global.max.u32 %r2, [%rd1], 7;",
        "ld.global.u32 %r2, [%rd1+8];\nld.global.u32 %r2, [%rd1+8];",
        "xor.b32 %r3, %r1, 1;\nmul.wide.u32 %rd4, %r3, 4;\nadd.s64 %rd4, %rd1, %rd4;\n"
        "st.global.u32 [%rd3], 1;\nbar.warp.sync -1;\nld.global.u32 %r2, [%rd4];",
        "st.global.u32 [%rd3], 1;\nbar.sync 0;\nst.global.u32 [%rd3+4], 2;\nbar.sync 0;\n"
        "ld.global.u32 %r2, [%rd3+8];",
    ],
)
def test_no_race(body: str) -> None:
    run(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ld.global.nc.u32 %r2, [%rd3];\nst.global.u32 [%rd3], %r2;", "a write to memory that"),
        ("st.global.u32 [%rd3], %r1;\nld.global.nc.u32 %r2, [%rd3];", "a load by .nc of what"),
        (
            "ld.global.nc.u8 %r2, [%rd3+3];\nbar.sync 0;\nred.global.add.u32 [%rd3], 1;",
            "a write to memory that this kernel has loaded by .nc",
        ),
    ],
)
def test_constant_memory_may_not_change(body: str, message: str) -> None:
    with pytest.raises(Race, match=message):
        run(body)


def test_constant_memory_beside_memory_that_changes() -> None:
    run("ld.global.nc.u32 %r2, [%rd3+512];\nst.global.u32 [%rd3], %r2;")


def test_blocks_are_never_in_order() -> None:
    with pytest.raises(Race, match=r"thread \(0,0,0\) of block \(1,0,0\).*block \(0,0,0\)"):
        run("st.global.u32 [%rd3], %r9;\nbar.sync 0;", grid=2)
    # Not even where they do not run at the same time.
    module = from_body(HEAD + "st.global.u32 [%rd3], %r9;\nret;")
    with pytest.raises(Race, match=r"block \(1,0,0\)"):
        launch(module, "k", 2, 64, [np.zeros(64, np.uint32)], races=True, resident=64)


@pytest.mark.parametrize(
    ("stride", "offset", "size", "want"),
    [
        (4, 0, 4, 4),  # coalesced
        (4, 4, 4, 5),  # one element on
        (8, 0, 4, 8),
        (128, 0, 4, 32),
        (0, 0, 4, 1),
        (-4, 124, 4, 4),
        (16, 0, 16, 16),
        (8, 8, 8, 9),
    ],
)
def test_sectors(stride: int, offset: int, size: int, want: int) -> None:
    lanes = np.arange(32)
    one = sectors(lanes * 0, lanes * stride + offset, size)
    assert one == want
    warps = np.repeat(np.arange(3), 32)
    assert sectors(warps, np.tile(lanes * stride + offset, 3), size) == 3 * want


def test_counters() -> None:
    """A guarded load counts the lanes whose guard holds; a warp without any does not count."""
    module = from_body(
        HEAD + "setp.lt.u32 %p1, %r1, 40;\n@%p1 ld.global.u32 %r2, [%rd3];\n"
        "and.b32 %r3, %r1, 1;\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra L;\nadd.u32 %r4, %r1, 1;\n"
        "L: shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;\nret;"
    )
    result = launch(module, "k", 2, 96, [np.zeros(96, np.uint32)])
    counters = result.counters
    assert counters is not None
    assert counters.warp_loads == 2 * 2
    assert counters.lane_loads == 2 * 40
    assert counters.load_sectors == 2 * (4 + 1)
    assert counters.divergent_branches == 2 * 3
    assert counters.shuffles == 2 * 3
    assert counters.warp_instructions == {
        "branch": 12, "integer": 48, "load.global": 6, "load.param": 6, "shuffle": 6,
    }  # fmt: skip
    # 11 instructions of all threads, the load of 40, the add of half of them.
    assert counters.thread_instructions == 2 * (11 * 96 + 40 + 48)


def test_counters_cost_nothing_when_not_asked_for() -> None:
    module = from_body("ret;")
    assert launch(module, "k", 1, 32, [0], counters=False).counters is None
