"""`ptxsw report`: a page about one file, or the sum of a build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import BAD_INPUT, CommandError, paint, read, write
from ptxsw.cli.options import block_shape


@app.command()
def report(
    path: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="PTX, or the directory of PTXSW_REPORT.")
    ],
    html: Annotated[
        str | None, typer.Option(metavar="OUT.html", help="Write one self-contained page.")
    ] = None,
    scheme: Annotated[
        str, typer.Option(metavar="NAME", help="Code for the rewrites, as for optimize.")
    ] = "paper",
    form: Annotated[
        str, typer.Option(metavar="NAME", help="Code around them, as for optimize.")
    ] = "auto",
    block: Annotated[
        str | None,
        typer.Option(metavar="X[xY[xZ]]", help="Threads of a block. Default: rows of whole warps."),
    ] = None,
) -> None:
    """Show all about one PTX file, or sum up the reports of a build.

    The page needs no network: the PTX with every rewrite, the lanes and memory lines of each
    access, which lane serves which, the proofs. Rewrites are those of optimize --mode force.

    \b
      ptxsw report jacobi.ptx --html jacobi.html
      ptxsw report jacobi.ptx --html halo.html --scheme halo --form versioned
      PTXSW_REPORT=reports ptxsw exec -- make
      ptxsw report reports
    """
    if path.is_dir() or not (path.exists() or str(path) == "-"):
        if html is not None:
            raise CommandError(f"{path}: --html takes a PTX file")
        _report_build(path)
    else:
        _report_file(str(path), html, scheme, form, block_shape(block))


def _report_build(directory: Path) -> None:
    from ptxsw.report.build import load, summary

    build = load(directory)
    for problem in build.problems:
        sys.stderr.write(f"{problem}\n")
    sys.stdout.write(summary(build))
    if build.problems:
        raise typer.Exit(BAD_INPUT)


def _report_file(
    path: str, html: str | None, scheme: str, form: str, block: tuple[int, int, int] | None
) -> None:
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_text, optimization_text

    text, name = read(path)
    try:
        options = pipeline.Options("force", scheme, form, smt2=html is not None)
    except ValueError as error:
        raise CommandError(str(error)) from error
    result = pipeline.inspect(text, options, name, block=block)
    if html is None:
        sys.stdout.write(analysis_text(result.report, paint()))
        sys.stdout.write("\n" + optimization_text(result.report, paint()))
        return
    from ptxsw.report.html import page

    write(html, page(result.report, text, result.edits, result.smt2))
