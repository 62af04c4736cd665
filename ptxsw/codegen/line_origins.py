"""The lines of an edited text as lines of its original, where edits have copied code, too.

original                          edited                            its line in the original
   7  add.s64 %rd2, %rd1, 4;      add.s64 %rd2, %rd1, 4;            7
   8  ld.global.f32 %f1, [%rd2];  ld.global.v2.f32 {%f1, ...        8
   9  ret;                        ret;                              9
  10  }                           $sw_slow1:                        10: it is where the edit stands
                                  add.s64 %rd2, %rd1, 4;            7: a copy
                                  ld.global.nc.f32 %f1, [%rd2];     8: in place of what was line 8
                                  ret;                              9

A new line that repeats a line of the original, and no other one, is taken for a copy of it. Lines
between two copies belong to what they replace, if that is known: to the line that was left out
between the two, else to the one before. Lines are for people; nothing is decided by them.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

from ptxsw.codegen.splice import Edit, Origins
from ptxsw.parser.scan import blank_comments
from ptxsw.ptx.source import Source

_NOTES = (".loc", ".pragma")
"""How lines begin that say nothing of the code: it has the same lines without them."""


class LineOrigins:
    """Maps an offset in the edited text to a line of the original."""

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
