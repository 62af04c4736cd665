"""Reports for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.printable import one_line
from ptxsw.report.descriptors import TITLE as DESCRIPTORS
from ptxsw.report.descriptors import descriptor_table
from ptxsw.report.layout import Paint, draw_text, plain
from ptxsw.report.model import Contents, Kernel
from ptxsw.report.tables import (
    Table,
    access_table,
    change_table,
    counts,
    printed,
    refusal_table,
    rewrite_table,
    row_table,
    told_once,
    wavefront_table,
)
from ptxsw.report.warp_roles import TITLE as ROLES
from ptxsw.report.warp_roles import role_table

Some = TypeVar("Some", bound=Contents)
Draw = Callable[[Table], list[str]]

_MARKUP = pattern(r"[|<`]|!(?=\[)|(?<=\])[(\[]|\\(?=[|<`!(\[])")

_RED, _GREEN, _YELLOW, _CYAN, _DIM, _BOLD = "31", "32", "33", "36", "2", "1"


def coloured(column: str, cell: str, padded: str) -> str:
    """What costs in red, what is saved in green, what every lane shares dimmed."""
    style = _style(column, cell)
    return f"\x1b[{style}m{padded}\x1b[0m" if style else padded


def _style(column: str, cell: str) -> str | None:
    match column:
        case "used" if cell.endswith("%") and int(cell[:-1]) < 50:
            return _RED
        case "banks" if "conflict" in cell or "contention" in cell:
            return _RED
        case "sectors" if cell.startswith("up to"):
            return _RED
        case "same bytes" if cell:
            return _CYAN
        case "optimize --mode force" | "proof" if cell:
            return _DIM if cell.startswith("load") else _GREEN
        case "stride" if cell == "uniform":
            return _DIM
        case "reason" | "note":
            return _DIM
        case "heading" | "place":
            return _BOLD
        case "error":
            return _RED
        case "warning":
            return _YELLOW
        case "note":
            return _CYAN
    return None


def draw_markdown(table: Table) -> list[str]:
    """Lines of a Markdown table."""

    def draw(cells: tuple[str, ...]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = "|".join("---:" if name in table.right else "---" for name in table.header)
    table = printed(table, markdown)
    return [draw(table.header), f"|{rule}|", *(draw(row) for row in table.rows)]


def markdown(text: str) -> str:
    """Data as text of Markdown: no cell ends in it, and nothing becomes a tag, a link or code."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def analysis_text(
    report: Contents, paint: Paint = plain, width: int | None = None, *, by_source: bool = False
) -> str:
    """What each kernel accesses, for a terminal of so many characters; accesses of a line of the
    source together, if they shall be."""
    draw = _indented(paint, width)
    return _lines(report, lambda kernel: _analysis(kernel, draw, _title(paint), by_source))


def analysis_markdown(report: Contents, *, by_source: bool = False) -> str:
    """The same as Markdown."""
    return _lines(report, lambda kernel: _analysis(kernel, draw_markdown, _heading, by_source))


def optimization_text(report: Contents, paint: Paint = plain, width: int | None = None) -> str:
    """What was rewritten and what was left alone, for a terminal of so many characters."""
    draw = _indented(paint, width)
    return _warning(report) + _lines(
        report, lambda kernel: _optimization(kernel, draw, _title(paint))
    )


def optimization_markdown(report: Contents) -> str:
    """What was rewritten and what was left alone, as Markdown."""
    return _warning(report) + _lines(
        report, lambda kernel: _optimization(kernel, draw_markdown, _heading)
    )


def _warning(report: Contents) -> str:
    return f"WARNING: {report.warning}\n\n" if report.warning is not None else ""


def only_spaces(report: Some, spaces: frozenset[str]) -> Some:
    """The report without the accesses to other state spaces."""

    def reduced(kernel: Kernel) -> Kernel:
        kept = tuple(access for access in kernel.accesses or () if access.space in spaces)
        names = {access.row for access in kept}
        rows = tuple(row for row in kernel.rows or () if row.name in names)
        return replace(kernel, accesses=kept, rows=rows)

    return replace(report, kernels=tuple(reduced(kernel) for kernel in report.kernels))


def _indented(paint: Paint, width: int | None) -> Draw:
    room = None if width is None else max(1, width - 2)
    return lambda table: [f"  {line}" for line in draw_text(table, paint, room)]


def _title(paint: Paint) -> Callable[[str], str]:
    return lambda line: paint("heading", line, line)


def _heading(line: str) -> str:
    return f"## {line}\n"


def _lines(report: Contents, section: Callable[[Kernel], Iterator[str]]) -> str:
    if not report.kernels:
        return f"{report.file}: no kernel with a body\n"
    return "\n".join("\n".join(section(kernel)) + "\n" for kernel in report.kernels)


def _heads(kernel: Kernel, title: Callable[[str], str], draw: Draw) -> Iterator[str]:
    """The kernel's name and figures; below, the name in the PTX where that is another."""
    yield title(f"{kernel.readable or kernel.name}: {counts(kernel)}")
    if kernel.readable is not None:
        yield f"`{kernel.name}`\n" if draw is draw_markdown else f"  {kernel.name}"


def _analysis(
    kernel: Kernel, draw: Draw, title: Callable[[str], str], by_source: bool
) -> Iterator[str]:
    yield from _heads(kernel, title, draw)
    if kernel.accesses:
        yield from draw(access_table(kernel.accesses, by_source=by_source))
    if kernel.accesses and kernel.rows:
        yield ""
        yield from draw(row_table(kernel.rows))
    for heading, table in (
        (ROLES, role_table(kernel.roles or ())),
        (DESCRIPTORS, descriptor_table(kernel.descriptors or ())),
    ):
        if table.rows:
            yield f"\n{heading}:\n" if draw is draw_markdown else f"\n  {heading}"
            yield from draw(table)


def _optimization(kernel: Kernel, draw: Draw, title: Callable[[str], str]) -> Iterator[str]:
    yield from _heads(kernel, title, draw)
    markdown = draw is draw_markdown
    lead, end = ("", "\n") if markdown else ("  ", "")
    decided = kernel.choice is not None and kernel.choice.gain is not None
    if kernel.choice is not None and decided and kernel.rewrites:
        yield f"{lead}{kernel.choice.reason}{end}"
    if kernel.decision is not None and kernel.decision.kept:
        yield f"{lead}kept {kernel.decision.reason}{end}"
    elif kernel.decision is not None and not kernel.refusals:
        yield f"{lead}left as it is: {kernel.decision.reason}{end}"
    for loop in kernel.loops or ():
        what = "is uniform" if loop.reason is None else f"stays: {loop.reason}"
        yield f"{lead}the loop at line {loop.line} {what}{end}"
    for table in (rewrite_table(kernel), change_table(kernel), wavefront_table(kernel)):
        if table.rows:
            yield from draw(told_once(table))
    if kernel.refusals:
        yield "\nLeft alone:\n" if markdown else "  left alone:"
        yield from draw(told_once(refusal_table(kernel)))
