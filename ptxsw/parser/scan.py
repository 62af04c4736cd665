"""Finding where things end without parsing them: braces, statements, comments, strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.source import Span

_TOKEN = pattern(r'//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|"[^"\n]*"|[{}]')
_COMMENT = pattern(r'(//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)|"[^"\n]*"')
# A comment over lines, or a brace in a comment or in a string. Each begins with one literal
# character.
_COMMENTED = pattern(r"/(?:\*|/[^\n{}]*+[{}])")
_QUOTED = pattern(r'"[^"\n{}]*+[{}]')
_STEPS = 500  # characters for each search that is tried before an expression takes over
_NOT_BLANK = pattern(r"[^\n\r\t ]")
_END = pattern(r'//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|"[^"\n]*"|;|\Z')


def _is_commented(text: str) -> bool:
    """Does a text hold a comment over lines, or one with a brace?"""
    find = text.find
    star = find("*")
    for _ in range(16 + len(text) // _STEPS):
        if star < 0:
            return _is_before_brace(text, "/", 2, _COMMENTED)  # in `//` the second begins nothing
        if text[star - 1] == "/":
            return True
        star = find("*", star + 1)
    return _COMMENTED.search(text) is not None


def _is_before_brace(text: str, mark: str, step: int, braced: re.Pattern[str]) -> bool:
    """Does a text hold what `braced` matches, which is `mark` and a brace after it in its line?

    Where it does not match, it does so nowhere in the `step` characters from there on. Searches
    for one character pass over lines without it at many times the speed of an expression.
    """
    find = text.find
    at = find(mark)
    opened, close = find("{"), find("}")
    for _ in range(16 + len(text) // _STEPS):
        if at < 0:
            return False
        if braced.match(text, at) is not None:
            return True
        if 0 <= opened < at:
            opened = find("{", at)
        if 0 <= close < at:
            close = find("}", at)
        brace = min(opened, close) if opened >= 0 and close >= 0 else max(opened, close)
        if brace < 0:
            return False
        at = find(mark, max(at + step, text.rfind("\n", at, brace)))
    return at >= 0 and braced.search(text, at) is not None


class Braces:
    """Matching braces of a text.

    Where no comment and no string holds a brace, they are counted with plain searches: that is
    what makes a body that nobody asks for cost next to nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.plain = not (_is_commented(text) or _is_before_brace(text, '"', 1, _QUOTED))

    def close(self, start: int) -> int:
        """Offset of the `}` that matches the `{` at `start`; -1 if there is none."""
        return self._close_plain(start) if self.plain else self._close_exact(start)

    def _close_plain(self, start: int) -> int:
        find = self._text.find
        close = find("}", start)
        if find("{", start + 1, close) < 0:
            return close
        depth, opened = 1, find("{", start + 1)
        while close >= 0:
            if 0 <= opened < close:
                depth += 1
                opened = find("{", opened + 1)
            else:
                depth -= 1
                if not depth:
                    return close
                close = find("}", close + 1)
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


class ScopeLabels:
    """Labels of the scopes of a body. In a `plain` text nothing but code holds braces or colons."""

    def __init__(self, text: str, span: Span, plain: bool) -> None:
        self._text, self._span, self._plain = text, span, plain

    @cached_property
    def _by_scope(self) -> Mapping[int, frozenset[str]]:
        return labels_by_scope(self._text, self._span)

    def of(self, at: int) -> frozenset[str]:
        """Those of the scope whose `{` stands at `at`."""
        text, depth, after = self._text, 1, at + 1
        for _ in range(8 if self._plain else 0):  # short scopes are the rule
            close = text.find("}", after, at + 2000)
            if close < 0:
                break
            depth += text.count("{", after, close) - 1
            after = close + 1
            if not depth:
                if text.find(":", at, close) < 0:
                    return frozenset()
                break
        return self._by_scope.get(at, frozenset())


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
