"""Findings with the places a person looks at: the file as seen from here, and its line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from ptxsw.ptx.patterns import pattern
from ptxsw.report.model import Finding
from ptxsw.report.shown import Report
from ptxsw.report.source_files import SourceFiles

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


def located(report: Report, text: str, sources: SourceFiles) -> Iterator[Located]:
    """The findings of a report on a PTX text, file by file the worst first. Those that a comment in
    their line silences are left out: `// ptxsw: ignore` or
    `// ptxsw: ignore[column, bank-conflicts]`."""
    lines = text.split("\n")
    for kernel in report.kernels:
        for finding in kernel.findings or ():
            own = lines[finding.line - 1] if finding.line <= len(lines) else ""
            place = _located(finding, report.file, own, sources)
            if not (_silenced(finding, place.text) or _silenced(finding, own)):
                yield place


def _located(finding: Finding, ptx: str, own: str, sources: SourceFiles) -> Located:
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
