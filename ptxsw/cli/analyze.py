"""`ptxsw analyze`: what every memory access does across a warp."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, File, as_json, paint, read
from ptxsw.cli.options import block_shape

if TYPE_CHECKING:
    from ptxsw.report import Report

_MOST_NAMES = 8  # kernels named in an error


class Format(StrEnum):
    text = "text"
    json = "json"
    markdown = "markdown"


class Space(StrEnum):
    """State spaces that `analyze --only` knows."""

    global_ = "global"
    shared = "shared"
    local = "local"
    const = "const"
    generic = "generic"


@app.command()
def analyze(
    file: File,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this kernel, by its PTX or C++ name.")
    ] = None,
    only: Annotated[
        list[Space] | None, typer.Option(help="Only this state space; may be given again.")
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(metavar="X[xY[xZ]]", help="Threads of a block. Default: rows of whole warps."),
    ] = None,
) -> None:
    """Print every memory access: address, lane stride, coalescing, reuse, bank conflicts.

    \b
    Columns, each about one request of a full warp:
      stride      bytes from each lane's address to the next lane's
      sectors     32-byte sectors of memory that are touched; 4 is best for 4-byte elements
      used        how much of these sectors is asked for; "one": all lanes want the same
      banks       shared memory: n-way conflicts take n passes
      same bytes  an earlier load of the same bytes: by a lane nearby, by this thread, or in an
                  earlier turn of a loop

    \b
      ptxsw analyze jacobi.ptx
      ptxsw analyze jacobi.ptx --format json | jq '.kernels[].accesses[]'
      ptxsw analyze jacobi.ptx --kernel jacobi --only global --only shared
      ptxsw analyze matmul.ptx --block 16x16
      nvcc -arch=sm_80 -lineinfo -ptx -o - jacobi.cu | ptxsw analyze -
    """
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_markdown, analysis_text, only_spaces

    text, name = read(file)
    report = pipeline.analyze(text, name, kernel=kernel, block=block_shape(block))
    check_kernel(report, kernel, text)
    if only:
        report = only_spaces(report, frozenset(space.value for space in only))
    draw: dict[Format, Callable[[Report], str]] = {
        Format.text: lambda found: analysis_text(found, paint()),
        Format.json: as_json,
        Format.markdown: analysis_markdown,
    }
    sys.stdout.write(draw[format](report))


def check_kernel(report: Report, wanted: str | None, text: str) -> None:
    if wanted is None or report.kernels:
        return
    from ptxsw.pipeline import kernel_names

    names = kernel_names(text)
    there = f"; there are: {', '.join(names[:_MOST_NAMES])}" if names else ""
    more = ", …" if len(names) > _MOST_NAMES else ""
    raise CommandError(f"{report.file}: no kernel {wanted!r} with a body{there}{more}")
