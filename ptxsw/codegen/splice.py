"""Edits over spans: the rest of a text stays byte for byte."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from ptxsw.ptx.source import Span


class Edit(Struct, frozen=True):
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


def edited_part(text: str, span: Span, edits: Iterable[Edit]) -> str:
    """Part of a text with the edits made, which all lie inside it."""
    start, end = span
    moved = (Edit(Span(e.span.start - start, e.span.end - start), e.text) for e in edits)
    return apply(text[start:end], moved)


class Piece(Struct, frozen=True):
    """Part of an edited text: characters `start` to `end` of the original, or `new` ones that
    stand at offset `start` = `end` of it."""

    start: int
    end: int
    new: str = ""

    @property
    def length(self) -> int:
        return len(self.new) or self.end - self.start


def pieces(length: int, edits: Iterable[Edit]) -> list[Piece]:
    """The edited text of an original of `length` characters, part by part."""
    spans: list[Piece] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        if at < edit.span.start:
            spans.append(Piece(at, edit.span.start))
        if edit.text:
            spans.append(Piece(edit.span.start, edit.span.start, edit.text))
        at = edit.span.end
    if at < length:
        spans.append(Piece(at, length))
    return spans


def compose(length: int, first: Sequence[Edit], second: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits of an original of `length` characters that do what `first` and, on the text that
    it makes, `second` do. Offsets of `second` are those of the text between."""
    between = pieces(length, first)
    result: list[Piece] = []
    number = at = 0  # the next piece, and the offset in the text between where it begins

    def copy(until: int) -> None:
        nonlocal number, at
        while at < until:
            piece = between[number]
            taken = min(piece.length, until - at)
            head, tail = _cut(piece, taken)
            result.append(head)
            at += taken
            if tail is None:
                number += 1
            else:
                between[number] = tail

    for edit in sorted(second, key=lambda edit: (edit.span.start, edit.span.end)):
        copy(edit.span.start)
        kept = len(result)
        # What the second edit replaces is taken off the pieces and dropped, whether it is of the
        # original or of a first edit.
        copy(edit.span.end)
        del result[kept:]
        if edit.text:
            result.append(Piece(0, 0, edit.text))
    copy(at + sum(piece.length for piece in between[number:]))
    return tuple(_edits(length, result))


def _cut(piece: Piece, length: int) -> tuple[Piece, Piece | None]:
    """The first `length` characters of a piece, and the rest."""
    if length == piece.length:
        return piece, None
    if piece.new:
        head, tail = piece.new[:length], piece.new[length:]
        return Piece(piece.start, piece.end, head), Piece(piece.start, piece.end, tail)
    middle = piece.start + length
    return Piece(piece.start, middle), Piece(middle, piece.end)


def _edits(length: int, parts: Iterable[Piece]) -> Iterator[Edit]:
    """The edits between the parts of the original that are kept."""
    at, new = 0, ""
    # The empty part at the end makes an edit of new text behind the last part that is kept.
    for part in (*parts, Piece(length, length)):
        if part.new:
            new += part.new
            continue
        if new or part.start > at:
            yield Edit(Span(at, part.start), new)
        at, new = part.end, ""


class Origins:
    """Where the characters of an edited text stand in its original."""

    def __init__(self, length: int, edits: Iterable[Edit]) -> None:
        """`length` is that of the original, in characters."""
        self._length = length
        self._pieces = pieces(length, edits)
        self._ends = list(accumulate(piece.length for piece in self._pieces))

    def __call__(self, offset: int) -> int:
        """The offset in the original; of a new character, the place at which it was inserted."""
        piece, begin = self._at(offset)
        return piece.start if piece.new else piece.start + offset - begin

    def inserted(self, offset: int) -> tuple[int, str]:
        """The new text that holds an offset, with its own offset; an empty one where the original
        goes on."""
        piece, begin = self._at(offset)
        return begin, piece.new

    def _at(self, offset: int) -> tuple[Piece, int]:
        """The part of the edited text that holds an offset, and where it begins."""
        number = bisect_right(self._ends, offset)
        if number == len(self._pieces):
            return Piece(self._length, self._length), offset
        piece = self._pieces[number]
        return piece, self._ends[number] - piece.length


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
