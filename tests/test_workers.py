"""Tasks spread over processes: the same results, whatever becomes of a process."""

from __future__ import annotations

import os

import pytest

from benchmarks.scale import many_kernels
from ptxsw import Options, optimize
from ptxsw.workers import spread


def test_results_are_those_of_one_process() -> None:
    order = [3, 1, 2, 0, 5, 4]
    assert list(spread(order, str, 1)) == [(n, str(n)) for n in order]
    assert dict(spread(order, str, 3)) == {n: str(n) for n in order}


def test_the_work_is_done_elsewhere() -> None:
    here = os.getpid()
    assert here not in {result for _, result in spread(range(4), lambda _: os.getpid(), 2)}
    assert {result for _, result in spread(range(1), lambda _: os.getpid(), 2)} == {here}


def test_what_a_worker_raises_is_raised_here() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise ValueError("two is not for us")
        return number

    with pytest.raises(ValueError, match="two is not for us"):
        dict(spread(range(5), work, 2))


def test_the_task_of_a_worker_that_died_is_done_here() -> None:
    here = os.getpid()

    def work(number: int) -> int:
        if number % 2 and os.getpid() != here:
            os.kill(os.getpid(), 9)
        return number

    assert dict(spread(range(6), work, 2)) == {n: n for n in range(6)}


def test_nobody_is_left_behind() -> None:
    for _ in spread(range(8), lambda n: n, 4):
        break
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_report_does_not_tell_how_many_worked_on_it() -> None:
    text = many_kernels(12)
    options = Options(mode="force", scheme="paper", smt2=True)
    alone, together = (optimize(text, options, jobs=jobs) for jobs in (1, 2))
    assert alone.text == together.text
    assert alone.smt2.keys() == together.smt2.keys()
    assert alone.report.kernels == together.report.kernels
