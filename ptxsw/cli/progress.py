"""What long work is at, for who waits at a terminal; nothing where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Step(Protocol):
    """Called with what is worked on now."""

    def __call__(self, on: str) -> None: ...


@contextmanager
def working(verb: str) -> Iterator[Step]:
    """Shows `verb` and what is worked on in one line of standard error, until the end."""
    shown = sys.stderr.isatty()

    def step(on: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[K{on and f'{verb} {on}'}")
            sys.stderr.flush()

    try:
        yield step
    finally:
        step("")
