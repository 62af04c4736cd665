"""Commands that look: analyze and report with their options, and the overview of all commands."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptxsw.cli.app import GROUPS
from tests.command_line import JACOBI, ROOT, ptxsw

MATMUL = ROOT / "tests" / "report" / "ptx" / "matmul.ptx"
TRANSPOSE = ROOT / "benchmarks" / "programs" / "ptx" / "transpose-float.ptx"
MANGLED = "_ZN3app6jacobiIfLi4EEEvPKT_PS1_"


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    assert done.returncode == 0 and done.stderr == b""
    return done.stdout.decode()


@pytest.mark.parametrize("shape", ["16x16", "16,16", "16x16x1"])
def test_the_shape_of_the_block(shape: str) -> None:
    given = ("analyze", MATMUL, "--kernel", "tiled", "--block", shape)
    text = said(ptxsw(*given))
    assert text.startswith("tiled: 2 global loads, 64 instructions, blocks of 16x16\n")
    assert text.count("2-way conflict") == 3
    [kernel] = json.loads(said(ptxsw(*given, "--format", "json")))["kernels"]
    assert kernel["block"] == [16, 16, 1]
    [kernel] = json.loads(said(ptxsw(*given[:4], "--format", "json")))["kernels"]
    assert "block" not in kernel


def test_permutations_are_chosen_for_a_block(tmp_path: Path) -> None:
    """For rows of 32 threads another is best than for those of 16."""
    found = []
    for shape in ("32x8", "16x16", "1024x1"):
        out = tmp_path / f"{shape}.ptx"
        given = ("--mode", "force", "--rewrites", "bank-conflicts", "--block", shape)
        said(ptxsw("optimize", TRANSPOSE, "-o", out, *given))
        found.append(out.read_text())
    assert len(set(found)) == 2
    page = tmp_path / "banks.html"
    named = ("--rewrites", "bank-conflicts", "--block", "32x32")
    assert said(ptxsw("report", TRANSPOSE, "--html", page, *named)) == ""
    assert "Wavefronts of shared memory" in page.read_text()


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ("0", "'0' is not a size; write 256, 16x16 or 8x8x4"),
        ("1025", "1025 is not a block of 1 to 1024 threads"),
        ("8x8x8x8", "'8x8x8x8' is not a size; write 256, 16x16 or 8x8x4"),
        ("16x", "'16x' is not a size; write 256, 16x16 or 8x8x4"),
        ("-16", "'-16' is not a size; write 256, 16x16 or 8x8x4"),
        ("²", "'²' is not a size; write 256, 16x16 or 8x8x4"),
    ],
)
def test_what_is_no_shape(shape: str, problem: str) -> None:
    done = ptxsw("analyze", MATMUL, f"--block={shape}")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"--block: {problem}\n")


def test_reqntid_counts_more_than_what_is_asked_for(tmp_path: Path) -> None:
    """A launch of another shape fails."""
    path = tmp_path / "fixed.ptx"
    text = MATMUL.read_text()
    path.write_text(re.sub(r"(entry naive\([^)]*\))", r"\1\n.reqntid 32, 8, 1", text))
    assert "naive: 2 global loads, 39 instructions, blocks of 32x8\n" in said(
        ptxsw("analyze", path, "--kernel", "naive", "--block", "16x16")
    )


@pytest.mark.parametrize("name", [MANGLED, "app::jacobi<float, 4>", "app::jacobi", "jacobi"])
def test_kernels_by_either_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "cpp.ptx"
    path.write_text(JACOBI.read_text().replace("jacobi", MANGLED))
    text = said(ptxsw("analyze", path, "--kernel", name))
    assert text.startswith(f"app::jacobi<float, 4>: 9 global loads, 68 instructions\n  {MANGLED}\n")
    done = said(ptxsw("optimize", path, "-o", tmp_path / "o", "--mode", "force", "--only", name))
    assert done.startswith("app::jacobi<float, 4>: 9 global loads, 6 shuffles")
    assert said(ptxsw("verify", path, tmp_path / "o", "--kernel", name)).startswith("proved")
    numbers, arrays = ("8", "8", "0.25", "0.5", "1"), ("iota:64:f32", "zeros:64:f32")
    given = [word for value in (*numbers, *arrays) for word in ("--arg", value)]
    ran = said(ptxsw("run", path, "--kernel", name, "--grid", "1", "--block", "32", *given))
    assert ran.startswith("thread instructions")


def test_a_name_of_several_kernels_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "cpp.ptx"
    head, _, body = JACOBI.read_text().partition(".visible")
    both = [body.replace("jacobi", name) for name in ("_Z4blurIfEvPT_", "_Z4blurIdEvPT_")]
    path.write_text(head + "".join(f".visible{each}" for each in both))
    done = ptxsw("verify", path, path, "--kernel", "blur")
    assert done.returncode == 2
    assert done.stderr == b"'blur' may be any of: blur<float>, blur<double>\n"
    assert said(ptxsw("verify", path, path, "--kernel", "blur<double>")).startswith("proved")


def test_kernels_that_are_there_are_named(tmp_path: Path) -> None:
    done = ptxsw("analyze", "-", "--kernel", "blur", stdin=MATMUL.read_bytes())
    assert done.returncode == 2
    assert done.stderr == b"<stdin>: no kernel 'blur' with a body; available: naive, tiled\n"
    text = JACOBI.read_text()
    head, _, body = text.partition(".visible")
    many = "".join(f".visible{body}".replace("jacobi", f"k{i}") for i in range(9))
    done = ptxsw("analyze", "-", "--kernel", "blur", stdin=f"{head}{many}".encode())
    assert done.stderr.endswith(b"available: k0, k1, k2, k3, k4, k5, k6, k7, \xe2\x80\xa6\n")


def test_a_page_in_another_scheme(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    options = ("--html", page, "--scheme", "halo", "--form", "versioned")
    assert said(ptxsw("report", JACOBI, *options)) == ""
    assert '"scheme":"halo"' in page.read_text() and '"form":"versioned"' in page.read_text()
    done = ptxsw("report", JACOBI, "--scheme", "best")
    assert done.returncode == 2 and b"'--scheme': 'best' is not one of 'auto', " in done.stderr


def test_the_overview_is_complete() -> None:
    """Every command by its purpose, every variable of the wrapper, every exit status."""
    text = said(ptxsw("--help", COLUMNS="80"))
    assert text.startswith("Usage: ptxsw [OPTIONS] COMMAND [ARGS]...\n\n  ptxsw - ")
    assert "Other:" not in text
    for group, commands in GROUPS.items():
        listed = text.partition(f"\n{group}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\w+)", listed, re.MULTILINE) == list(commands)
    source = "".join(p.read_text() for p in (ROOT / "ptxsw").glob("toolchain/*.py"))
    internal = {"PTXSW_TRIED"}  # which the wrapper sets for itself
    asked = set(re.findall(r'[("](PTXSW_[A-Z_]+)"', source)) - internal
    assert {"PTXSW_MODE", "PTXSW_TUNED", "PTXSW_STRICT"} <= asked
    assert asked <= set(re.findall(r"PTXSW_[A-Z_]+", text))
    status = text.partition("\nExit status:\n")[2]
    assert re.findall(r"^  (\d)  ", status, re.MULTILINE) == ["0", "1", "2", "3"]
    assert max(map(len, text.splitlines())) <= 100


def test_long_work_says_on_a_terminal_what_it_is_at() -> None:
    """In one line, which is empty at the end; where nobody watches, not at all."""
    control, terminal = pty.openpty()
    command = [sys.executable, "-m", "ptxsw", "verify", str(JACOBI), str(JACOBI)]
    with open(control, "rb", buffering=0) as screen:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=True)
        os.close(terminal)
        shown = screen.read(1000)
    assert done.stdout == b"proved\n"
    assert shown == b"\r\x1b[Kcomparing jacobi\r\x1b[K"
    assert ptxsw("verify", JACOBI, JACOBI).stderr == b""


def test_a_long_run_says_on_a_terminal_how_far_it_is() -> None:
    endless = ROOT / "tests" / "docs" / "inputs" / "endless.ptx"
    given = ("--grid", "1", "--block", "32", "--arg", "zeros:16:u32", "--steps", "200000")
    control, terminal = pty.openpty()
    command = [sys.executable, "-m", "ptxsw", "run", str(endless), *given]
    with open(control, "rb", buffering=0) as screen:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal)
        os.close(terminal)
        shown = screen.read(4000)
    assert done.returncode == 2
    assert re.search(rb"\x1b\[Krunning .*endless.ptx: [\d,]+ steps, \d+ s\r\x1b\[K", shown)
    assert b"steps," not in ptxsw("run", endless, *given).stderr
