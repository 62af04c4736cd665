"""Reports in notebooks: findings and tables as HTML, and data frames."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from ptxsw.ptx.printable import one_line
from ptxsw.report.model import Access, Contents, Finding, Kernel, Verdict
from ptxsw.report.tables import (
    Table,
    access_table,
    change_table,
    counts,
    refusal_table,
    rewrite_table,
    row_table,
)
from ptxsw.report.weights import ordered, weight

_FRAMES = ("pandas", "polars")
_FIELDS = (
    "line", "source", "kind", "space", "opcode", "bytes", "lane_stride", "sectors", "efficiency",
    "bank_conflicts", "uniform", "loop_depth", "index", "address",
)  # fmt: skip


def report_html(report: Contents) -> str:
    """For each kernel what is known of it: findings, verdicts, accesses (the most expensive first),
    rows, rewrites, refusals."""
    parts = [_kernel(kernel) for kernel in ordered(report).kernels]
    return "".join(parts) or f"<p>{_escape(report.file)}: no kernel with a body</p>"


def _kernel(kernel: Kernel) -> str:
    name = _escape(kernel.readable or kernel.name)
    tables = [
        _verdict_table(kernel.verdicts or {}), access_table(kernel.accesses or ()),
        row_table(kernel.rows or ()), rewrite_table(kernel), change_table(kernel),
        refusal_table(kernel),
    ]  # fmt: skip
    drawn = "".join(_table(table) for table in tables if table.rows)
    found = "".join(map(_finding, kernel.findings or ()))
    listed = f"<ul>{found}</ul>" if found else ""
    return f"<h4>{name}: {_escape(counts(kernel))}</h4>{listed}{drawn}"


def _finding(finding: Finding) -> str:
    place = f"line {finding.line}"
    if finding.file is not None and finding.source_line is not None:
        place = f"{finding.file}:{finding.source_line}"
    lead = f"<b>{_escape(finding.level)}</b>, {_escape(place)}: {_escape(finding.what)}"
    return f"<li>{lead} {_escape(finding.advice)} [{_escape(finding.rule)}]</li>"


def _verdict_table(verdicts: Mapping[str, Verdict]) -> Table:
    rows = [(rule, each.verdict, each.reason) for rule, each in verdicts.items()]
    return Table(("fault", "verdict", "because"), tuple(rows))


def _table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "".join(
            f'<{tag} style="text-align: {"right" if name in table.right else "left"}">'
            f"{_escape(cell)}</{tag}>"
            for name, cell in zip(table.header, cells, strict=True)
        )

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    head = f"<tr>{row(table.header, 'th')}</tr>"
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def dataframe(report: Contents) -> Any:
    """A row for each access, in program order: its kernel, the fields of `Access` that are plain
    values, and its weight. Raises ImportError without pandas and polars."""
    from importlib import import_module
    from importlib.util import find_spec

    library = next((name for name in _FRAMES if find_spec(name)), None)
    if library is None:
        raise ImportError("a data frame needs pandas or polars: pip install pandas")
    rows = [_row(k, a) for k in report.kernels for a in k.accesses or ()]
    names = ("kernel", *_FIELDS, "weight")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    return import_module(library).DataFrame(columns)


def _escape(text: str) -> str:
    """Data as text of HTML."""
    return html.escape(one_line(text))


def _row(kernel: Kernel, access: Access) -> tuple[Any, ...]:
    name = kernel.readable or kernel.name
    return (name, *(getattr(access, field) for field in _FIELDS), weight(access))
