"""Independent tasks spread over processes."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    order: Sequence[int], work: Callable[[int], Result], jobs: int
) -> Iterator[tuple[int, Result]]:
    """The results of `work` for these numbers, each as soon as it is there, from at most `jobs`
    processes. With one job nothing is started and the order is kept.

    Workers are forks: they see what this process has read, and take a number each time that they
    are idle, so memory holds one task a worker. What a worker fails at is done again here, and
    raises here what it raises. Results cross a pipe: they have to be picklable.
    """
    if jobs <= 1 or len(order) <= 1:
        yield from ((number, work(number)) for number in order)
        return
    from multiprocessing.connection import wait

    waiting = deque(order)
    workers = [_Worker(work) for _ in range(min(jobs, len(order)))]
    busy: dict[_Worker, int] = {}

    def give(worker: _Worker) -> None:
        busy[worker] = waiting.popleft()
        worker.line.send(busy[worker])

    try:
        for worker in workers:
            give(worker)
        while busy:
            ready = wait([worker.line for worker in busy])
            for worker in [worker for worker in busy if worker.line in ready]:
                number = busy.pop(worker)
                done, result = worker.result()
                if done and waiting:
                    give(worker)
                yield number, result if done else work(number)
        yield from ((number, work(number)) for number in waiting)  # all workers have died
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A fork that takes numbers and gives results until it is ended."""

    def __init__(self, work: Callable[[int], object]) -> None:
        from multiprocessing import Pipe

        from ptxsw.toolchain.process import end_with_parent

        self.line, theirs = Pipe()
        end_with_parent(0)  # imports what the child will need
        parent = os.getpid()
        self._process = os.fork()
        if self._process:
            theirs.close()
            return
        try:
            end_with_parent(parent)
            while True:
                theirs.send(_attempt(work, theirs.recv()))
        finally:  # never back into the caller's code, whatever was raised
            os._exit(0)

    def result(self) -> tuple[bool, Any]:
        """Whether the task was finished, and what came of it."""
        try:
            answer: tuple[bool, Any] = self.line.recv()
        except (EOFError, OSError):
            return False, None
        return answer

    def end(self) -> None:
        self.line.close()
        os.kill(self._process, signal.SIGKILL)  # it has nothing left to do
        os.waitpid(self._process, 0)


def _attempt(work: Callable[[int], object], number: int) -> tuple[bool, object]:
    try:
        return True, work(number)
    except Exception:  # the caller meets it, with all that it says, when it tries by itself
        return False, None
