"""`ptxsw optimize`: rewrites a PTX text."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import CommandError, File, apart, as_json, read, write
from ptxsw.cli.options import (
    AssumeOption,
    BlockOption,
    Form,
    JobsOption,
    KernelOption,
    Mode,
    RewritesOption,
    Scheme,
    assumptions,
    block_shape,
    either,
    named_rewrites,
    processes,
)
from ptxsw.cli.progress import counting
from ptxsw.cli.terminal import paint, show, width


class Bound(StrEnum):
    noload = "noload"
    nocorner = "nocorner"


@app.command()
def optimize(
    file: File,
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT", help="PTX, or -.")],
    arch: Annotated[
        str | None, typer.Option(metavar="sm_XX", help="Judge gains for this target.")
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="auto: where it pays; force: whatever is proved.")
    ] = Mode.auto,
    rewrites: RewritesOption = None,
    scheme: Annotated[Scheme, typer.Option(help="Code for a shuffled load.")] = Scheme.auto,
    form: Annotated[Form, typer.Option(help="Code around it.")] = Form.auto,
    hoist: Annotated[
        bool | None,
        typer.Option(
            "--hoist/--no-hoist",
            show_default=False,
            help="Move the middle load of a row up, so that values travel less far. [default: in "
            "scheme halo only]",
        ),
    ] = None,
    min_gain: Annotated[
        float | None,
        typer.Option(
            metavar="PCT",
            help="Mode auto: the least gain that shuffles have to promise, in percent. Default: "
            "what the model of the target can tell.",
        ),
    ] = None,
    max_delta: Annotated[
        int,
        typer.Option(
            min=0, max=31, metavar="N", help="Take values from lanes at most this far away."
        ),
    ] = 31,
    kernel: KernelOption = None,
    only: Annotated[str | None, typer.Option(hidden=True)] = None,  # as it was called
    assume: AssumeOption = None,
    block: BlockOption = None,
    jobs: JobsOption = None,
    report: Annotated[
        str | None, typer.Option(metavar="R.json", help="Say there what was done, as JSON.")
    ] = None,
    emit_smt2: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the proofs there, as SMT-LIB 2.")
    ] = None,
    unsafe_bound: Annotated[
        Bound | None,
        typer.Option(
            help="Write a kernel that computes NONSENSE, to time what shuffles could gain at most: "
            "without the loads, or without those of lanes that have no such neighbour.",
        ),
    ] = None,
) -> None:
    """Turn loads of what a neighbour has loaded into shuffles.

    Whatever is not proved is left as it is, and said so. With nothing to do the output is the
    input, byte for byte.

    \b
    Mode auto makes copies, and shuffles where ptxsw tune measured or the model of the target
    predicts that they pay; it says for each load why it was left alone. Mode force makes all
    that are proved: with scheme and form auto those that the model rates best.

    \b
    Schemes  paper      the shuffle, then the load in lanes without such a neighbour (CC'23)
             early      that load first, merged with the shuffled value: both take one wait
             halo       one partial load for a whole row of loads instead of one for each
             keep       copies only
    Forms    keep       the code around stays as it is
             versioned  a copy of the code for whole warps, the original for the rest
             uniform    loops that lanes leave apart are gone round together (sm_70 and later)

    \b
      ptxsw optimize jacobi.ptx -o out.ptx
      ptxsw optimize jacobi.ptx -o out.ptx --arch sm_60 --min-gain 5
      ptxsw optimize jacobi.ptx -o out.ptx --mode force --scheme paper --report r.json
      ptxsw optimize jacobi.ptx -o out.ptx --mode force --scheme halo --form versioned
      ptxsw optimize a.ptx -o out.ptx --mode force --kernel "void blur<float>" --max-delta 2
      ptxsw optimize a.ptx -o bound.ptx --mode force --unsafe-bound noload
      ptxsw optimize matmul.ptx -o out.ptx --rewrites bank-conflicts --block 16x16
      ptxsw optimize - -o - --assume none < in.ptx > out.ptx
    """
    from ptxsw import pipeline
    from ptxsw.report.text import optimization_text

    apart(output=output, report=report)
    text, name = read(file)
    try:
        options = pipeline.Options(
            mode=mode.value, scheme=scheme.value, form=form.value, max_delta=max_delta,
            only=either("--kernel", kernel, "--only", only), arch=arch,
            assume=assumptions(assume), smt2=emit_smt2 is not None, hoist=hoist, min_gain=min_gain,
            unsafe_bound=unsafe_bound and unsafe_bound.value,
            rewrites=None if rewrites is None else named_rewrites(rewrites),
            block=None if block is None else block_shape(block),
        )  # fmt: skip
        with counting("optimizing") as watch:
            result = pipeline.optimize(text, options, name, watch=watch, jobs=processes(jobs))
    except ValueError as error:
        raise CommandError(str(error)) from error
    write(output, result.text)
    if report is not None:
        write(report, as_json(result.report))
    if emit_smt2 is not None:
        emit_smt2.mkdir(parents=True, exist_ok=True)
        for file_name, proof in result.smt2.items():
            write(str(emit_smt2 / file_name), proof)
    where = sys.stderr if "-" in (output, report) else sys.stdout
    if where is sys.stdout:
        show(optimization_text(result.report, paint(), width()))
    else:
        where.write(optimization_text(result.report))
    if result.report.warning is not None:
        sys.stderr.write(f"\nWARNING: {result.report.warning}\n")
