"""`ptxsw tune` up to the driver call: choices stored, slowdowns kept as they are, no GPU."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ptxsw.build.doctor import Diagnosis, examine
from ptxsw.driver import pipeline
from ptxsw.emulator.emulation import Emulation
from ptxsw.emulator.run import emulate
from ptxsw.gpu import results
from ptxsw.gpu import tune as tuning
from ptxsw.gpu.invent import NoLaunch, invent
from ptxsw.gpu.measure import ORIGINAL, Effort
from ptxsw.parser import parse
from ptxsw.ptx.failures import KernelFailed
from ptxsw.toolchain.ptxas import NoPtxas, locate
from ptxsw.toolchain.tuned import KEEP, Timing, Tuned, everything, find, store
from ptxsw.verify.launches import from_json
from tests.gpu.fake import DEVICE, FakeDriver

PTX = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
TEXT = (PTX / "jacobi.ptx").read_text()
LAUNCHES = from_json(
    '[{"grid": [4, 1, 2], "block": [64, 1, 1],'
    ' "args": [131, 6, 0.3, 0.25, 0.5, "random:2000:f32:1", "zeros:2000:f32"]}]'
)
QUICK = tuning.TuneRequest(launches=LAUNCHES, effort=Effort(1, 3))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "tuned.json")
    monkeypatch.setenv("PTXSW_TUNED", path)
    return path


def kernel(text: str) -> str:
    function = parse(text).functions[0]
    return text[function.span.start : function.span.end]


def run(driver: FakeDriver, said: list[str], **more: object) -> bool:
    arguments = {"keep": True, "csv": None, "plot": None, "say": said.append, **more}
    return tuning.run(TEXT, "jacobi.ptx", driver, QUICK, **arguments)  # type: ignore[arg-type]


def test_a_gain_is_stored(file: str, said: list[str]) -> None:
    driver = FakeDriver(cost=lambda text: 2e-4 / (1 + ("shfl" in text)))
    assert run(driver, said)
    found = find(kernel(TEXT), "sm_80")
    assert found is not None
    assert (found.scheme, found.form) in set(tuning.combinations())
    assert (found.speedup, found.device, found.kernel) == (2.0, "Imaginary 1", "jacobi")
    assert found.timings[0].scheme == ORIGINAL
    assert any("times as fast" in line for line in said)
    assert said[-1] == f"stored in {file}"
    assert said[0].startswith("Imaginary 1 (sm_80), driver 580.1, 1410 MHz")


def test_what_was_measured_is_what_is_done(file: str, said: list[str]) -> None:
    """`optimize` in mode auto then writes the very text that was timed."""
    options = pipeline.Options(arch="sm_80")
    assert pipeline.optimize(TEXT, options).text == TEXT
    run(FakeDriver(cost=lambda text: 2e-4 / (1 + ("shfl" in text))), said)
    found = find(kernel(TEXT), "sm_80")
    assert found is not None
    timed = {(v.scheme, v.form): v.text for v in tuning.variants(TEXT, options)}
    assert pipeline.optimize(TEXT, options).text == timed[found.scheme, found.form]
    assert pipeline.optimize(TEXT, pipeline.Options(arch="sm_90")).text == TEXT
    lined = TEXT.replace("\tret;", "\t.loc 1 9 3\n\tret;")
    assert "shfl" in pipeline.optimize(lined, options).text


def test_the_stand_in_does_it(file: str, said: list[str], tmp_path: Path) -> None:
    try:
        ptxas = locate()
    except NoPtxas:
        pytest.skip("no ptxas")
    (tmp_path / "jacobi.ptx").write_text(TEXT)
    log = tmp_path / "log"

    def assemble() -> bytes:
        environ = os.environ | {"PTXSW_REAL_PTXAS": ptxas, "PTXSW_LOG": str(log),
                                "PTXSW_CACHE": str(tmp_path / "cache")}  # fmt: skip
        program = str(Path(sys.executable).parent / "ptxsw-ptxas")
        command = [program, "-arch=sm_80", "jacobi.ptx"]
        subprocess.run([*command, "-o", "out"], cwd=tmp_path, env=environ, check=True, timeout=60)
        return (tmp_path / "out").read_bytes()

    before = assemble()
    assert not log.exists()
    run(FakeDriver(cost=lambda text: 2e-4 / (1 + ("shfl" in text))), said)
    assert assemble() != before  # what was cached for it is outdated
    assert "rewritten" in log.read_text()
    run(FakeDriver(cost=lambda text: 2e-4 * (1 + ("shfl" in text))), said)
    assert assemble() == before


def test_a_slowdown_is_stored_as_keep(file: str, said: list[str]) -> None:
    """And said as plainly as a gain."""
    driver = FakeDriver(cost=lambda text: 2e-4 if "%sw_" in text else 1e-4)
    assert run(driver, said)
    found = find(kernel(TEXT), "sm_80", file=file)
    assert found is not None
    assert (found.scheme, found.form, found.speedup) == (KEEP, KEEP, 1.0)
    assert any("kept as it is: the best, " in s and "2.000 times as long" in s for s in said)


def test_a_loop_can_gain_without_shuffles(file: str, said: list[str]) -> None:
    def cost(text: str) -> float:
        return 1e-4 if "vote.sync" in text and "shfl" not in text else 2e-4

    assert run(FakeDriver(cost=cost), said)
    found = find(kernel(TEXT), "sm_80")
    assert found is not None
    assert (found.scheme, found.form, found.speedup) == (KEEP, "uniform", 2.0)
    assert "jacobi: keep uniform: 2.000 times as fast" in said
    rewritten = pipeline.optimize(TEXT, pipeline.Options(arch="sm_80")).text
    assert cost(rewritten) == 1e-4


CHUNKS = (PTX.parents[1] / "programs" / "ptx" / "chunks.ptx").read_text()
OF_CHUNKS = tuning.TuneRequest(
    launches=from_json(
        '[{"grid": [2, 1, 1], "block": [128, 1, 1],'
        ' "args": [2008, "random:2008:f32:1", "zeros:2008:f32"]}]'
    ),
    effort=Effort(1, 3),
)


def tuned_chunks(cost: Callable[[str], float]) -> tuple[str, ...]:
    """Tunes the sums of eight floats a thread; what was measured."""
    (outcome,) = tuning.tune(CHUNKS, "chunks.ptx", FakeDriver(cost=cost), OF_CHUNKS)
    assert tuning.save(CHUNKS, "sm_80", outcome)
    return tuple(row.name for row in outcome.rows)


def test_other_rewrites_are_measured_and_chosen(file: str) -> None:
    """By their own names, without a form; `optimize` then makes the text that was timed."""
    names = tuned_chunks(lambda text: 1e-4 if ".v4." in text else 2e-4)
    assert names[0] == ORIGINAL and "vectorize" in names
    found = find(kernel(CHUNKS), "sm_80")
    assert found is not None and found.rewrites == ("vectorize",)
    options = pipeline.Options(arch="sm_80")
    timed = {v.name: v.text for v in tuning.variants(CHUNKS, options)}
    result = pipeline.optimize(CHUNKS, options)
    assert result.text == timed["vectorize"]
    (made,) = result.report.kernels
    assert made.decision is not None and (made.decision.kept, made.decision.by) == (True, "tuned")
    assert made.decision.reason.endswith("2.000 times as fast with vectorize")


def test_a_measurement_wins_over_what_ptxas_makes_of_it(file: str) -> None:
    """By counts the vectors pay; where they were measured to be slower they are not made."""
    tuned_chunks(lambda text: 2e-4 if ".v4." in text else 1e-4)
    result = pipeline.optimize(CHUNKS, pipeline.Options(arch="sm_80"))
    assert result.text == CHUNKS
    (made,) = result.report.kernels
    assert made.decision is not None and not made.decision.kept
    assert made.decision.reason.endswith("nothing beats the original")


def test_all_that_change_a_kernel_are_measured_together(file: str) -> None:
    text = (PTX.parents[1] / "programs" / "ptx" / "matmul-float.ptx").read_text()
    names = [variant.name for variant in tuning.variants(text, pipeline.Options())]
    assert {"read-only-loads", "bank-conflicts", "read-only-loads+bank-conflicts"} <= set(names)


def test_what_auto_would_make_is_measured(file: str) -> None:
    """So that a measurement can say no to it."""
    text = (PTX.parents[1] / "programs" / "ptx" / "matmul-float.ptx").read_text()
    options = pipeline.Options(arch="sm_80")
    made = pipeline.optimize(text, options)
    assert {one.rewrite for one in made.report.kernels[0].rewrites or ()} == {"bank-conflicts"}
    assert made.text in {variant.text for variant in tuning.variants(text, options)}


def test_each_candidate_of_registers_is_measured(file: str) -> None:
    """The predictor's choice and the others; what was chosen is what is made."""
    try:
        locate()
    except NoPtxas:
        pytest.skip("no ptxas")
    text = (PTX / "tricubic.ptx").read_text().replace(")\n{", ")\n.reqntid 256, 1, 1\n{", 1)
    options = pipeline.Options(arch="sm_80")
    timed = {variant.name: variant.text for variant in tuning.variants(text, options)}
    assert {"registers", "registers=32", "registers=48", "registers=shared"} <= set(timed)
    assert ".maxnreg 32\n" in timed["registers"] and "enable_smem_spilling" in timed["registers"]
    assert ".maxnreg 48\n" in timed["registers=48"]
    timing = Timing("registers=48", "", (256, 1, 1), 1e-4, 0.01)
    store(
        kernel(text), "sm_80",
        Tuned("registers=48", "", 1.2, "Imaginary 1", "2026-11-23", timings=(timing,)),
    )  # fmt: skip
    result = pipeline.optimize(text, options)
    assert result.text == timed["registers=48"]
    gone = replace(options, mode="force", rewrites=("registers",), register_limit="47")
    left = pipeline.optimize(text, gone)
    assert left.text == text
    (refusal,) = left.report.kernels[0].refusals or ()
    assert refusal.reason == "47 is no longer one of its candidates"


