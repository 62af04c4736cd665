"""`ptxsw report`: a page about one file, or the sum of a build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import BAD_INPUT, CommandError, read_kernels, write
from ptxsw.cli.options import BlockOption, Form, JobsOption, RewritesOption, Scheme
from ptxsw.cli.progress import counting
from ptxsw.cli.terminal import paint, show, width
from ptxsw.cli.values import block_shape, named_rewrites, processes

if TYPE_CHECKING:
    from ptxsw.report.build import Build
    from ptxsw.report.prediction import Prediction


@app.command()
def report(
    path: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR",
            help="PTX, .cu, a report of optimize, or the directory of PTXSW_REPORT.",
        ),
    ],
    html: Annotated[
        str | None, typer.Option(metavar="OUT.html", help="Write one self-contained page.")
    ] = None,
    scheme: Annotated[
        Scheme, typer.Option(help="Code for the rewrites, as for optimize.")
    ] = Scheme.paper,
    form: Annotated[Form, typer.Option(help="Code around them, as for optimize.")] = Form.auto,
    block: BlockOption = None,
    rewrites: RewritesOption = None,
    jobs: JobsOption = None,
) -> None:
    """Show all about one PTX file, or sum up the reports of a build.

    The page needs no network: the PTX with every rewrite, the lanes and memory lines of each
    access, which lane serves which, the proofs. Rewrites are those of optimize --mode force.

    \b
      ptxsw report jacobi.ptx --html jacobi.html
      ptxsw report jacobi.ptx --html halo.html --scheme halo --form versioned
      ptxsw report matmul.ptx --html banks.html --rewrites bank-conflicts --block 16x16
      PTXSW_REPORT=reports ptxsw exec -- make
      ptxsw report reports
      ptxsw report r.json
    """
    shape = None if block is None else block_shape(block)
    names = None if rewrites is None else named_rewrites(rewrites)
    if path != "-" and Path(path).is_dir():
        from ptxsw.report.build import load

        _sum_up(load(Path(path)), path, html)
        return
    text, name = read_kernels(path)
    if text.lstrip().startswith("{"):  # no PTX begins so
        from ptxsw.report.build import load_one

        _sum_up(load_one(text, name), name, html)
    else:
        _show(text, name, html, scheme.value, form.value, shape, names, processes(jobs))


def _sum_up(build: Build, name: str, html: str | None) -> None:
    from ptxsw.report.build import summary

    if html is not None:
        raise CommandError(f"{name}: --html takes a PTX file")
    for problem in build.problems:
        sys.stderr.write(f"{problem}\n")
    if build.reports:
        show(summary(build, paint(), width()))
    elif not build.problems:
        raise CommandError(f"{name}: there is no report (*.json) in it")
    if build.problems:
        raise typer.Exit(BAD_INPUT)


def _show(
    text: str,
    name: str,
    html: str | None,
    scheme: str,
    form: str,
    block: tuple[int, int, int] | None,
    rewrites: tuple[str, ...] | None,
    jobs: int,
) -> None:
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_text, optimization_text
    from ptxsw.report.weights import ordered

    try:
        options = pipeline.Options("force", scheme, form, smt2=html is not None, rewrites=rewrites)
    except ValueError as error:
        raise CommandError(str(error)) from error
    with counting("analyzing") as watch:
        result = pipeline.inspect(text, options, name, block=block, watch=watch, jobs=jobs)
    if html is None:
        analysed = analysis_text(ordered(result.report), paint(), width())
        show(f"{analysed}\n{optimization_text(result.report, paint(), width())}")
        return
    from ptxsw.parser import parse
    from ptxsw.report.html import page
    from ptxsw.report.machine_code import machine_code
    from ptxsw.report.sources import read_sources

    directory = None if name == "<stdin>" else Path(name).parent
    sources = read_sources(parse(text, name), directory)
    code = machine_code(text, result.report.arch)
    predicted = _predicted(text, name, block, len(result.report.kernels))
    write(html, page(result.report, text, result.edits, result.smt2, sources, code, predicted))


def _predicted(
    text: str, name: str, block: tuple[int, int, int] | None, kernels: int
) -> Prediction | None:
    """What bounds the kernels of a file of few, on the GPU that stands for its target; None where
    none does."""
    from ptxsw.prediction import FEW, predict

    if not 0 < kernels <= FEW:
        return None
    try:
        return predict(text, name, block=block, rewrites=False)
    except ValueError:
        return None
