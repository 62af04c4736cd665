"""`ptxsw check`: what costs the kernels of a build most, worst first."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ptxsw.cli.app import app
from ptxsw.cli.files import BAD_INPUT, CommandError, as_json, stdin, write
from ptxsw.cli.options import BlockOption, JobsOption, LaunchesOption, OnOption, SourceRootOption
from ptxsw.cli.progress import bar
from ptxsw.cli.terminal import folded, paint, width, write_exact
from ptxsw.cli.values import block_shape, named_launches, source_roots, workers

if TYPE_CHECKING:
    from ptxsw.cli.check_run import Summary
    from ptxsw.report.model import Kernel

_NO, _NOT_PROVED = 1, 3
_SHOWN = 4  # kernels of which a rule is not absent


class Format(StrEnum):
    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"
    gitlab = "gitlab"
    markdown = "markdown"


class Level(StrEnum):
    note = "note"
    warning = "warning"
    error = "error"
    never = "never"


@app.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES…",
            help="PTX, directories of it, .cu, .o, .a, .so, programs; - is standard input.",
        ),
    ],
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.text,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT=FILE", help="Also write it in another format to a file."),
    ] = None,
    fail_on: Annotated[
        Level, typer.Option(help="Exit 1 if a finding has this level or a higher one.")
    ] = Level.warning,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="RULES",
            help="Rules or groups, comma-separated: performance (the default), correctness, all.",
        ),
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(metavar="RULES", help="Rules to leave out, comma-separated.")
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(
            metavar="RULES",
            help="Exit 3 unless these are proved absent: correctness, or rules such as data-race.",
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="S",
            help="CPU time per kernel for correctness; what is open then is unknown.",
        ),
    ] = 10.0,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Report only findings that are not in this file."),
    ] = None,
    write_baseline: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write all findings to this file, and exit 0."),
    ] = None,
    resources: Annotated[
        bool,
        typer.Option(
            "--resources",
            help="Check registers, spills, frames, shared memory and occupancy instead.",
        ),
    ] = False,
    drift: Annotated[
        float,
        typer.Option(
            min=0,
            max=1000,
            metavar="PERCENT",
            help="Allowed increase in registers or bytes, in percent.",
        ),
    ] = 0,
    statistics: Annotated[
        bool,
        typer.Option("--statistics", help="Print only the number of findings for each rule."),
    ] = False,
    accesses: Annotated[
        bool,
        typer.Option(
            "--accesses", help="With --format json: include the memory accesses of each kernel."
        ),
    ] = False,
    block: BlockOption = None,
    launch: LaunchesOption = None,
    arch: Annotated[
        str | None, typer.Option(metavar="sm_XX", help="Compile CUDA sources for this target.")
    ] = None,
    compiler_options: Annotated[
        str,
        typer.Option(
            metavar="OPTIONS", help='Compiler options for CUDA sources: "-Iinclude -DN=4".'
        ),
    ] = "",
    ptxas: Annotated[
        bool, typer.Option(help="Ask ptxas for registers and spills, if there is one.")
    ] = True,
    jobs: JobsOption = None,
    on: OnOption = None,
    source_root: SourceRootOption = None,
    help_uri: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of findings.html, for the links in SARIF."),
    ] = None,
) -> None:
    """Find what makes kernels slow, or wrong, with source lines and fixes.

    Findings of all files are sorted by level, then by weight. A comment on a source line silences
    it: `// ptxsw: ignore` or `// ptxsw: ignore[column]`. With `--select correctness`, a line per
    kernel lists the faults that are proved absent. Exit 0: no finding reaches --fail-on, 1: one
    does, 2: bad input, 3: a rule of --require is not proved absent.

    \b
      ptxsw check kernel.cu
      ptxsw check kernel.cu --select correctness --require data-race
      ptxsw check build/ lib.a a.out -j8 --format sarif > ptxsw.sarif
      ptxsw check build/ --write-baseline ptxsw.json
      ptxsw check build/ --baseline ptxsw.json --fail-on warning --format github
      ptxsw check build/ --format github --also sarif=ptxsw.sarif
      ptxsw check kernels.ptx --launch scale=scale.json --launch sum=sum.json
      ptxsw check build/ --on dask://head:8786
      ptxsw check build/ --statistics
      ptxsw check lib.a --resources --write-baseline res.json
      ptxsw check lib.a --resources --baseline res.json --drift 5
    """
    from shlex import split

    from msgspec.structs import replace

    from ptxsw.cli import check_run as run
    from ptxsw.driver import check_rules
    from ptxsw.findings.judge import without_kernel
    from ptxsw.ptx.cxx_names import readable
    from ptxsw.toolchain.inputs import STDIN, UnreadableInput, files_in

    if statistics and format not in (Format.text, Format.json):
        raise CommandError(f"--statistics has no --format {format.value}: use text or json")
    if accesses and (format is not Format.json or statistics or resources):
        raise CommandError("--accesses needs --format json, without --statistics or --resources")
    others = [_format_and_file(value) for value in also or ()]
    shape = None if block is None else block_shape(block)
    known_launches = named_launches(launch or ())
    roots = source_roots(source_root or ())
    try:
        rules = check_rules.chosen(select, ignore)
        required = check_rules.required(require)
        pinned_findings = None if write_baseline else run.read_baseline(baseline)
        task = run.Task(
            "", shape, arch, tuple(split(compiler_options)), rules | required, ptxas,
            findings=not resources, resources=resources, launches=known_launches,
            source_roots=roots, seconds=seconds, accesses=accesses,
        )  # fmt: skip
        every = files_in(files)
    except (ValueError, UnreadableInput) as error:
        raise CommandError(str(error)) from error
    if STDIN in every:
        task = replace(task, data=stdin())
    with bar("checking", len(every)) as step:
        answers = run.answers(every, task, workers(jobs, on), step)
    summary = run.told(answers, pinned_findings, drift / 100)
    for problem in (*summary.problems, *summary.notes):
        sys.stderr.write(f"{problem}\n")
    kernels = [kernel.name for report in summary.reports for kernel in report.kernels]
    missing = without_kernel(known_launches, kernels)
    if missing and not (summary.problems or resources):
        raise CommandError(f"--launch: no kernel {missing!r} in these files")
    if write_baseline is not None:
        write(write_baseline, run.new_baseline(answers))
        raise typer.Exit(BAD_INPUT if summary.problems else 0)
    for other, path in others:
        write(path, _drawn(summary, other, help_uri, accesses=False))
    if format is Format.text:
        pinned = pinned_findings is not None and bool(pinned_findings.resources)
        sys.stdout.write(_text(summary, pinned=pinned, counts=statistics))
    elif statistics:
        write_exact(sys.stdout, as_json(_statistics(summary)))
    else:
        write_exact(sys.stdout, _drawn(summary, format, help_uri, accesses=accesses))
    if summary.problems:
        raise typer.Exit(BAD_INPUT)
    if summary.fails(fail_on.value):
        raise typer.Exit(_NO)
    if required and (lacking := summary.lacks(required)):
        shown = ", ".join(readable(name) or name for name in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} others" if len(lacking) > _SHOWN else ""
        sys.stderr.write(f"not proved absent in {shown}{more}: {require}\n")
        raise typer.Exit(_NOT_PROVED)


def _format_and_file(value: str) -> tuple[Format, str]:
    """What `--also` asks for. Raises CommandError."""
    name, _, path = value.partition("=")
    known = [each.value for each in Format if each is not Format.text]
    if name not in known or not path:
        raise CommandError(
            f"--also {value}: name a format ({', '.join(known)}) and a file, as sarif=ptxsw.sarif"
        )
    return Format(name), path


def _text(summary: Summary, *, pinned: bool, counts: bool) -> str:
    from ptxsw.correctness.verdict_lines import verdict_lines
    from ptxsw.findings.baseline import usage_table
    from ptxsw.report import messages
    from ptxsw.report.layout import draw_text

    if counts:
        counted = messages.statistics_table(messages.statistics(summary.findings))
        lines = draw_text(counted, paint(), width()) if counted.rows else []
        drawing = "".join(f"{line}\n" for line in lines)
    else:
        drawing = messages.text(summary.findings, paint(), width())
        kernels_ = [kernel for report in summary.reports for kernel in report.kernels]
        drawing += "".join(f"{folded(*line, width())}\n" for line in verdict_lines(kernels_))
    if not pinned and summary.usages:
        table = usage_table(summary.usages)
        drawing += "".join(f"{line}\n" for line in draw_text(table, paint(), width()))
    if not summary.findings and (drawing or not _kernels(summary)):
        return drawing
    return f"{drawing}{_told(summary)}\n"


def _kernels(summary: Summary) -> int:
    return sum(len(report.kernels) for report in summary.reports) or len(summary.usages)


def _told(summary: Summary) -> str:
    from ptxsw.report.messages import summary as counted

    return counted(summary.findings, kernels=_kernels(summary), files=len(summary.reports))


def _drawn(summary: Summary, format: Format, help_uri: str | None, *, accesses: bool) -> str:
    """What programs read."""
    from ptxsw import __version__
    from ptxsw.driver.check_rules import rule_pages
    from ptxsw.report import messages
    from ptxsw.report.code_quality import gitlab, summary_table
    from ptxsw.report.sarif import sarif

    if format is Format.github:
        return messages.github(summary.findings)
    if format is Format.gitlab:
        return as_json(gitlab(summary.findings))
    if format is Format.markdown:
        return summary_table(summary.findings, _told(summary))
    if format is Format.sarif:
        return as_json(sarif(summary.findings, rule_pages(), __version__, help_uri))
    return as_json(_json(summary, __version__, accesses=accesses))


def _statistics(summary: Summary) -> dict[str, object]:
    from msgspec import to_builtins

    from ptxsw import __version__
    from ptxsw.report.messages import statistics

    return {
        "ptxsw": __version__,
        "statistics": to_builtins(statistics(summary.findings)),
        "problems": list(summary.problems),
    }


def _json(summary: Summary, version: str, *, accesses: bool) -> dict[str, object]:
    from msgspec import to_builtins

    return {
        "ptxsw": version,
        "findings": [
            {
                "path": each.path,
                "line": each.line,
                "column": each.column,
                "ptx": each.ptx,
                "key": each.key,
                **{"ptx_line": each.finding.line, "ptx_column": each.finding.column},
                **{
                    name: value
                    for name, value in to_builtins(each.finding).items()
                    if name not in ("line", "column", "file", "source_line", "source_column")
                },
            }
            for each in summary.findings
        ],
        "kernels": [
            {
                "file": report.file,
                "name": kernel.name,
                "kernel": kernel.name,
                "totals": to_builtins(kernel.totals),
                "figures": to_builtins(kernel.figures),
            }
            | ({"verdicts": to_builtins(kernel.verdicts)} if kernel.verdicts is not None else {})
            | ({"failed": to_builtins(kernel.failed)} if kernel.failed is not None else {})
            | (_accesses(kernel) if accesses else {})
            for report in summary.reports
            for kernel in report.kernels
        ],
        "resources": {name: to_builtins(usage) for name, usage in summary.usages.items()},
        "problems": list(summary.problems),
    }


def _accesses(kernel: Kernel) -> dict[str, object]:
    """As `analyze` has them, under the same names."""
    from msgspec import to_builtins

    from ptxsw.ptx.cxx_names import readable

    return {
        "readable": readable(kernel.name),
        "block": kernel.block,
        "accesses": to_builtins(kernel.accesses or ()),
    }
