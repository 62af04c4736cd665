"""What one GPU says in a few minutes: is what ptxsw writes right, is it faster, was that forecast?

    python -m benchmarks.gpu --prepare DIR [--wheels 3.12] [KERNEL ...]     without a GPU
    python -m benchmarks.gpu [--prepared DIR] [--minutes 8] [--out DIR]
    python DIR [--minutes 8] [--out DIR]         the same, without a checkout
    python DIR --report DIR                      only tell of the journal in a folder of results

The folder that is prepared holds texts and machine code for sm_90, launches, digests of what the
interpreter expects, forecasts for H100 and H200, and the program itself. The run needs Python,
numpy, msgspec and lark, a CUDA driver, and cuda-bindings or pycuda; neither ptxas nor the network.
Results are written as they come; the same command again goes on where it was ended.

Exit 0 where all was run and is right, 1 where something is wrong, 2 without a GPU or for bad usage,
3 where something was not run.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np

import ptxsw
from benchmarks import provenance
from benchmarks.gpu import page, report
from benchmarks.gpu.experiment import Experiment
from benchmarks.gpu.interpreter import NAME as INTERPRETER
from benchmarks.gpu.journal import Head, Journal
from benchmarks.gpu.prepared import MANIFEST, Prepared
from ptxsw.gpu.driver import Device, NoGpu
from ptxsw.gpu.measure import Effort

PREPARED = Path("gpu-experiment")
DRIVERS = {
    "cuda": "ptxsw.gpu.cuda:open_device",
    INTERPRETER: "benchmarks.gpu.interpreter:open_device",
}


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    if asked.page:
        page.write()
        return 0
    try:
        return _prepare(asked) if asked.prepare is not None else _run(asked)
    except (NoGpu, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def _prepare(asked: argparse.Namespace) -> int:
    from benchmarks.gpu.prepare import Request, prepare, wheels  # which the run has no use for

    request = Request(asked.kernel, asked.programs, asked.faults, asked.share)
    manifest = prepare(asked.prepare, request, asked.jobs)
    trials = sum(len(kernel.trials) for kernel in manifest.kernels)
    if asked.wheels is not None:
        wheels(asked.prepare, asked.wheels)
    size = sum(path.stat().st_size for path in asked.prepare.rglob("*") if path.is_file())
    print(
        f"{len(manifest.kernels)} kernels with {trials} launches, {len(manifest.programs)} random "
        f"programs, {len(manifest.faults)} small kernels; {size / 1e6:.1f} MB in {asked.prepare}"
    )
    return 0


def _run(asked: argparse.Namespace) -> int:
    if not (asked.prepared / MANIFEST).exists():
        raise ValueError(f"{asked.prepared} was not prepared: python -m benchmarks.gpu --prepare")
    prepared = Prepared(asked.prepared.resolve())
    effort = Effort(samples=asked.samples, fresh=True)
    driver = DRIVERS.get(asked.driver, asked.driver)
    experiment = Experiment(prepared, driver, effort, asked.limit, _say)
    if asked.report is not None:
        return _told(prepared, Journal(asked.report), experiment)
    device = experiment.device()
    _say(str(device))
    journal = Journal(asked.out or _out(device))
    journal.begin(_head(prepared, device))
    for _ in experiment.run(journal, 60 * asked.minutes, asked.jobs):
        _write(prepared, journal, experiment)  # whatever ends the run: what was found is told
    return _told(prepared, journal, experiment)


def _told(prepared: Prepared, journal: Journal, experiment: Experiment) -> int:
    """Writes all that is told of a journal. Raises ValueError where it is of another folder."""
    if journal.head is None or journal.head.prepared != prepared.digest:
        raise ValueError(f"{journal.path} holds no results of what {prepared.folder} prepared")
    found = _write(prepared, journal, experiment)
    print("\n".join(f"- {line}" for line in report.bad_news(found)) or "no bad news")
    print(f"written to {journal.path.parent}")
    wrong = found.wrong(found.correct) or any(row.wrong for row in found.faster)
    return 1 if wrong else 3 if any(found.unfinished()) else 0


def _write(prepared: Prepared, journal: Journal, experiment: Experiment) -> report.Found:
    found = report.Found(prepared.manifest, journal, experiment.left_out)
    report.write(journal.path.parent, found)
    return found


def _out(device: Device) -> Path:
    """A folder of the results of a checkout, or one here."""
    kind = f"gpu-{provenance.slug(device.name)}"
    return (provenance.RESULTS if (provenance.ROOT / ".git").exists() else Path()) / kind


def _head(prepared: Prepared, device: Device) -> Head:
    manifest = prepared.manifest
    return Head(
        device.name, device.arch, device.driver, (device.clock, device.memory_clock),
        prepared.digest, f"{manifest.date}, tree {manifest.tree}", date.today().isoformat(),
        f"{provenance.machine()}, {provenance.processor()}",
        f"ptxsw {ptxsw.__version__}, Python {platform.python_version()}, numpy {np.__version__}",
        device.name.startswith(INTERPRETER),
    )  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="What one GPU says in a few minutes."
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="for all parts (default: 8)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results")
    parser.add_argument("--prepared", type=Path, default=PREPARED, metavar="DIR")
    parser.add_argument("--driver", default="cuda", help="cuda, interpreter, or module:function")
    parser.add_argument("--samples", type=int, default=15, help="of each of two series")
    cpus = max((os.cpu_count() or 2) // 2, 1)
    parser.add_argument("--jobs", type=int, default=cpus, help="processes at a time")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one process")
    parser.add_argument("--report", type=Path, metavar="DIR", help="tell of a journal, run nothing")
    parser.add_argument("--page", action="store_true", help="write docs/measured.md, and no more")
    prepare = parser.add_argument_group("preparing")
    prepare.add_argument("--prepare", type=Path, metavar="DIR", help="make ready what is run")
    prepare.add_argument("kernel", nargs="*", help="kernels to prepare (default: all)")
    prepare.add_argument("--programs", type=int, default=200, help="random programs")
    prepare.add_argument("--faults", type=int, default=20, help="small kernels for the tools")
    prepare.add_argument("--wheels", metavar="3.12", help="for a Python, fetched by pip")
    prepare.add_argument("--share", type=float, default=1.0, help="of the launches to be timed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
