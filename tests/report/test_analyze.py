"""What `analyze` says of kernels whose accesses an expert knows by heart.

The kernels are `tests/report/cuda/*.cu`, compiled by nvcc 13.0 for sm_80 with -lineinfo. The
whole texts are held in `golden/`; after a wanted change write them anew with --update-golden.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ptxsw.driver import pipeline
from ptxsw.report import Access, Report, from_json, schema, to_json
from ptxsw.report.tables import access_table
from ptxsw.report.text import analysis_text, only_spaces
from ptxsw.report.weights import ordered, weight

HERE = Path(__file__).parent
KERNELGEN = HERE.parents[1] / "benchmarks" / "kernelgen" / "ptx"
FILES = {path.stem: path for path in sorted((HERE / "ptx").glob("*.ptx"))}
FILES |= {name: KERNELGEN / f"{name}.ptx" for name in ("gaussblur", "jacobi")}

BLOCKS = {"tiles": (16, 16, 1), "block16": (16, 1, 1)}  # the shape that a program is written for

_KNOWN: dict[str, Report] = {}


def analysis(name: str) -> Report:
    if name not in _KNOWN:
        text, block = FILES[name].read_text(), BLOCKS.get(name)
        _KNOWN[name] = pipeline.analyze(text, f"{name}.ptx", block=block)
    return _KNOWN[name]


def accesses(name: str, kernel: str, space: str, kind: str) -> list[Access]:
    [found] = [k for k in analysis(name).kernels if k.name == kernel]
    return [a for a in found.accesses or () if (a.space, a.kind) == (space, kind)]


@pytest.mark.parametrize("name", FILES)
def test_whole_text(name: str, golden: Callable[[Path, str], None]) -> None:
    golden(HERE / "golden" / f"{name}.txt", analysis_text(analysis(name)))


@pytest.mark.parametrize("name", FILES)
def test_json(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    data = json.loads(json.dumps(to_json(analysis(name))))
    jsonschema.validate(data, schema())
    assert from_json(data) == analysis(name)


def test_naive_product() -> None:
    """The column of B is coalesced; the element of A is one for a row of threads."""
    b, a = accesses("matmul", "naive", "global", "load")
    assert (b.lane_stride, b.sectors, b.efficiency, b.source) == (4, 4, 1.0, "matmul.cu:12")
    assert (a.lane_stride, a.sectors, a.efficiency) == (0, 1, 0.125)
    assert not a.uniform and "tid.y" in (a.index or "")


def test_tiled_product() -> None:
    """Both tiles are filled by coalesced loads and read without conflicts."""
    assert [a.sectors for a in accesses("matmul", "tiled", "global", "load")] == [4, 4]
    shared = accesses("matmul", "tiled", "shared", "load")
    assert [a.bank_conflicts for a in shared] == [1, 1]
    assert sorted((a.index, a.lane_stride) for a in shared) == [
        ("left[iter(BB1_3) + 32*tid.y]", 0), ("right[32*iter(BB1_3) + tid.x]", 4),
    ]  # fmt: skip


def test_transposition() -> None:
    """Straight, the stores go down a column; through a tile only padding avoids conflicts."""
    [store] = accesses("transpose", "straight", "global", "store")
    assert (store.lane_stride, store.lane_step, store.sectors) == (None, "4*param_0", 32)
    for kernel, ways in (("conflicting", 32), ("padded", 1)):
        assert [a.sectors for a in accesses("transpose", kernel, "global", "store")] == [4]
        [read] = accesses("transpose", kernel, "shared", "load")
        assert read.bank_conflicts == ways
    [column] = accesses("transpose", "column", "global", "load")
    assert (column.lane_stride, column.sectors, column.efficiency) == (4096, 32, 0.125)


def test_reduction() -> None:
    """Four words apart: four passes. Side by side: one."""
    reads = accesses("reduce", "interleaved", "shared", "load")
    assert [(a.lane_stride, a.bank_conflicts) for a in reads] == [(16, 4), (16, 4), (0, 1)]
    assert [a.uniform for a in reads] == [False, False, True]
    reads = accesses("reduce", "sequential", "shared", "load")
    assert [(a.lane_stride, a.bank_conflicts) for a in reads] == [(4, 1), (4, 1), (0, 1)]


def test_sparse_matrix() -> None:
    """Row starts are shared by neighbours; columns and values are gathered."""
    start, end, *gathered = accesses("csr", "csr", "global", "load")
    assert (start.lane_stride, end.offset) == (4, 4)
    assert [(r.line, r.delta) for r in end.reuse] == [(start.line, 1)]
    assert end.optimizer is not None and end.optimizer.action == "shuffle"
    assert [(a.lane_stride, a.sectors, a.uniform) for a in gathered] == [(None, None, False)] * 3
    assert all(a.optimizer is not None and a.optimizer.action == "keep" for a in gathered)


def test_sparse_matrix_by_warps() -> None:
    """The warp reads its row's columns and values side by side, wherever the row starts; only the
    vector is gathered."""
    start, end, column, x, value = accesses("csr", "csr_warp", "global", "load")
    assert [(a.lane_stride, a.sectors) for a in (start, end)] == [(0, 1)] * 2
    assert [(a.lane_stride, a.sectors, a.efficiency) for a in (column, value)] == [(4, 4, 1.0)] * 2
    assert (x.lane_stride, x.sectors) == (None, None)


def test_stencil() -> None:
    """Five rows of five loads: in each, four have bytes that another lane has loaded."""
    loads = accesses("gaussblur", "gaussblur", "global", "load")
    by_row: dict[str | None, list[Access]] = {}
    for load in loads:
        by_row.setdefault(load.row, []).append(load)
    assert [len(row) for row in by_row.values()] == [5] * 5
    for row in by_row.values():
        assert not row[0].reuse and all(a.reuse for a in row[1:])
        lowest = min(a.offset or 0 for a in row)
        assert sorted((a.offset or 0) - lowest for a in row) == [0, 4, 8, 12, 16]
    # The image begins at index 2: only loads that are a whole sector away from 0 are aligned.
    assert {a.sectors for a in loads if (a.phase or 0) % 32} == {5}
    assert {a.sectors for a in loads if not (a.phase or 0) % 32} == {4}


def test_histogram() -> None:
    """Bins are chosen by the data; a column of bins for each lane keeps lanes apart."""
    [_, bins] = analysis("histogram").kernels[0].accesses or ()
    assert (bins.kind, bins.lane_stride, bins.sectors) == ("atomic", None, None)
    [atomic] = accesses("histogram", "shared_bins", "shared", "atomic")
    assert atomic.bank_conflicts is None
    [atomic] = accesses("histogram", "lane_bins", "shared", "atomic")
    assert (atomic.lane_stride, atomic.bank_conflicts) == (None, 1)


def test_layouts() -> None:
    """Every third float: a third of what is moved; 16 bytes at a time: all of it."""
    points = accesses("layout", "structures", "global", "load")
    assert [(a.lane_stride, a.sectors, a.efficiency) for a in points] == [(12, 12, 0.3333)] * 3
    assert [a.offset for a in points] == [0, 4, 8] and len({a.row for a in points}) == 1
    arrays = accesses("layout", "arrays", "global", "load")
    assert [(a.lane_stride, a.sectors) for a in arrays] == [(4, 4)] * 3
    [vector] = accesses("layout", "vectors", "global", "load")
    assert (vector.bytes, vector.elements, vector.sectors) == (16, 4, 16)
    one, backwards = accesses("layout", "shifted", "global", "load")
    assert (one.phase, one.sectors, one.efficiency) == (4, 5, 0.8)
    assert (backwards.lane_stride, backwards.sectors) == (-4, 4)


def test_banks_of_wide_and_narrow_elements() -> None:
    reads = accesses("banks", "doubles", "shared", "load")
    assert [(a.lane_stride, a.bank_conflicts) for a in reads] == [(8, 1), (16, 2), (-8, 1)]
    [read] = accesses("banks", "quads", "shared", "load")
    assert (read.bytes, read.lane_stride, read.bank_conflicts) == (16, -16, 1)
    reads = accesses("banks", "bytes", "shared", "load")
    assert [a.bank_conflicts for a in reads] == [1, 4, 1]


def test_tiles_with_a_border() -> None:
    """Rows of 18 words: the second row of a warp begins where two banks of the first are used."""
    first, left, _ = accesses("tiles", "halo_tile", "global", "load")
    assert (first.lane_stride, first.lane_step, first.sectors) == (None, "4", 6)
    assert [(r.line, r.delta) for r in left.reuse] == [(first.line, -1)]
    reads = accesses("tiles", "halo_tile", "shared", "load")
    assert [a.bank_conflicts for a in reads] == [2, 2, 2, 2]
    assert [r.delta for a in reads for r in a.reuse] == [2]
    column, row = accesses("tiles", "dynamic", "shared", "load")
    assert (column.bank_conflicts, row.bank_conflicts) == (None, 2)


def _carried(name: str, kernel: str) -> list[list[tuple[int, int, int]]]:
    """For each load, by how many loads later in the code it was made, lane and iterations."""
    loads = accesses(name, kernel, "global", "load")
    at = {a.line: number for number, a in enumerate(loads)}
    return [
        [(at[c.line] - number, c.delta, c.iterations) for c in a.carried]
        for number, a in enumerate(loads)
    ]


def test_reuse_over_iterations() -> None:
    """Rows of a column-wise sweep, neighbours in a thread's own row, a window over the lanes."""
    assert _carried("rows", "smooth") == [[(2, 0, 1)], [(-1, 0, 1)], []]
    assert _carried("rows", "thread_rows") == [[(1, 0, 1)], []]
    assert _carried("rows", "sliding") == [[(0, 1, 1)]]
    assert _carried("rows", "strided") == [[], [], []]  # 64 and 128 elements apart: no lane


