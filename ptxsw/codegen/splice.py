"""Edits over spans: the rest of a text stays byte for byte."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.source import Source, Span

_NOTES = (".loc", ".pragma")
"""How lines begin that say nothing of the code: it has the same lines without them."""


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


class LineOrigins:
    """The lines of an edited text as lines of its original, where edits have copied code, too.

    original                        edited                         its line in the original
    7  add.s64 %rd2, %rd1, 4;       add.s64 %rd2, %rd1, 4;         7
    8  ld.global.f32 %f1, [%rd2];   ld.global.v2.f32 {%f1, ...     8
    9  ret;                         ret;                           9
    10 }                            $sw_slow1:                     10: where the edit stands
                                    add.s64 %rd2, %rd1, 4;         7: a copy
                                    ld.global.nc.f32 %f1, [%rd2];  8: in place of line 8
                                    ret;                           9

    A new line that repeats a line of the original, and no other one, is taken for a copy of it.
    Lines between two copies belong to what they replace, if that is known: to the line that was
    left out between the two, else to the one before. Lines are for people; nothing is decided by
    them.
    """

    def __init__(self, source: Source, edits: tuple[Edit, ...]) -> None:
        self._source = source
        self._origins = Origins(len(source.text), edits)
        self._new: dict[int, tuple[list[int], list[int | None]]] = {}  # by where it begins

    def __call__(self, offset: int) -> int:
        origin = self._of_copy(offset)
        return self._source.line(self._origins(offset) if origin is None else origin)

    def is_copy(self, offset: int) -> bool:
        """Is a copy at this offset, or what stands in a copy in place of the original's?"""
        return self._of_copy(offset) is not None

    def _of_copy(self, offset: int) -> int | None:
        """The offset in the original of what is copied at an offset; None where nothing is."""
        begin, new = self._origins.inserted(offset)
        if not new:
            return None
        if begin not in self._new:
            lines = blank_comments(new).split("\n")
            starts = [0, *accumulate(len(line) + 1 for line in lines[:-1])]
            self._new[begin] = starts, self._copied([line.strip() for line in lines])
        starts, origins = self._new[begin]
        return origins[bisect_right(starts, offset - begin) - 1]

    @cached_property
    def _lines(self) -> tuple[list[int], list[str], dict[str, int | None]]:
        """Offsets and texts of the lines of the original that say something of the code, and the
        number of each text among them; None where several lines have it."""
        starts: list[int] = []
        texts: list[str] = []
        numbers: dict[str, int | None] = {}
        start = 0
        for line in blank_comments(self._source.text).split("\n"):
            if (text := line.strip()) and not text.startswith(_NOTES):
                numbers[text] = None if text in numbers else len(texts)
                starts.append(start + line.index(text))
                texts.append(text)
            start += len(line) + 1
        return starts, texts, numbers

    def _copied(self, new: list[str]) -> list[int | None]:
        """For each new line the offset of the original's line that it copies or replaces; None
        where no copy stands before it."""
        starts, texts, numbers = self._lines
        origins: list[int | None] = []
        last: int | None = None  # the number of the line that was copied last
        between: list[int] = []  # new lines since then
        for at, text in enumerate(new):
            number = numbers.get(text)
            if number is None and last is not None and texts[last + 1 : last + 2] == [text]:
                number = last + 1  # goes on as the original does, though other lines say the same
            if number is None:
                origins.append(None if last is None else starts[last])
                if not text.startswith(_NOTES):
                    between.append(at)
                continue
            # New lines between two copies stand for the line of the original that is missing
            # between them: corrected now that the second copy is seen.
            if last is not None and number > last + 1:
                for line in between:
                    origins[line] = starts[last + 1]
            origins.append(starts[number])
            last, between = number, []
        return origins
