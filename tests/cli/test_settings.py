"""Wrong settings of the wrapper, as `doctor` and `exec` tell them."""

from __future__ import annotations

import re
import sys

import pytest

from ptxsw.toolchain import find
from ptxsw.toolchain.settings import VARIABLES, Settings, SettingsError
from tests.command_line import ROOT, ptxsw


def test_all_variables_are_known() -> None:
    """Those that the toolchain reads are those that doctor knows and the README tells of."""
    sources = [
        *(ROOT / "ptxsw" / "build").glob("*.py"),
        *(ROOT / "ptxsw" / "toolchain").glob("*.py"),
    ]
    text = "".join(path.read_text() for path in sources)
    internal = {find.TRIED, "PTXSW_PLAIN"}
    assert set(re.findall(r'"(PTXSW_[A-Z_]+)"', text)) - internal == set(VARIABLES)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PTXSW_MOED", "PTXSW_MOED is not a variable of ptxsw; did you mean PTXSW_MODE?"),
        ("PTXSW_DISABEL", "PTXSW_DISABEL is not a variable of ptxsw; did you mean PTXSW_DISABLE?"),
        ("PTXSW_ZZZ", "PTXSW_ZZZ is not a variable of ptxsw"),
    ],
)
def test_a_mistyped_variable(name: str, said: str) -> None:
    done = ptxsw("doctor", env={name: "force"})
    assert done.returncode == 1
    assert [line[2:].split(None, 1)[1] for line in marked(done.stdout)] == [said]


WRONG = {
    "PTXSW_MOED": "force", "PTXSW_SCHEME": "x", "PTXSW_MODE": "maybe", "PTXSW_ASSUME": "luck",
    "PTXSW_MAX_DELTA": "32", "PTXSW_TIMEOUT": "soon",
}  # fmt: skip
SAID = [
    "PTXSW_MOED is not a variable of ptxsw; did you mean PTXSW_MODE?",
    "PTXSW_MODE is 'maybe'; it can be auto, force",
    "PTXSW_SCHEME is 'x'; it can be auto, keep, paper, early, halo",
    "PTXSW_MAX_DELTA is '32'; it must be a number from 0 to 31",
    "PTXSW_ASSUME: unknown assumption 'luck'; known: none, access-in-array, finite-loops, "
    "lockstep-iterations, no-alias, no-fault-in-struct, no-index-wrap, no-lane-race, "
    "no-outside-writer, parameters-are-global, same-contraction",
    "PTXSW_TIMEOUT is 'soon'; it must be a number from 0.001 to 1000000",
]


def test_doctor_names_all_that_is_wrong() -> None:
    done = ptxsw("doctor", env=WRONG)
    assert done.returncode == 1
    assert [line[2:].split(None, 1)[1] for line in marked(done.stdout)] == SAID


def test_exec_names_them_before_the_build() -> None:
    done = ptxsw("exec", sys.executable, "-c", "print('built')", env=WRONG)
    assert (done.returncode, done.stdout) == (0, b"built\n")
    assert done.stderr.decode().splitlines() == [f"ptxsw: {line}" for line in SAID]


def test_the_stand_in_hears_of_all() -> None:
    with pytest.raises(SettingsError) as error:
        Settings(WRONG)
    assert str(error.value) == "; ".join(SAID[1:])


def marked(stdout: bytes) -> list[str]:
    return [line for line in stdout.decode().splitlines() if line.startswith("! settings")]
