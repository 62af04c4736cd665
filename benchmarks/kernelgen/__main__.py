"""The paper's Table 2 beside our figures.

    python -m benchmarks.kernelgen [NAME ...] [--real double] [--programs]
        [--csv FILE] [--markdown FILE] [--plot FILE.png|FILE.svg] [--save]

Exit 0 where every rewritten kernel agrees with the original and with numpy, 1 where one does not.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from pathlib import Path

import ptxsw
from benchmarks.kernelgen import show
from benchmarks.kernelgen.cases import CASES, Case
from benchmarks.kernelgen.measure import Row, measure
from ptxsw.pipeline import FORMS, SCHEMES, Options, optimize
from ptxsw.toolchain.find import real_ptxas
from ptxsw.toolchain.ptxas import version

RESULTS = Path(__file__).resolve().parents[1] / "results"
Job = tuple[str, str, str, str]


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    cases = suite(asked.programs)
    unknown = set(asked.name) - set(cases)
    if unknown:
        print(f"no operator {min(unknown)!r}; there are: {', '.join(cases)}", file=sys.stderr)
        return 2
    names = asked.name or list(cases)
    kinds = [(s, f) for s in SCHEMES if s != "auto" for f in FORMS if f != "auto" and _fits(s, f)]
    jobs: list[Job] = [
        (name, scheme, form, asked.real)
        for name in names
        if asked.programs or asked.real in cases[name].reals
        for scheme, form in kinds
    ]
    rows = gather(jobs, asked.jobs, asked.programs)
    notes = _notes(argv)
    print(show.plain(rows))
    _write(asked, rows, notes)
    return 0 if all(row.good for row in rows) else 1


def suite(programs: bool) -> dict[str, Case]:
    """The operators, or the further programs."""
    if not programs:
        return CASES
    from benchmarks.programs.cases import PROGRAMS

    return PROGRAMS


def _fits(scheme: str, form: str) -> bool:
    try:
        Options(mode="force", scheme=scheme, form=form)
    except ValueError:
        return False
    return True


def gather(jobs: Sequence[Job], workers: int, programs: bool) -> list[Row]:
    """The rows in the order of the jobs, the original's once before its rewritten ones."""
    found: dict[Job, tuple[Row, Row]] = {}
    with ProcessPoolExecutor(workers, initializer=_warm) as pool:
        waiting = {pool.submit(_measure, job, programs): job for job in jobs}
        step = _progress(len(jobs))
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            step(waiting[done][0])
        step("")
    rows: list[Row] = []
    for job in jobs:
        original, rewritten = found[job]
        if not rows or rows[-1].name != original.name:
            rows.append(original)
        rows.append(rewritten)
    return rows


def _warm() -> None:
    """Imports Z3 and the grammar, which are not to be in the first operator's seconds."""
    optimize(CASES["jacobi"].path("float").read_text(), Options(mode="force"))


def _measure(job: Job, programs: bool) -> tuple[Row, Row]:
    name, scheme, form, real = job
    return measure(suite(programs)[name], scheme, form, real)


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


def machine() -> str:
    """A name for this kind of machine, as a folder: "linux-x86_64-2cores"."""
    return f"{platform.system().lower()}-{platform.machine()}-{os.cpu_count()}cores"


def _notes(argv: Sequence[str] | None) -> list[str]:
    words = " ".join(sys.argv[1:] if argv is None else argv)
    found = real_ptxas(os.environ)
    ptxas = version(found.path) if found else "none"
    return [
        f"date: {date.today().isoformat()}",
        f"command: python -m benchmarks.kernelgen {words}".rstrip(),
        f"versions: ptxsw {ptxsw.__version__}, Python {platform.python_version()}, ptxas {ptxas}",
        f"machine: {machine()}, no GPU used",
        "seconds: the paper's on an Intel Core i7-5930K, ours on this machine, imports left out",
        "per warp: 128 threads a block, each warp one iteration; spill in bytes per thread",
    ]


def _write(asked: argparse.Namespace, rows: Sequence[Row], notes: Sequence[str]) -> None:
    stem = "programs" if asked.programs else f"kernelgen-{asked.real}"
    folder = RESULTS / machine()
    if asked.save:
        folder.mkdir(parents=True, exist_ok=True)
    csv_file = asked.csv or (folder / f"{stem}.csv" if asked.save else None)
    md_file = asked.markdown or (folder / f"{stem}.md" if asked.save else None)
    if csv_file is not None:
        show.write_csv(csv_file, rows, notes)
    if md_file is not None:
        md_file.write_text(show.markdown(rows, notes))
    if asked.plot is not None:
        try:
            show.plot(asked.plot, rows, f"{stem}, loads and shuffles executed per warp")
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
    parser.add_argument("--save", action="store_true", help="write under benchmarks/results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
