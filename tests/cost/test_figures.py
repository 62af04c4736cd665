"""One account of a kernel: `check`, `analyze`, `predict` and `optimize` give the same figures.

No loop is weighed in them. Those of accesses are of the PTX in every command; those of instructions
name their source, and are equal where it is the same.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptxsw.changes.options import Options
from ptxsw.cost.counted import cannot_count
from ptxsw.cost.executions import fallback_blocks
from ptxsw.driver.checking import check
from ptxsw.driver.pipeline import analyze, optimize
from ptxsw.driver.prediction import predict
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.report.model import Figures
from ptxsw.report.prediction_text import prediction_text
from tests.command_line import ROOT

needs_ptxas = pytest.mark.skipif(bool(cannot_count("sm_80")), reason="no ptxas")
KERNELGEN = ROOT / "benchmarks" / "kernelgen" / "ptx"
TEXTS = [
    *(KERNELGEN / f"{name}.ptx" for name in ("jacobi", "matmul", "gaussblur", "sincos")),
    *(ROOT / "tests" / "report" / "ptx" / f"{name}.ptx" for name in ("banks", "tiles", "rows")),
    *(ROOT / "tests" / "fixtures" / f"nvcc_{name}_sm_80.ptx" for name in ("stencil", "warp")),
]
CORPUS = ROOT.parent / "shared" / "corpus" / "ptx"


def memory(figures: Figures | None) -> tuple[object, ...]:
    assert figures is not None
    return figures.wavefronts, figures.sectors, figures.unknown


def corpus() -> list[Path]:
    files = sorted(CORPUS.rglob("*.ptx")) if CORPUS.is_dir() else []
    return [path for path in files if path.stat().st_size < 30_000][::40]


def whole(figures: Figures | None) -> tuple[object, ...]:
    """All that has the same source."""
    assert figures is not None
    pipes = {pipe: count for pipe, count in figures.pipes.items() if count != (0.0, 0.0)}
    return (
        *memory(figures), figures.source, figures.instructions, pipes, figures.registers,
        figures.shared,
    )  # fmt: skip


def _same(text: str, block: tuple[int, int, int] | None) -> None:
    analysed = {k.name: k for k in analyze(text, block=block).kernels if k.accesses is not None}
    chosen = optimize(text, Options(mode="auto", block=block)).report.kernels
    weighed = {k.name: k.decision for k in chosen}
    checked = {k.name: k for k in check(text, block=block, ptxas=False).kernels}
    for kernel in predict(text, block=block, rewrites=False).kernels:
        assert kernel.figures is not None
        own = analysed[kernel.name]
        assert memory(kernel.figures) == memory(own.figures), kernel.name
        assert checked[kernel.name].figures == own.figures, kernel.name
        accesses = [a for a in own.accesses or () if a.space in ("global", "generic", "local")]
        if all(a.sectors is not None for a in accesses if a.bytes):
            assert own.figures is not None
            assert own.figures.sectors == (sum(a.sectors or 0 for a in accesses),) * 2
        decision = weighed.get(kernel.name)
        if decision is not None and decision.before is not None:
            assert whole(decision.before.figures) == whole(kernel.figures), kernel.name


@needs_ptxas
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_four_commands_give_the_same_figures(path: Path) -> None:
    _same(path.read_text(), None)


@needs_ptxas
@pytest.mark.parametrize("block", [(64, 1, 1), (16, 16, 1)])
def test_in_a_given_block(block: tuple[int, int, int]) -> None:
    _same((ROOT / "tests" / "report" / "ptx" / "tiles.ptx").read_text(), block)


@pytest.mark.slow
@needs_ptxas
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.stem)
def test_real_texts(path: Path) -> None:
    _same(path.read_text(), None)


# ---------------------------------------------------------------- two texts

LOAD = re.compile(r"ld\.global(?:\.nc)?\.(f32|f64|u32|s32|b32)\s+(%\w+),\s*\[[^\]]*\];")
ONE = {"f32": "0f3F800000", "f64": "0d3FF0000000000000"}


@needs_ptxas
@pytest.mark.parametrize("path", [TEXTS[0], TEXTS[5]], ids=lambda path: path.stem)
def test_identical_texts_take_exactly_as_long(path: Path) -> None:
    text = path.read_text()
    prediction = predict(text, against=text, rewrites=False)
    for kernel in prediction.kernels:
        assert kernel.pairs == tuple((n, n) for n in range(len(kernel.stretches)))
        assert kernel.stretches == kernel.against
    assert prediction_text(prediction).count("1.00 times as long") == sum(
        len(kernel.pairs) for kernel in prediction.kernels
    )


@needs_ptxas
def test_loops_are_paired_by_their_place_and_fallbacks_left_out() -> None:
    """The other text holds the loop twice, once as it was for where a test fails."""
    text = (KERNELGEN / "jacobi.ptx").read_text()
    other = optimize(text, Options(mode="force", rewrites=("strength-reduction",))).text
    [both] = parse(other).kernels
    assert fallback_blocks(build(both.body)) & build(both.body).loops.keys()
    [kernel] = predict(text, against=other, rewrites=False).kernels
    assert [
        (one.label, two.label) for one, two in zip(kernel.stretches, kernel.against, strict=True)
    ] == [("$L__BB0_4", "$L__BB0_4")]
    assert kernel.pairs == ((0, 0),)


@needs_ptxas
def test_without_loops_a_fallback_is_left_out() -> None:
    """It took twice the bytes at most: those of the rewritten code, and of the kernel as it was."""
    text = (ROOT / "benchmarks" / "programs" / "ptx" / "points15-unsigned.ptx").read_text()
    other = optimize(text, Options(mode="force", rewrites=("strength-reduction",))).text
    [both] = parse(other).kernels
    assert fallback_blocks(build(both.body))
    [kernel] = predict(text, against=other, rewrites=False).kernels
    [before], [after] = kernel.stretches, kernel.against
    of = [{load.name: load.time for load in s.resources} for s in (before, after)]
    assert of[0]["dram"] == of[1]["dram"] and of[0]["l1"] == of[1]["l1"]
    assert before.time.high is not None and after.time.high is not None
    assert after.time.high < 1.05 * before.time.high


UNKNOWN = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<7>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    INDEX
    add.s64 %rd6, %rd1, %rd5;
    mov.u32 %r3, 0;
LOOP:
    ld.global.f32 %f1, [%rd6];
    st.global.f32 [%rd4], %f1;
    add.s64 %rd6, %rd6, 4096;
    add.s32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 100;
    @%p1 bra LOOP;
    ret;
}
"""


