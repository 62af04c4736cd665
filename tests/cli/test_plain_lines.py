"""Command lines read without Typer: they mean what they mean to Typer, or are left to it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ptxsw.cli import _plain, analyze, analyze_run, optimize, optimize_run, report, report_run
from ptxsw.cli.commands import app
from ptxsw.cli.rows import read
from tests.command_line import JACOBI

PLAIN = [
    "a.ptx -o out.ptx",
    "-o out.ptx a.ptx",
    "- --output=- --assume none",
    "a.ptx -o - --mode force --scheme paper --form versioned --max-delta 2 --min-gain 2.5",
    "a.ptx -o out.ptx --mode=auto --arch sm_80 --rewrites all --kernel k --block 16x16 -j 2",
    "a.ptx -o out.ptx --hoist --report r.json --emit-smt2 proofs --unsafe-bound noload",
    "a.ptx -o out.ptx --no-hoist --only k --jobs 4",
]

UNUSUAL = [
    "",
    "a.ptx",  # Typer says that -o is missing
    "-o out.ptx",
    "a.ptx b.ptx -o out.ptx",
    "a.ptx -oout.ptx",
    "a.ptx -o",
    "a.ptx -o --mode",
    "a.ptx -o out.ptx --mode fast",
    "a.ptx -o out.ptx --mode auto --mode force",
    "a.ptx -o out.ptx --max-delta 32",
    "a.ptx -o out.ptx --max-delta -1",
    "a.ptx -o out.ptx --max-delta x",
    "a.ptx -o out.ptx --jobs 0",
    "a.ptx -o out.ptx --min-gain inf",
    "a.ptx -o out.ptx --hoist=yes",
    "a.ptx -o out.ptx --hoist --no-hoist",
    "a.ptx -o out.ptx --sch paper",
    "a.ptx -o out.ptx -- b.ptx",
    "a.ptx -o out.ptx --help",
]


@pytest.mark.parametrize("line", UNUSUAL)
def test_any_other_line_is_left_to_typer(line: str) -> None:
    found = read(optimize_run.ROWS, line.split())
    assert found is None or "output" not in found


ANALYZE = [
    "a.ptx",
    "- --format json",
    "a.ptx --kernel k --block 16x16 -j 2 --sort line --format=markdown",
]


@pytest.mark.parametrize("line", ["", "a.ptx --space global", "a.ptx --format xml", "a.ptx b.ptx"])
def test_any_other_analyze_is_left_to_typer(line: str) -> None:
    assert read(analyze_run.ROWS, line.split()) is None


REPORT = [
    "a.ptx",
    "reports --jobs 2",
    "- --html=out.html --scheme halo --form versioned --block 16x16 --rewrites vectorize -j 1",
]


COMMANDS = {"optimize": optimize_run, "analyze": analyze_run, "report": report_run}
LINES = [
    (command, line)
    for command, lines in (("optimize", PLAIN), ("analyze", ANALYZE), ("report", REPORT))
    for line in lines
]


@pytest.mark.parametrize(("command", "line"), LINES)
def test_a_plain_line_means_what_it_means_to_typer(
    command: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = COMMANDS[command]
    calls: list[dict[str, Any]] = []
    signature = inspect.signature(module.run)

    def noted(*given: Any, **named: Any) -> None:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        if command == "analyze":  # no space is a list to Typer, and a tuple by default
            bound.arguments["spaces"] = tuple(bound.arguments["spaces"])
        calls.append(dict(bound.arguments))

    monkeypatch.setattr(module, "run", noted)
    result = CliRunner().invoke(app, [command, *line.split()])
    assert result.exit_code == 0, result.output
    found = read(module.ROWS, line.split())
    assert found is not None
    noted(**found)
    assert calls[0] == calls[1]


@pytest.mark.parametrize("line", ["", "a b", "a.ptx --html", "a.ptx --scheme x", "a.ptx --help"])
def test_any_other_report_is_left_to_typer(line: str) -> None:
    assert read(report_run.ROWS, line.split()) is None


def test_each_row_is_a_parameter() -> None:
    names = {row.name for row in optimize_run.ROWS} | {"file"}
    assert names == set(inspect.signature(optimize_run.run).parameters)
    assert names == set(inspect.signature(optimize.optimize).parameters)
    rows = {row.name for row in analyze_run.ROWS} | {"file"}
    assert rows == set(inspect.signature(analyze_run.run).parameters) - {"spaces", "launches"}
    others = {"space", "only", "launch"}  # lines with these are left to Typer
    assert rows == set(inspect.signature(analyze.analyze).parameters) - others
    given = {row.name for row in report_run.ROWS} | {"file"}
    assert given == set(inspect.signature(report_run.run).parameters) - {"launches", "roots"}
    assert given == set(inspect.signature(report.report).parameters) - {"launch", "source_root"}


@pytest.mark.parametrize(
    "line", ["optimize {} -o {} --mode force", "analyze {} --sort line", "report {} --html {}"]
)
def test_a_plain_line_does_not_load_typer(line: str, tmp_path: Path) -> None:
    program = (
        "import sys; from ptxsw.__main__ import main; main(); sys.exit(int('typer' in sys.modules))"
    )
    out = tmp_path / "out.ptx"
    words = line.format(JACOBI, out).split()
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert out.exists() == (words[0] != "analyze") and (b"stride" in done.stdout or out.exists())


def test_a_plain_build_does_not_load_typer(tmp_path: Path) -> None:
    """Nor what only other commands need."""
    code = (
        "import os, sys; from ptxsw.__main__ import main\n"
        "def become(name, command, environ):\n"
        "    heavy = {'typer', 'z3', 'importlib.metadata'}\n"
        "    print(name, command, sorted(heavy & sys.modules.keys()))\n"
        "    sys.exit()\n"
        "os.execvpe = become; main()"
    )
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "exec", "--", "make", "--help", "-j2"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "make ['make', '--help', '-j2'] []\n"


@pytest.mark.parametrize("line", ["exec", "exec --", "exec make", "exec --help"])
def test_any_other_build_is_left_to_typer(line: str) -> None:
    assert _plain(line.split()) is None
