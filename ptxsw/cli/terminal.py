"""What is written for a person: in colours, as wide as the terminal, page by page on request, and
without what would command the terminal or a CI system."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO, cast

from ptxsw.ptx.printable import lines, well_formed
from ptxsw.ptx.text_files import encoded

if TYPE_CHECKING:
    from ptxsw.report.layout import Paint


class GuardedStream:
    """A text stream that writes all as `printable.lines` has it: the one place through which what
    the commands print goes. `exact` is for what is no text for a person."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # no locale stops an output

    def write(self, text: str) -> int:
        return self._stream.write(lines(text, self._stream.isatty()))

    def writelines(self, texts: Iterable[str]) -> None:
        self.write("".join(texts))

    def exact(self, text: str) -> int:
        if not isinstance(self._stream, io.TextIOWrapper) or well_formed(text) == text:
            return self._stream.write(text)
        self._stream.flush()
        self._stream.buffer.write(encoded(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_output() -> None:
    """From now on, has nothing reach standard output and standard error but through a guard."""
    sys.stdout, sys.stderr = cast(
        "tuple[TextIO, TextIO]", (GuardedStream(sys.stdout), GuardedStream(sys.stderr))
    )


def write_exact(stream: TextIO, text: str) -> None:
    """Writes data, or what only a terminal is to understand, past the guard."""
    (stream.exact if isinstance(stream, GuardedStream) else stream.write)(text)


def paint() -> Paint:
    """Colours on a terminal, none where the output goes elsewhere or NO_COLOR is set."""
    from ptxsw.report.layout import plain
    from ptxsw.report.text import coloured

    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return coloured if wanted and os.environ.get("TERM") != "dumb" else plain


def width() -> int | None:
    """Characters of a line of the terminal; None where the output goes elsewhere."""
    return _size().columns if sys.stdout.isatty() else None


def folded(lead: str, words: str, width: int | None) -> str:
    """Words behind a lead, in lines of at most `width` characters."""
    if width is None:
        return lead + words
    from textwrap import fill

    return fill(words, width, initial_indent=lead, subsequent_indent=" " * len(lead))


def show(text: str, *, paged: bool) -> None:
    """Write to standard output. With `paged`, what is longer than the terminal goes to `PAGER`, or
    to `less` where that is not set."""
    pager = _pager() if paged and sys.stdout.isatty() else None
    if pager is None or text.count("\n") < _size().lines:
        sys.stdout.write(text)
        return
    import signal
    import subprocess

    sys.stdout.flush()
    environ = {"LESS": "-FRX", **os.environ}
    reader = subprocess.Popen(pager, shell=True, stdin=subprocess.PIPE, env=environ)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the reader's now
    try:
        reader.communicate(lines(text, coloured=True).encode())
    except BrokenPipeError:
        pass  # it was left before the end
    finally:
        signal.signal(signal.SIGINT, before)


def _size() -> os.terminal_size:
    from shutil import get_terminal_size  # most output goes elsewhere

    return get_terminal_size()


def _pager() -> str | None:
    if os.environ.get("TERM") == "dumb":
        return None
    named = os.environ.get("PAGER")
    if named is None:
        import shutil

        return "less" if shutil.which("less") else None
    return named if named not in ("", "cat") else None