def test_a_wrong_variant_is_an_answer(file: str, said: list[str]) -> None:
    def spoil(text: str, memory: dict[int, object]) -> None:
        if "shfl" in text:
            list(memory.values())[3][700] ^= 128  # type: ignore[index]

    assert not run(FakeDriver(cost=lambda _: 1e-4, change=spoil), said)  # type: ignore[arg-type]
    assert any("bytes differ" in line for line in said)
    found = find(kernel(TEXT), "sm_80")
    assert found is not None and found.scheme == KEEP
    assert not any(timing.equal for timing in found.timings if timing.scheme == "paper")


def test_nothing_is_stored_unasked(file: str, said: list[str], tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    assert run(FakeDriver(), said, keep=False, csv=out)
    assert not everything(file)
    lines = out.read_text().splitlines()
    assert "# device: Imaginary 1 (sm_80), driver 580.1, 1410 MHz (memory 1593 MHz)" in lines
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert rows[0]["scheme"] == ORIGINAL and {"keep", "paper"} < {row["scheme"] for row in rows}
    assert {row["equal"] for row in rows} == {"yes"}
    assert rows[0]["microseconds"] == "100.00"


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="no matplotlib")
@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_chart(file: str, said: list[str], tmp_path: Path, suffix: str, magic: bytes) -> None:
    out = tmp_path / f"t.{suffix}"
    run(FakeDriver(cost=lambda text: 1e-4 * len(text)), said, plot=out)
    assert out.read_bytes().startswith(magic)
    if suffix == "svg":
        drawn = out.read_text()
        assert "Imaginary 1 (sm_80), driver 580.1" in drawn
        assert "geo. mean" in drawn


