"""`ptxsw analyze`: what every memory access does across a warp."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, as_json, read_kernels
from ptxsw.cli.options import BlockOption, File, JobsOption, KernelOption
from ptxsw.cli.progress import counting
from ptxsw.cli.terminal import paint, show, width
from ptxsw.cli.values import block_shape, processes

if TYPE_CHECKING:
    from ptxsw.report import Report


class Format(StrEnum):
    text = "text"
    json = "json"
    markdown = "markdown"


class Order(StrEnum):
    worst = "worst"
    line = "line"


class Space(StrEnum):
    """State spaces that `analyze --space` knows."""

    global_ = "global"
    shared = "shared"
    local = "local"
    const = "const"
    generic = "generic"


@app.command()
def analyze(
    file: File,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,
    kernel: KernelOption = None,
    space: Annotated[
        list[Space] | None, typer.Option(help="Only this state space; may be given again.")
    ] = None,
    only: Annotated[list[Space] | None, typer.Option(hidden=True)] = None,  # as it was called
    block: BlockOption = None,
    jobs: JobsOption = None,
    sort: Annotated[
        Order, typer.Option(help="The most expensive access first, or as in the text.")
    ] = Order.worst,
) -> None:
    """Print every memory access: address, lane stride, coalescing, reuse, bank conflicts.

    \b
    Columns, each about one request of a warp:
      stride      bytes from each lane's address to the next lane's
      sectors     32-byte sectors of memory that are touched; 4 is best for 4-byte elements
      used        how much of these sectors is asked for; "one": all lanes want the same
      banks       shared memory: n-way conflicts take n passes
      weight      what it costs beside the others: sectors or passes, times iterations
      same bytes  an earlier load of the same bytes: by a lane nearby, by this thread, or in an
                  earlier turn of a loop

    \b
      ptxsw analyze jacobi.ptx
      ptxsw analyze jacobi.ptx --format json | jq '.kernels[].accesses[]'
      ptxsw analyze jacobi.ptx --kernel jacobi --space global --space shared
      ptxsw analyze matmul.ptx --block 16x16
      ptxsw analyze jacobi.cu
      nvcc -arch=sm_80 -lineinfo -ptx -o - jacobi.cu | ptxsw analyze -
    """
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_markdown, analysis_text, only_spaces
    from ptxsw.report.weights import ordered

    text, name = read_kernels(file)
    shape = None if block is None else block_shape(block)
    try:
        with counting("analyzing") as watch:
            report = pipeline.analyze(
                text, name, kernel=kernel, block=shape, watch=watch, jobs=processes(jobs)
            )
    except ValueError as error:
        raise CommandError(str(error)) from error
    spaces = frozenset(one.value for one in (*(space or ()), *(only or ())))
    if spaces:
        report = only_spaces(report, spaces)
    if sort is Order.worst and format is not Format.json:  # whose readers sort for themselves
        report = ordered(report)
    draw: dict[Format, Callable[[Report], str]] = {
        Format.text: lambda found: analysis_text(found, paint(), width()),
        Format.json: as_json,
        Format.markdown: analysis_markdown,
    }
    show(draw[format](report))
