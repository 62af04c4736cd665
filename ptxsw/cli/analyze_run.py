"""What `ptxsw analyze` does, and the table of its options. Loads nothing of Typer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ptxsw.cli.files import CommandError, as_json, end_if_failed, read_kernels
from ptxsw.cli.progress import counting
from ptxsw.cli.rows import OptionRow
from ptxsw.cli.terminal import paint, show, width, write_exact
from ptxsw.cli.values import (
    BLOCK,
    JOBS,
    KERNEL,
    ON,
    PAGER,
    all_launched,
    block_shape,
    named_launches,
    workers,
)

if TYPE_CHECKING:
    from ptxsw.report import Report

FORMAT = OptionRow("format", ("--format",), "Output format.", choices=("text", "json", "markdown"))
SORT = OptionRow(
    "sort",
    ("--sort",),
    "worst: the most expensive first, grouped by source line; line: in the order of the PTX.",
    choices=("worst", "line"),
)

ROWS = (
    FORMAT,
    KERNEL,
    BLOCK,
    JOBS,
    ON,
    SORT,
    PAGER,
)  # Typer reads `--space` and `--launch`, which may be given again


def run(
    file: str,
    format: str = "text",
    kernel: str | None = None,
    spaces: Collection[str] = (),
    block: str | None = None,
    jobs: int | None = None,
    sort: str = "worst",
    pager: bool = False,
    launches: Sequence[str] = (),
    on: str | None = None,
) -> None:
    """Reads, analyzes, and prints what was found. Raises CommandError, PtxError, OSError."""
    from ptxsw.driver import pipeline
    from ptxsw.report.serial import to_json
    from ptxsw.report.text import analysis_markdown, analysis_text, only_spaces
    from ptxsw.report.weights import ordered

    text, name = read_kernels(file)
    shape = None if block is None else block_shape(block)
    launched = named_launches(launches)
    try:
        with counting("analyzing") as watch:
            report = pipeline.analyze(
                text, name, kernel=kernel, block=shape, launches=launched, watch=watch,
                jobs=workers(jobs, on),
            )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    all_launched(launched, report)
    if spaces:
        report = only_spaces(report, frozenset(spaces))
    if sort == "worst" and format != "json":  # whose readers sort for themselves
        report = ordered(report)
    by_source = sort == "worst"
    draw: dict[str, Callable[[Report], str]] = {
        "text": lambda contents: analysis_text(contents, paint(), width(), by_source=by_source),
        "markdown": lambda contents: analysis_markdown(contents, by_source=by_source),
    }
    if format == "json":
        write_exact(sys.stdout, as_json(to_json(report)))
    else:
        show(draw[format](report), paged=pager)
    end_if_failed(report)
