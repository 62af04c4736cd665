"""`ptxsw report`, as Typer reads it: a page about one file, or the sum of a build."""

from __future__ import annotations

from typing import Annotated

import typer

from ptxsw.cli import report_run as command
from ptxsw.cli.app import app
from ptxsw.cli.options import (
    BlockOption,
    Form,
    Format,
    JobsOption,
    LaunchesOption,
    PagerOption,
    RewritesOption,
    Scheme,
    SourceRootOption,
    typed,
)


@app.command()
def report(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR",
            help="PTX, .cu, an object, -; a report of optimize, or the directory of PTXSW_REPORT.",
        ),
    ],
    format: Annotated[Format, typed(command.FORMAT)] = Format.text,
    html: Annotated[str | None, typed(command.HTML)] = None,
    scheme: Annotated[Scheme, typed(command.CODE)] = Scheme.paper,
    form: Annotated[Form, typed(command.AROUND)] = Form.auto,
    block: BlockOption = None,
    launch: LaunchesOption = None,
    rewrites: RewritesOption = None,
    jobs: JobsOption = None,
    correctness: Annotated[bool, typed(command.CORRECTNESS)] = False,
    pager: PagerOption = False,
    source_root: SourceRootOption = None,
) -> None:
    """Report everything about one PTX file, or which kernels a build changed, and how.

    The page needs no network. It shows the PTX with every rewrite, the lanes and memory lines of
    each access, the source lane of each shuffle, and the proofs. Rewrites are those of optimize
    --mode force.

    \b
      ptxsw report jacobi.ptx --html jacobi.html
      ptxsw report jacobi.ptx --html halo.html --scheme halo --form versioned
      ptxsw report kernel.cu --html kernel.html --correctness
      ptxsw report matmul.ptx --html banks.html --rewrites bank-conflicts --block 16x16
      PTXSW_REPORT=reports ptxsw exec -- make
      ptxsw report reports --format markdown >> $GITHUB_STEP_SUMMARY
      ptxsw report r.json
    """
    command.run(
        file, html, scheme.value, form.value, block, rewrites, jobs, pager, launch or (),
        source_root or (), format.value, correctness,
    )  # fmt: skip
