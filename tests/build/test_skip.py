"""Files and kernels that somebody wants left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.toolchain.settings import Settings, SettingsError
from ptxsw.toolchain.skip import Skip, read
from tests.build.conftest import Build

TURN = Path(__file__).parent / "inputs" / "turn.ptx"
TEMPORARY = "/tmp/tmpxft_0000783c_00000000-6_a.ptx"


@pytest.mark.parametrize(
    ("pattern", "path", "line", "left"),
    [
        ("a.cu", TEMPORARY, "", True),
        ("a.*", TEMPORARY, "", True),
        ("b.cu", TEMPORARY, "", False),
        ("turn.ptx", "build/turn.ptx", "", True),
        ("tmpxft_a.ptx", "tmpxft_a.ptx", "", True),  # a user's file, not nvcc's
        ("third_party/*", TEMPORARY, "", False),
        ("third_party/*", TEMPORARY, '.file 1 "/src/third_party/a.cu"', True),
        ("third_party/*", TEMPORARY, '.file 1 "/src/third_party/a.cuh"', True),
        ("third_party/*", TEMPORARY, '.file 1 "/src/third_party/other.cuh"', False),
    ],
)
def test_patterns_of_files(pattern: str, path: str, line: str, left: bool) -> None:
    assert Skip(files=(pattern,)).has_file(path, f".version 8.0\n{line}\n".encode()) is left


def test_the_nearest_file_of_settings_counts(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "build"
    inner.mkdir(parents=True)
    (tmp_path / "ptxsw.toml").write_text('[skip]\nfiles = ["outer.cu"]\n')
    wrong: list[str] = []
    assert read({}, str(inner), wrong).files == ("outer.cu",)
    (tmp_path / "project" / "ptxsw.toml").write_text('[skip]\nkernels = ["k*"]\n')
    both = read({"PTXSW_SKIP": "x.cu, y"}, str(inner), wrong)
    assert (both.files, both.kernels, wrong) == (("x.cu", "y"), ("x.cu", "y", "k*"), [])


def test_a_build_outside_of_the_project(tmp_path: Path) -> None:
    """A compiler cache may run ptxas there; a nearer file counts all the same."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "ptxsw.toml").write_text('[skip]\nkernels = ["k*"]\n')
    environ = {"PTXSW_PROJECT": str(project / "ptxsw.toml")}
    assert read(environ, str(outside), []).kernels == ("k*",)
    (outside / "ptxsw.toml").write_text('[skip]\nkernels = ["other"]\n')
    assert read(environ, str(outside), []).kernels == ("other",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[skip]\nkernel = []\n", "[skip] takes files and kernels, not 'kernel'"),
        ('[skip]\nfiles = "a.cu"\n', "files and kernels of [skip] are lists of patterns in quotes"),
        ("[skip\n", "Expected ']' at the end of a table declaration (at line 1, column 6)"),
    ],
)
def test_a_file_that_makes_no_sense(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "ptxsw.toml").write_text(text)
    with pytest.raises(SettingsError) as error:
        Settings({}, str(tmp_path))
    assert error.value.problems == [f"{tmp_path}/ptxsw.toml: {problem}"]


def test_what_matches_is_left_alone(build: Build) -> None:
    """And the answer for other patterns is another one."""
    (build.work / "turn.ptx").write_bytes(TURN.read_bytes())

    def cubin(**told: str) -> bytes:
        done = build("-arch=sm_80", "turn.ptx", "-o", "out", PTXSW_MODE="force", **told)
        assert done.status == 0, done.stderr
        return (build.work / "out").read_bytes()

    rewritten, plain = cubin(), cubin(PTXSW_DISABLE="1")
    assert rewritten != plain
    assert cubin(PTXSW_SKIP="turn.*") == cubin(PTXSW_SKIP="tu*") == plain
    assert cubin(PTXSW_SKIP="other") == rewritten
    (build.work / "ptxsw.toml").write_text('[skip]\nkernels = ["turn"]\n')
    assert cubin() == plain
