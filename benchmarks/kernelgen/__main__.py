"""The paper's Table 2 beside our figures, for each scheme and form.

    python -m benchmarks.kernelgen [NAME ...] [--real double] [--programs]
        [--scheme S] [--form F] [--csv FILE] [--markdown FILE] [--plot FILE.png|FILE.svg]

Exit 0 where every rewritten kernel agrees with the original and with numpy, 1 where one does not,
2 for bad usage. `python -m benchmarks.record` takes the tables that are committed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.kernelgen import show
from benchmarks.kernelgen.cases import CASES, Case
from benchmarks.kernelgen.measure import Row, Subject
from benchmarks.provenance import provenance
from ptxsw.driver.pipeline import FORMS, SCHEMES, Options, optimize
from ptxsw.gpu.tune import combinations

Kind = tuple[str, str]  # scheme and form
Job = tuple[str, tuple[Kind, ...], str]  # a kernel, what to make of it, float or double


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    cases = suite(asked.programs)
    unknown = set(asked.name) - set(cases)
    if unknown:
        print(f"no operator {min(unknown)!r}; available: {', '.join(cases)}", file=sys.stderr)
        return 2
    chosen = kinds(asked.scheme, asked.form)
    if not chosen:
        print("no such scheme goes with such a form", file=sys.stderr)
        return 2
    rows = table(asked.name, chosen, asked.real, asked.jobs, programs=asked.programs)
    print(show.plain(rows))
    _write(asked, rows, notes("python -m benchmarks.kernelgen", argv))
    return 0 if all(row.good for row in rows) else 1


def table(
    names: Sequence[str], chosen: Sequence[Kind], real: str, workers: int, *, programs: bool
) -> list[Row]:
    """The rows of some kernels (default: all that are there in float or double)."""
    cases = suite(programs)
    jobs: list[Job] = [
        (name, tuple(chosen), cases[name].reals[0] if programs else real)
        for name in names or list(cases)
    ]
    return gather(jobs, workers, programs)


def kinds(scheme: str | None = None, form: str | None = None) -> list[Kind]:
    """The schemes and forms to show: those that are asked for, or all that go together but for
    what writes no shuffle and is not "uniform"."""
    pairs = list(combinations())
    if scheme is None:
        pairs = [(s, f) for s, f in pairs if s != "keep" or f == "uniform"]
    return [(s, f) for s, f in pairs if scheme in (None, s) and form in (None, f)]


def suite(programs: bool) -> dict[str, Case]:
    """The operators, or the further programs."""
    if not programs:
        return CASES
    from benchmarks.programs.cases import PROGRAMS

    return PROGRAMS


def gather(jobs: Sequence[Job], workers: int, programs: bool) -> list[Row]:
    """The rows in the order of the jobs, the original's before its rewritten ones. What takes
    longest is begun first."""
    cases = suite(programs)
    found: dict[str, list[Row]] = {}
    largest = sorted(jobs, key=lambda job: -cases[job[0]].path(job[2]).stat().st_size)
    with ProcessPoolExecutor(workers, initializer=_warm) as pool:
        waiting = {pool.submit(_measure, job, programs): job[0] for job in largest}
        step = _progress(len(jobs))
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            step(waiting[done])
        step("")
    return [row for name, _, _ in jobs for row in found[name]]


def _warm() -> None:
    """Imports Z3 and the grammar, which are not to be in the first operator's seconds."""
    optimize(CASES["jacobi"].path("float").read_text(), Options(mode="force"))


def _measure(job: Job, programs: bool) -> list[Row]:
    name, chosen, real = job
    subject = Subject(suite(programs)[name], real)
    return [subject.original(), *(subject.rewritten(*kind) for kind in chosen)]


def _progress(total: int) -> Callable[[str], None]:
    """Called with the name of what is done, "" at the end. Silent but on a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task("measuring", total=total)
    bar.start()

    def step(name: str) -> None:
        if name:
            bar.update(task, advance=1, description=name)
        else:
            bar.stop()

    return step


def notes(command: str, argv: Sequence[str] | None = None) -> list[str]:
    """What a reader of a table has to know."""
    words = shlex.join(sys.argv[1:] if argv is None else argv)
    return [
        *provenance(f"{command} {words}".rstrip()),
        "seconds: the paper's on an Intel Core i7-5930K, ours on this machine, imports left out",
        "per warp: 128 threads a block, each warp one iteration; spill in bytes per thread",
    ]


def _write(asked: argparse.Namespace, rows: Sequence[Row], notes: Sequence[str]) -> None:
    if asked.csv is not None:
        show.write_csv(asked.csv, rows, notes)
    if asked.markdown is not None:
        asked.markdown.write_text(show.markdown(rows, notes))
    if asked.plot is not None:
        what = "further programs" if asked.programs else f"KernelGen, {asked.real}"
        try:
            show.plot(asked.plot, rows, f"{what}: loads and shuffles executed per warp")
        except ImportError:
            print("no plot: install matplotlib (pip install ptxsw[bench])", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernelgen", description="The paper's Table 2 beside our figures."
    )
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    parser.add_argument("--real", choices=("float", "double"), default="float")
    parser.add_argument("--programs", action="store_true", help="the further programs instead")
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG or SVG, by its suffix")
    parser.add_argument("--scheme", choices=[s for s in SCHEMES if s != "auto"])
    parser.add_argument("--form", choices=[f for f in FORMS if f != "auto"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
