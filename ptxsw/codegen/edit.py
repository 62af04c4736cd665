"""Edits over spans: the rest of a text stays byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ptxsw.source import Span


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` in place of `span`; an empty span inserts."""

    span: Span
    text: str


def insert(at: int, text: str) -> Edit:
    """An edit that inserts `text` before the character at offset `at`."""
    return Edit(Span(at, at), text)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. Offsets are those of `text`; edits must not overlap.

    Insertions at one offset keep their order and come before a replacement that starts there.
    Without edits the result is `text` itself.
    """
    ordered = sorted(edits, key=lambda edit: (edit.span.start, edit.span.end))
    if not ordered:
        return text
    pieces: list[str] = []
    at = 0
    for edit in ordered:
        assert at <= edit.span.start <= edit.span.end <= len(text), (at, edit)
        pieces += (text[at : edit.span.start], edit.text)
        at = edit.span.end
    pieces.append(text[at:])
    return "".join(pieces)


def line_end(text: str) -> str:
    """The line end the text uses: its first one, or a plain newline."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def indentation(text: str, at: int) -> str:
    """The blanks before the first word of the line that holds offset `at`."""
    start = text.rfind("\n", 0, at) + 1
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]


def insert_lines(text: str, at: int, lines: Iterable[str]) -> Edit:
    """Insert whole lines before the statement at offset `at`, indented like it.

    Where the statement does not begin its line, the lines stand before it on that line's end.
    """
    start = text.rfind("\n", 0, at) + 1
    end = line_end(text)
    indent = indentation(text, at)
    if text[start:at].strip(" \t"):
        return insert(at, "".join(f"{line}{end}{indent}" for line in lines))
    return insert(start, "".join(f"{indent}{line}{end}" for line in lines))
