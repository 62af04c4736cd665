"""`ptxsw verify` and `ptxsw run`: kernels without a GPU."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, read_kernels, read_once
from ptxsw.cli.options import (
    KERNELS,
    AssumeOption,
    BlockOption,
    File,
    JobsOption,
    KernelOption,
    LaunchOption,
    OnOption,
    is_set_by_project,
)
from ptxsw.cli.progress import now_and_then, working
from ptxsw.cli.values import assumptions, block_shape, launches, sizes, workers

if TYPE_CHECKING:
    from ptxsw.verify.launches import Launch


class Format(StrEnum):
    text = "text"
    json = "json"


@app.command()
def verify(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help=KERNELS)],
    second: Annotated[str, typer.Argument(metavar="B", help=KERNELS)],
    kernel: KernelOption = None,
    launch: LaunchOption = None,
    seeds: Annotated[
        int,
        typer.Option(min=0, max=1000, metavar="N", help="Fuzzed schedules for each small launch."),
    ] = 3,
    block: BlockOption = None,
    assume: AssumeOption = None,
    also_run: Annotated[
        bool, typer.Option("--also-run", help="Run launches even if there is a proof.")
    ] = False,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="sm_XX",
            help="Assemble both with ptxas, and check whether it fused mul and add alike.",
        ),
    ] = None,
    cubins: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A.cubin B.cubin", help="As --arch, with ptxas's existing output for A and B."
        ),
    ] = None,
    jobs: JobsOption = None,
    on: OnOption = None,
    accept_runs: Annotated[
        bool,
        typer.Option(
            "--accept-runs", help="Exit 0, not 3, if no proof exists but runs show no difference."
        ),
    ] = False,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.text,
) -> None:
    """Prove that two kernels do the same, or find a launch that shows a difference.

    If they differ, verify prints the smallest launch found, which `ptxsw run --launch` repeats.
    Exit 0: proved, 1: different, 2: bad input (also if ptxas rejects it), 3: not decided.
    --accept-runs turns 3 into 0 if a launch ran on both and runs can show what is unproved (they
    cannot show fences, `.nc`, or what other kernels write).

    \b
      ptxsw verify jacobi.ptx out.ptx
      ptxsw verify a.ptx b.ptx --kernel jacobi --seeds 20
      ptxsw verify a.ptx b.ptx --block 32x8
      ptxsw verify a.ptx b.ptx --format json --accept-runs
      ptxsw verify a.ptx b.ptx --launch spec.json
        [{"grid": [2, 1, 1], "block": [48, 1, 1], "args": [48, "random:1000:f32:1"]}]
    """
    from ptxsw.cli import verify_run as commands
    from ptxsw.ptx.failures import told
    from ptxsw.verify.verdict import Undecided

    read_once(first, second, launch)
    if cubins is not None and arch is not None and not is_set_by_project(context, "arch"):
        raise CommandError("--arch and --cubins exclude each other: use one of them")
    one, other = read_kernels(first, arch), read_kernels(second, arch)
    spec = launches(launch)
    try:
        with working("comparing") as step:
            verdicts = commands.compare(
                (one[0], other[0]), (one[1], other[1]), kernel, spec, seeds,
                also_run=also_run, block=None if block is None else block_shape(block),
                assume=assumptions(assume), made=cubins or arch, jobs=workers(jobs, on), step=step,
            )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    as_json = format is Format.json
    answer = json.dumps(commands.to_json(verdicts), indent=1) if as_json else None
    typer.echo(answer or commands.to_text(verdicts))
    for _, verdict in verdicts:
        if isinstance(verdict, Undecided):
            sys.stderr.writelines(told(one[1], failed) for failed in verdict.failures)
    raise typer.Exit(commands.exit_code(verdicts, accept_runs=accept_runs))


@app.command("run")
def run_(
    file: File,
    grid: Annotated[
        str | None, typer.Option(metavar="X[xY[xZ]]", help="Shape of the grid.")
    ] = None,
    block: Annotated[
        str | None, typer.Option(metavar="X[xY[xZ]]", help="Shape of a block.")
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC.json",
            help="A launch, as `verify` prints it; replaces --grid, --block, --arg and --shared.",
        ),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="The kernel. Default: the only one.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VALUE",
            help="Arguments in order: a number, FILE.npy, zeros:N:f32, iota:N:u32, "
            "random:N:f32:SEED.",
        ),
    ] = None,
    shared: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Dynamic shared memory.")] = 0,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Run under a fuzzed schedule.")
    ] = None,
    races: Annotated[bool, typer.Option(help="Detect data races.")] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Stop after this many instructions of thread groups."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the buffers to DIR, as .npy.")
    ] = None,
) -> None:
    """Run a kernel without a GPU, and print its counts.

    \b
      ptxsw run vecadd.ptx --grid 4 --block 128 --arg 512 --arg 1 --arg 1 \\
        --arg random:512:f32:1 --arg random:512:f32:2 --arg zeros:512:f32 --out results
      ptxsw run vecadd.ptx --launch witness.json
    """
    from ptxsw.cli.kernel_run import RunOptions, replay, run
    from ptxsw.simt.run import LIMIT

    if launch is None and (grid is None or block is None):
        raise CommandError("unknown launch: use --grid and --block, or --launch")
    if launch is not None and (grid or block or arg or shared):
        raise CommandError("--launch replaces --grid, --block, --arg and --shared: leave these out")
    read_once(file, launch)
    text, name = read_kernels(file)
    began = time.monotonic()
    try:
        with working("running") as step:
            step(kernel or name)
            options = RunOptions(
                kernel=kernel, seed=seed, races=races, out=out,
                steps=LIMIT if steps is None else steps,
                progress=now_and_then(lambda done: step(_so_far(kernel or name, done, began))),
            )  # fmt: skip
            if launch is not None:
                counted = replay(text, name, _single(launch), options)
            else:
                x, y, z = (*sizes("--grid", grid or ""), 1, 1)[:3]
                shape = block_shape(block or "")
                counted = run(text, name, (x, y, z), shape, arg or [], shared, options)
    except ValueError as error:
        raise CommandError(str(error)) from error
    sys.stdout.write(counted)


def _single(path: str) -> Launch:
    """The launch in a file that has to hold one."""
    several = launches(path) or ()
    if len(several) != 1:
        raise CommandError(f"{path}: {len(several)} launches; `run` takes one")
    return several[0]


def _so_far(name: str, steps: int, began: float) -> str:
    return f"{name}: {steps:,} steps, {time.monotonic() - began:.0f} s"