@needs_ptxas
def test_no_text_gains_by_being_easier_to_understand() -> None:
    """Where the index is loaded, nobody knows what a warp touches; then it is not known where the
    index is a number, either."""
    loaded = UNKNOWN.replace("INDEX", "ld.global.u32 %r2, [%rd4]; mul.wide.u32 %rd5, %r2, 4;")
    known = UNKNOWN.replace("INDEX", "mul.wide.u32 %rd5, %r1, 4;")
    for one, other in ((loaded, known), (known, loaded)):
        [kernel] = predict(one, against=other, rewrites=False).kernels
        assert len(kernel.stretches[0].unknown) == len(kernel.against[0].unknown) == 1
    [alone] = predict(known, rewrites=False).kernels
    assert not alone.stretches[0].unknown


def with_a_constant(text: str, number: int) -> str:
    loads = list(LOAD.finditer(text))
    load = loads[number % len(loads)]
    one = f"mov.{load[1]} {load[2]}, {ONE.get(load[1], '1')};"
    return text[: load.start()] + one + text[load.end() :]


@needs_ptxas
@pytest.mark.parametrize(
    "path",
    [TEXTS[0], pytest.param(TEXTS[1], marks=pytest.mark.slow), TEXTS[2], TEXTS[6]],
    ids=lambda path: path.stem,
)
def test_a_load_less_takes_no_longer(path: Path) -> None:
    text = path.read_text()
    for kernel in predict(text, against=with_a_constant(text, 4), rewrites=False).kernels:
        for one, other in kernel.pairs:
            before, after = kernel.stretches[one].time, kernel.against[other].time
            assert after.limit <= 1.01 * before.limit
