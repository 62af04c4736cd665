"""`ptxsw tune`: measures on a GPU."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, read_kernels, read_once
from ptxsw.cli.options import AssumeOption, File, KernelOption, LaunchOption
from ptxsw.cli.progress import working
from ptxsw.cli.values import assumptions, block_shape, launches


@app.command()
def tune(
    file: File,
    kernel: KernelOption = None,
    launch: LaunchOption = None,
    arch: Annotated[
        str | None,
        typer.Option(metavar="sm_XX", help="Target of the build. Default: the device's own."),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X[xY[xZ]]", help="Shape of a block in invented launches; repeatable."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=3, metavar="N", help="Samples in each of two series.")
    ] = 15,
    device: Annotated[int, typer.Option(min=0, metavar="N", help="Number of the GPU.")] = 0,
    assume: AssumeOption = None,
    store: Annotated[bool, typer.Option(help="Store the choice.")] = True,
    csv: Annotated[
        Path | None, typer.Option(metavar="OUT.csv", help="Write all measurements to this file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png|OUT.svg", help="Draw the speed-ups as bars.")
    ] = None,
) -> None:
    """Measure on a GPU which rewrites make each kernel fastest, and remember the result.

    Every variant must give the original's results bit for bit, and takes turns with it. From then
    on, optimize in mode auto and the wrapper use the fastest variant of this kernel for this
    architecture. If the original was fastest, they leave it alone.

    The choice is stored in tuned.json beside the cache, or in the file that PTXSW_TUNED names. You
    can copy it to a machine without a GPU, or commit it. A kernel is recognised by its own PTX,
    whatever else is in its file. Exit 0: measured, 1: a variant gave other results, 2: no GPU or
    bad input.

    \b
      ptxsw tune jacobi.ptx
      ptxsw tune jacobi.ptx --kernel jacobi --launch spec.json --arch sm_80
      ptxsw tune jacobi.ptx --no-store --block 128 --block 256 --csv t.csv --plot t.png
    """
    from ptxsw.gpu.cuda import open_device
    from ptxsw.gpu.driver import GpuError, NoGpu
    from ptxsw.ptx.failures import KernelFailed, told

    read_once(file, launch)
    text, name = read_kernels(file, arch)
    given, shapes = launches(launch) or (), tuple(map(block_shape, block or ()))
    assumed = assumptions(assume)
    resources = ExitStack()
    try:
        driver = resources.enter_context(closing(open_device(device)))
        step = resources.enter_context(working("timing"))
        from ptxsw.gpu import tune as tuning
        from ptxsw.gpu.invent import BLOCKS
        from ptxsw.gpu.measure import Effort

        effort = Effort(samples=samples)
        request = tuning.TuneRequest(kernel, arch, given, shapes or BLOCKS, assumed, effort)
        equal = tuning.run(
            text, name, driver, request, keep=store, csv=csv, plot=plot, say=typer.echo,
            step=step,
        )  # fmt: skip
    except KernelFailed as error:
        raise CommandError(told(name, error.failure).rstrip()) from error
    except (ValueError, NoGpu, GpuError) as error:
        raise CommandError(str(error)) from error
    finally:
        resources.close()
    raise typer.Exit(0 if equal else 1)
