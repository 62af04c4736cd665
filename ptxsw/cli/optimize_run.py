"""What `ptxsw optimize` does, and the table of its options. Loads nothing of Typer."""

from __future__ import annotations

import os
import sys

from ptxsw.cli.files import CommandError, apart, as_json, end_if_failed, read_kernels, write
from ptxsw.cli.progress import counting
from ptxsw.cli.rows import OptionRow
from ptxsw.cli.terminal import paint, width
from ptxsw.cli.values import (
    ASSUME,
    BLOCK,
    FORM,
    JOBS,
    KERNEL,
    MODE,
    ON,
    REWRITES,
    SCHEME,
    assumptions,
    block_shape,
    either,
    named_rewrites,
    workers,
)

OUTPUT = OptionRow("output", ("-o", "--output"), "PTX, or -.", "OUT")
ARCH = OptionRow("arch", ("--arch",), "Decide for this target.", "sm_XX")
HOIST = OptionRow(
    "hoist",
    ("--hoist", "--no-hoist"),
    "Move the middle load of a row up, to shorten lane distances. [default: only in scheme halo]",
    kind=bool,
    shows_default=False,
)
MIN_GAIN = OptionRow(
    "min_gain",
    ("--min-gain",),
    "Mode auto: required gain of a rewrite in percent of a kernel's time, estimated from ptxas's "
    "output. Default: 5.",
    "PCT",
    float,
)
MAX_DELTA = OptionRow(
    "max_delta",
    ("--max-delta",),
    "Take values from lanes at most this far away.",
    "N",
    int,
    least=0,
    most=31,
)
ONLY = OptionRow("only", ("--only",), hidden=True)  # as `--kernel` was called
REPORT = OptionRow("report", ("--report",), "Write a JSON report to this file.", "R.json")
EMIT_SMT2 = OptionRow(
    "emit_smt2", ("--emit-smt2",), "Write the proofs of shuffles to DIR, as SMT-LIB 2.", "DIR"
)
UNSAFE_BOUND = OptionRow(
    "unsafe_bound",
    ("--unsafe-bound",),
    "Write a kernel that computes WRONG RESULTS, to time what shuffles could gain at most: without "
    "the loads, or without those of lanes without a neighbour.",
    choices=("noload", "nocorner"),
)

ROWS = (
    OUTPUT, ARCH, MODE, REWRITES, SCHEME, FORM, HOIST, MIN_GAIN, MAX_DELTA, KERNEL, ONLY, ASSUME,
    BLOCK, JOBS, ON, REPORT, EMIT_SMT2, UNSAFE_BOUND,
)  # fmt: skip


def run(
    file: str,
    output: str,
    arch: str | None = None,
    mode: str = "auto",
    rewrites: str | None = None,
    scheme: str = "auto",
    form: str = "auto",
    hoist: bool | None = None,
    min_gain: float | None = None,
    max_delta: int = 31,
    kernel: str | None = None,
    only: str | None = None,
    assume: str | None = None,
    block: str | None = None,
    jobs: int | None = None,
    report: str | None = None,
    emit_smt2: str | None = None,
    unsafe_bound: str | None = None,
    on: str | None = None,
) -> None:
    """Reads, rewrites, writes, and says what was done. Raises CommandError, PtxError, OSError."""
    from ptxsw.driver import pipeline
    from ptxsw.report.text import optimization_text

    apart(output=output, report=report)
    text, name = read_kernels(file, arch)
    try:
        options = pipeline.Options(
            mode=mode, scheme=scheme, form=form, max_delta=max_delta,
            only=either("--kernel", kernel, "--only", only), arch=arch,
            assume=assumptions(assume), smt2=emit_smt2 is not None, hoist=hoist, min_gain=min_gain,
            rewrites=None if rewrites is None else named_rewrites(rewrites),
            block=None if block is None else block_shape(block),
        )  # fmt: skip
        with counting("optimizing") as watch:
            if unsafe_bound is not None:
                from ptxsw.gpu import upper_bound

                result = upper_bound.optimize(
                    text, options, unsafe_bound, name, watch=watch, jobs=workers(jobs, on)
                )
            else:
                result = pipeline.optimize(text, options, name, watch=watch, jobs=workers(jobs, on))
    except ValueError as error:
        raise CommandError(str(error)) from error
    write(output, result.text_with_steps)
    if report is not None:
        from ptxsw.report.serial import to_json

        write(report, as_json(to_json(result.report)))
    if emit_smt2 is not None:
        os.makedirs(emit_smt2, exist_ok=True)
        for file_name, proof in result.smt2.items():
            write(os.path.join(emit_smt2, file_name), proof)
    where = sys.stderr if "-" in (output, report) else sys.stdout
    if where is sys.stdout:
        where.write(optimization_text(result.report, paint(), width()))
    else:
        where.write(optimization_text(result.report))
    if result.report.warning is not None:
        sys.stderr.write(f"\nWARNING: {result.report.warning}\n")
    end_if_failed(result.report)
