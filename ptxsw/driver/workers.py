"""Independent tasks spread over processes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Result = TypeVar("Result")
Work = Callable[[Iterator[int]], Iterator[tuple[int, Result]]]


class OtherMachines(Protocol):
    """A cluster, such as `ptxsw.driver.cluster` connects to."""

    def streamed(self, order: Sequence[int], work: Work[Result]) -> Iterator[tuple[int, Result]]:
        """As `streamed` below."""
        ...


Workers: TypeAlias = int | OtherMachines
"""So many processes of this machine, or a cluster."""


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    order: Sequence[int], work: Callable[[int], Result], jobs: Workers
) -> Iterator[tuple[int, Result]]:
    """The results of `work` for these numbers: `streamed`, each by itself."""
    return streamed(order, lambda numbers: ((number, work(number)) for number in numbers), jobs)


def streamed(
    order: Sequence[int], work: Work[Result], jobs: Workers
) -> Iterator[tuple[int, Result]]:
    """The results of `work` for these numbers, each as soon as it is there, from at most `jobs`
    processes, or from a cluster. `work` takes numbers when it has time for them, and may hold on to
    some. With one job nothing is started and the order is kept.

    Workers are forks: they see what this process has read, and take a number each time that they
    are idle, so memory holds what one worker works on. What a worker fails at is done again here,
    and raises here what it raises. Results cross a pipe: they have to be picklable.
    """
    if (isinstance(jobs, int) and jobs <= 1) or len(order) <= 1:
        yield from work(iter(order))
        return
    if not isinstance(jobs, int):
        yield from jobs.streamed(order, work)
        return
    from multiprocessing.connection import wait

    waiting = deque(order)
    workers = [_Worker(work) for _ in range(min(jobs, len(order)))]
    alive = {worker.line: worker for worker in workers}
    try:
        while alive:
            for line in wait(list(alive)):
                worker = alive[line]  # type: ignore[index]
                messages = worker.told()
                if messages == _IDLE:
                    worker.give(waiting.popleft() if waiting else None)
                elif messages in (_FAILED, _DIED):
                    if messages == _DIED:
                        del alive[worker.line]
                    left, worker.owes = worker.owes, []
                    yield from work(iter(left))
                else:
                    worker.owes.remove(messages[0])
                    yield messages
        yield from work(iter(waiting))  # all workers have died
    finally:
        for worker in workers:
            worker.end()


_IDLE, _FAILED, _DIED = "idle", "failed", "died"


class _Worker:
    """A fork that takes numbers and gives results until it is ended."""

    def __init__(self, work: Work[Any]) -> None:
        from multiprocessing import Pipe

        from ptxsw.toolchain.process import end_with_parent

        self.owes: list[int] = []  # the numbers that it has taken and not answered
        self.line, far_end = Pipe()
        end_with_parent(0)  # imports what the child will need
        parent = os.getpid()
        self._process = os.fork()
        if self._process:
            far_end.close()
            return
        try:
            self.line.close()
            end_with_parent(parent)
            _serve(work, far_end)
        finally:  # never back into the caller's code, whatever was raised
            os._exit(0)

    def give(self, number: int | None) -> None:
        """Hands it a number, or None where there are no more."""
        if number is not None:
            self.owes.append(number)
        with contextlib.suppress(OSError):  # it has died, and is told of next
            self.line.send(number)

    def told(self) -> Any:
        """What it says: that it is idle, has failed or died, or a number with its result."""
        try:
            return self.line.recv()
        except (EOFError, OSError):
            return _DIED

    def end(self) -> None:
        self.line.close()
        os.kill(self._process, signal.SIGKILL)  # it has nothing left to do
        os.waitpid(self._process, 0)


def _serve(work: Work[Any], line: Connection[Any, Any]) -> None:
    """Works on what comes until there is no more."""
    more = True

    def numbers() -> Iterator[int]:
        nonlocal more
        while True:
            line.send(_IDLE)
            number = line.recv()
            if number is None:
                more = False
                return
            yield number

    while more:
        try:
            for result in work(numbers()):
                line.send(result)
        except Exception:  # the caller meets it, with all that it says, when it tries by itself
            line.send(_FAILED)
