"""Reports in notebooks: tables as HTML, and data frames."""

from __future__ import annotations

import html
from typing import Any

from ptxsw.ptx.printable import one_line
from ptxsw.report.model import Access, Contents, Kernel
from ptxsw.report.tables import Table, access_table, counts, row_table
from ptxsw.report.weights import ordered, weight

_FRAMES = ("pandas", "polars")
_FIELDS = (
    "line", "source", "kind", "space", "opcode", "bytes", "lane_stride", "sectors", "efficiency",
    "bank_conflicts", "uniform", "loop_depth", "index", "address",
)  # fmt: skip


def report_html(report: Contents) -> str:
    """A table of accesses and one of rows for each kernel, the most expensive access first."""
    parts = [_kernel(kernel) for kernel in ordered(report).kernels]
    return "".join(parts) or f"<p>{_escape(report.file)}: no kernel with a body</p>"


def _kernel(kernel: Kernel) -> str:
    name = _escape(kernel.readable or kernel.name)
    tables = [access_table(kernel.accesses or ()), row_table(kernel.rows or ())]
    drawn = "".join(_table(table) for table in tables if table.rows)
    return f"<h4>{name}: {_escape(counts(kernel))}</h4>{drawn}"


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
