"""Work on a cluster gives what one process gives: whatever is sent survives it, and a worker that
is lost costs nothing that is seen."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ptxsw.driver import workers
from ptxsw.driver.checking import check
from ptxsw.driver.cluster import Cluster, NoCluster
from ptxsw.driver.pipeline import Options, analyze, optimize
from ptxsw.report.serial import to_json
from tests.command_line import ptxsw

KERNEL = """
.visible .entry k{number}(.param .u64 p, .param .u32 n)
{{
    .reg .b64 %d<4>;
    .reg .b32 %r<6>;
    .reg .pred %p<2>;
    ld.param.u64 %d1, [p];
    ld.param.u32 %r3, [n];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, %r3;
    @%p1 bra END;
    mul.wide.u32 %d2, %r1, {stride};
    add.s64 %d1, %d1, %d2;
    ld.global.u32 %r2, [%d1];
    ld.global.u32 %r4, [%d1+4];
    add.u32 %r2, %r2, %r4;
    st.global.u32 [%d1+{offset}], %r2;
END:
    ret;
}}
"""
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def text(count: int, first: int = 0) -> str:
    """A module of so many kernels, no two of which are alike."""
    kernels = (
        KERNEL.format(number=number, stride=8 * (1 + number % 9), offset=4 * number)
        for number in range(first, first + count)
    )
    return HEAD + "".join(kernels)


class Elsewhere:
    """In the place of a cluster: what is sent is a copy, as it is there."""

    def __init__(self) -> None:
        self.sent = 0

    def streamed(self, order: Sequence[int], work: workers.Work[Any]) -> Iterator[tuple[int, Any]]:
        cloudpickle = pytest.importorskip("cloudpickle")
        there = cloudpickle.loads(cloudpickle.dumps(work))
        self.sent += 1
        for number in reversed(order):
            yield from cloudpickle.loads(cloudpickle.dumps(list(there(iter([number])))))


def _without_seconds(report: Any) -> Any:
    given = to_json(report)
    given.pop("seconds")
    return given


def _checked(given: str, jobs: Any) -> Any:
    return _without_seconds(check(given, select="all", ptxas=False, block=64, jobs=jobs))


def _analyzed(given: str, jobs: Any) -> Any:
    return _without_seconds(analyze(given, jobs=jobs))


def _optimized(given: str, jobs: Any) -> Any:
    result = optimize(given, Options(mode="force"), jobs=jobs)
    return result.text, _without_seconds(result.report)


@pytest.mark.parametrize("command", [_checked, _analyzed, _optimized])
def test_what_is_sent_gives_the_same(command: Callable[[str, Any], Any]) -> None:
    given = text(12).replace("END:", f"END: // {'x' * 4_200}")  # long enough to be divided
    elsewhere = Elsewhere()
    assert command(given, elsewhere) == command(given, 1)
    assert elsewhere.sent == 1  # the text, once


def test_addresses_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(text(1))
    pytest.importorskip("distributed")
    with pytest.raises(NoCluster, match="dusk is not a cluster address: dask://HOST:PORT"):
        Cluster("dusk")
    done = ptxsw("check", str(path), "--on", "dask://127.0.0.1:1", "-j", "2")
    assert done.returncode == 2
    assert b"--jobs and --on exclude each other: use one of them" in done.stderr


@pytest.mark.slow
def test_nobody_answers(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(NoCluster, match=r"no Dask scheduler answers at 127\.0\.0\.1:1"):
        Cluster("dask://127.0.0.1:1")


@pytest.mark.slow
def test_a_thousand_kernels_and_a_worker_that_is_lost(tmp_path: Path) -> None:
    """Two local workers check 1,000 kernels in 100 files; one of them is killed on the way."""
    distributed = pytest.importorskip("distributed")
    for number in range(100):
        (tmp_path / f"m{number:03}.ptx").write_text(text(10, 10 * number))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        on = f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"
        victim = cluster.workers[0].pid
        threading.Thread(target=_kill, args=(victim, 6.0), daemon=True).start()
        arguments = ("check", str(tmp_path), "--no-ptxas", "--format", "json")
        there = ptxsw(*arguments, "--on", on)
    here = ptxsw(*arguments, "-j1")
    assert there.stdout == here.stdout
    assert there.returncode == here.returncode == 1
    assert here.stdout.count(b'"kernel": "k999"') > 0


def _kill(process: int, seconds: float) -> None:
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
