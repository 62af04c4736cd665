"""The fifteen minutes on a GPU, from what is prepared to the report, on an interpreter: nothing in
it is to be run for the first time when there is a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.gpu.prepared import Prepared

ROOT = Path(__file__).parents[2]
FILES = {
    "correct.csv", "faster.csv", "interpreter.csv", "journal.jsonl", "predicted.csv", "races.csv",
    "speedups.svg", "summary.md",
}  # fmt: skip
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few kernels with launches that are small enough for the interpreter."""
    folder = tmp_path_factory.mktemp("experiment") / "prepared"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--prepare", str(folder), "transpose-float",
         "particles12", "--programs", "3", "--faults", "4", "--share", "0.0003", "--jobs", "1"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 kernels with 1"), done.stdout
    return folder


def run(
    prepared: Path, out: Path, driver: str = "interpreter", *words: str, path: str = ""
) -> subprocess.CompletedProcess[str]:
    """The experiment as it is run where there is no checkout."""
    environ = os.environ | {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    environ["PYTHONPATH"] = str(ROOT) if driver.startswith("tests.") else ""
    words = ("--samples", "2", "--jobs", "2", *words)
    return subprocess.run(
        [sys.executable, str(prepared), "--driver", driver, "--out", str(out), *words],
        cwd=out.parent, env=environ, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def broken(name: str) -> str:
    return f"tests.gpu.broken_devices:{name}"


def summary(out: Path) -> str:
    return (out / "summary.md").read_text()


def lines(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()[1:]]


@pytest.fixture(scope="session")
def finished(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run to its end, with a `compute-sanitizer` that calls a fault what ends the
    program with an error."""
    folder = tmp_path_factory.mktemp("finished")
    program = folder / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "========= COMPUTE-SANITIZER"\nshift 4\n"$@" && exit 0\n'
        'echo "========= Error: it failed"\nexit 86\n'
    )
    program.chmod(0o755)
    done = run(prepared, folder / "out", path=str(program.parent))
    assert done.returncode == 0, (done.stdout, done.stderr)
    return folder / "out"


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


# ---------------------------------------------------------------- all of it


@pytest.mark.slow
def test_the_whole_experiment(prepared: Path, finished: Path) -> None:
    """From the first file to the last. The others below take it apart."""
    assert {path.name for path in finished.iterdir()} == FILES
    told = summary(finished)
    assert told.startswith("# interpreter, in place of an H100\n")
    assert "**All times are invented: the device is an interpreter." in told
    assert "0 of them wrong" in told
    assert "auto: 1 kernels were changed" in told
    assert "| transpose-float | bank conflicts | force |" in told
    assert "times: " in told and "rank correlation" in told  # against forecasts for an H100
    assert "the tools about" in told and "was not run" not in told
    assert "INVENTED" in (finished / "speedups.svg").read_text()
    for name in FILES - {"summary.md", "journal.jsonl", "speedups.svg"}:
        first, *others = (finished / name).read_text().splitlines()
        assert first.startswith("# **All times are invented")
        assert len(others) > 5, name
    what_is_told_beforehand(prepared)
    the_run_needs_little(prepared)


def what_is_told_beforehand(prepared: Path) -> None:
    kernel = Prepared(prepared).manifest.by_name["transpose-float"]
    original, auto, force = kernel.versions
    assert auto.rewrites == ("bank-conflicts",)
    assert set(force.rewrites) > set(auto.rewrites)
    assert original.wavefronts is not None and auto.wavefronts is not None
    assert auto.wavefronts < original.wavefronts / 4
    assert kernel.timed is not None
    for gpu in ("h100", "h200"):
        told = kernel.timed.forecasts[gpu]
        assert told["auto"].low <= told["auto"].expected <= told["auto"].high
    hostile = {trial.change.split()[0] for trial in kernel.trials}
    assert hostile >= {"usual", "shifted", "overlap", "block"}
    assert any(why.startswith("sizes 0 0: ") and "a race" in why for why in kernel.left_out)


def the_run_needs_little(prepared: Path) -> None:
    """No Z3, which is larger than all the rest; Lark only where an interpreter is the device."""
    words = "import benchmarks.gpu.__main__, benchmarks.gpu.child, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", words], cwd=prepared, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"z3", "lark", "typer", "rich", "tests"}


@pytest.mark.slow
def test_it_goes_on_where_it_was_ended(prepared: Path, copied: Path) -> None:
    """Ended in the middle of a line; what was done is not done again."""
    journal = copied / "journal.jsonl"
    whole = journal.read_text().splitlines(keepends=True)
    kept = [line.replace('"code": "machine code"', '"code": "kept"') for line in whole[:9]]
    journal.write_text("".join(kept) + whole[9][:40])
    again = run(prepared, copied)
    assert again.returncode == 3  # no compute-sanitizer
    done = journal.read_text().splitlines(keepends=True)
    assert done[:9] == kept

    def items(lines: list[str]) -> set[str]:
        found = map(json.loads, lines[1:])
        return {line["item"] for line in found if line["part"] != "races"}

    assert items(done) == items(whole)
    assert len(done) == len(set(done))
    assert "part races was not run: compute-sanitizer is not installed" in summary(copied)


@pytest.mark.slow
def test_results_are_told_where_there_is_no_gpu(prepared: Path, copied: Path) -> None:
    """As those of a machine that was taken away before its time."""
    before = summary(copied)
    for name in FILES - {"journal.jsonl"}:
        (copied / name).unlink()
    assert run(prepared, copied, broken("missing"), "--report", str(copied)).returncode == 0
    assert summary(copied) == before
    (copied / "journal.jsonl").unlink()
    done = run(prepared, copied, broken("missing"), "--report", str(copied))
    assert done.returncode == 2
    assert "holds no results of what" in done.stderr


@pytest.mark.slow
def test_minutes_that_are_over(prepared: Path, copied: Path) -> None:
    before = lines(copied)
    journal = copied / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:5]))
    done = run(prepared, copied, "interpreter", "--minutes", "0.01")
    assert done.returncode == 3
    assert lines(copied) == before[:4]
    total = sum(line["part"] == "correct" for line in before)
    assert f"part correct: {total - 4} of {total} items were not run" in done.stdout
    assert "part interpreter: 3 of 3 items were not run" in summary(copied)


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.slow
def test_a_kernel_that_ends_its_process(prepared: Path, tmp_path: Path) -> None:
    """Each is one failed item; everything else has a result."""
    out = tmp_path / "out"
    done = run(prepared, out, broken("crashing"))
    assert done.returncode == 1
    failed = [line for line in lines(out) if line.get("failed")]
    assert failed and {line["failed"] for line in failed} == {"the process was ended by SIGSEGV"}
    assert {line["job"] for line in failed} == {"transpose-float"}
    good = [line for line in lines(out) if not line.get("failed")]
    assert any(line["item"] == "particles12" for line in good)
    assert any(line["item"].startswith("transpose-float|original") for line in good)
    bad_news = summary(out).partition("## Bad news first\n\n")[2]
    assert bad_news.startswith("- wrong: transpose-float, auto, ")
    assert "not timed: transpose-float: the process was ended by SIGSEGV" in bad_news


@pytest.mark.slow
def test_a_kernel_that_fails(prepared: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(prepared, out, broken("failing")).returncode == 1
    failed = {line["failed"] for line in lines(out) if line.get("failed")}
    assert all("CUDA_ERROR_ILLEGAL_ADDRESS" in why for why in failed) and failed


@pytest.mark.slow
def test_a_kernel_that_hangs(prepared: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(prepared, out, broken("hanging"), "--limit", "3", "--minutes", "0.6")
    assert done.returncode == 1
    assert "ran longer than 3 s" in summary(out)


@pytest.mark.slow
def test_wrong_results(prepared: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(prepared, out, broken("spoiling")).returncode == 1
    news = summary(out).partition("## Bad news first\n\n")[2]
    assert news.startswith("- wrong: transpose-float, auto, usual 0: not as the original's")
    assert "wrong on the large launch: transpose-float, auto: buffer 0: " in news


@pytest.mark.slow
def test_no_gpu(prepared: Path, tmp_path: Path) -> None:
    done = run(prepared, tmp_path / "out", broken("missing"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "No GPU can be used: there is none in this test.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_results_of_another_device(prepared: Path, copied: Path) -> None:
    journal = copied / "journal.jsonl"
    journal.write_text(journal.read_text().replace("in place of an H100", "in place of an H200"))
    done = run(prepared, copied)
    assert done.returncode == 2
    assert "holds results of interpreter, in place of an H200" in done.stderr
    assert done.stderr.rstrip().endswith("name another folder with --out")


def test_nothing_was_prepared(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--prepared", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith("was not prepared: python -m benchmarks.gpu --prepare\n")
