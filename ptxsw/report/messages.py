"""Findings with the places a person looks at, as compilers print them, and as annotations of a
GitHub workflow."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.printable import drawn, lines, one_line
from ptxsw.report.layout import Paint
from ptxsw.report.model import Finding
from ptxsw.report.serial import Report
from ptxsw.report.source_files import SourceFiles
from ptxsw.report.tables import Table

_INDENT = " " * 6
_NO_BREAK = "\N{NO-BREAK SPACE}"
_IGNORE = pattern(r"ptxsw:\s*ignore(?:\[([^\[\]]*)\])?")


class Located(Struct, frozen=True):
    """A finding, where it is, and the text of that line, or an empty one where the file cannot be
    read. The place is in the source where that is known, else in the PTX. Line 0 is the whole
    file."""

    finding: Finding
    path: str
    line: int
    column: int
    text: str
    ptx: str  # the name of the PTX

    @property
    def key(self) -> str:
        """What stays the same when lines are added elsewhere: the rule, the kernel, the file's
        name, and the line's text."""
        parts = (
            self.finding.rule, self.finding.kernel, Path(self.path).name,
            " ".join(self.text.split()) or self.finding.measure,
        )  # fmt: skip
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def located(report: Report, ptx: str, sources: SourceFiles) -> Iterator[Located]:
    """The findings of a report on a PTX text, file by file the worst first. Those that a comment in
    their line silences are left out: `// ptxsw: ignore` or
    `// ptxsw: ignore[column, bank-conflicts]`."""
    own_lines = ptx.split("\n")
    for kernel in report.kernels:
        for finding in kernel.findings or ():
            own = own_lines[finding.line - 1] if finding.line <= len(own_lines) else ""
            place = _placed(finding, report.file, own, sources)
            if not (_silenced(finding, place.text) or _silenced(finding, own)):
                yield place


def _placed(finding: Finding, ptx: str, own: str, sources: SourceFiles) -> Located:
    if finding.file is None or finding.source_line is None:
        return Located(finding, ptx, finding.line, finding.column, own, ptx)
    path, lines = sources.path(finding.file), sources.lines(finding.file)
    line = finding.source_line
    text = lines[line - 1] if line <= len(lines) else ""
    return Located(
        finding, seen_from_here(path or finding.file), line, finding.source_column or 1, text, ptx
    )


def _silenced(finding: Finding, text: str) -> bool:
    for match in _IGNORE.finditer(text):
        names = [name.strip() for name in (match[1] or "").split(",") if name.strip()]
        if not names or finding.rule in names or finding.rule.removeprefix("ptxsw-") in names:
            return True
    return False


def seen_from_here(path: str) -> str:
    """A path below the working directory without what leads there."""
    here = os.getcwd() + os.sep
    full = os.path.normpath(os.path.join(here, path))
    return full.removeprefix(here) if full.startswith(here) else path


def counted(findings: Iterable[Located]) -> dict[str, int]:
    """How many findings there are of each level, the gravest first."""
    levels = [each.finding.level for each in findings]
    return {level: levels.count(level) for level in ("error", "warning", "note") if level in levels}


# ---------------------------------------------------------------- as text


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
            f"kernel {name}, {ptx}:{_lines(finding.lines)}: {finding.measure}{_weighed(finding)}",
            _INDENT,
            width,
        )
    yield from _folded(finding.advice, _INDENT, width)
    yield from (f"{_INDENT}{line}" for line in finding.drawing)
    if finding.witness is not None:
        # Never folded: it is there to be copied into a file for `ptxsw run --launch`.
        yield f"{_INDENT}launch: {json.dumps(finding.witness)}"


def _weighed(finding: Finding) -> str:
    """What it costs, of what is not a question of right or wrong."""
    return f"; weight {finding.weight:,.0f}{_gained(finding)}" if finding.weight else ""


def _gained(finding: Finding) -> str:
    """What a fix brings, if that is known."""
    if finding.gain is None:
        return ""
    least, most = (f"{share:.0%}".replace("%", " %") for share in finding.gain)
    if finding.gain[1] < 0.01:
        return "; a fix leaves the kernel's bound as it is"
    span = least if least == most else f"{least.removesuffix(' %')} to {most}"
    return f"; a fix lowers the kernel's bound by {span}"


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


class RuleCount(Struct, frozen=True):
    """How many findings of one level a rule has, and in how many kernels."""

    rule: str
    level: str
    count: int
    kernels: int


def statistics(findings: Iterable[Located]) -> tuple[RuleCount, ...]:
    """The findings by rule and level, in the order in which the worst of each comes."""
    groups: dict[tuple[str, str], list[Located]] = {}
    for each in findings:
        groups.setdefault((each.finding.rule, each.finding.level), []).append(each)
    return tuple(
        RuleCount(*key, len(group), len({(each.ptx, each.finding.kernel) for each in group}))
        for key, group in groups.items()
    )


def statistics_table(counted: Iterable[RuleCount]) -> Table:
    """The same for a person."""
    rows = tuple((str(c.count), c.level, c.rule, str(c.kernels)) for c in counted)
    return Table(("count", "level", "rule", "kernels"), rows, frozenset({"count", "kernels"}))


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
