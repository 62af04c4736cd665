"""Settings of a project: found, obeyed by all commands, and nothing that harms whoever stands in a
directory that somebody else has written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ptxsw.cli.check import Level
from ptxsw.cli.files import CommandError
from ptxsw.cli.project import COMMANDS, defaults
from ptxsw.toolchain import config
from ptxsw.toolchain.skip import read as read_skip
from tests.command_line import ROOT, in_text, ptxsw

TRANSPOSE = ROOT / "tests" / "report" / "ptx" / "transpose.ptx"


def told(directory: Path, *more: str) -> set[str]:
    """The rules that find something in the transposes, in a directory."""
    done = ptxsw("check", TRANSPOSE, "--format", "json", "--no-ptxas", *more, cwd=directory)
    assert done.stderr == b"", done.stderr
    return {each["rule"] for each in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize("name", config.FILES)
def test_the_nearest_file_chooses_the_rules(name: str, tmp_path: Path) -> None:
    """And the command line goes before it."""
    inner = tmp_path / "src" / "deep"
    inner.mkdir(parents=True)
    head = "" if name == "ptxsw.toml" else "[tool.ptxsw]\n"
    assert "ptxsw-bank-conflicts" in told(inner)
    (tmp_path / name).write_text(f'{head}ignore = ["bank-conflicts"]\nptxas = false\n')
    assert told(inner) and "ptxsw-bank-conflicts" not in told(inner)
    assert "ptxsw-bank-conflicts" in told(inner, "--ignore", "column")
    (tmp_path / "src" / "pyproject.toml").write_text("[tool.other]\nignore = []\n")
    assert "ptxsw-bank-conflicts" not in told(inner)  # that one says nothing of ptxsw


def test_every_command_takes_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "ptxsw.toml").write_text('block = [32, 32]\narch = "sm_90"\n')
    for command in ("analyze", "report", "optimize"):  # whose plain lines are read without Typer
        more = ("-o", "out.ptx") if command == "optimize" else ("--format", "json")
        done = ptxsw(command, TRANSPOSE, *more, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, b"")
        if command != "optimize":
            assert json.loads(done.stdout)["kernels"][0]["block"] == [32, 32, 1]
    given = ("predict", TRANSPOSE, "--no-rewrites", "--format", "json")
    assert "H100" in in_text(*given, cwd=tmp_path).stdout
    assert "A100" in in_text(*given, "--gpu", "a100", cwd=tmp_path).stdout


def test_patterns_to_skip_stand_in_either_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.ptxsw.skip]\nfiles = ["slow.cu"]\n')
    assert read_skip({}, str(tmp_path), []).files == ("slow.cu",)
    assert ptxsw("analyze", TRANSPOSE, cwd=tmp_path).stderr == b""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('ignroe = ["column"]', "'ignroe' is an unknown setting; did you mean ignore?"),
        ('plugins = "evil"', "'plugins' is an unknown setting; known: arch, baseline, block, "
         "compiler-options, drift, fail-on, ignore, jobs, ptxas, select, source-root"),
        ('output = "/etc/passwd"', "'output' is an unknown setting; known: arch, baseline, "
         "block, compiler-options, drift, fail-on, ignore, jobs, ptxas, select, source-root"),
        ('arch = "-ccbin=evil"', "arch must be a quoted string"),
        ("arch = 90", "arch must be a quoted string"),
        ('ignore = "column"', "ignore must be a list of quoted strings"),
        ('fail-on = "bad"', "fail-on must be one of note, warning, error, never"),
        ("jobs = 1.5", "jobs must be an integer, 1 or above"),
        ("drift = true", "drift must be a number, 0 or above"),
        ('ptxas = "no"', "ptxas must be true or false"),
        ('compiler-options = ["-ccbin", "./evil"]', "compiler-options: '-ccbin' is not allowed "
         "here: options must begin with -D, -I, -U, -O, -std=, --std=, -isystem=, --expt-, "
         "-fmad=, --use_fast_math, -use_fast_math, -maxrregcount=, --maxrregcount=; use "
         "--compiler-options"),
        ("ignore = [", "Invalid value (at end of document)"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "ptxsw.toml").write_text(text)
    done = in_text("check", TRANSPOSE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    said = f"{tmp_path}/ptxsw.toml: {problem}"
    assert done.stderr == f"{said}\n"
    assert ptxsw("rewrites", "--help", cwd=tmp_path).returncode == 0
    doctor = in_text("doctor", cwd=tmp_path)
    assert (
        doctor.returncode == 1 and "! project" in doctor.stdout and str(tmp_path) in doctor.stdout
    )


@pytest.mark.parametrize("setting", ['source-root = ["/"]', 'baseline = "../secret.json"'])
def test_no_file_outside_the_project_is_named(setting: str, tmp_path: Path) -> None:
    path = tmp_path / "ptxsw.toml"
    path.write_text(setting)
    with pytest.raises(CommandError, match="lies outside"):
        defaults(str(path))
    (tmp_path / "link").symlink_to("/")
    path.write_text('source-root = ["link"]')
    with pytest.raises(CommandError, match="lies outside"):
        defaults(str(path))


def test_paths_count_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        '[tool.ptxsw]\nsource-root = ["src"]\nbaseline = "known.json"\n'
        'compiler-options = ["-Iinclude", "-DN=4"]\nblock = 256\n'
    )
    chosen = defaults(str(path))["check"]
    assert chosen == {
        "source_root": [f"{tmp_path}/src"], "baseline": f"{tmp_path}/known.json",
        "compiler_options": f"-I{tmp_path}/include -DN=4", "block": "256",
    }  # fmt: skip
    assert defaults(str(path))["tune"]["block"] == ["256"]  # which takes several
    assert defaults(str(path))["run"] == {}  # which is given a launch as a whole


def test_a_baseline_that_is_named_can_be_written_first(tmp_path: Path) -> None:
    (tmp_path / "ptxsw.toml").write_text('baseline = "known.json"\nptxas = false\n')
    assert ptxsw("check", TRANSPOSE, cwd=tmp_path).returncode == 2  # it is not there yet
    given = ("check", TRANSPOSE, "--write-baseline", "known.json")
    assert ptxsw(*given, cwd=tmp_path).returncode == 0
    assert ptxsw(*given, cwd=tmp_path).returncode == 0
    assert told(tmp_path) == set()


def test_only_files_are_opened(tmp_path: Path) -> None:
    """A pipe would let a build wait for ever."""
    os.mkfifo(tmp_path / "ptxsw.toml")
    (tmp_path / "pyproject.toml").mkdir()
    above = config.find(str(tmp_path.parent))
    assert config.find(str(tmp_path)) == above


def test_levels_are_those_of_the_option(tmp_path: Path) -> None:
    path = tmp_path / "ptxsw.toml"
    for level in Level:
        path.write_text(f'fail-on = "{level.value}"')
        assert defaults(str(path))["check"] == {"fail_on": level.value}
    assert "check" in COMMANDS and "exec" not in COMMANDS
