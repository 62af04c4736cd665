"""`ptxsw optimize`, as Typer reads it, and `ptxsw rewrites`, which lists what it can do."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

from ptxsw.cli import optimize_run as command
from ptxsw.cli.app import app
from ptxsw.cli.options import (
    AssumeOption,
    BlockOption,
    File,
    Form,
    JobsOption,
    KernelOption,
    Mode,
    OnOption,
    RewritesOption,
    Scheme,
    typed,
)
from ptxsw.cli.terminal import folded, width
from ptxsw.cli.values import FORM, MODE, SCHEME


class Bound(StrEnum):
    noload = "noload"
    nocorner = "nocorner"


@app.command()
def optimize(
    file: File,
    output: Annotated[str, typed(command.OUTPUT)],
    arch: Annotated[str | None, typed(command.ARCH)] = None,
    mode: Annotated[Mode, typed(MODE)] = Mode.auto,
    rewrites: RewritesOption = None,
    scheme: Annotated[Scheme, typed(SCHEME)] = Scheme.auto,
    form: Annotated[Form, typed(FORM)] = Form.auto,
    hoist: Annotated[bool | None, typed(command.HOIST)] = None,
    min_gain: Annotated[float | None, typed(command.MIN_GAIN)] = None,
    max_delta: Annotated[int, typed(command.MAX_DELTA)] = 31,
    kernel: KernelOption = None,
    only: Annotated[str | None, typed(command.ONLY)] = None,
    assume: AssumeOption = None,
    block: BlockOption = None,
    jobs: JobsOption = None,
    on: OnOption = None,
    report: Annotated[str | None, typed(command.REPORT)] = None,
    emit_smt2: Annotated[str | None, typed(command.EMIT_SMT2)] = None,
    unsafe_bound: Annotated[Bound | None, typed(command.UNSAFE_BOUND)] = None,
) -> None:
    """Rewrite kernels with proof; `ptxsw rewrites` lists the rewrites.

    Whatever cannot be proved stays as it is, and the report says why. If there is nothing to do,
    the output is the input, byte for byte.

    \b
    Mode auto applies what ptxsw tune measured as fastest, or else what ptxas's output shows to be
    a gain, and says why it leaves the rest alone. Mode force applies all rewrites that are proved.
    Scheme auto is paper, or what tune measured. Form auto is uniform in loops
    that lanes leave in different iterations, otherwise keep.

    \b
    Schemes  paper      the shuffle, then the load in lanes without a neighbour (CC'23)
             early      that load first, merged with the shuffled value: their latencies overlap
             halo       one partial load for a whole row of loads, instead of one for each
             keep       copies only
    Forms    keep       the surrounding code stays as it is
             versioned  a copy of the code for whole warps, the original for the others
             uniform    a vote keeps the warp together in loops that lanes leave at different times

    \b
      ptxsw optimize jacobi.ptx -o out.ptx
      ptxsw optimize jacobi.ptx -o out.ptx --arch sm_80 --min-gain 10
      ptxsw optimize jacobi.ptx -o out.ptx --mode force --scheme paper --report r.json
      ptxsw optimize jacobi.ptx -o out.ptx --mode force --scheme halo --form versioned
      ptxsw optimize a.ptx -o out.ptx --mode force --kernel "void blur<float>" --max-delta 2
      ptxsw optimize a.ptx -o bound.ptx --mode force --unsafe-bound noload
      ptxsw optimize matmul.ptx -o out.ptx --rewrites bank-conflicts --block 16x16
      ptxsw optimize - -o - --assume none < in.ptx > out.ptx
    """
    command.run(
        file, output, arch, mode.value, rewrites, scheme.value, form.value, hoist, min_gain,
        max_delta, kernel, only, assume, block, jobs, report, emit_smt2,
        unsafe_bound and unsafe_bound.value, on,
    )  # fmt: skip


@app.command()
def rewrites() -> None:
    """List the rewrites: their names for `--rewrites`, and what each does.

    docs/rewrites/NAME.md shows PTX before and after, the gain, and the reasons for refusals.

    \b
      ptxsw rewrites
      ptxsw optimize kernel.ptx -o out.ptx --mode force --rewrites load-elimination
    """
    from ptxsw.rewrites import every

    names = max(len(one.name) for one in every())
    for one in every():
        sys.stdout.write(f"{folded(f'{one.name:{names}}  ', one.summary, width())}\n")
