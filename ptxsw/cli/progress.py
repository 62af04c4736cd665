"""What long work is at, for who waits at a terminal; nothing where the output is piped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ptxsw.cli.terminal import write_exact
from ptxsw.ptx.printable import one_line

if TYPE_CHECKING:
    from ptxsw.codegen.splice import Edit
    from ptxsw.report import Kernel, Report


@contextmanager
def working(verb: str) -> Iterator[Callable[[str], None]]:
    """Gives what is to be called with each thing worked on: `verb` and that are shown in one line
    of standard error, until the end."""
    shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def step(on: str) -> None:
        if shown:
            write_exact(sys.stderr, f"\r\x1b[K{on and f'{verb} {one_line(on)}'}")
            sys.stderr.flush()

    try:
        yield step
    finally:
        step("")


class _Counter:
    """A `Watch` that shows how many kernels are finished."""

    def __init__(self, step: Callable[[str], None]) -> None:
        self._step, self._done, self._all = step, 0, 0

    def begin(self, waiting: Report) -> None:
        self._all = len(waiting.kernels)

    def finished(self, number: int, kernel: Kernel, edits: tuple[Edit, ...]) -> None:
        self._done += 1
        self._step(f"{self._done} of {self._all} kernels")


@contextmanager
def counting(verb: str) -> Iterator[_Counter | None]:
    """A watch over the kernels of a file that shows how many are finished; None where nobody
    looks on."""
    with working(verb) as step:
        yield _Counter(step) if sys.stderr.isatty() else None


class Bar:
    """Is called with how many things are done, and the name of one."""

    def __init__(self, step: Callable[[str], None], total: int) -> None:
        self._step, self.total = step, total
        self._began = time.monotonic()

    def __call__(self, done: int, name: str) -> None:
        filled = _WIDTH * done // max(1, self.total)
        drawn = "#" * filled + "-" * (_WIDTH - filled)
        self._step(f"[{drawn}] {done}/{self.total} {name[-_LONGEST:]}")

    def say(self, line: str) -> None:
        """A line that stays above the bar, where somebody has waited for long enough to like it."""
        if sys.stderr.isatty() and time.monotonic() - self._began > _PATIENCE:
            self._step("")
            sys.stderr.write(f"{line}\n")


@contextmanager
def bar(verb: str, total: int) -> Iterator[Bar]:
    """A bar on standard error, until the end."""
    with working(verb) as step:
        yield Bar(step, total)


def now_and_then(tell: Callable[[int], None], seconds: float = 0.2) -> Callable[[int], None]:
    """Tells a count that grows fast, at most so often."""
    last = time.monotonic()

    def step(count: int) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            tell(count)

    return step


_WIDTH = 24
_PATIENCE = 2.0  # seconds
_LONGEST = 40  # characters of a name
