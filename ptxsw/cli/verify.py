"""`ptxsw verify` and `ptxsw run`: kernels without a GPU."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, read, read_once
from ptxsw.cli.options import File, KernelOption, LaunchOption
from ptxsw.cli.progress import now_and_then, working
from ptxsw.cli.values import block_shape, launches, sizes


class Format(StrEnum):
    text = "text"
    json = "json"


@app.command()
def verify(
    first: Annotated[str, typer.Argument(metavar="A.ptx", help="PTX, or - for standard input.")],
    second: Annotated[str, typer.Argument(metavar="B.ptx", help="PTX, or - for standard input.")],
    kernel: KernelOption = None,
    launch: LaunchOption = None,
    seeds: Annotated[
        int,
        typer.Option(min=0, max=1000, metavar="N", help="Fuzzed schedules for each small launch."),
    ] = 3,
    accept_runs: Annotated[
        bool,
        typer.Option(
            "--accept-runs", help="Exit 0, not 3, if there is no proof but runs show no difference."
        ),
    ] = False,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.text,
) -> None:
    """Prove that two PTX texts do the same, or find a launch that shows a difference.

    Runs both on the CPU, under adversarial schedules. Exit 0: proved, 1: different, 2: bad input,
    3: not decided. --accept-runs turns 3 into 0 if a launch ran on both texts and runs can show
    what is open (they cannot show fences, `.nc`, or what other kernels write).

    \b
      ptxsw verify jacobi.ptx out.ptx
      ptxsw verify a.ptx b.ptx --kernel jacobi --seeds 20
      ptxsw verify a.ptx b.ptx --format json --accept-runs
      ptxsw verify a.ptx b.ptx --launch spec.json
        [{"grid": [2, 1, 1], "block": [48, 1, 1], "args": [48, "random:1000:f32:1"]}]
    """
    from ptxsw.cli import verify_run as commands
    from ptxsw.ptx.failures import told
    from ptxsw.verify.verdict import Undecided

    read_once(first, second, launch)
    one, other, spec = read(first), read(second), launches(launch)
    try:
        with working("comparing") as step:
            verdict = commands.compare(
                (one[0], other[0]), (one[1], other[1]), kernel, spec, seeds, step
            )
    except ValueError as error:
        raise CommandError(str(error)) from error
    as_json = format is Format.json
    typer.echo(json.dumps(commands.to_json(verdict), indent=1) if as_json else str(verdict))
    if isinstance(verdict, Undecided):
        sys.stderr.writelines(told(one[1], failed) for failed in verdict.failures)
    raise typer.Exit(commands.exit_code(verdict, accept_runs=accept_runs))


@app.command("run")
def run_(
    file: File,
    grid: Annotated[str, typer.Option(metavar="X[xY[xZ]]", help="Blocks.")],
    block: Annotated[str, typer.Option(metavar="X[xY[xZ]]", help="Threads of a block.")],
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: the only one.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="In order: a number, FILE.npy, zeros:N:f32, iota:N:u32, random:N:f32:SEED.",
        ),
    ] = None,
    shared: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Dynamic shared memory.")] = 0,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Run under a fuzzed schedule.")
    ] = None,
    races: Annotated[bool, typer.Option(help="Look for races between barriers.")] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Give up after so many instructions of groups of threads."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the buffers there, as .npy.")
    ] = None,
) -> None:
    """Run a kernel without a GPU, and print what it counted.

    \b
      ptxsw run vecadd.ptx --grid 4 --block 128 --arg 512 --arg 1 --arg 1 \\
        --arg random:512:f32:1 --arg random:512:f32:2 --arg zeros:512:f32 --out results
    """
    from ptxsw.cli import verify_run as commands

    x, y, z = (*sizes("--grid", grid), 1, 1)[:3]
    shape = block_shape(block)
    text, name = read(file)
    began = time.monotonic()
    try:
        with working("running") as step:
            step(kernel or name)
            counted = commands.run(
                text, name, kernel, (x, y, z), shape, arg or [], shared=shared, seed=seed,
                races=races, out=out, steps=steps,
                progress=now_and_then(lambda done: step(_so_far(kernel or name, done, began))),
            )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    sys.stdout.write(counted)


def _so_far(name: str, steps: int, began: float) -> str:
    return f"{name}: {steps:,} steps, {time.monotonic() - began:.0f} s"
