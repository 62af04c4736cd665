"""What `ptxsw report` says of a build: which kernels changed, by what."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

from tests.build.conftest import PTXSW, Build, environment

TURN = Path(__file__).parent / "inputs" / "turn.ptx"


def test_every_rewrite_is_in_the_summary(build: Build) -> None:
    """Not only those that take a value from another load."""
    (build.work / "turn.ptx").write_bytes(TURN.read_bytes())
    told = {"PTXSW_MODE": "auto", "PTXSW_REPORT": "reports"}
    done = build("-arch=sm_80", "turn.ptx", "-o", "out", **told)
    assert done.status == 0, done.stderr
    head, _, names, row, *_ = build.ptxsw("report", "reports").stdout.decode().splitlines()
    assert head == "1 of 1 kernel changed: bank-conflicts 1"
    assert names.split() == [
        "file", "arch", "kernel", "rewrites", "instructions", "wavefronts", "registers",
        "cycles",
    ]  # fmt: skip
    assert row.split()[:5] == ["turn.ptx", "sm_80", "turn", "bank-conflicts", "1"]
    said = json.loads(build.ptxsw("report", "reports", "--format", "json").stdout)
    (turn,) = said["changed"]
    assert turn["rewrites"] == said["rewrites"] == {"bank-conflicts": 1}
    assert turn["after"]["wavefronts"] < turn["before"]["wavefronts"] / 4


def test_exec_prints_one_line_if_asked(build: Build) -> None:
    """On standard error, so that the build's own output stays as it is; nothing is left behind."""
    (build.work / "turn.ptx").write_bytes(TURN.read_bytes())
    ptxas = ("ptxas", "-arch=sm_80", "turn.ptx", "-o", "out")
    done = build.ptxsw("exec", "--stats", "--", *ptxas)
    assert (done.status, done.stdout) == (0, b"")
    assert done.stderr == b"ptxsw: 1 of 1 kernel changed: bank-conflicts 1, read-only-loads 1\n"
    assert build.ptxsw("exec", "--stats", "--", "false").status == 1
    quiet = build.ptxsw("exec", "--", *ptxas)
    assert (quiet.status, quiet.stdout, quiet.stderr) == (0, b"", b"")


def test_the_line_counts_this_build_alone(build: Build) -> None:
    """Not what one a moment ago has left in the same directory under other settings."""
    (build.work / "turn.ptx").write_bytes(TURN.read_bytes())
    ptxas = ("ptxas", "-arch=sm_80", "turn.ptx", "-o", "out")
    for mode in ("auto", "force", "force"):
        done = build.ptxsw("exec", "--stats", "--", *ptxas, PTXSW_MODE=mode, PTXSW_REPORT="reports")
        assert done.stderr.startswith(b"ptxsw: 1 of 1 kernel changed"), done.stderr


def test_a_report_says_of_each_rewrite_what_became_of_it(build: Build) -> None:
    """Not of shuffles alone."""
    (build.work / "turn.ptx").write_bytes(TURN.read_bytes())
    done = build("-arch=sm_80", "turn.ptx", "-o", "out", PTXSW_MODE="auto", PTXSW_REPORT="reports")
    assert done.status == 0
    (report,) = (build.work / "reports").iterdir()
    (turn,) = json.loads(report.read_text())["kernels"]
    told = {one["rewrite"]: (one["changes"], one["reason"]) for one in turn["choice"]["rewrites"]}
    assert told["bank-conflicts"][0] == 1 and "wavefronts 28 to 5" in told["bank-conflicts"][1]
    assert told["scalar-replacement"] == (0, "it has no loop")


def test_a_build_with_a_line_at_the_end_can_be_ended(build: Build) -> None:
    """What is sent to ptxsw alone reaches the build, as it would without the line."""
    environ = environment(build.work, build.ptxas, {"XDG_DATA_HOME": str(build.work / "data")})
    command = [str(PTXSW), "exec", "--stats", "--", "sleep", "100"]
    running = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    for _ in range(400):  # others are asked first how they are set up
        pids = children.read_text().split()
        if any(Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00100\x00" for pid in pids):
            break
        time.sleep(0.05)
    running.terminate()
    assert running.communicate(timeout=20)[1] == (
        b"ptxsw: no kernels changed: nothing was assembled, or there was nothing to rewrite\n"
    )
    assert running.returncode == -signal.SIGTERM
