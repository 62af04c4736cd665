"""The command line: outputs, exit codes, messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsw.cost.counted import cannot_count
from ptxsw.driver import pipeline
from tests.command_line import JACOBI, KERNELS, ROOT, ptxsw


def test_version_is_answered_before_typer_is_imported() -> None:
    program = (
        "import sys; sys.argv = ['ptxsw', '--version']; from ptxsw.__main__ import main; main();"
        "print(sorted({'typer', 'click', 'z3', 'lark', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    version, modules = done.stdout.splitlines()
    assert version.startswith("ptxsw 0.") and modules == "[]"


@pytest.mark.parametrize("command", ["analyze", "optimize"])
def test_numpy_is_never_imported(command: str, tmp_path: Path) -> None:
    more = ["-o", str(tmp_path / "o"), "--mode", "force"] if command == "optimize" else []
    program = (
        f"import sys; sys.argv = {['ptxsw', command, str(JACOBI), *more]!r}\n"
        "from ptxsw.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print('numpy' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.splitlines() == ["False"] and done.stdout.startswith("jacobi: 9")


@pytest.mark.parametrize(
    "command",
    "analyze optimize assemble exec toolkit env doctor report cache".split(),  # noqa: SIM905
)
def test_help_teaches(command: str) -> None:
    done = ptxsw(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(b"Usage:")
    if command not in ("cache", "doctor"):
        assert (
            b"\n    ptxsw " in done.stdout
            or b"ptxsw env nvcc" in done.stdout
            or b"ptxsw report reports" in done.stdout
        )


def test_analyze() -> None:
    done = ptxsw("analyze", JACOBI)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and lines[0].startswith("jacobi: 9 global loads")
    assert sum("ld.global.nc.f32" in line for line in lines) == 9
    assert sum("st.global.f32" in line for line in lines) == 1
    assert ptxsw("analyze", "-", stdin=JACOBI.read_bytes()).stdout == done.stdout


def test_analyze_json() -> None:
    report = json.loads(ptxsw("analyze", JACOBI, "--format", "json").stdout)
    assert report["schema"] == 2 and report["file"] == str(JACOBI)
    [kernel] = report["kernels"]
    assert kernel["loads"] == 9 and "rewrites" not in kernel
    assert {access["lane_stride"] for access in kernel["accesses"]} == {4}


def test_analyze_markdown() -> None:
    done = ptxsw("analyze", JACOBI, "--format", "markdown", "--kernel", "jacobi")
    assert done.stdout.startswith(b"## jacobi: 9 global loads")
    assert b"\n|---:|" in done.stdout


def test_optimize(tmp_path: Path) -> None:
    out, report = tmp_path / "out.ptx", tmp_path / "r.json"
    arguments = ("--mode", "force", "--scheme", "paper", "--report", report)
    done = ptxsw("optimize", JACOBI, "-o", out, *arguments)
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout.startswith(b"jacobi: 9 global loads, 6 shuffles")
    assert out.read_text().count("shfl.sync") == 6
    [kernel] = json.loads(report.read_text())["kernels"]
    assert (kernel["loads"], kernel["shuffles"], len(kernel["rewrites"])) == (9, 6, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"out.ptx", "r.json"}


def test_optimize_writes_its_proofs(tmp_path: Path) -> None:
    """One SMT-LIB 2 text for each kind of proof, ready for any solver."""
    done = ptxsw(
        "optimize", JACOBI, "-o", tmp_path / "o", "--mode", "force",
        "--emit-smt2", tmp_path / "new" / "proofs",
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == b""
    proofs = sorted((tmp_path / "new" / "proofs").iterdir())
    assert proofs and all(path.suffix == ".smt2" for path in proofs)
    for path in proofs:
        text = path.read_text()
        assert "(assert" in text and text.rstrip().endswith("(check-sat)")


def test_help_explains_every_scheme_and_form() -> None:
    text = ptxsw("optimize", "--help").stdout.decode()
    for names in (pipeline.SCHEMES, pipeline.FORMS):
        for name in set(names) - {"auto"}:
            assert any(f" {name} " in line and len(line) > 40 for line in text.splitlines()), name
        assert "|".join(names) in text


@pytest.mark.parametrize("bound", ["noload", "nocorner"])
def test_unsafe_bounds_warn_loudly(bound: str, tmp_path: Path) -> None:
    out, report = tmp_path / "out.ptx", tmp_path / "r.json"
    arguments = ("--mode", "force", "--unsafe-bound", bound, "--report", report)
    done = ptxsw("optimize", JACOBI, "-o", out, *arguments)
    warning = f"made with --unsafe-bound {bound}: the kernels compute WRONG RESULTS"
    assert done.returncode == 0
    assert done.stderr.decode().strip().startswith(f"WARNING: {warning}")
    assert done.stdout.decode().startswith(f"WARNING: {warning}")
    assert out.read_text().startswith(f"// WARNING: {warning}")
    assert json.loads(report.read_text())["warning"].startswith(warning)


def test_optimize_says_what_decided(tmp_path: Path) -> None:
    """`--min-gain` is what a rewrite has to gain by what ptxas makes of it."""
    if cannot_count("sm_80"):
        pytest.skip("no ptxas")
    source = ROOT / "benchmarks" / "programs" / "ptx" / "chunks.ptx"
    options = ("--report", tmp_path / "r.json", "-o", tmp_path / "out.ptx")
    done = ptxsw("optimize", source, *options)
    [kernel] = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert kernel["decision"]["kept"] and kernel["decision"]["by"] == "ptxas"
    assert kernel["decision"]["reason"] in done.stdout.decode()
    done = ptxsw("optimize", source, *options, "--min-gain", "90")
    [kernel] = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert not kernel["decision"]["kept"] and not kernel["rewrites"]


@pytest.mark.parametrize(("option", "mean"), [("--hoist", 1.3333), ("--no-hoist", 2.0)])
def test_the_middle_of_a_row_is_moved_up(option: str, mean: float, tmp_path: Path) -> None:
    arguments = ("--mode", "force", "--scheme", "early", option, "--report", tmp_path / "r.json")
    ptxsw("optimize", KERNELS / "tricubic.ptx", "-o", tmp_path / "o", *arguments)
    [kernel] = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert (kernel["shuffles"], kernel["mean_delta"]) == (48, mean)


def test_optimize_through_pipes(tmp_path: Path) -> None:
    text = (KERNELS / "vecadd.ptx").read_bytes()
    done = ptxsw("optimize", "-", "-o", "-", stdin=text)
    assert done.returncode == 0 and done.stdout == text
    assert done.stderr.startswith(b"vecadd: 2 global loads, 0 shuffles")


def test_line_ends_are_kept(tmp_path: Path) -> None:
    text = (KERNELS / "vecadd.ptx").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "a.ptx").write_bytes(text)
    assert ptxsw("optimize", "a.ptx", "-o", "b.ptx", cwd=tmp_path).returncode == 0
    assert (tmp_path / "b.ptx").read_bytes() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze", "none.ptx"], "none.ptx: No such file or directory"),
        (["analyze", "."], ".: Is a directory"),
        (["analyze", "latin.ptx"], "latin.ptx: not a text file: byte 3 is not UTF-8"),
        (["analyze", "bad.ptx"], "bad.ptx:"),
        (["analyze", "ok.ptx", "--kernel", "two"], "ok.ptx: no kernel 'two' with a body"),
        (["optimize", "bad.ptx", "-o", "out"], "bad.ptx:"),
        (["optimize", "ok.ptx", "-o", "no/out"], "no/"),
        (["optimize", "ok.ptx", "-o", "out", "--scheme", "x"], "'--scheme': 'x' is not one of"),
        (["optimize", "ok.ptx", "-o", "out", "--only", "two"], "ok.ptx: no kernel 'two'"),
        (["optimize", "ok.ptx", "-o", "out", "--arch", "gfx90a"], "arch is 'gfx90a'; it must be"),
        (
            ["optimize", "ok.ptx", "-o", "out", "--mode", "force", "--min-gain", "1"],
            "min_gain is for mode auto",
        ),
        (
            ["optimize", "ok.ptx", "-o", "out", "--unsafe-bound", "noload"],
            "unsafe_bound gives wrong results: it needs mode force",
        ),
        (
            ["optimize", "ok.ptx", "-o", "out", "--mode", "force", "--unsafe-bound", "x"],
            "'--unsafe-bound': 'x' is not one of 'noload', 'nocorner'.",
        ),
        (["optimize", "ok.ptx", "-o", "out", "--assume", "luck"], "--assume: unknown assumption"),
        (["assemble", "ok.ptx"], "usage: ptxsw assemble"),
        (["report", "none"], "none: No such file or directory"),
        (["toolkit", ".", "shadow"], "not a CUDA toolkit: there is no bin/ptxas"),
        (["env", "make"], "'TOOL': 'make' is not one of 'nvcc', 'clang', "),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_bad_input(arguments: list[str], message: str, tmp_path: Path) -> None:
    """Status 2, the reason in words, no traceback, and no output."""
    (tmp_path / "ok.ptx").write_text(JACOBI.read_text())
    (tmp_path / "latin.ptx").write_bytes(b"// \xe9")
    (tmp_path / "bad.ptx").write_text(JACOBI.read_text().replace("[%rd6+4];", "[%rd6+4;"))
    before = set(tmp_path.iterdir())
    done = ptxsw(*arguments, cwd=tmp_path, XDG_DATA_HOME=str(tmp_path.parent / "data"))
    assert done.returncode == 2 and done.stdout == b""
    assert message in done.stderr.decode() and b"Traceback" not in done.stderr
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("arguments", [["optimize"], ["analyze"], ["nonsense"], ["cache", "x"]])
def test_bad_usage(arguments: list[str]) -> None:
    done = ptxsw(*arguments)
    assert done.returncode == 2 and b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m ptxsw analyze {KERNELS}/tricubic.ptx | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, timeout=60)
    assert done.stderr == b"" and done.stdout.startswith(b"tricubic: 67")


# ---------------------------------------------------------------- ptxas


@pytest.mark.usefixtures("needs_ptxas")
def test_assemble(tmp_path: Path) -> None:
    done = ptxsw("assemble", JACOBI, "-o", "j.cubin", "-v", "-lineinfo", cwd=tmp_path)
    assert done.returncode == 0 and b"for 'sm_80'" in done.stderr
    assert (tmp_path / "j.cubin").read_bytes().startswith(b"\x7fELF")
    done = ptxsw("assemble", "-", "-o", "-", "-arch=sm_90", stdin=JACOBI.read_bytes())
    assert done.returncode == 0 and done.stdout.startswith(b"\x7fELF")


@pytest.mark.usefixtures("needs_ptxas")
def test_assemble_failing_leaves_the_old_output(tmp_path: Path) -> None:
    (tmp_path / "bad.ptx").write_text(JACOBI.read_text().replace("add.rn.f32", "bogus.f32"))
    (tmp_path / "o.cubin").write_text("old")
    done = ptxsw("assemble", "bad.ptx", "-o", "o.cubin", cwd=tmp_path)
    assert done.returncode == 2 and b"Not a name of any known instruction" in done.stderr
    assert (tmp_path / "o.cubin").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_assemble_without_ptxas(tmp_path: Path) -> None:
    done = ptxsw("assemble", JACOBI, "-o", tmp_path / "o", PTXSW_REAL_PTXAS="/none/ptxas")
    assert done.returncode == 2 and b"no ptxas found: /none/ptxas" in done.stderr


# ---------------------------------------------------------------- the wrapper


@pytest.mark.usefixtures("needs_ptxas")
def test_doctor(tmp_path: Path) -> None:
    own = {"PTXSW_CACHE": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data")}
    done = ptxsw("doctor", env=own)
    assert done.returncode == 0 and b"real ptxas" in done.stdout and b"version 1" in done.stdout
    assert done.stdout.splitlines()[-1] == b"Nothing is wrong."
    assert re.search(rb"\n  nvdisasm +(/.*: figures come from SASS|no nvdisasm found)", done.stdout)


def test_doctor_says_what_installs_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxsw.cost.disassembly.places", lambda *_: iter(()))
    said = ptxsw("doctor").stdout.decode()
    words = " ".join(said.split())  # columns are as wide as what this machine has
    assert (
        "nvdisasm no nvdisasm found; `pip install 'ptxsw[sass]'` brings it. Without it: "
        "no SASS in pages, and figures of rare instructions come from PTX" in words
    )


def test_doctor_names_a_scheme_that_there_is_not() -> None:
    done = ptxsw("doctor", PTXSW_SCHEME="late")
    assert done.returncode == 1
    words = b" ".join(done.stdout.split())
    assert b"! settings PTXSW_SCHEME is 'late'; it can be auto, keep," in words


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("PTXSW_REAL_PTXAS", "/none/ptxas", "/none/ptxas (PTXSW_REAL_PTXAS) does not exist"),
        ("PTXSW_MODE", "maybe", "PTXSW_MODE is 'maybe'"),
        ("PTXSW_DISABLE", "1", "nothing is rewritten"),
        ("PTXSW_CACHE", "/dev/null", "is not a directory"),
        ("PTXSW_LOG", "/dev/null/log", "cannot be written"),
        ("NVCC_APPEND_FLAGS", '-lineinfo --ptxas-prefix="/no ne/ptxas"', "it does not exist"),
        ("NVCC_APPEND_FLAGS", "--ptxas-prefix=/none/ptxas -O3", "`unset NVCC_APPEND_FLAGS`"),
        ("TRITON_PTXAS_PATH", "/none/ptxas", "it does not exist: run `ptxsw env` again"),
    ],
)
def test_doctor_names_what_is_wrong(name: str, value: str, problem: str) -> None:
    done = ptxsw("doctor", env={name: value})
    assert done.returncode == 1
    assert any(
        line.startswith("!") or "passed over" in line
        for line in done.stdout.decode().splitlines()
        if problem in line
    )


def test_cache(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    assert b"0 files" in ptxsw("cache", "info", PTXSW_CACHE=str(directory)).stdout
    directory.mkdir()
    (directory / "a.ptxsw").write_bytes(b"x")
    assert b"1 file, 0.0 MB" in ptxsw("cache", "info", PTXSW_CACHE=str(directory)).stdout
    assert b"1 results deleted" in ptxsw("cache", "clear", PTXSW_CACHE=str(directory)).stdout
    assert list(directory.iterdir()) == []
    assert ptxsw("cache", "info", PTXSW_CACHE="off").returncode == 2


def test_report_of_a_build(tmp_path: Path) -> None:
    for name in ("jacobi", "vecadd"):
        ptxsw(
            "optimize", KERNELS / f"{name}.ptx", "-o", os.devnull, "--mode", "force",
            "--report", tmp_path / f"{name}.json",
        )  # fmt: skip
    done = ptxsw("report", tmp_path)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("1 of 2 kernels changed: ") and "shuffle 6" in lines[0]
    assert lines[2].split() == ["file", "arch", "kernel", "rewrites"]
    assert "jacobi.ptx" in lines[3] and "shuffle 6" in lines[3]
    assert lines[-1].startswith("2 files, ")
    (tmp_path / "other.json").write_text("{}")
    done = ptxsw("report", tmp_path)
    assert done.returncode == 2 and b"other.json: not a ptxsw report" in done.stderr
