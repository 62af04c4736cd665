"""A report as one HTML file that needs nothing else: no network, no other file.

The template, its style and its scripts lie in `page/`. Texts are marked up here, a line each. The
scripts lay out the lines that are near what is seen, and draw pictures from the report's own JSON
when an access is chosen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.codegen.splice import Edit, apply
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.printable import one_line, tree
from ptxsw.ptx.source import Source, Span
from ptxsw.report.descriptors import TITLE as DESCRIPTORS
from ptxsw.report.descriptors import descriptor_table
from ptxsw.report.machine_code import MachineCode
from ptxsw.report.model import Access, Kernel
from ptxsw.report.prediction_text import Prediction, prediction_tables
from ptxsw.report.serial import Report, to_json
from ptxsw.report.source_places import Sources, short_names
from ptxsw.report.tables import (
    Table,
    access_table,
    change_table,
    counts,
    refusal_table,
    rewrite_table,
    row_table,
    wavefront_table,
)
from ptxsw.report.warp_roles import TITLE as ROLES
from ptxsw.report.warp_roles import role_table
from ptxsw.report.weights import moved_sectors, waste, wavefronts, weight, worst_first

_MOST_SMT2 = 1_000_000  # characters of proofs in one file
_MOST_ROWS = 400  # rows of a table of one kernel
_SCRIPTS = (
    "dom", "colours", "listing", "splitter", "pictures", "findings", "detail", "ranking", "main",
)  # fmt: skip

_FILE = pattern(r'^(\s*\.file\s+\d+\s+")[^"]*[/\\](?=[^"/\\]+")')  # with directories

NO_SOURCES = Sources((), {})
NO_MACHINE_CODE = MachineCode(None, (), "")


def page(
    report: Report,
    text: str,
    edits: Iterable[Edit],
    smt2: Mapping[str, str],
    sources: Sources = NO_SOURCES,
    code: MachineCode = NO_MACHINE_CODE,
    predicted: Prediction | None = None,
) -> str:
    """The whole file. `text` is the PTX that was read, `edits` what was done to it, `smt2` the
    proofs by file name; `sources`, `code` and what is `predicted` are shown beside the PTX where
    there are any."""
    costs = {} if predicted is None else prediction_tables(predicted)
    report = _without_paths(report)
    source = Source(text, report.file)
    edited = list(stretches(source, edits))
    data = {
        "report": _without_terms(to_json(report)),
        "costs": [_cost(access) for _, access in worst_first(report)],
        "tables": [_tables(kernel, costs.get(kernel.name, ())) for kernel in report.kernels],
        "changes": {c.line: [c.before, c.after] for c in changes(report, source, edited)},
        "proofs": _proofs(smt2),
        "ptx": list(_listing(source, edited)),
        "sources": [[f.name, f.lines] for f in sources.files],
        "origins": [[ptx, *where] for ptx, where in sorted(sources.origins.items())],
        "sass": [[m.line or 0, int(m.memory), m.address, m.text] for m in code.lines],
        "routines": _routines(code),
        "machine": {"arch": code.arch, "note": code.note},
    }
    parts = {
        "title": escape(one_line(report.file)),
        "warning": (
            f"<p class=warning>{escape(one_line(report.warning))}</p>" if report.warning else ""
        ),
        "data": json.dumps(tree(data, _shown), separators=(",", ":")).replace("<", "\\u003c"),
        "style": _part("page.css"),
        "script": "\n".join(_part(f"{name}.js") for name in _SCRIPTS),
    }
    return Template(_part("page.html")).substitute(parts)


def _shown(text: str) -> str:
    """A line of a source keeps its tabs, a proof its lines."""
    return one_line(text, "\t\n")


def _part(name: str) -> str:
    return resources.files("ptxsw.report").joinpath("page", name).read_text(encoding="utf-8")


# ---------------------------------------------------------------- the report


def _without_paths(report: Report) -> Report:
    """The report with short names in place of the paths of this machine."""
    places = {a.source for k in report.kernels for a in k.accesses or () if a.source}
    named = [f.file for k in report.kernels for f in k.findings or () if f.file]
    files = short_names((*(place.rpartition(":")[0] for place in places), *named))

    def short(place: str | None) -> str | None:
        if place is None:
            return None
        name, _, line = place.rpartition(":")
        return f"{files[name]}:{line}"

    def renamed(kernel: Kernel) -> Kernel:
        if kernel.accesses is None:
            return kernel
        return replace(
            kernel,
            accesses=tuple(replace(a, source=short(a.source)) for a in kernel.accesses),
            findings=tuple(
                replace(finding, file=finding.file and files[finding.file])
                for finding in kernel.findings or ()
            ),
        )

    name = PurePath(report.file).name or report.file
    return replace(report, file=name, kernels=tuple(map(renamed, report.kernels)))


def _without_terms(report: dict[str, Any]) -> dict[str, Any]:
    """The objects of a report without addresses as terms: the page shows them as indices."""
    for kernel in report["kernels"]:
        for access in kernel.get("accesses", ()):
            del access["address"]
    return report


def _cost(access: Access) -> list[int]:
    """Line, weight, waste, and the sectors and wavefronts of one access."""
    return [
        access.line, round(weight(access)), round(waste(access)), moved_sectors(access),
        wavefronts(access),
    ]  # fmt: skip


def _proofs(smt2: Mapping[str, str]) -> dict[str, str]:
    """As many proofs as the file can hold."""
    kept: dict[str, str] = {}
    room = _MOST_SMT2
    for name, text in smt2.items():
        room -= len(text)
        if room < 0:
            break
        kept[name] = text
    return kept


# ---------------------------------------------------------------- the listings


def _listing(source: Source, edited: Iterable[RewrittenLines]) -> Iterator[list[str]]:
    """The PTX, a line each: "-" for one that goes, followed by the "+" lines that come."""
    ends = {one.last: one for one in edited}
    removed = {
        number
        for one in ends.values()
        for number in range(one.first, one.last + 1)
        if source.line_text(number) not in one.new
    }
    for number in range(1, source.line(max(0, len(source.text) - 1)) + 1):
        line = source.line_text(number)
        yield ["-" if number in removed else "", _FILE.sub(r"\1…/", line)]
        if number in ends:
            one = ends[number]
            old = {source.line_text(n) for n in range(one.first, number + 1)}
            yield from (["+", new] for new in one.new if new not in old)


def _routines(code: MachineCode) -> list[list[Any]]:
    """For each kernel the number of its first instruction in the listing, and its name."""
    routines: list[list[Any]] = []
    for number, line in enumerate(code.lines):
        if not routines or routines[-1][1] != line.kernel:
            routines.append([number, line.kernel])
    return routines


# ---------------------------------------------------------------- the edited lines


class RewrittenLines(Struct, frozen=True):
    """Lines `first` to `last` of a text, and the lines that stand there after its edits."""

    first: int
    last: int
    new: tuple[str, ...]


def stretches(source: Source, edits: Iterable[Edit]) -> Iterator[RewrittenLines]:
    """The edited lines of a text, in order; edits that share a line share a stretch."""
    group: list[Edit] = []
    first = last = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        begin, end = source.line(edit.span.start), source.line(edit.span.end)
        if group and begin > last:
            yield RewrittenLines(first, last, _after(source, group))
            group = []
        if not group:
            first = begin
        last = max(end, last if group else 0)
        group.append(edit)
    if group:
        yield RewrittenLines(first, last, _after(source, group))


def _after(source: Source, edits: list[Edit]) -> tuple[str, ...]:
    start = edits[0].span.start - (source.place(edits[0].span.start)[1] - 1)
    end = source.text.find("\n", max(e.span.end for e in edits))
    end = len(source.text) if end < 0 else end
    moved = [Edit(Span(e.span.start - start, e.span.end - start), e.text) for e in edits]
    return tuple(apply(source.text[start:end], moved).splitlines())


_WRITES = pattern(r"\s*(?:@!?%\S+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,;\s]+)")
_OURS = pattern(r"%sw_\w+")
_MOST_LINES = 24  # of one change


class ChangedLine(Struct, frozen=True):
    """The line of a rewrite, and the new lines that make its value."""

    line: int
    before: str
    after: tuple[str, ...]


def changes(
    report: Report, source: Source, parts: Iterable[RewrittenLines]
) -> Iterator[ChangedLine]:
    """A change for each rewrite of the report."""
    edited = list(parts)
    begin = 0
    for kernel in sorted(report.kernels, key=_last_line):
        end = _last_line(kernel)
        new = [line for one in edited if begin < one.first <= end for line in one.new]
        begin = end
        writers: dict[str, list[int]] = {}
        for number, line in enumerate(new):
            for register in _written(line):
                writers.setdefault(register, []).append(number)
        for rewrite in kernel.rewrites or ():
            before = source.line_text(rewrite.line).strip()
            yield ChangedLine(rewrite.line, before, tuple(_makers(before, new, writers)))


def _last_line(kernel: Kernel) -> int:
    return max((access.line for access in kernel.accesses or ()), default=0)


def _written(line: str) -> list[str]:
    match = _WRITES.match(line)
    return re.findall(r"%[\w$.]+", match[1]) if match else []


def _makers(before: str, new: list[str], writers: Mapping[str, list[int]]) -> list[str]:
    """The new lines that write what the old one wrote, and those that made their operands."""
    shown: set[int] = set()
    work = _written(before)
    for register in work:  # which grows
        for number in writers.get(register, ()):
            if number not in shown and len(shown) < _MOST_LINES:
                shown.add(number)
                work.extend(_OURS.findall(new[number]))
    return [new[number].strip() for number in sorted(shown)]


# ---------------------------------------------------------------- the tables


def _tables(kernel: Kernel, predicted: Sequence[tuple[str, Table]]) -> dict[str, Any]:
    """What is said of a whole kernel: its figures, why it was rewritten so, and its tables."""
    titled = (
        *predicted,
        ("Accesses", access_table(kernel.accesses or ())),
        ("Rows: addresses that differ by constants", row_table(kernel.rows or ())),
        (ROLES, role_table(kernel.roles or ())),
        (DESCRIPTORS, descriptor_table(kernel.descriptors or ())),
        ("Rewrites", rewrite_table(kernel)),
        ("Rewrites", change_table(kernel)),
        ("Wavefronts of shared memory", wavefront_table(kernel)),
        ("Left alone", refusal_table(kernel)),
    )
    decided = kernel.choice is not None and kernel.choice.gain is not None
    return {
        "figures": counts(kernel),
        "reason": kernel.choice.reason if kernel.choice is not None and decided else "",
        "tables": [_table(title, table) for title, table in titled if table.rows],
    }


def _table(title: str, table: Table) -> list[Any]:
    right = [name in table.right for name in table.header]
    return [title, table.header, right, table.rows[:_MOST_ROWS], len(table.rows)]
