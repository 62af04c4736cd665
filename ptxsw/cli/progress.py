"""What long work is at, for who waits at a terminal; nothing where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def working(verb: str) -> Iterator[Callable[[str], None]]:
    """Gives what is to be called with each thing worked on: `verb` and that are shown in one line
    of standard error, until the end."""
    shown = sys.stderr.isatty()

    def step(on: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[K{on and f'{verb} {on}'}")
            sys.stderr.flush()

    try:
        yield step
    finally:
        step("")
