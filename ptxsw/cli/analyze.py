"""`ptxsw analyze`, as Typer reads it: what every memory access does across a warp."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ptxsw.cli import analyze_run as command
from ptxsw.cli.app import app
from ptxsw.cli.options import (
    BlockOption,
    File,
    Format,
    JobsOption,
    KernelOption,
    LaunchesOption,
    OnOption,
    PagerOption,
    typed,
)


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
    format: Annotated[Format, typed(command.FORMAT)] = Format.text,
    kernel: KernelOption = None,
    space: Annotated[
        list[Space] | None, typer.Option(help="Only this state space; repeatable.")
    ] = None,
    only: Annotated[list[Space] | None, typer.Option(hidden=True)] = None,  # as it was called
    block: BlockOption = None,
    launch: LaunchesOption = None,
    jobs: JobsOption = None,
    on: OnOption = None,
    sort: Annotated[Order, typed(command.SORT)] = Order.worst,
    pager: PagerOption = False,
) -> None:
    """Print every memory access: address, lane stride, coalescing, reuse, bank conflicts.

    \b
    Columns, each for one request of a warp:
      stride      bytes from each lane's address to the next lane's
      sectors     32-byte sectors touched; 4 is best for 4-byte elements
      used        share of these sectors that some lane uses; "one": all lanes use one element
      banks       shared memory: an n-way conflict takes n passes
      weight      relative cost: sectors or passes, times iterations
      same bytes  an earlier load of the same bytes: by another lane, by this thread, or in an
                  earlier iteration of a loop

    \b
      ptxsw analyze jacobi.ptx
      ptxsw analyze jacobi.ptx --format json | jq '.kernels[].accesses[]'
      ptxsw analyze jacobi.ptx --kernel jacobi --space global --space shared
      ptxsw analyze matmul.ptx --block 16x16
      ptxsw analyze matmul.ptx --launch tiled=launch.json
      ptxsw analyze jacobi.cu
      nvcc -arch=sm_80 -lineinfo -ptx -o - jacobi.cu | ptxsw analyze -
    """
    spaces = [one.value for one in (*(space or ()), *(only or ()))]
    command.run(
        file, format.value, kernel, spaces, block, jobs, sort.value, pager, launch or (), on
    )
