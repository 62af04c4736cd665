"""The errors a user can meet, each with a place that it draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ptxsw.ptx.printable import drawn, one_line

if TYPE_CHECKING:
    from ptxsw.ptx.source import Source, Span


class PtxError(Exception):
    """Something about the input: where it is and what to do about it."""

    def __init__(self, message: str, source: Source, span: Span) -> None:
        super().__init__(message, source, span)
        self.message, self.source, self.span = message, source, span

    @property
    def line(self) -> int:
        """Counted from 1."""
        return self.source.place(self.span.start)[0]

    @property
    def column(self) -> int:
        """Counted from 1."""
        return self.source.place(self.span.start)[1]

    def __str__(self) -> str:
        line, column = self.source.place(self.span.start)
        text = self.source.line_around(self.span.start)
        length = self.span.end - self.span.start
        return (
            f"{one_line(self.source.name)}:{line}:{column}: {one_line(self.message)}\n"
            f"{drawn(line, text, column, length)}"
        )


@contextmanager
def naming(path: str, private: str | None = None) -> Iterator[None]:
    """An OSError that names no file, as that of a full disk, or `private`, gets the name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None or error.filename == private:
            error.filename = path
        raise


class InvalidRequest(ValueError):
    """What is asked for cannot be had: a kernel that is not there, a launch that does not fit."""


class ParseError(PtxError):
    """The text is not PTX."""


class Unsupported(PtxError):
    """The text is PTX that ptxsw does not model."""
