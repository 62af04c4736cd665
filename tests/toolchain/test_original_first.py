"""Where most of a long text takes all registers, ptxas makes its original first: that is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crowded import SUMS, crowded
from tests.toolchain.conftest import Done, StandIn
from tests.toolchain.test_unfinished import sass

CALL = ("-arch=sm_80", "-warn-double-usage", "long.ptx", "-o", "out")


@pytest.fixture
def calls(work: Path, ptxas: str, stand_in: StandIn) -> StandIn:
    """Runs the stand-in; the arguments of each run of ptxas are noted in the file `runs`."""
    (work / "ptxas").write_text(f'#!/bin/sh\necho "$@" >>{work}/runs\nexec {ptxas} "$@"\n')
    (work / "ptxas").chmod(0o755)
    (work / "long.ptx").write_text(crowded() + vecadd(work))

    def call(*arguments: str, **more: str) -> Done:
        (work / "runs").write_text("")
        return stand_in(*arguments, PTXSW_REAL_PTXAS=str(work / "ptxas"), **more)

    return call


def vecadd(work: Path) -> str:
    """A kernel that the rewriter knows."""
    _, entry, kernel = (work / "add.ptx").read_text().partition(".visible .entry")
    return entry + kernel


def runs(work: Path) -> list[str]:
    return (work / "runs").read_text().splitlines()


def test_one_run_is_enough(work: Path, calls: StandIn, plain: StandIn) -> None:
    """The output, and what ptxas said, are those of the only run; so the next time."""
    wanted = plain(*CALL)
    cubin = (work / "out").read_bytes()
    for _ in range(2):
        (work / "out").unlink()
        assert calls(*CALL, behaviour="real") == wanted
        assert (work / "out").read_bytes() == cubin
        assert runs(work) == [" ".join(CALL)]
    assert not (work / "log").exists()


def test_what_is_rewritten_takes_its_place(work: Path, calls: StandIn, plain: StandIn) -> None:
    (work / "other.ptx").write_text((work / "long.ptx").read_text().replace("add.rn", "sub.rn"))
    assert plain("-arch=sm_80", "-warn-double-usage", "other.ptx", "-o", "other").status == 0
    assert calls(*CALL).status == 0
    first, second = runs(work)
    assert first == " ".join(CALL) != second
    assert sass(work / "out") == sass(work / "other")


def test_a_refused_text_is_not_looked_at(work: Path, calls: StandIn, plain: StandIn) -> None:
    (work / "long.ptx").write_text(crowded().replace("sub.f64", "bogus.f64", 1))
    count = work / "count"
    assert calls(*CALL, COUNT=str(count)) == plain(*CALL)
    assert len(runs(work)) == 1 and not count.exists() and not (work / "out").exists()


def test_a_crash_leaves_what_is_there(work: Path, calls: StandIn, plain: StandIn) -> None:
    wanted = plain(*CALL)
    assert calls(*CALL, behaviour="crash") == wanted
    assert len(runs(work)) == 1 and (work / "out").exists()
    assert "left alone: " in (work / "log").read_text()


def test_a_strict_build_leaves_nothing(work: Path, calls: StandIn) -> None:
    done = calls(*CALL, behaviour="crash", PTXSW_STRICT="1")
    assert done.status != 0 and not (work / "out").exists() and runs(work) == []


@pytest.mark.parametrize(
    ("arguments", "more", "text"),
    [
        (CALL, {"PTXSW_MODE": "force"}, crowded()),
        ((*CALL, "-maxrregcount", "128"), {}, crowded()),
        (CALL, {}, crowded(sums=SUMS - 2)),
    ],
)
def test_otherwise_it_is_asked_last(
    work: Path, calls: StandIn, arguments: tuple[str, ...], more: dict[str, str], text: str
) -> None:
    (work / "long.ptx").write_text(text + vecadd(work))
    assert calls(*arguments, **more).status == 0
    assert len(runs(work)) == 1 and "long.ptx" not in runs(work)[0]
