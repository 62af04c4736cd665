"""KernelGen on a GPU: the original and each scheme and form of every operator, timed.

    python -m benchmarks.kernelgen.gpu [NAME ...] [--real double] [--programs] [--block N ...]
        [--bounds] [--csv FILE] [--markdown FILE] [--plot FILE.png|FILE.svg] [--samples N]
        [--device N]

Exit 0 where every variant gave the original's results bit for bit, 1 where one did not, 2 without
a GPU. As in the paper's Figure 2 a bar is the time of the original, in the block size that is best
for it, over the variant's in its own best. `--bounds` adds that figure's NO LOAD and NO CORNER:
texts that compute nonsense, which show what could be gained at most.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.kernelgen.__main__ import suite
from benchmarks.kernelgen.cases import Case
from benchmarks.provenance import provenance
from ptxsw.driver import pipeline
from ptxsw.gpu import results
from ptxsw.gpu.cuda import open_device
from ptxsw.gpu.driver import Driver, GpuError, NoGpu
from ptxsw.gpu.measure import Effort, Measured, Unfit, Variant, measure
from ptxsw.gpu.problem import DeviceArray, PreparedLaunch
from ptxsw.gpu.results import choose
from ptxsw.gpu.tune import bounds, variants
from ptxsw.parser import parse
from ptxsw.ptx.ir import Function
from ptxsw.toolchain.ptxas import AssemblyError

BLOCKS = (32, 64, 128, 256, 512)


def problem(case: Case, real: str, block: int, share: float = 1.0) -> PreparedLaunch:
    """The case's own large launch in blocks of so many threads."""
    run = case.large(real, block, share)
    values = tuple(
        DeviceArray(value) if isinstance(value, np.ndarray) else np.asarray(value).item()
        for value in run.args
    )
    return PreparedLaunch(run.grid, run.block, values)


@dataclass(frozen=True)
class Timed:
    """The measurements of one kernel, and what follows from them."""

    rows: tuple[Measured, ...]
    conclusion: str


def time_all(
    driver: Driver,
    cases: Sequence[Case],
    real: str,
    blocks: Sequence[int],
    effort: Effort,
    say: Callable[[str], None],
    *,
    with_bounds: bool = False,
    share: float = 1.0,
) -> Iterator[Timed]:
    """Times each case, and tells of it as it goes on. Raises GpuError."""
    for case in cases:
        own = real if real in case.reals else case.reals[0]
        text = case.path(own).read_text()
        function = next(f for f in parse(text).functions if f.name == case.entry)
        options = pipeline.Options(arch=driver.device.arch)
        made = variants(text, options, case.name)
        if with_bounds:
            made += bounds(text, options, case.name)
        problems = (problem(case, own, block, share) for block in blocks)
        rows = tuple(_time(driver, function, made, problems, effort, say))
        if rows:
            timed = Timed(rows, conclusion(rows, text, driver.device.arch))
            say(f"{results.plain(rows)}\n{timed.conclusion}\n")
            yield timed


def conclusion(rows: Sequence[Measured], text: str, arch: str) -> str:
    """What follows from the times of one kernel, beside what mode auto makes of it today: where
    the two differ, the machine model is to be corrected, or the result to be stored."""
    options = pipeline.Options(arch=arch, only=rows[0].kernel)
    (kernel,) = pipeline.optimize(text, options).report.kernels
    ways = {f"{r.scheme} {r.form}" if r.delta else r.rewrite for r in kernel.rewrites or ()}
    today = ", ".join(sorted(ways)) or "keep"
    why = f" ({kernel.choice.reason})" if kernel.choice is not None else ""
    return f"{rows[0].kernel}: {choose(rows)}; mode auto today: {today}{why}"


def _time(
    driver: Driver,
    function: Function,
    made: Sequence[Variant],
    problems: Iterable[PreparedLaunch],
    effort: Effort,
    say: Callable[[str], None],
) -> Iterator[Measured]:
    for each in problems:
        try:
            yield from measure(driver, function, made, each, effort=effort)
        except (Unfit, AssemblyError) as error:
            say(f"{function.name}, {each.block[0]} threads a block: {error}")


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    cases = suite(asked.programs)
    unknown = set(asked.name) - set(cases)
    if unknown:
        print(f"no operator {min(unknown)!r}; available: {', '.join(cases)}", file=sys.stderr)
        return 2
    try:
        driver = open_device(asked.device)
    except NoGpu as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [cases[name] for name in asked.name or cases]
    words = shlex.join(sys.argv[1:] if argv is None else argv)
    effort = Effort(samples=asked.samples)
    with closing(driver):
        try:
            timed = list(
                time_all(
                    driver, chosen, asked.real, asked.block or BLOCKS, effort, print,
                    with_bounds=asked.bounds,
                )
            )  # fmt: skip
        except GpuError as error:
            print(error, file=sys.stderr)
            return 2
        write(asked, timed, driver, f"python -m benchmarks.kernelgen.gpu {words}".rstrip())
    return 0 if all(row.wrong is None for one in timed for row in one.rows) else 1


def write(asked: argparse.Namespace, timed: Sequence[Timed], driver: Driver, command: str) -> None:
    """The files that were asked for."""
    rows = [row for one in timed for row in one.rows]
    notes = [
        *provenance(command, str(driver.device)),
        "each time is the median of two series of samples; noise is how far the two are apart",
        *(one.conclusion for one in timed),
    ]
    if asked.csv is not None:
        results.write_csv(asked.csv, rows, notes)
    if asked.markdown is not None:
        asked.markdown.write_text(markdown(rows, notes), encoding="utf-8")
    if asked.plot is not None:
        what = "Further programs" if asked.programs else f"KernelGen, {asked.real}"
        try:
            results.chart(asked.plot, rows, driver.device, what)
        except ImportError:
            print("no plot: install matplotlib (pip install ptxsw[bench])", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernelgen.gpu", description="KernelGen on a GPU."
    )
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    parser.add_argument("--real", choices=("float", "double"), default="float")
    parser.add_argument("--programs", action="store_true", help="the further programs instead")
    parser.add_argument("--block", type=int, action="append", help="threads; again for more")
    parser.add_argument("--bounds", action="store_true", help="NO LOAD and NO CORNER, too")
    parser.add_argument("--samples", type=int, default=15, help="of each of two series")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG or SVG, by its suffix")
    return parser


def markdown(rows: Sequence[Measured], notes: Sequence[str]) -> str:
    """A Markdown table under its notes."""
    head = "| " + " | ".join(results.HEAD) + " |"
    lines = [*(f"- {note}" for note in notes), "", head, "|" + "---|" * len(results.HEAD)]
    lines += ["| " + " | ".join(results.cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
