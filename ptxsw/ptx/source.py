"""Texts and places in them: the bottom layer, on which everything else stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct


class Span(NamedTuple):
    """Half-open range of character offsets `[start, end)` in a source text."""

    start: int
    end: int


class Source(Struct, frozen=True, dict=True):
    """A text with the name under which messages speak of it.

    A text that is part of another one, or was made from it, has the other's lines: `line_of` gives
    the line there of an offset here. `copied` says whether what stands at an offset was written
    beside what it is a copy of.
    """

    text: str
    name: str = "<ptx>"
    line_of: Callable[[int], int] | None = None
    copied: Callable[[int], bool] | None = None

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        start = self._line_starts[bisect_right(self._line_starts, offset) - 1]
        return self.line(offset), offset - start + 1

    def line(self, offset: int) -> int:
        """Line of a character offset, counted from 1."""
        if self.line_of is not None:
            return self.line_of(offset)
        return bisect_right(self._line_starts, offset)

    def is_copy(self, offset: int) -> bool:
        """Does what stands at an offset stand elsewhere, too, where it was before?"""
        return self.copied is not None and self.copied(offset)

    def line_around(self, offset: int) -> str:
        """The text of the line that holds a character offset, without its line end."""
        return self._line_text(bisect_right(self._line_starts, offset))

    def line_text(self, line: int) -> str:
        """The text of a line (counted from 1) without its line end. Not for a text that has the
        lines of another one."""
        assert self.line_of is None
        return self._line_text(line)

    def _line_text(self, line: int) -> str:
        starts = self._line_starts
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r")

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]
