"""Findings for people: as compilers print them, and as annotations of a GitHub workflow."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.printable import drawn, lines, one_line
from ptxsw.report.located import Located, counted

Paint = Callable[[str, str, str], str]
"""Column, cell and the cell as it is padded, to the text that is written."""


_INDENT = " " * 6
_NO_BREAK = "\N{NO-BREAK SPACE}"


def text(findings: Sequence[Located], paint: Paint, width: int | None = None) -> str:
    """`file:line:column: warning: what [rule]`, the line, where in the PTX, and what to do. Folded
    to `width` characters where that is given."""
    return "".join(f"{line}\n" for each in findings for line in _told(each, paint, width))


def _told(each: Located, paint: Paint, width: int | None) -> Iterator[str]:
    finding = each.finding
    path, ptx = one_line(each.path), one_line(each.ptx)
    place = f"{path}:{each.line}:{each.column}:" if each.line else f"{path}:"
    lead = " " * len(f"{place} {finding.level}: ")
    first, *more = _folded(f"{finding.what} [{finding.rule}]", lead, width)
    yield (
        f"{paint('place', place, place)} "
        f"{paint(finding.level, finding.level, finding.level)}: {first[len(lead) :]}"
    )
    yield from more
    if each.text.strip():
        yield drawn(each.line, each.text.rstrip(), each.column, width=width)
    if each.line:
        name = readable(finding.kernel) or finding.kernel
        yield from _folded(
            f"kernel {name}, {ptx}:{_lines(finding.lines)}: {finding.measure}; "
            f"weight {finding.weight:,.0f}",
            _INDENT,
            width,
        )
    yield from _folded(finding.advice, _INDENT, width)


def _folded(words: str, lead: str, width: int | None) -> list[str]:
    """Lines of words: the first begins with `lead`, the others are indented. Code between backticks
    is kept together."""
    if width is None or len(lead + words) <= width:
        return [lead + words]
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", _NO_BREAK), words)
    lines = textwrap.wrap(
        whole, width, initial_indent=lead, subsequent_indent=_INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _lines(lines: Sequence[int]) -> str:
    return ",".join(map(str, lines[:4])) + ",…" * (len(lines) > 4)


def summary(findings: Sequence[Located], *, kernels: int, files: int) -> str:
    """ "3 warnings and 1 note in 2 of 5 kernels"."""
    parts = [f"{n:,} {level}{'s' * (n != 1)}" for level, n in counted(findings).items()]
    where = f"{kernels:,} kernel{'s' * (kernels != 1)}"
    if files > 1:
        where += f" of {files:,} files"
    return f"{' and '.join(', '.join(parts).rsplit(', ', 1)) or 'no findings'} in {where}"


_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def github(findings: Sequence[Located]) -> str:
    """Workflow commands of GitHub Actions, which become annotations of the lines."""
    return "".join(
        f"::{_COMMANDS[each.finding.level]} file={_property(each.path)}{_position(each)},"
        f"title={_property(each.finding.rule)}::"
        f"{_data(f'{each.finding.what} {each.finding.advice}')}\n"
        for each in findings
    )


def _position(each: Located) -> str:
    return f",line={each.line},col={each.column}" if each.line else ""


def _data(value: str) -> str:
    return lines(one_line(value)).replace("%", "%25")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
