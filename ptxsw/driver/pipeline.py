"""The whole way, from a text to a report and a rewritten text.

`_run` has the steps of a file: parse it, send each kernel its way, splice their edits, report.
`kernel_tasks` has those of a kernel: take it out of its module, send it through the rewrites, tell
what became of it. `passes` has those of the rewrites: run the kernel symbolically, rewrite it,
check what was written, keep what pays (`gate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from msgspec import field
from msgspec.structs import replace

import ptxsw
from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.options import FORMS, MODES, SCHEMES, Options, block_shape
from ptxsw.changes.steps import RewriteStep, comments
from ptxsw.codegen.splice import Edit, apply
from ptxsw.driver.kernel_tasks import KernelOutcome, KernelTasks, OutcomeStore
from ptxsw.driver.workers import Workers
from ptxsw.parser import parse
from ptxsw.ptx.documented import Documented
from ptxsw.ptx.ir import Module
from ptxsw.ptx.printable import InNotebooks
from ptxsw.report import model
from ptxsw.report.serial import Report

if TYPE_CHECKING:
    from ptxsw.driver.description import Description
    from ptxsw.report.source_files import SourceFiles
    from ptxsw.rewrites.base import Rewrite
    from ptxsw.verify.launches import Launch

__all__ = [
    "DEFAULT_ASSUME", "FORMS", "MODES", "SCHEMES", "Options", "Result", "Watch", "analyze",
    "inspect", "optimize",
]  # fmt: skip


class Result(InNotebooks, Documented, frozen=True):
    """The result of `optimize`."""

    text: str
    """The rewritten text; the very input where nothing was rewritten."""
    report: Report
    """What was rewritten and what was left alone, and why."""
    smt2: Mapping[str, str] = field(default_factory=dict)
    """The proofs by file name, where they were asked for: each is unsatisfiable."""
    edits: tuple[Edit, ...] = ()
    """Those that made the text from the input."""
    steps: Mapping[str, tuple[RewriteStep, ...]] = field(default_factory=dict)
    """For kernels of which the two texts alone do not tell all: what `verify` proves each rewrite
    with. `text_with_steps` has them as comments."""

    def __str__(self) -> str:
        """What `ptxsw optimize` prints."""
        from ptxsw.report.text import optimization_text

        return optimization_text(self.report)

    @property
    def text_with_steps(self) -> str:
        """The rewritten text, and behind it, in comments, what `verify` needs to prove it."""
        return self.text + comments(self.steps)


def analyze(
    text: str,
    name: str = "<ptx>",
    *,
    kernel: str | None = None,
    block: int | Sequence[int] | None = None,
    launches: Mapping[str, Launch] | None = None,
    watch: Watch | None = None,
    jobs: Workers = 1,
) -> Report:
    """Find every memory access of each kernel: its address, stride over the lanes of a warp,
    sectors, bank conflicts, and reuse.

    Returns a `Report`; each of its kernels has `accesses` (sizes and strides in bytes), `rows` and
    `findings`. For loads of global memory it also says what `optimize` in mode force, scheme paper,
    would do.

    Args:
        text: The PTX.
        name: Its name in messages.
        kernel: Only the kernels of this PTX or C++ name.
        block: Threads along x, y and z (or fewer axes) of kernels without `.reqntid`; None: rows of
            the block hold whole warps.
        launches: A `Launch` by kernel name ("" for the only kernel), to count loop iterations.
        watch: Called for each finished kernel.
        jobs: Number of processes, or a cluster, that share the kernels.

    Raises:
        ParseError: If the text is not PTX.
        ValueError: For an invalid block shape, an unknown kernel, or a launch that cannot run.
    """
    options = Options(mode="force", scheme="paper", only=kernel)
    report = inspect(
        text, options, name, block=block, launches=launches, watch=watch, jobs=jobs
    ).report
    kernels = (
        replace(
            k,
            shuffles=None,
            copies=None,
            mean_delta=None,
            rewrites=None,
            refusals=None,
            choice=None,
            loops=None,
        )
        for k in report.kernels
    )
    return replace(report, kernels=tuple(kernels))


def inspect(
    text: str,
    options: Options | None = None,
    name: str = "<ptx>",
    *,
    block: int | Sequence[int] | None = None,
    launches: Mapping[str, Launch] | None = None,
    watch: Watch | None = None,
    jobs: Workers = 1,
    sources: SourceFiles | None = None,
) -> Result:
    """As `optimize`, with the accesses of `analyze` in the report, where no block is given in that
    which `sources` launch. Raises what these raise."""
    from ptxsw.driver.description import Description  # not needed to rewrite

    options = options or Options()
    given = None if block is None else block_shape(block)
    description = Description(options, given, launches or {}, sources)
    return _run(text, options, name, watch, description, jobs)


class Watch(Protocol):
    """Callbacks for the progress of `optimize`."""

    def begin(self, waiting: Report) -> None:
        """The report before any kernel is done."""

    def finished(self, number: int, kernel: model.Kernel, edits: tuple[Edit, ...]) -> None:
        """Kernel `number` of that report, counted from 0, as it stays; its edits lie inside it."""


def optimize(
    text: str,
    options: Options | None = None,
    name: str = "<ptx>",
    *,
    watch: Watch | None = None,
    jobs: Workers = 1,
    keep: OutcomeStore | None = None,
    stand_in: Rewrite | None = None,
) -> Result:
    """Rewrite the kernels of a PTX module; what is not proved stays as it is.

    Returns a `Result`: the new `text` and a `report` of what was rewritten, what was not, and why.

    Args:
        text: The PTX.
        options: Which rewrites to apply, and when; None: only known gains.
        name: The name of the text in messages.
        watch: Called for each finished kernel.
        jobs: Number of processes, or a cluster, that share the kernels.
        keep: Results of kernels from earlier runs with the same options.
        stand_in: Replaces the rewrite of the same name, and is trusted: its output is not proved.

    Raises:
        ParseError: If the text is not PTX.
        ValueError: If `options` names an unknown kernel or rewrite.
    """
    return _run(text, options or Options(), name, watch, jobs=jobs, keep=keep, stand_in=stand_in)


def _run(
    text: str,
    options: Options,
    name: str,
    watch: Watch | None = None,
    description: Description | None = None,
    jobs: Workers = 1,
    keep: OutcomeStore | None = None,
    stand_in: Rewrite | None = None,
) -> Result:
    """Parse; send each kernel through the rewrites; splice what they wrote; report, with a
    `description` the accesses, too."""
    begin = perf_counter()
    module = parse(text, name)
    arch = options.arch or target(module)
    tasks = KernelTasks(module, name, options, arch, description, keep, stand_in)
    if watch is not None:
        watch.begin(report_of(name, arch, begin, tasks.waiting()))
    numbered: dict[int, KernelOutcome] = {}
    for number, outcome in tasks.outcomes(jobs, shortest_first=watch is not None):
        numbered[number] = outcome
        if watch is not None:
            watch.finished(number, outcome.report, outcome.edits)
    outcomes = [numbered[number] for number in range(len(numbered))]
    edits = tuple(edit for outcome in outcomes for edit in outcome.edits)
    report = report_of(name, arch, begin, [outcome.report for outcome in outcomes])
    proofs = {file: proof for outcome in outcomes for file, proof in outcome.proofs.items()}
    steps = {outcome.report.name: outcome.steps for outcome in outcomes if outcome.steps}
    return Result(apply(text, edits), report, proofs, edits, steps)


def report_of(name: str, arch: str | None, begin: float, kernels: list[model.Kernel]) -> Report:
    """The report of a text that was begun at a time of `perf_counter`."""
    seconds = round(perf_counter() - begin, 6)
    return Report(ptxsw.__version__, name, arch, seconds, tuple(kernels))


def target(module: Module) -> str | None:
    """The target that a module is for, as in "sm_80"."""
    return next((t for t in module.targets if t.startswith(("sm_", "compute_"))), None)
