"""How long one kernel may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import perf_counter, thread_time

OUT_OF_TIME = "the time budget of the kernel ran out"

PLANNING = 0.5
"""The share of a kernel's time after which nothing more is planned: what was decided by then has
still to be written and checked."""

CHECKING = 0.75
"""The share after which a check of all that was written is given up: the rest is for one of part of
it."""


class OutOfTime(Exception):
    """The time of a kernel, or the share of it that a task has, is spent."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_TIME)


class Budget:
    """CPU time of this thread, in seconds, while the budget is entered (`with budget:`). So the
    answers do not depend on how busy the machine is, and kernels do not pay for each other."""

    def __init__(self, seconds: float = inf) -> None:
        self.seconds = seconds
        self._used = 0.0
        self._since: float | None = None
        self._entered = 0.0

    def __enter__(self) -> Budget:
        self._since, self._entered = thread_time(), perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._used = self.used
        self._since = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Does not count what others do meanwhile."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    @property
    def used(self) -> float:
        return self._used + (0.0 if self._since is None else thread_time() - self._since)

    def until(self, share: float) -> Budget:
        """A budget that ends where this share of it is spent."""
        part = Budget(share * self.seconds)
        part._used, part._since, part._entered = self._used, self._since, self._entered
        return part

    def spent(self, share: float = 1.0) -> bool:
        """Is this share of the time gone?"""
        if self._since is not None:
            # The thread has used no more than has passed, which takes far less to ask for.
            passed = perf_counter() - self._entered
            if self._used + passed < share * self.seconds:
                return False
        return self.used > share * self.seconds

    def check(self, share: float = 1.0) -> None:
        """Raises OutOfTime where the share is spent."""
        if self.spent(share):
            raise OutOfTime
