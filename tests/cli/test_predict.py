"""`ptxsw predict` and `ptxsw.predict`: what they print, and what they say to wrong input."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ptxsw as package
from ptxsw.cost.counted import cannot_count
from tests.command_line import ROOT, ptxsw

KERNELS = ROOT / "benchmarks" / "kernelgen" / "ptx"
JACOBI = KERNELS / "jacobi.ptx"
LAUNCH = {
    "grid": [62, 1, 1], "block": [128, 1, 1],
    "args": [512, 64, 0.5, 0.1, 0.025, "zeros:32768:f32", "zeros:32768:f32"],
}  # fmt: skip


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(LAUNCH))
    return path


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode()


def test_without_a_launch_one_iteration_of_each_inner_loop() -> None:
    text = said(ptxsw("predict", JACOBI, "--gpu", "a100", "--block", "128"))
    assert text.startswith("A100-SXM4-40GB (sm_80)\n")
    assert re.search(r"one iteration of a warp through the loop \$L__BB0_\d+, line \d+: ", text)
    for resource in ("l1", "l2", "dram", "compute", "latency"):
        assert re.search(rf"^    {resource} +[#.]", text, re.MULTILINE), resource
    assert " blocks of 128 threads, limited by " in text
    assert re.search(r"^    shuffle +6 changes: at least ", text, re.MULTILINE)
    assert "no launch given" in text


def test_limits_of_registers_are_listed(tmp_path: Path) -> None:
    """Of a kernel that says how many threads a block has; of others the note says what it takes."""
    if cannot_count("sm_80"):
        pytest.skip("no ptxas")
    text = (KERNELS / "tricubic.ptx").read_text()
    (tmp_path / "tricubic.ptx").write_text(re.sub(r"(?m)^\)$", ")\n.reqntid 256, 1, 1", text))
    given = ("predict", tmp_path / "tricubic.ptx", "--rewrites", "--format", "json")
    [kernel] = json.loads(said(ptxsw(*given)))["kernels"]
    first, *others = kernel["candidates"]
    assert first["limit"] is None and first["registers"] > 32
    best = min((c for c in others if c["local"] == 0), key=lambda c: c["pace"])
    assert (best["limit"], best["registers"], best["fraction"]) == (32, 32, 1.0)
    assert best["spills_to_shared"] and best["pace"] < first["pace"]
    text = said(ptxsw("predict", JACOBI))
    assert "registers: block size unknown" in text


def test_the_page_has_a_section(tmp_path: Path) -> None:
    done = ptxsw("report", JACOBI, "--html", tmp_path / "page.html", "--block", "256")
    assert done.returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert re.search(
        r"Predicted for A100-SXM4-40GB: one iteration of \$L__BB0_\d+, [\d.]+ cycles to ", page
    )
    assert "Predicted for A100-SXM4-40GB: occupancy" in page and "blocks of 256" in page


def test_nothing_is_invented() -> None:
    """Without a block there is no occupancy, and a cache may hold all or nothing."""
    done = ptxsw("predict", JACOBI, "--no-rewrites", "--format", "json")
    [kernel] = json.loads(said(done))["kernels"]
    assert kernel["occupancy"] is None
    assert "block size unknown, so no occupancy: use --block or --launch" in kernel["notes"]
    [stretch] = [s for s in kernel["stretches"] if s["resources"][0]["time"]["high"] > 1]
    resources = {r["name"]: r["time"] for r in stretch["resources"]}
    assert resources["dram"]["low"] == resources["l2"]["low"] == 0 < resources["dram"]["high"]
    assert stretch["unit"] == "cycles"


def test_a_launch_has_a_time(spec: Path) -> None:
    given = ("predict", JACOBI, "--gpu", "v100", "--launch", spec, "--no-rewrites")
    [kernel] = json.loads(said(ptxsw(*given, "--format", "json")))["kernels"]
    [stretch] = kernel["stretches"]
    assert kernel["launch"] and stretch["unit"] == "s"
    assert 0 < stretch["time"]["low"] <= stretch["likely"]["low"] < stretch["likely"]["high"]
    assert stretch["likely"]["high"] <= stretch["time"]["high"] < 1e-3
    assert stretch["likely"]["low"] < stretch["expected"] < stretch["likely"]["high"]
    assert "one block of 62 was run and counted" in said(ptxsw(*given))


def test_a_file_of_many_kernels(tmp_path: Path) -> None:
    """What rewrites would change is told where it is asked for."""
    head, entry, body = JACOBI.read_text().partition(".visible .entry")
    more = (
        entry + body.replace("jacobi", f"jacobi{n}").replace("$L__BB0", f"$L__BB{n}")
        for n in range(9)
    )
    path = tmp_path / "many.ptx"
    path.write_text(head + "".join(more))
    found = json.loads(said(ptxsw("predict", path, "--format", "json")))
    assert len(found["kernels"]) == 9 and not any(k["effects"] for k in found["kernels"])
    assert found["notes"][-1].startswith("more than 8 kernels: use --rewrites")
    named = said(ptxsw("predict", path, "--kernel", "jacobi3", "--format", "json"))
    [kernel] = json.loads(named)["kernels"]
    assert "shuffle" in {effect["rewrite"] for effect in kernel["effects"]}


def test_two_texts_are_compared(tmp_path: Path) -> None:
    out = tmp_path / "out.ptx"
    said(ptxsw("optimize", JACOBI, "-o", out, "--mode", "force", "--scheme", "paper"))
    text = said(ptxsw("predict", JACOBI, "--against", out, "--no-rewrites", "--block", "128"))
    assert "  the other version\n" in text
    assert re.search(
        r"the other version takes \d\.\d\d times as long in the loop \S+ \(middle of the bounds\), "
        r"",
        text,
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("--gpu", "voodoo"), "unknown GPU 'voodoo'; known: a100, b200, gb300, "),
        (("--arch", "sm_20"), "no known GPU of sm_20; known: sm_30, "),
        (("--arch", "sm_80", "--gpu", "a100"), "--arch and --gpu exclude each other: use one"),
        (("--block", "4096"), "--block: 4096 is not a block of 1 to 1024 threads"),
        (("--kernel", "nope"), f"{JACOBI}: no kernel 'nope' with a body; available: jacobi"),
        (("--launch", "-", "--gpu", "v100"), "<stdin>: a launch is an object with grid, block"),
    ],
)
def test_wrong_usage(given: tuple[str, ...], problem: str) -> None:
    done = ptxsw("predict", JACOBI, *given, stdin=b"{}")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(problem)
    assert b"Traceback" not in done.stderr


def test_launches_that_predict_does_not_take(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps([LAUNCH, LAUNCH]))
    done = ptxsw("predict", JACOBI, "--launch", path)
    assert done.stderr.decode() == f"{path}: 2 launches; predict takes one\n"
    two = ROOT / "tests" / "report" / "ptx" / "matmul.ptx"
    path.write_text(json.dumps(LAUNCH))
    done = ptxsw("predict", two, "--launch", path)
    assert done.stderr.decode() == "several kernels: choose one for the launch: naive, tiled\n"
    path.write_text(json.dumps({**LAUNCH, "args": LAUNCH["args"][:-1]}))  # type: ignore[index]
    done = ptxsw("predict", JACOBI, "--launch", path)
    assert done.returncode == 2 and b"7 parameters, but 6 arguments" in done.stderr


def test_a_launch_that_leaves_its_buffers_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    small = [*LAUNCH["args"][:-1], "zeros:100:f32"]  # type: ignore[index]
    path.write_text(json.dumps({**LAUNCH, "args": small}))
    done = ptxsw("predict", JACOBI, "--launch", path, "--no-rewrites")
    assert done.returncode == 2 and b"Traceback" not in done.stderr
    assert b"past the end of" in done.stderr and b"^" in done.stderr


def test_who_waits_at_a_terminal_sees_which_kernel() -> None:
    many = ROOT / "tests" / "report" / "ptx" / "matmul.ptx"
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb") as terminal:
        done = subprocess.run(
            [sys.executable, "-m", "ptxsw", "predict", str(many), "--no-rewrites"],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=follower, timeout=60,
        )  # fmt: skip
        os.close(follower)
        shown = os.read(terminal.fileno(), 10_000).decode()
    assert done.returncode == 0
    assert "] 0/2 naive" in shown and "] 1/2 tiled" in shown


def test_from_python() -> None:
    found = package.predict(JACOBI.read_text(), gpu="H100", block=256, rewrites=False)
    [kernel] = found.kernels
    assert (found.gpu, kernel.name) == ("H100-SXM5-80GB", "jacobi")
    assert kernel.occupancy is not None and kernel.occupancy.threads == 256
    launched = package.predict(JACOBI.read_text(), gpu="v100", launch=LAUNCH, rewrites=False)
    assert launched.kernels[0].stretches[0].unit == "s"
    with pytest.raises(ValueError, match="a launch has no 'blok'"):
        package.predict(JACOBI.read_text(), launch={**LAUNCH, "blok": 1})
