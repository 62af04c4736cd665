"""What `ptxsw report` does, and the table of its options. Loads nothing of Typer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.cli.files import BAD_INPUT, CommandError, end_if_failed, read_kernels, write
from ptxsw.cli.progress import counting
from ptxsw.cli.rows import OptionRow
from ptxsw.cli.terminal import paint, show, width
from ptxsw.cli.values import (
    BLOCK,
    FORM,
    JOBS,
    REWRITES,
    SCHEME,
    all_launched,
    block_shape,
    named_launches,
    named_rewrites,
    processes,
    source_roots,
)

if TYPE_CHECKING:
    from ptxsw.report.build import Build
    from ptxsw.report.prediction import Prediction
    from ptxsw.report.source_files import SourceFiles
    from ptxsw.verify.launches import Launch

HTML = OptionRow("html", ("--html",), "Write one self-contained page.", "OUT.html")
CODE = replace(SCHEME, help="Code for the rewrites, as for optimize.")
AROUND = replace(FORM, help="Code around them, as for optimize.")

# Typer reads `--launch` and `--source-root`, which may be given several times.
ROWS = (HTML, CODE, AROUND, BLOCK, REWRITES, JOBS)


def run(
    file: str,
    html: str | None = None,
    scheme: str = "paper",
    form: str = "auto",
    block: str | None = None,
    rewrites: str | None = None,
    jobs: int | None = None,
    launches: Sequence[str] = (),
    roots: Sequence[str] = (),
) -> None:
    """Shows one file, or sums up a report or a directory of them. Raises CommandError, PtxError,
    OSError."""
    shape = None if block is None else block_shape(block)
    names = None if rewrites is None else named_rewrites(rewrites)
    roots = source_roots(roots)
    if file != "-" and Path(file).is_dir():
        from ptxsw.report.build import load

        _sum_up(load(Path(file)), file, html)
        return
    text, name = read_kernels(file)
    if text.lstrip().startswith("{"):  # no PTX begins so
        from ptxsw.report.build import load_one

        _sum_up(load_one(text, name), name, html)
    else:
        from ptxsw.report.source_files import SourceFiles

        launched = named_launches(launches)
        sources = SourceFiles(None if file == "-" else str(Path(file).parent), roots)
        _show(text, name, html, scheme, form, shape, launched, names, processes(jobs), sources)


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
        sys.exit(BAD_INPUT)


def _show(
    text: str,
    name: str,
    html: str | None,
    scheme: str,
    form: str,
    block: tuple[int, int, int] | None,
    launches: Mapping[str, Launch],
    rewrites: tuple[str, ...] | None,
    jobs: int,
    files: SourceFiles,
) -> None:
    from ptxsw import pipeline
    from ptxsw.report.text import analysis_text, optimization_text
    from ptxsw.report.weights import ordered

    try:
        options = pipeline.Options("force", scheme, form, smt2=html is not None, rewrites=rewrites)
    except ValueError as error:
        raise CommandError(str(error)) from error
    try:
        with counting("analyzing") as watch:
            result = pipeline.inspect(
                text, options, name, block=block, launches=launches, watch=watch, jobs=jobs
            )
    except ValueError as error:
        raise CommandError(str(error)) from error
    all_launched(launches, result.report)
    if html is None:
        analysed = analysis_text(ordered(result.report), paint(), width())
        show(f"{analysed}\n{optimization_text(result.report, paint(), width())}")
        end_if_failed(result.report)
        return
    from ptxsw.parser import parse
    from ptxsw.report.html import page
    from ptxsw.report.machine_code import machine_code
    from ptxsw.report.sources import read_sources

    sources = read_sources(parse(text, name), files)
    for note in files.notes():
        sys.stderr.write(f"{note}\n")
    code = machine_code(text, result.report.arch)
    predicted = _predicted(text, name, block, len(result.report.kernels))
    write(html, page(result.report, text, result.edits, result.smt2, sources, code, predicted))
    end_if_failed(result.report)


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
