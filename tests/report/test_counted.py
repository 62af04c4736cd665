"""Sectors as the report states them, against those that the interpreter counts in a run.

The two share no code: one reads addresses as sums over the lanes, the other executes every thread
and looks at the addresses of each warp.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw import parse
from ptxsw.driver import pipeline
from tests.parsed import parsed

PTX = Path(__file__).parent / "ptx"
N = 128  # elements along each side, a multiple of a line

pytest.importorskip("numpy")


def zeros(count: int, kind: str = "f4") -> object:
    import numpy as np

    return np.zeros(count, kind)


class Unwatched:
    """Addresses alone are counted: what a block this small has not written to its tile may be
    stored."""

    def access(self, *_: object) -> None: ...

    def executed(self, *_: object) -> None: ...


def counted(
    name: str, kernel: str, block: tuple[int, int, int], buffers: list[object]
) -> tuple[int, int]:
    """Global loads by warps and the sectors they touched, in one block."""
    from ptxsw.simt import launch

    module = parse((PTX / f"{name}.ptx").read_text())
    done = launch(module, kernel, (1, 1, 1), block, buffers, recorder=Unwatched())
    counters = done.counters
    assert counters is not None
    return counters.warp_loads, counters.load_sectors


def stated(name: str, kernel: str, block: tuple[int, int, int] | None) -> list[int]:
    text = (PTX / f"{name}.ptx").read_text()
    [found] = pipeline.analyze(text, kernel=kernel, block=block).kernels
    loads = [a for a in found.accesses or () if (a.kind, a.space) == ("load", "global")]
    assert all(a.sectors is not None for a in loads)
    return [a.sectors or 0 for a in loads]


@pytest.mark.parametrize(
    ("name", "kernel", "buffers"),
    [
        ("layout", "structures", [zeros(3 * N), zeros(N)]),
        ("layout", "arrays", [zeros(N), zeros(N), zeros(N), zeros(N)]),
        ("layout", "vectors", [zeros(4 * N), zeros(N)]),
        ("transpose", "column", [zeros(1024 * N), zeros(N)]),
        ("banks", "doubles", [zeros(N, "f8"), zeros(N, "f8")]),
        ("banks", "bytes", [zeros(N, "u1"), zeros(N, "u1")]),
    ],
)
def test_each_load_once(name: str, kernel: str, buffers: list[object]) -> None:
    loads, sectors = counted(name, kernel, (64, 1, 1), buffers)
    expected = stated(name, kernel, None)
    assert (loads, sectors) == (2 * len(expected), 2 * sum(expected))


@pytest.mark.parametrize("block", [(32, 8, 1), (16, 16, 1), (8, 8, 1), (4, 16, 1), (2, 32, 1)])
def test_rows_of_a_block(block: tuple[int, int, int]) -> None:
    """The naive product loads a row of B and a column of A in each of N iterations."""
    squares = [zeros(N * N) for _ in range(3)]
    loads, sectors = counted("matmul", "naive", block, [N, *squares])
    expected = stated("matmul", "naive", block)
    warps = block[0] * block[1] // 32
    assert (loads, sectors) == (2 * N * warps, N * warps * sum(expected))


def test_sweeps() -> None:
    loads, sectors = counted("rows", "smooth", (64, 1, 1), [N, zeros(N * N), zeros(N * N)])
    expected = stated("rows", "smooth", None)
    iterations = 2 * (N - 2)
    assert (loads, sectors) == (3 * iterations, iterations * sum(expected))


UNROLLED, ROWSUM = "../../regressions/ptx/unrolled_stride", "_Z6rowsumPfPKfi"


@pytest.mark.parametrize(("elements", "more"), [(2048, 0), (2048 + 256, 0), (2048 + 905, 0.1)])
def test_a_loop_behind_what_was_left_over_of_it(elements: int, more: float) -> None:
    """The lanes go on from where they left the first loop. Only of a warp in which some lanes have
    an iteration more than the others they lie in two places."""
    buffers = [zeros(256), zeros(elements), elements]
    loads, sectors = counted(UNROLLED, ROWSUM, (256, 1, 1), buffers)
    assert set(stated(UNROLLED, ROWSUM, None)) == {4}
    assert abs(sectors / loads - 4) <= more


@pytest.mark.parametrize(
    ("kernel", "sectors"), [("csr", None), ("own_ends", None), ("triangle", 32)]
)
def test_lanes_that_leave_a_loop_one_after_the_other(kernel: str, sectors: int | None) -> None:
    text = (PTX / "../../regressions/ptx/left_over.ptx").read_text()
    [found] = pipeline.analyze(text, kernel=kernel).kernels
    behind = [a for a in found.accesses or () if (a.kind, a.type) == ("load", "f32")][-1]
    assert behind.sectors == sectors


LANES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<3>;
    .shared .align 4 .b8 tile[8192];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.s32 %rd2, %r1, 128;
    add.s64 %rd3, %rd1, %rd2;
    shl.b32 %r5, %r1, 7;
    mov.u32 %r6, tile;
    add.s32 %r7, %r6, %r5;
    CONDITION
    @%p1 bra DONE;
    ld.global.f32 %f1, [%rd3];
    st.shared.f32 [%r7], %f1;
DONE:
    ret;
}
"""


@pytest.mark.parametrize("block", [None, (64, 1, 1)])
@pytest.mark.parametrize(
    ("condition", "lanes"),
    [
        ("setp.gt.s32 %p1, %r1, 3;", 4),  # i < 4
        ("setp.gt.s32 %p1, %r4, 3;", 4),  # the same of an index into the grid
        ("and.b32 %r8, %r1, 7; setp.ne.s32 %p1, %r8, 0;", 4),  # i % 8 == 0
        ("setp.lt.s32 %p1, %r1, 63;", 1),  # the last one of two warps
        ("setp.eq.s32 %p1, %r2, 7;", 32),  # a whole block, or none
    ],
)
def test_lanes_that_a_condition_leaves_out(
    condition: str, lanes: int, block: tuple[int, int, int] | None
) -> None:
    """Each lane has a sector, and a word in the one bank, of its own."""
    text = LANES.replace("CONDITION", condition)
    [kernel] = pipeline.analyze(text, block=block).kernels
    load, store = kernel.accesses or ()
    if block is not None or "63" not in condition:  # of longer rows whole warps are behind lane 63
        assert (load.sectors, store.bank_conflicts) == (lanes, lanes)
    else:
        assert (load.sectors, store.bank_conflicts) == (32, 32)
    assert load.lane_stride == 128  # as if all took part


def test_left_out_lanes_as_a_run_counts_them() -> None:
    from ptxsw.simt import launch

    text = LANES.replace("CONDITION", "setp.gt.s32 %p1, %r4, 3;")
    counters = launch(parsed(text), "k", (2, 1, 1), (64, 1, 1), [zeros(32 * 64)]).counters
    assert counters is not None
    assert (counters.warp_loads, counters.load_sectors) == (1, 4)
