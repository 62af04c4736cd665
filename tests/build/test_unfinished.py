"""The time for a file is over before all its kernels are finished: those that are count, the rest
is remembered as not finished, and log, report and PTXSW_STRICT are told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from ptxsw.report import schema
from tests.build.conftest import KERNELS, Build, StandIn

ADD = ("-arch=sm_80", "add.ptx", "-o", "out")
Partly = Callable[..., tuple[int, int]]

FAULT = "not finished within 0.5 s: 1 of 2 kernels; a larger PTXSW_TIMEOUT tries again"


@pytest.fixture
def partly(work: Path, stand_in: StandIn) -> Partly:
    """Runs the wrapper with a rewriter that finishes one kernel of two and then hangs; gives the
    status, and how often the rewriter was asked until now."""

    def call(limit: str, **more: str) -> tuple[int, int]:
        (work / "out").unlink(missing_ok=True)
        count = work / "count"
        done = stand_in(*ADD, behaviour="partly", PTXSW_TIMEOUT=limit, COUNT=str(count), **more)
        assert done.stdout == b"" and (done.status != 0) == (done.stderr != b"")
        return done.status, len(count.read_text())

    return call


def test_what_is_finished_is_used(work: Path, partly: Partly, plain: StandIn) -> None:
    (work / "sub.ptx").write_text((work / "add.ptx").read_text().replace("add.rn", "sub.rn"))
    assert plain("-arch=sm_80", "sub.ptx", "-o", "sub").status == 0
    assert partly("0.5", PTXSW_REPORT="reports") == (0, 1)
    assert sass(work / "out") == sass(work / "sub")
    [line] = (work / "log").read_text().splitlines()
    assert f" rewritten in part: {FAULT} [" in line
    [path] = (work / "reports").iterdir()
    report = json.loads(path.read_text())
    assert report["warning"] == FAULT and report["seconds"] == 0.5
    assert [kernel["name"] for kernel in report["kernels"]] == ["slow", "quick"]


def sass(cubin: Path) -> bytes:
    """A cubin without the note that holds the command line."""
    return re.sub(rb"(-arch|-o)[ -~]*", b"", cubin.read_bytes())


def test_it_is_remembered_for_this_limit(work: Path, partly: Partly) -> None:
    """The next build does not wait again, unless it may wait longer."""
    assert [partly("0.5"), partly("0.5"), partly("0.3")] == [(0, 1)] * 3
    assert len((work / "log").read_text().splitlines()) == 3, "each build is told"
    assert partly("0.7") == (0, 2)
    assert partly("0.7") == (0, 2)
    assert "within 0.7 s: 1 of 2" in (work / "log").read_text().splitlines()[-1]


def test_strict_is_told_each_time(work: Path, partly: Partly) -> None:
    for _ in range(2):
        assert partly("0.5", PTXSW_STRICT="1") == (255, 1)
        assert not (work / "out").exists()


def test_a_time_out_without_any_kernel_is_remembered(work: Path, stand_in: StandIn) -> None:
    """Not even the text was read: the report has no kernels, and says why."""
    more = {"PTXSW_TIMEOUT": "0.5", "COUNT": str(work / "count"), "PTXSW_REPORT": "reports"}
    for _ in range(2):
        assert stand_in(*ADD, behaviour="hang", **more).status == 0
    assert (work / "count").read_text() == "x"
    lines = (work / "log").read_text().splitlines()
    assert ["left alone: not finished within 0.5 s; " in line for line in lines] == [True, True]
    [path] = (work / "reports").iterdir()
    report = json.loads(path.read_text())
    assert report["kernels"] == [] and "not finished" in report["warning"]


# ---------------------------------------------------------------- the real analysis

HARD = """\
.visible .entry hard(.param .u64 a, .param .u64 o)
{{
    .reg .b32 %r<{n}>; .reg .b64 %rd<20000>; .reg .f32 %f<{n}>;
    ld.param.u64 %rd1, [a];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [o];
    cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r2, %tid.x;
{body}
    ret;
}}
"""
PAIR = """\
    add.u32 %r{r}, %r2, {i};
    mul.wide.s32 %rd{r}, %r{r}, 4;
    add.s64 %rd{a}, %rd1, %rd{r};
    add.s64 %rd{b}, %rd2, %rd{r};
    ld.global.f32 %f{i}, [%rd{a}];
    st.global.f32 [%rd{b}], %f{i};
"""


@pytest.mark.slow
def test_a_hard_kernel_does_not_cost_the_others(work: Path, build: Build) -> None:
    """Eight stencils after a kernel that takes longer than there is time: they are rewritten."""
    jacobi = (KERNELS / "jacobi.ptx").read_text()
    head, _, kernel = jacobi.partition(".visible .entry")
    pairs = [PAIR.format(i=i, r=100 + i, a=6000 + i, b=12000 + i) for i in range(5000)]
    hard = HARD.format(n=6000, body="".join(pairs))
    stencils = [f".visible .entry{kernel}".replace("jacobi", f"jacobi{i}") for i in range(8)]
    (work / "many.ptx").write_text("\n".join([head, hard, *stencils]))
    environ = {"PTXSW_TIMEOUT": "8", "PTXSW_REPORT": "reports"}
    for _ in range(2):
        done = build("-arch=sm_80", "-O1", "many.ptx", "-o", "out", **environ)
        assert (done.status, done.stderr) == (0, b"")
    lines = build.log()
    assert ["within 8 s: 1 of 9 kernels" in line for line in lines] == [True, True]
    [path] = (work / "reports").iterdir()
    report = json.loads(path.read_text())
    jsonschema.validate(report, schema())
    shuffles = {k["name"]: k["shuffles"] for k in report["kernels"]}
    assert shuffles.pop("hard") == 0
    assert len(shuffles) == 8 and all(shuffles.values())
    assert b"(1 not finished in time)" in build.ptxsw("cache", "info").stdout
    summary = build.ptxsw("report", "reports").stdout.decode()
    assert "5000  the time for the file ran out before this kernel was finished" in summary
    assert "many.ptx: not finished within 8 s: 1 of 9 kernels" in summary
