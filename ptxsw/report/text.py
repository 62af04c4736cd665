"""Reports for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxsw.report.model import Kernel, Report
from ptxsw.report.tables import Table, access_table, counts, refusal_table, rewrite_table

Draw = Callable[[Table], list[str]]


def draw_text(table: Table) -> list[str]:
    """Lines of aligned columns, two spaces apart."""
    lines = (table.header, *table.rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.header))]

    def draw(cells: tuple[str, ...]) -> str:
        padded = (
            cell.rjust(width) if name in table.right else cell.ljust(width)
            for name, cell, width in zip(table.header, cells, widths, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [draw(line) for line in lines]


def draw_markdown(table: Table) -> list[str]:
    """Lines of a Markdown table."""

    def draw(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    rule = "|".join("---:" if name in table.right else "---" for name in table.header)
    return [draw(table.header), f"|{rule}|", *(draw(row) for row in table.rows)]


def analysis_text(report: Report) -> str:
    """What each kernel accesses, for a terminal."""
    return _lines(report, lambda kernel: _analysis(kernel, _indented, str))


def analysis_markdown(report: Report) -> str:
    """What each kernel accesses, as Markdown."""
    return _lines(report, lambda kernel: _analysis(kernel, draw_markdown, _heading))


def optimization_text(report: Report) -> str:
    """What was rewritten and what was left alone, for a terminal."""
    return _lines(report, lambda kernel: _optimization(kernel, _indented, str))


def optimization_markdown(report: Report) -> str:
    """What was rewritten and what was left alone, as Markdown."""
    return _lines(report, lambda kernel: _optimization(kernel, draw_markdown, _heading))


def _indented(table: Table) -> list[str]:
    return [f"  {line}" for line in draw_text(table)]


def _heading(line: str) -> str:
    return f"## {line}\n"


def _lines(report: Report, section: Callable[[Kernel], Iterator[str]]) -> str:
    if not report.kernels:
        return f"{report.file}: no kernel with a body\n"
    return "\n".join("\n".join(section(kernel)) + "\n" for kernel in report.kernels)


def _analysis(kernel: Kernel, draw: Draw, title: Callable[[str], str]) -> Iterator[str]:
    yield title(f"{kernel.name}: {counts(kernel)}")
    if kernel.accesses:
        yield from draw(access_table(kernel.accesses))


def _optimization(kernel: Kernel, draw: Draw, title: Callable[[str], str]) -> Iterator[str]:
    yield title(f"{kernel.name}: {counts(kernel)}")
    if kernel.rewrites:
        yield from draw(rewrite_table(kernel))
    if kernel.refusals:
        yield "\nLeft alone:\n" if draw is draw_markdown else "  left alone:"
        yield from draw(refusal_table(kernel))
