"""The options of a command as rows of a table, and the reader of plain command lines.

The command line as a whole is Typer's. Loading it takes a third of the time in which a small file
is rewritten, so a command that builds and scripts call thousands of times has its options in a
table. Typer is given each row (`ptxsw.cli.options.typed`), and `read` reads a plain line from the
same rows. Any other line, wrong or only unusual, is left to Typer, which explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

Reader = type[str] | type[int] | type[float] | type[bool]


class OptionRow(Struct, frozen=True):
    """One option: the parameter of the command's function that it sets, how it is written, and
    what `--help` says of it. A `bool` is a switch with one way to set it and one to clear it."""

    name: str
    flags: tuple[str, ...]
    help: str = ""
    metavar: str | None = None
    kind: Reader = str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    hidden: bool = False
    shows_default: bool = True

    def value(self, text: str) -> Any:
        """The value that a text stands for. Raises ValueError where it is not a plain one."""
        if self.choices and text not in self.choices:
            raise ValueError(text)
        if self.kind in (int, float) and not (text.isascii() and text[:1].isdigit()):
            raise ValueError(text)
        value = self.kind(text)
        if isinstance(value, int | float) and not self._fits(value):
            raise ValueError(text)
        return value

    def _fits(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


def read(rows: Sequence[OptionRow], arguments: Sequence[str]) -> dict[str, Any] | None:
    """The parameters that a plain line sets: one file, and options that are written in full, none
    twice, their values apart or behind `=`. None for any other line."""
    flags = {flag: (row, number) for row in rows for number, flag in enumerate(row.flags)}
    values: dict[str, Any] = {}
    words = list(reversed(arguments))
    while words:
        word = words.pop()
        if not word.startswith("-") or word == "-":
            name, value = "file", word
        else:
            flag, equals, after = word.partition("=")
            if flag not in flags or (equals and not flag.startswith("--")):
                return None
            row, number = flags[flag]
            try:
                name, value = row.name, _value(row, number, after if equals else None, words)
            except ValueError:
                return None
        if name in values:
            return None
        values[name] = value
    return values if "file" in values else None


def _value(row: OptionRow, number: int, given: str | None, words: list[str]) -> Any:
    """The value of an option, which may be the next word. Raises ValueError."""
    if row.kind is bool:
        if given is not None:
            raise ValueError(given)
        return number == 0
    if given is None:
        if not words or (words[-1].startswith("-") and words[-1] != "-"):
            raise ValueError(row.name)
        given = words.pop()
    return row.value(given)