def test_a_plot_needs_matplotlib(
    file: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is said before anything is measured."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    driver = FakeDriver()
    with pytest.raises(ModuleNotFoundError, match="matplotlib"):
        run(driver, said, plot=tmp_path / "p.png")
    assert not driver.loaded and not said


def test_speedups_are_of_the_best_blocks() -> None:
    from tests.gpu.test_measure import row

    rows = [row(ORIGINAL, 1.0), row(ORIGINAL, 2.0), row("a", 3.0), row("a", 1.0), row("b", 9.0),
            row("b", None, wrong="differs")]  # fmt: skip
    assert results.speedups(rows) == {"a keep": {"k": pytest.approx(1.5)}}


def test_launches_that_do_not_fit_are_named(file: str, said: list[str]) -> None:
    two = (*LAUNCHES, replace(LAUNCHES[0], block=(96, 1, 1)))
    request = replace(QUICK, launches=two)
    driver = FakeDriver(threads=lambda text: 64)
    tuning.run(
        TEXT, "jacobi.ptx", driver, request, keep=False, csv=None, plot=None, say=said.append
    )
    assert (
        "jacobi: not measured: blocks of 96x1x1: it needs too many registers for 96 threads a block"
    ) in said
    (outcome,) = tuning.tune(TEXT, "t", FakeDriver(threads=lambda text: 1), request)
    assert outcome.choice is None and outcome.problem is not None
    assert outcome.problem.count("too many registers") == 2


def test_every_scheme_and_form_is_tried() -> None:
    pairs = list(tuning.combinations())
    assert {scheme for scheme, _ in pairs} == set(pipeline.SCHEMES) - {"auto"}
    assert {form for _, form in pairs} == set(pipeline.FORMS) - {"auto"}
    made = tuning.variants(TEXT, pipeline.Options())
    assert made[0].text == TEXT
    assert len({variant.text for variant in made}) == len(made) > 1


def test_requests_that_make_no_sense(said: list[str]) -> None:
    two = TEXT + kernel(TEXT).replace("jacobi", "other").replace("$L__BB0", "$L__BB1")
    for text, request, message in (
        (
            TEXT,
            tuning.TuneRequest(kernel="jacobbi"),
            "no kernel 'jacobbi' with a body; available: jacobi",
        ),
        (TEXT, tuning.TuneRequest(arch="sm_90"), r"code for sm_90 does not run on .*\(sm_80\)"),
        (two, QUICK, "has 2 kernels"),
    ):
        with pytest.raises(ValueError, match=message):
            list(tuning.tune(text, "t.ptx", FakeDriver(), request))


def test_a_kernel_nothing_can_be_done_for(said: list[str]) -> None:
    text = (PTX / "vecadd.ptx").read_text().replace(".target sm_80", ".target sm_60")
    (outcome,) = tuning.tune(text, "t.ptx", FakeDriver(), tuning.TuneRequest())
    assert outcome.problem == "no scheme or rewrite changes it"
    assert tuning.save(text, "sm_80", outcome) is None


def test_code_runs_upwards_within_a_major_version() -> None:
    assert tuning.runs_on("sm_80", "sm_86") and tuning.runs_on("sm_90a", "sm_90")
    assert not tuning.runs_on("sm_86", "sm_80") and not tuning.runs_on("sm_75", "sm_80")
    assert tuning.runs_on("sm_100", "sm_103") and not tuning.runs_on("sm_90", "sm_100")


# ---------------------------------------------------------------- invented launches


@pytest.mark.parametrize(
    ("path", "grid"),
    [
        ("kernelgen/ptx/jacobi.ptx", (1024, 1, 8)),  # lanes along z, rows along x
        ("kernelgen/ptx/laplacian.ptx", (64, 128, 1)),
        ("programs/ptx/conv1d.ptx", (8192, 1, 1)),
        ("programs/ptx/image.ptx", (8, 1024, 1)),
    ],
)
def test_invented(path: str, grid: tuple[int, int, int]) -> None:
    module = parse((PTX.parents[1] / path).read_text())
    (launch,) = invent(emulate(module, module.functions[0]), DEVICE, [(128, 1, 1)])
    assert (launch.grid, launch.block) == (grid, (128, 1, 1))


def test_one_launch_for_each_block() -> None:
    module = parse(TEXT)
    launches = invent(emulate(module, module.functions[0]), DEVICE, [(64, 1, 1), (256, 1, 1)])
    assert [launch.block for launch in launches] == [(64, 1, 1), (256, 1, 1)]
    fixed = parse(TEXT.replace("\n)\n{", "\n)\n.reqntid 96, 1, 1\n{", 1))
    (launch,) = invent(emulate(fixed, fixed.functions[0]), DEVICE)
    assert launch.block == (96, 1, 1)


def test_no_launch_is_found() -> None:
    """A pointer read from memory leads nowhere in an invented launch."""
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %a<4>; .reg .b32 %r<2>;
    ld.param.u64 %a0, [p];
    ld.global.u64 %a1, [%a0];
    ld.global.u32 %r0, [%a1+0x7000000000];
    st.global.u32 [%a1], %r0;
    ret;
}
"""
    module = parse(text)
    with pytest.raises(NoLaunch, match="--launch"):
        invent(emulate(module, module.functions[0]), DEVICE, [(32, 1, 1)])


# ---------------------------------------------------------------- without a GPU


def tune(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The installed command, on a machine that shows it no GPU."""
    program = Path(sys.executable).parent / "ptxsw"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PTXSW_")}
    return subprocess.run(
        [str(program), "tune", *arguments], env=kept | {"CUDA_VISIBLE_DEVICES": ""} | environ,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_no_gpu_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = tune(str(PTX / "jacobi.ptx"), PTXSW_TUNED=str(tmp_path / "t.json"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("No GPU can be used: ")
    assert done.stderr.count("\n") == 1 and done.stderr.endswith(".\n")
    assert not (tmp_path / "t.json").exists()


def test_the_device_is_always_closed(
    file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command with an imaginary device: its exit codes, and what it says."""
    from typer.testing import CliRunner

    from ptxsw.cli import CommandError
    from ptxsw.cli.commands import app

    spec, source = tmp_path / "spec.json", tmp_path / "jacobi.ptx"
    spec.write_text(str(LAUNCHES[0]))
    source.write_text(TEXT)
    command = ["tune", str(source), "--launch", str(spec), "--samples", "3"]

    def spoil(text: str, memory: dict[int, object]) -> None:
        if "shfl" in text:
            list(memory.values())[3][700] ^= 128  # type: ignore[index]

    for driver, status in ((FakeDriver(), 0), (FakeDriver(change=spoil), 1)):  # type: ignore[arg-type]
        monkeypatch.setattr("ptxsw.gpu.cuda.open_device", lambda number, driver=driver: driver)
        done = CliRunner().invoke(app, command)
        assert done.exit_code == status, done.output
        assert f"stored in {file}" in done.output
        assert driver.closed
    driver = FakeDriver()
    monkeypatch.setattr("ptxsw.gpu.cuda.open_device", lambda number: driver)
    done = CliRunner().invoke(app, [*command, "--kernel", "other"])
    assert isinstance(done.exception, CommandError)
    assert "no kernel 'other'" in str(done.exception)
    assert driver.closed


def test_help_teaches() -> None:
    done = tune("--help")
    assert done.returncode == 0
    for word in ("bit for bit", "--launch", "PTXSW_TUNED", "Exit 0", "ptxsw tune jacobi.ptx"):
        assert word in done.stdout


def test_cache_info_counts_results(file: str, said: list[str]) -> None:
    run(FakeDriver(), said)
    program = Path(sys.executable).parent / "ptxsw"
    done = subprocess.run(
        [str(program), "cache", "info"], env=os.environ | {"PTXSW_CACHE": str(Path(file).parent)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert f"{file}: 1 results of ptxsw tune" in done.stdout
    found = [f for f in examine({"PTXSW_TUNED": file}) if f.subject == "tuned"]
    assert found == [Diagnosis("tuned", f"{file}: 1 results of ptxsw tune")]
    Path(file).write_text("{")
    (broken,) = (f for f in examine({"PTXSW_TUNED": file}) if f.subject == "tuned")
    assert not broken.good and file in broken.value


def test_a_fault_of_ptxsw_is_told_when_all_else_is_done(
    file: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("%r9")

    monkeypatch.setattr(Emulation, "trace", fail)
    with pytest.raises(KernelFailed, match="failed in symbolic execution"):
        run(FakeDriver(), said)
    assert said[-1].startswith("jacobi: not measured: failed in symbolic execution")
