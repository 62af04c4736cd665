"""Findings as GitLab reads them (a code quality report), and as a table for the summary of a job.

Source: GitLab, "Code Quality", section "Code quality report format": description, check_name,
fingerprint, severity, location.path, location.lines.begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.printable import one_line
from ptxsw.report.messages import Located
from ptxsw.report.tables import Table
from ptxsw.report.text import draw_markdown

_SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}
_MOST = 50  # rows of a summary


def gitlab(findings: Sequence[Located]) -> list[dict[str, Any]]:
    """One object for each finding. Of those that look alike each has a fingerprint of its own."""
    seen: Counter[str] = Counter()
    issues = []
    for each in findings:
        number = seen[each.key]
        seen[each.key] += 1
        issues.append({
            "description": one_line(f"{each.finding.what} {each.finding.advice}"),
            "check_name": each.finding.rule,
            "fingerprint": each.key if not number else f"{each.key}-{number}",
            "severity": _SEVERITIES[each.finding.level],
            "location": {"path": each.path, "lines": {"begin": max(1, each.line)}},
        })  # fmt: skip
    return issues


def summary_table(findings: Sequence[Located], told: str) -> str:
    """A heading with what is told of all, and the findings as a table of Markdown."""
    lines = [f"### ptxsw: {told}", ""]
    shown = findings[:_MOST]
    if shown:
        header = ("level", "where", "kernel", "what", "rule")
        lines += draw_markdown(Table(header, tuple(_row(each) for each in shown)))
    if len(findings) > len(shown):
        lines += ["", f"… and {len(findings) - len(shown):,} more."]
    return "".join(f"{line}\n" for line in lines)


def _row(each: Located) -> tuple[str, ...]:
    finding = each.finding
    where = f"{each.path}:{each.line}" if each.line else each.path
    name = readable(finding.kernel) or finding.kernel
    rule = finding.rule.removeprefix("ptxsw-")
    return finding.level, one_line(where), one_line(name), one_line(finding.measure), rule