def test_tiles_are_written_in_the_loop_that_reads_them() -> None:
    """The address of a tile comes again in each iteration, its contents do not."""
    assert all(not a.carried for a in accesses("matmul", "tiled", "shared", "load"))


def test_only_one_space() -> None:
    reduced = only_spaces(analysis("reduce"), frozenset({"shared"}))
    assert all(a.space == "shared" for k in reduced.kernels for a in k.accesses or ())
    assert [[row.address for row in k.rows or ()] for k in reduced.kernels] == [
        ["data[tid.x]", "data[4*tid.x]", "data[0]"],
        ["data[tid.x]", "data[loop(BB1_1, r13) + tid.x]", "data[0]"],
    ]


def test_accesses_of_a_source_line_stand_together() -> None:
    """What looks alike is one row: a loop that was unrolled by 32 has many loads of a line."""
    report = ordered(pipeline.analyze((HERE / "ptx" / "transpose.ptx").read_text()))
    kernel = next(k for k in report.kernels if k.name == "conflicting")
    assert kernel.accesses is not None
    first = kernel.accesses[0]
    unrolled = [replace(first, line=first.line + at, offset=4 * at) for at in range(5)]
    plain = [a for a in kernel.accesses if a.source != first.source]
    table = access_table([*plain, *unrolled], by_source=True)
    assert table.header[:3] == ("source", "line", "access")
    column = {name: [row[at] for row in table.rows] for at, name in enumerate(table.header)}
    assert column["source"][0] == "transpose.cu:17"
    assert column["line"][0] == "103, 104, 105 +2"
    assert column["weight"][0] == f"{5 * weight(first):.0f}"
    assert column["address"][0].endswith(" +4")
    assert len(table.rows) == 1 + len(plain)
    whole = access_table([*plain, *unrolled])
    assert len(whole.rows) == len(plain) + 5 and whole.header[0] == "line"


def test_without_line_information_each_access_has_a_row() -> None:
    report = ordered(analysis("jacobi"))
    accesses = report.kernels[0].accesses or ()
    assert access_table(accesses, by_source=True) == access_table(accesses)
