"""A report as one HTML file that needs nothing else: no network, no other file.

The template, its style and its script lie beside this module. The PTX is marked up here; pictures
are drawn by the script from the report's own JSON when a load is chosen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib import resources
from string import Template

from ptxsw.codegen.splice import Edit, apply
from ptxsw.report.model import Kernel, Report
from ptxsw.report.serial import to_json
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
from ptxsw.source import Source, Span

_MOST_SMT2 = 1_000_000  # characters of proofs in one file
_CHUNK = 200  # lines that the script puts into the page together
_MOST_ROWS = 400  # rows of a summary table

_TOKEN = re.compile(
    r"(?P<c>//.*|/\*.*?\*/)|(?P<s>\"[^\"]*\")|(?P<d>\.[a-z]\w*(?:::\w+)?)|(?P<r>%[\w.$]+)"
    r"|(?P<n>\b0[fFdDxX][0-9a-fA-F]+\b|\b\d+\b)|(?P<l>^\s*[$\w]+:(?!:))"
    r"|(?P<o>(?<![\w.$%])[a-z]\w*(?:\.[\w:]+)+|(?<![\w.$%])(?:ret|exit|trap)\b)"
)
"""Comment, string, directive, register, number, label, opcode."""


def page(report: Report, text: str, edits: Iterable[Edit], smt2: Mapping[str, str]) -> str:
    """The whole file. `text` is the PTX that was read, `edits` what was done to it, `smt2` the
    proofs by file name."""
    source = Source(text, report.file)
    after = dict(_rewritten(source, edits))
    data: dict[str, object] = {
        "report": to_json(report),
        "changes": dict(_changes(report, source, after)),
    }
    data["proofs"] = _proofs(smt2)
    data["chunks"] = _chunks(_listing(report, source, after))
    data["tables"] = [_tables(kernel) for kernel in report.kernels]
    parts = {
        "title": escape(report.file),
        "facts": escape(f"{report.arch or 'no target'}, ptxsw {report.ptxsw}"),
        "warning": f"<p class=warning>{escape(report.warning)}</p>" if report.warning else "",
        "summaries": "\n".join(_summary(kernel) for kernel in report.kernels),
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "style": _part("page.css"),
        "script": _part("page.js"),
    }
    return Template(_part("page.html")).substitute(parts)


def _part(name: str) -> str:
    return resources.files("ptxsw.report").joinpath(name).read_text(encoding="utf-8")


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


# ---------------------------------------------------------------- the listing


def _rewritten(
    source: Source, edits: Iterable[Edit]
) -> Iterator[tuple[int, tuple[int, list[str]]]]:
    """For each stretch of edited lines: its first line, its last, and the lines it became."""
    group: list[Edit] = []
    first = last = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        begin, end = source.line(edit.span.start), source.line(edit.span.end)
        if group and begin > last:
            yield first, (last, _became(source, first, last, group))
            group = []
        if not group:
            first = begin
        last = max(end, last if group else 0)
        group.append(edit)
    if group:
        yield first, (last, _became(source, first, last, group))


def _became(source: Source, first: int, last: int, edits: list[Edit]) -> list[str]:
    texts = [source.line_text(number) for number in range(first, last + 1)]
    start = edits[0].span.start - (source.place(edits[0].span.start)[1] - 1)
    stretch = source.text[start : start + sum(len(t) + 1 for t in texts)]
    moved = [Edit(Span(e.span.start - start, e.span.end - start), e.text) for e in edits]
    return apply(stretch, moved).splitlines()


def _listing(
    report: Report, source: Source, after: Mapping[int, tuple[int, list[str]]]
) -> Iterator[str]:
    """The PTX, a line each; lines that are rewritten are followed by what they become."""
    marks = {a.line: a for kernel in report.kernels for a in kernel.accesses or ()}
    ends = {last: (first, new) for first, (last, new) in after.items()}
    removed = {
        number
        for first, (last, new) in after.items()
        for number in range(first, last + 1)
        if source.line_text(number) not in new
    }
    for number, line in enumerate(source.text.splitlines(), 1):
        access = marks.get(number)
        attributes = ' class="gone"' if number in removed else ""
        if access is not None:
            action = access.optimizer.action if access.optimizer else access.kind
            classes = f"hit {action}{' gone' if number in removed else ''}"
            hint = escape(access.index or "the address differs by path", quote=True)
            attributes = f' class="{classes}" tabindex="0" role="button" title="{hint}"'
        yield f'<li id="L{number}" value="{number}"{attributes}>{_coloured(line)}</li>'
        if number in ends:
            first, new = ends[number]
            old = {source.line_text(n) for n in range(first, number + 1)}
            yield from (f'<li class="new">{_coloured(t)}</li>' for t in new if t not in old)


def _chunks(items: Iterable[str]) -> list[dict[str, object]]:
    """The listing in pieces, which the script shows when they come near: thousands of lines at
    once take a browser seconds to lay out. `lines` and `new` give the height of a piece."""
    chunks: list[dict[str, object]] = []
    part: list[str] = []
    first = 1
    lines = 0
    for item in items:
        new = item.startswith('<li class="new"')
        if not new and lines and lines % _CHUNK == 0:
            chunks.append(_chunk(first, lines, part))
            first, lines, part = first + lines, 0, []
        lines += not new
        part.append(item)
    chunks.append(_chunk(first, lines, part))
    return chunks


def _chunk(first: int, lines: int, part: list[str]) -> dict[str, object]:
    return {"first": first, "lines": lines, "new": len(part) - lines, "html": "".join(part)}


def _coloured(line: str) -> str:
    pieces: list[str] = []
    at = 0
    for match in _TOKEN.finditer(line):
        pieces.append(escape(line[at : match.start()], quote=False))
        pieces.append(f"<i class={match.lastgroup}>{escape(match[0], quote=False)}</i>")
        at = match.end()
    pieces.append(escape(line[at:], quote=False))
    return "".join(pieces)


# ---------------------------------------------------------------- before and after


_WRITES = re.compile(r"\s*(?:@!?%\S+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,;\s]+)")
_OURS = re.compile(r"%sw_\w+")
_MOST_LINES = 24  # of one change


def _changes(
    report: Report, source: Source, after: Mapping[int, tuple[int, list[str]]]
) -> Iterator[tuple[str, dict[str, object]]]:
    """For the line of each rewrite what it was, and the new lines that make its value."""
    begin = 0
    for kernel in sorted(report.kernels, key=_last_line):
        end = _last_line(kernel)
        new = [line for at, (_, lines) in after.items() if begin < at <= end for line in lines]
        begin = end
        writers: dict[str, list[int]] = {}
        for number, line in enumerate(new):
            for register in _written(line):
                writers.setdefault(register, []).append(number)
        for rewrite in kernel.rewrites or ():
            before = source.line_text(rewrite.line).strip()
            yield str(rewrite.line), {"before": before, "after": _makers(before, new, writers)}


def _last_line(kernel: Kernel) -> int:
    return max((access.line for access in kernel.accesses or ()), default=0)


def _written(line: str) -> list[str]:
    found = _WRITES.match(line)
    return re.findall(r"%[\w$.]+", found[1]) if found else []


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


def _summary(kernel: Kernel) -> str:
    """The line of a kernel, which the script fills with its tables when it is opened."""
    title = f"<b>{escape(kernel.readable or kernel.name)}</b>: {escape(counts(kernel))}"
    return f"<details class=kernel><summary>{title}</summary></details>"


def _tables(kernel: Kernel) -> str:
    tables = []
    if kernel.readable is not None:
        tables.append(f"<p><code>{escape(kernel.name)}</code></p>")
    if kernel.choice is not None and kernel.choice.gain is not None:
        tables.append(f"<p>{escape(kernel.choice.reason)}</p>")
    if kernel.accesses:
        tables.append(_table("Accesses", access_table(kernel.accesses)))
    if kernel.rows:
        tables.append(_table("Rows: addresses that differ by constants", row_table(kernel.rows)))
    for table in (rewrite_table(kernel), change_table(kernel)):
        if table.rows:
            tables.append(_table("Rewrites", table))
    if (table := wavefront_table(kernel)).rows:
        tables.append(_table("Wavefronts of shared memory", table))
    if kernel.refusals:
        tables.append(_table("Left alone", refusal_table(kernel)))
    return "".join(tables)


def _table(title: str, table: Table) -> str:
    sides = [" class=right" if name in table.right else "" for name in table.header]
    head = "".join(
        f"<th{side}>{escape(name)}</th>" for name, side in zip(table.header, sides, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(map(_cell, table.header, row, sides))}</tr>"
        for row in table.rows[:_MOST_ROWS]
    )
    more = len(table.rows) - _MOST_ROWS
    note = f"<p>{more} more are in the listing.</p>" if more > 0 else ""
    return f"<h3>{escape(title)}</h3><table><tr>{head}</tr>{body}</table>{note}"


def _cell(column: str, cell: str, side: str) -> str:
    text = escape(cell)
    if column in ("line", "from") and cell.isdigit():
        text = f'<a href="#L{cell}">{cell}</a>'
    return f"<td{side}>{text}</td>"
