"""What `ptxsw report` does, and the table of its options. Loads nothing of Typer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.cli.files import BAD_INPUT, CommandError, as_json, end_if_failed, read_kernels, write
from ptxsw.cli.progress import counting
from ptxsw.cli.rows import OptionRow
from ptxsw.cli.terminal import folded, paint, show, width, write_exact
from ptxsw.cli.values import (
    BLOCK,
    FORM,
    JOBS,
    PAGER,
    REWRITES,
    SCHEME,
    all_launched,
    block_shape,
    named_launches,
    named_rewrites,
    source_roots,
    workers,
)

if TYPE_CHECKING:
    from ptxsw.driver.pipeline import Result
    from ptxsw.report.build import Build
    from ptxsw.report.prediction_text import Prediction
    from ptxsw.report.serial import Report
    from ptxsw.report.source_files import SourceFiles
    from ptxsw.verify.launches import Launch

FORMAT = OptionRow(
    "format",
    ("--format",),
    "Output format.",
    choices=("text", "json", "markdown"),
)
HTML = OptionRow("html", ("--html",), "Write one self-contained page.", "OUT.html")
CORRECTNESS = OptionRow(
    "correctness", ("--correctness",), "List the faults that are proved absent, as check does.",
    kind=bool,
)  # fmt: skip
CODE = replace(SCHEME, help="Code for the rewrites, as for optimize.")
AROUND = replace(FORM, help="Code around them, as for optimize.")

# Typer reads `--launch` and `--source-root`, which may be given several times.
ROWS = (FORMAT, HTML, CODE, AROUND, BLOCK, REWRITES, CORRECTNESS, JOBS, PAGER)


def run(
    file: str,
    html: str | None = None,
    scheme: str = "paper",
    form: str = "auto",
    block: str | None = None,
    rewrites: str | None = None,
    jobs: int | None = None,
    pager: bool = False,
    launches: Sequence[str] = (),
    roots: Sequence[str] = (),
    format: str = "text",
    correctness: bool = False,
) -> None:
    """Shows one file, or sums up a report or a directory of them. Raises CommandError, PtxError,
    OSError."""
    if html is not None and format != "text":
        raise CommandError("--html and --format exclude each other: use one of them")
    shape = None if block is None else block_shape(block)
    names = None if rewrites is None else named_rewrites(rewrites)
    roots = source_roots(roots)
    if file != "-" and Path(file).is_dir():
        from ptxsw.report.build import load

        _sum_up(load(Path(file)), file, html, format, pager)
        return
    text, name = read_kernels(file)
    if text.lstrip().startswith("{"):  # no PTX begins so
        from ptxsw.report.build import load_one

        _sum_up(load_one(text, name), name, html, format, pager)
        return
    from ptxsw.driver import pipeline
    from ptxsw.report.source_files import SourceFiles

    launched = named_launches(launches)
    sources = SourceFiles(None if file == "-" else str(Path(file).parent), roots)
    try:
        options = pipeline.Options("force", scheme, form, smt2=html is not None, rewrites=names)
        with counting("analyzing") as watch:
            result = pipeline.inspect(
                text, options, name, block=shape, launches=launched, watch=watch,
                jobs=workers(jobs), sources=sources,
            )  # fmt: skip
    except ValueError as error:
        raise CommandError(str(error)) from error
    all_launched(launched, result.report)
    if correctness:
        result = replace(result, report=_with_verdicts(result.report, text, name, shape, launched))
    if html is None:
        _print(result.report, format, pager)
    else:
        _write_page(html, text, name, result, sources, shape)
    end_if_failed(result.report)


def _with_verdicts(
    report: Report, text: str, name: str, block: tuple[int, int, int] | None,
    launches: Mapping[str, Launch],
) -> Report:  # fmt: skip
    from ptxsw.correctness.verdict import NOTHING
    from ptxsw.driver.checking import check

    found = check(text, name, select="correctness", block=block, launches=launches)
    by_name = {kernel.name: kernel for kernel in found.kernels}
    kernels = (
        replace(
            kernel,
            findings=(*(by_name[kernel.name].findings or ()), *(kernel.findings or ())),
            verdicts={
                rule: said
                for rule, said in (by_name[kernel.name].verdicts or {}).items()
                if said.reason != NOTHING
            },
        )
        if kernel.name in by_name
        else kernel
        for kernel in report.kernels
    )
    return replace(report, kernels=tuple(kernels))


def _sum_up(build: Build, name: str, html: str | None, format: str, pager: bool) -> None:
    from ptxsw.report.build import summary, summary_json, summary_markdown

    if html is not None:
        raise CommandError(f"{name}: --html takes a PTX file")
    for problem in build.problems:
        sys.stderr.write(f"{problem}\n")
    if not build.reports and not build.problems:
        raise CommandError(f"{name}: it contains no report (*.json)")
    if format == "json":
        write_exact(sys.stdout, as_json(summary_json(build)))
    elif build.reports:
        is_markdown = format == "markdown"
        text = summary_markdown(build) if is_markdown else summary(build, paint(), width())
        show(text, paged=pager)
    if build.problems:
        sys.exit(BAD_INPUT)


def _print(report: Report, format: str, pager: bool) -> None:
    from ptxsw.correctness.verdict_lines import verdict_lines
    from ptxsw.report import text
    from ptxsw.report.serial import to_json
    from ptxsw.report.weights import ordered

    if format == "json":
        write_exact(sys.stdout, as_json(to_json(report)))
    elif format == "markdown":
        analysis = text.analysis_markdown(ordered(report), by_source=True)
        show(f"{analysis}\n{text.optimization_markdown(report)}", paged=pager)
    else:
        analysis = text.analysis_text(ordered(report), paint(), width(), by_source=True)
        optimization = text.optimization_text(report, paint(), width())
        said = "".join(f"{folded(*line, width())}\n" for line in verdict_lines(report.kernels))
        show(f"{analysis}\n{optimization}{said}", paged=pager)


def _write_page(
    html: str,
    text: str,
    name: str,
    result: Result,
    files: SourceFiles,
    block: tuple[int, int, int] | None,
) -> None:
    from ptxsw.parser import parse
    from ptxsw.report.html import page
    from ptxsw.report.machine_code import machine_code
    from ptxsw.report.source_places import read_sources

    sources = read_sources(parse(text, name), files)
    for note in files.notes():
        sys.stderr.write(f"{note}\n")
    code = machine_code(text, result.report.arch)
    predicted = _predicted(text, name, block, len(result.report.kernels))
    write(html, page(result.report, text, result.edits, result.smt2, sources, code, predicted))


def _predicted(
    text: str, name: str, block: tuple[int, int, int] | None, kernels: int
) -> Prediction | None:
    """What bounds the kernels of a file of few, on the GPU that stands for its target; None where
    none does."""
    from ptxsw.driver.prediction import FEW, predict

    if not 0 < kernels <= FEW:
        return None
    try:
        return predict(text, name, block=block, rewrites=False)
    except ValueError:
        return None
