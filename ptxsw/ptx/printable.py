"""What others wrote, as a person may see it: no character that moves a cursor, hides text or turns
its direction, and no line that a CI system takes for a command.

Names of files and kernels, lines of sources and strings of reports are data. A terminal or a log
that they reach would obey an escape sequence, `::stop-commands::` or `##[error]` in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ptxsw.ptx.patterns import pattern

_SPACES = "\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""Unicode's spaces, which Python does not call printable."""

_BYTES = {code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)}
"""How Python holds the bytes of a name that are not UTF-8, and how they are shown."""

_COMMAND = pattern(r"(?im)^(?P<lead>[^\S\n]*):(?=:)|(?<=#)#(?=(?:vso|teamcity)?\[)")
"""GitHub's commands begin a line; its older ones, Azure's and TeamCity's count anywhere in one."""

_STYLE = pattern(r"(\x1b\[(?:0|1|2|3[1-6])m)")
"""The colours of `ptxsw.report.text.coloured`."""


class InNotebooks:
    """Shows itself in IPython and notebooks as `print` would, not as its constructor."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


_LONGEST = 400  # characters of a line that is drawn where nothing says how wide lines may be


def one_line(text: str, kept: str = "") -> str:
    """A name or a line that becomes part of a line; the characters `kept` stay as well."""
    wrong = {
        ord(c): _escape(c) for c in set(text) if not c.isprintable() and c not in _SPACES + kept
    }
    return text.translate(wrong) if wrong else text


def lines(text: str, coloured: bool = False) -> str:
    """A whole output, whose colours stay if it is `coloured`."""
    parts = _STYLE.split(text) if coloured else [text]
    parts[::2] = [one_line(part, "\n\t") for part in parts[::2]]
    text = "".join(parts)
    return _COMMAND.sub(_disarm, text) if "::" in text or "##" in text else text


def _disarm(match: re.Match[str]) -> str:
    return r"\x23" if match["lead"] is None else rf"{match['lead']}\x3a"


def _escape(character: str) -> str:
    return _BYTES.get(ord(character)) or character.encode("unicode_escape").decode()


def well_formed(text: str) -> str:
    """The same where it can be written as UTF-8; bytes in it that are not are escaped."""
    return text if text.isascii() else text.translate(_BYTES)


def tree(data: Any, form: Callable[[str], str]) -> Any:
    """Data for JSON, with `form` of every string in it."""
    match data:
        case str():
            return form(data)
        case Mapping():
            return {tree(name, form): tree(value, form) for name, value in data.items()}
        case list() | tuple():
            return [tree(item, form) for item in data]
    return data


def drawn(number: int, text: str, column: int, length: int = 1, width: int | None = None) -> str:
    """A line with its number, and carets below `length` characters from `column` (counted from 1),
    cut to the part about the caret where it is longer than `width`."""
    before, end = text[: column - 1], text[: column - 1 + length]
    text, before, end = (one_line(part, "\t") for part in (text, before, end))
    head = f"{number:5d}"
    if width is not None or len(text) > _LONGEST:
        text, before, end = text.expandtabs(), before.expandtabs(), end.expandtabs()
        room = max((width or _LONGEST) - len(f"{head} | "), 1)
        left = max(min(len(before) - room // 2, len(text) - room), 0)
        if left:
            text, before, end = f"…{text[left + 1 :]}", before[left:], end[left:]
        if len(text) > room:
            text, end = f"{text[: room - 1]}…", end[:room]
    # Tabs are kept before the caret, so that it stands under its character on any terminal.
    blank = "".join("\t" if c == "\t" else " " for c in before)
    carets = "^" * max(1, len(end) - len(before))
    return f"{head} | {text}\n{' ' * len(head)} | {blank}{carets}"
