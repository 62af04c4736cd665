"""Findings for people: as compilers print them, and as annotations of a GitHub workflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ptxsw.cxx_names import readable
from ptxsw.report.located import Located, counted

Paint = Callable[[str, str, str], str]
"""Column, cell and the cell as it is padded, to the text that is written."""


def text(findings: Sequence[Located], paint: Paint) -> str:
    """`file:line:column: warning: what [rule]`, the line, where in the PTX, and what to do."""
    return "".join(f"{line}\n" for each in findings for line in _told(each, paint))


def _told(each: Located, paint: Paint) -> Iterator[str]:
    finding = each.finding
    place = f"{each.path}:{each.line}:{each.column}:" if each.line else f"{each.path}:"
    yield (
        f"{paint('place', place, place)} "
        f"{paint(finding.level, finding.level, finding.level)}: {finding.what} [{finding.rule}]"
    )
    if each.text.strip():
        number = f"{each.line:5d}"
        yield f"{number} | {each.text.rstrip()}"
        lead = "".join("\t" if c == "\t" else " " for c in each.text[: each.column - 1])
        yield f"{' ' * len(number)} | {lead}^"
    if each.line:
        name = readable(finding.kernel) or finding.kernel
        yield (
            f"      kernel {name}, {each.ptx}:{_lines(finding.lines)}: {finding.measure}; "
            f"weight {finding.weight:,.0f}"
        )
    yield f"      {finding.advice}"


def _lines(lines: Sequence[int]) -> str:
    return ",".join(map(str, lines[:4])) + ",…" * (len(lines) > 4)


def summary(findings: Sequence[Located], kernels: int, files: int) -> str:
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
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
