"""Do NVIDIA's tools and the interpreter find the same faults? Small kernels, half of them faulty,
each under the tool of compute-sanitizer that is for its kind of fault.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from benchmarks.gpu import correct
from benchmarks.gpu.job import Job, Order
from benchmarks.gpu.journal import Line
from benchmarks.gpu.prepared import Fault, Manifest, Prepared
from ptxsw.gpu.driver import Driver

NAME, TITLE, SHARE, ALONE = "races", "Faults?", 0.1, False
FOUND = 86
"""The exit status of a tool that has found something."""


class Told(Struct, frozen=True):
    """What a tool found; "" for nothing."""

    theirs: str


class Row(Struct, frozen=True):
    """A kernel: whether it is faulty, what the tool found, and the interpreter."""

    kernel: str
    tool: str
    faulty: bool
    theirs: str
    ours: str

    @property
    def tool_right(self) -> bool:
        return bool(self.theirs) == self.faulty

    @property
    def right(self) -> bool:
        return bool(self.ours) == self.faulty


def jobs(manifest: Manifest) -> list[Job]:
    return [
        Job(NAME, fault.kernel.name, tuple(correct.items(fault.kernel)), 60, fault.tool)
        for fault in manifest.faults
    ]


def prefix(job: Job) -> list[str]:
    """The words before the command. Raises FileNotFoundError without the program."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise FileNotFoundError("compute-sanitizer is not installed")
    return [program, "--tool", job.tool, "--error-exitcode", str(FOUND)]


def work(driver: Driver, prepared: Prepared, order: Order, item: str) -> correct.Ran:
    kernel = next(
        fault.kernel for fault in prepared.manifest.faults if fault.kernel.name == order.job.name
    )
    return correct.ran(driver, prepared, kernel, kernel.versions[0], kernel.trials[0])


def line(job: Job, status: int | None, output: str, limit: float) -> Line:
    """What a tool says of the kernel of a job: a result, unless it could not be run."""
    failed = ""
    if status is None:
        failed = f"ran longer than {limit:.0f} s"
    elif status not in (0, FOUND) or "not supported" in output:
        failed = f"{job.tool} ended with {status}: {_first(output)}"
    told = None if failed else Told(_first(output) if status == FOUND else "")
    return Line(NAME, job.name, job.items[0], msgspec.to_builtins(told), failed)


def _first(output: str) -> str:
    """The first thing that a tool says, in what it printed."""
    marked = [text for text in output.splitlines() if text.startswith("=========")]
    said = (text.removeprefix("=========").strip() for text in marked)
    heads = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY")
    return next((text for text in said if text and not text.startswith(heads)), "it said nothing")


def rows(faults: Sequence[Fault], told: Mapping[str, Told]) -> Iterator[Row]:
    """`told` is by item."""
    for fault in faults:
        for item in correct.items(fault.kernel):
            if item in told:
                yield Row(
                    fault.kernel.name, fault.tool, fault.faulty, told[item].theirs, fault.ours
                )
