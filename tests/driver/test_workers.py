"""Tasks spread over processes: the same results, whatever becomes of a process."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence

import pytest

from benchmarks.scale import many_kernels
from ptxsw import Options, optimize
from ptxsw.driver.batches import alone, batched
from ptxsw.driver.workers import spread, streamed


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


def pairs(numbers: Iterator[int]) -> Iterator[tuple[int, str]]:
    """Answers two numbers at a time, and one by itself only where it is the last."""
    for first in numbers:
        second = next(numbers, None)
        yield first, str(first)
        if second is not None:
            yield second, str(second)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_work_may_hold_on_to_numbers(jobs: int) -> None:
    assert dict(streamed(range(7), pairs, jobs)) == {n: str(n) for n in range(7)}


def test_what_a_worker_held_on_to_is_not_lost() -> None:
    here = os.getpid()

    def work(numbers: Iterator[int]) -> Iterator[tuple[int, int]]:
        taken = list(numbers)
        if os.getpid() != here:
            os.kill(os.getpid(), 9)
        yield from ((n, n) for n in taken)

    assert dict(streamed(range(6), work, 2)) == {n: n for n in range(6)}


def test_questions_of_several_tasks_are_answered_together() -> None:
    asked: list[list[int]] = []

    def task(number: int) -> Generator[int, int, int]:
        total = 0
        for turn in range(number % 3):
            total += yield number * 10 + turn
        return total

    def answer(questions: Sequence[int]) -> list[int]:
        asked.append(list(questions))
        return [question * 2 for question in questions]

    results = dict(batched(((n, task(n)) for n in range(6)), answer, 2))
    assert results == {0: 0, 1: 20, 2: 82, 3: 0, 4: 80, 5: 202}
    assert asked == [[10, 20], [21, 40], [50], [51]]
    assert alone(task(5), answer) == 202


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


def test_an_answer_may_be_an_exception() -> None:
    """Of a target that ptxas does not know the answer says so; whoever asked goes on."""

    def task() -> Generator[str, Exception, str]:
        return str((yield "?"))

    assert alone(task(), lambda questions: [ValueError("unknown") for _ in questions]) == "unknown"
