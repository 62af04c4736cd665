"""Finding where things end without parsing them: braces, statements, comments, strings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate, compress, count, repeat
from operator import add, not_, sub

from ptxsw.patterns import pattern
from ptxsw.source import Span

_TOKEN = pattern(r'//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|"[^"\n]*"|[{}]')
_COMMENT = pattern(r'(//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)|"[^"\n]*"')
# A comment over lines, or a brace in a comment or in a string. Each begins with one literal
# character, for which the search jumps.
_COMMENTED = pattern(r"/(?:\*|/[^\n{}]*+[{}])")
_QUOTED = pattern(r'"[^"\n{}]*+[{}]')
_NEAR = 4_000  # characters in which a closing brace is searched one by one
_NOT_BLANK = pattern(r"[^\n\r\t ]")
_END = pattern(r'//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|"[^"\n]*"|;|\Z')


class Braces:
    """Matching braces of a text.

    Where no comment and no string holds a brace, they are counted with plain searches: that is
    what makes a body that nobody asks for cost next to nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.plain = _COMMENTED.search(text) is None and _QUOTED.search(text) is None

    def close(self, start: int) -> int:
        """Offset of the `}` that matches the `{` at `start`; -1 if there is none."""
        return self._close_plain(start) if self.plain else self._close_exact(start)

    def _close_plain(self, start: int) -> int:
        find, count = self._text.find, self._text.count
        at = find("}", start)
        if count("{", start, at) == 1:
            return at
        depth, after = 0, start
        while at >= 0:
            if after - start > _NEAR:
                return self._close_far(start)
            depth += count("{", after, at) - 1
            if depth == 0:
                return at
            after = at + 1
            at = find("}", after)
        return -1

    @cached_property
    def _closes(self) -> tuple[list[int], list[int], list[int]]:
        """Offsets of all `}`; how many braces are open after each; where none is."""
        parts = self._text.split("}")
        del parts[-1]
        offsets = list(map(add, accumulate(map(len, parts)), count()))
        depths = list(map(sub, accumulate(map(str.count, parts, repeat("{"))), count(1)))
        return offsets, depths, list(compress(offsets, map(not_, depths)))

    def _close_far(self, start: int) -> int:
        """The same as `_close_plain` for a brace that holds many."""
        offsets, depths, outermost = self._closes
        first = bisect_right(offsets, start)
        last, depth = (offsets[first - 1], depths[first - 1]) if first else (-1, 0)
        depth += self._text.count("{", last + 1, start)
        if depth == 0:
            index = bisect_right(outermost, start)
            return outermost[index] if index < len(outermost) else -1
        for index in range(first, len(offsets)):
            if depths[index] <= depth:
                return offsets[index]
        return -1

    def _close_exact(self, start: int) -> int:
        depth = 0
        for match in _TOKEN.finditer(self._text, start):
            token = match.group()
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
                if depth == 0:
                    return match.start()
        return -1


def blank_comments(text: str) -> str:
    """The text with every comment replaced by as many blanks; strings and line ends stay."""

    def blank(match: re.Match[str]) -> str:
        comment = match.group(1)
        if comment is None:
            return match.group()
        whole = comment[1] == "/" and comment[-1] != "\r"  # no line end inside
        return " " * len(comment) if whole else _NOT_BLANK.sub(" ", comment)

    return _COMMENT.sub(blank, text)


def semicolon(text: str, start: int, end: int) -> int:
    """Offset of the next `;` outside comments and strings; `end` if there is none."""
    for match in _END.finditer(text, start, end):
        if match.group() == ";":
            return match.start()
    return end


_BLANK = pattern(r"(?:[ \t\r\n\f\v]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_MARK = pattern(r'[{}:"]|/[/*]')
_LAST_WORD = pattern(r"([A-Za-z0-9_$%]+)\Z", re.ASCII)
_SKIP_TO = {"//": "\n", "/*": "*/", '"': '"'}


def skip_blank(text: str, start: int, end: int) -> int:
    """Offset of the first character that is neither blank nor comment; `end` if none is left."""
    match = _BLANK.match(text, start, end)
    assert match is not None
    return match.end()


def labels_by_scope(text: str, span: Span) -> Mapping[int, frozenset[str]]:
    """For each `{` that holds labels of its own: its offset and their names."""
    labels: dict[int, set[str]] = {}
    stack: list[int] = []
    at = span.start
    while (match := _MARK.search(text, at, span.end)) is not None:
        start, at = match.span()
        mark = match.group()
        if mark == "{":
            stack.append(start)
        elif mark == "}":
            if stack:
                stack.pop()
        elif mark == ":":
            if text[at : at + 1] == ":":  # `shared::cta`
                at += 1
            elif stack:
                before = blank_comments(text[max(span.start, start - 256) : start]).split()
                word = _LAST_WORD.search(before[-1]) if before else None
                if word is not None:
                    labels.setdefault(stack[-1], set()).add(word[1])
        else:
            end = text.find(_SKIP_TO[mark], at, span.end)
            at = span.end if end < 0 else end + len(_SKIP_TO[mark])
    return {at: frozenset(names) for at, names in labels.items()}
