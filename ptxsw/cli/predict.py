"""`ptxsw predict`: what bounds a kernel, without a GPU."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, as_json, end_if_failed, read_kernels, read_once
from ptxsw.cli.options import BlockOption, File, KernelOption, is_set_by_project
from ptxsw.cli.progress import bar
from ptxsw.cli.terminal import write_exact
from ptxsw.cli.values import block_shape, launches


class Format(StrEnum):
    text = "text"
    json = "json"


@app.command()
def predict(
    context: typer.Context,
    file: File,
    launch: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC.json",
            help="Predict this launch (format as for verify). Default: one iteration.",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(metavar="sm_XX", help="Architecture. Default: the target of the file."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="GPU: v100, a100, rtx-4090, h100, ...")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Compare with the kernels of the same names there."),
    ] = None,
    kernel: KernelOption = None,
    block: BlockOption = None,
    registers: Annotated[
        int | None,
        typer.Option(
            min=1, max=255, metavar="N", help="Registers per thread. Default: those of ptxas."
        ),
    ] = None,
    shared: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="BYTES",
            help="Dynamic shared memory per block. Default: what accesses are seen to use.",
        ),
    ] = None,
    rewrites: Annotated[
        bool | None,
        typer.Option(
            "--rewrites/--no-rewrites",
            show_default=False,
            help="Show what each rewrite would change. [default: for up to 8 kernels]",
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.text,
) -> None:
    """Predict what limits each kernel, and how long it takes, without a GPU.

    A time is an interval: all resources overlap at its lower end, none at its upper end. Without a
    launch it covers one warp in one iteration of each innermost loop. With a launch it covers all
    of it, estimated from some blocks in the interpreter.

    \b
      ptxsw predict jacobi.ptx
      ptxsw predict jacobi.ptx --gpu h100 --block 256
      ptxsw predict jacobi.ptx --against out.ptx --no-rewrites
      ptxsw predict jacobi.ptx --gpu v100 --launch spec.json --format json
        {"grid": [4094, 1, 1], "block": [512, 1, 1], "args": [4096, 4096, 0.5, 0.1, 0.025,
         "zeros:16777216:f32", "zeros:16777216:f32"]}
    """
    from ptxsw.driver.prediction import predict
    from ptxsw.parser import parse
    from ptxsw.ptx.cxx_names import chosen
    from ptxsw.report.prediction_text import prediction_text, to_json

    read_once(file, against, launch)
    if gpu is not None and is_set_by_project(context, "arch"):
        arch = None
    if arch is not None and gpu is not None:
        raise CommandError("--arch and --gpu exclude each other: use one of them")
    if launch is not None and shared is not None:
        raise CommandError("--shared and --launch exclude each other: use one of them")
    text, name = read_kernels(file, arch or _arch_of(gpu))
    other = None if against is None else read_kernels(against, arch or _arch_of(gpu))[0]
    given = launches(launch)
    if given is not None and len(given) != 1:
        raise CommandError(f"{launch}: {len(given)} launches; predict takes one")
    shape = None if block is None else block_shape(block)
    try:
        with bar("predicting", len(chosen(parse(text, name), kernel))) as step:
            prediction = predict(
                text, name, launch=given[0] if given else None, arch=arch, gpu=gpu, against=other,
                kernel=kernel, block=shape, registers=registers, shared=shared, rewrites=rewrites,
                step=step,
            )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    if format is Format.json:
        write_exact(sys.stdout, as_json(to_json(prediction)))
    else:
        sys.stdout.write(prediction_text(prediction))
    end_if_failed(prediction)


def _arch_of(gpu: str | None) -> str | None:
    """For what to compile a source."""
    if gpu is None:
        return None
    from ptxsw.cost.gpu import find

    try:
        return find(gpu).arch
    except ValueError as error:
        raise CommandError(str(error)) from error
