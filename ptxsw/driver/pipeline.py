"""The whole way, from a text to a report and a rewritten text."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field, msgpack
from msgspec.structs import replace

import ptxsw
from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.options import FORMS, MODES, SCHEMES, Options, block_shape
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.codegen.splice import Edit, apply
from ptxsw.driver.batches import batched
from ptxsw.driver.command_lines import analyze_command, check_command, optimize_command
from ptxsw.driver.kernel_state import Progress
from ptxsw.driver.outcome import failed_report, kernel_report, waiting_report
from ptxsw.driver.passes import Passes, answers
from ptxsw.driver.workers import streamed
from ptxsw.parser import parse
from ptxsw.ptx.cxx_names import chosen, readable, without
from ptxsw.ptx.failures import failure, is_ours
from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.text_files import file_stem
from ptxsw.report import model
from ptxsw.report.serial import Report
from ptxsw.toolchain.jobs import LONG

if TYPE_CHECKING:
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered
    from ptxsw.driver.description import Description
    from ptxsw.rewrites.base import Rewrite
    from ptxsw.verify.launches import Launch

__all__ = [
    "DEFAULT_ASSUME", "FORMS", "MODES", "SCHEMES", "Options", "Result", "Watch", "analyze",
    "check", "inspect", "optimize",
]  # fmt: skip

_WAITING = 4
"""Kernels of a process that wait to be weighed together. All that is known of them is held."""


class Result(Struct, frozen=True):
    """The rewritten text (the very input where nothing was rewritten), and the report.

    `smt2` holds the proofs by file name, where they were asked for: each is unsatisfiable.
    `edits` are those that made the text from the input.
    """

    text: str
    report: Report
    smt2: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()


def analyze(
    text: str,
    name: str = "<ptx>",
    *,
    kernel: str | None = None,
    block: int | Sequence[int] | None = None,
    launches: Mapping[str, Launch] | None = None,
    watch: Watch | None = None,
    jobs: int = 1,
) -> Report:
    """What the memory accesses of every kernel are, and what `optimize` in mode force, scheme
    paper, would do with its loads. `block`: threads along x, y and z (or fewer axes) for
    kernels without `.reqntid`; by default rows of the block hold whole warps. `launches`: as for
    `check`. `jobs`: processes among which kernels are divided. Raises ParseError; ValueError for a
    shape that no block has, where there is no such kernel, or for a launch that cannot be run."""
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
    jobs: int = 1,
) -> Result:
    """As `optimize`, with the accesses of `analyze` in the report. Raises what these raise."""
    from ptxsw.driver.description import Description  # not needed to rewrite

    options = options or Options()
    given = None if block is None else block_shape(block)
    description = Description(options, given, launches or {})
    return _run(text, options, name, watch, description, jobs)


class KernelOutcome(Struct, frozen=True):
    """All that is kept of one kernel."""

    report: model.Kernel
    edits: tuple[Edit, ...]  # in offsets of its excerpt
    proofs: Mapping[str, str]  # SMT-LIB 2 by file name


class OutcomeStore(Protocol):
    """Keeps outcomes of `optimize` from run to run, by the excerpt's text and the kernel's line."""

    def get(self, text: str, line: int) -> bytes | None: ...

    def put(self, text: str, line: int, data: bytes) -> None: ...


def check(
    text: str,
    name: str = "<ptx>",
    *,
    block: int | Sequence[int] | None = None,
    rules: Collection[str] | None = None,
    ptxas: bool = True,
    launches: Mapping[str, Launch] | None = None,
) -> Report:
    """What rules find in every kernel, without looking for rewrites. `rules` are names; None: all
    of them. Rules that ask what ptxas makes of a kernel are told if `ptxas` is set and there is
    one. `launches`, by a kernel's PTX or C++ name ("" for the only one), say how often it executes
    what. Raises ParseError; ValueError for a rule or a shape that there is not."""
    from ptxsw.findings.judge import Judge

    begin = perf_counter()
    module = parse(text, name)
    arch = _arch(module)
    shape = None if block is None else block_shape(block)
    judge = Judge(module, arch, shape, rules, ptxas, launches)

    def judged(function: Function) -> model.Kernel:
        try:
            return judge.kernel(function)
        except Exception as error:
            if not is_ours(error):
                raise
            failed = failure(error, module, function, check_command(name))
            return failed_report(module, function, failed)

    report = _report(name, arch, begin, [judged(each) for each in module.kernels])
    return replace(report, warning="\n".join(judge.problems) or None)


class Watch(Protocol):
    """Told of an `optimize` on its way."""

    def begin(self, waiting: Report) -> None:
        """The report were no kernel finished."""

    def finished(self, number: int, kernel: model.Kernel, edits: tuple[Edit, ...]) -> None:
        """Kernel `number` of that report, counted from 0, as it stays; its edits lie inside it."""


def optimize(
    text: str,
    options: Options | None = None,
    name: str = "<ptx>",
    *,
    watch: Watch | None = None,
    jobs: int = 1,
    keep: OutcomeStore | None = None,
    stand_in: Rewrite | None = None,
) -> Result:
    """Rewrite the kernels of a text. `jobs`: processes among which kernels are divided; `keep`
    holds what became of kernels in earlier runs with the same options. A `stand_in` takes the
    place of the rewrite of its name, and is trusted: what it writes is not proved. Raises
    ParseError; ValueError where there is no kernel or no rewrite of a name that `options` gives."""
    return _run(text, options or Options(), name, watch, jobs=jobs, keep=keep, stand_in=stand_in)


def _run(
    text: str,
    options: Options,
    name: str,
    watch: Watch | None = None,
    description: Description | None = None,
    jobs: int = 1,
    keep: OutcomeStore | None = None,
    stand_in: Rewrite | None = None,
) -> Result:
    """Parse; send each kernel through the rewrites; splice what they wrote; report, with a
    `description` the accesses, too."""
    begin = perf_counter()
    module = parse(text, name)
    arch = options.arch or _arch(module)
    functions = without(chosen(module, options.only), options.skip)
    if watch is not None:
        waiting = [_named(waiting_report(module, function)) for function in functions]
        watch.begin(_report(name, arch, begin, waiting))
    block = description.block if description else None
    passes = Passes(options, arch, block, stand_in=stand_in)
    excerpts = Excerpts(module)

    def task(number: int) -> Generator[Question, Answered, KernelOutcome]:
        try:
            return (yield from finished(number))
        except Exception as error:
            if not is_ours(error):
                raise
            function = functions[number]
            if description is None:
                command = optimize_command(name, function.name, options)
            else:
                command = analyze_command(name, function.name, options, description.block)
            failed = failure(error, module, function, command)
            return KernelOutcome(_named(failed_report(module, function, failed)), (), {})

    def finished(number: int) -> Generator[Question, Answered, KernelOutcome]:
        excerpt = excerpts.of(functions[number])
        line = module.source.line(functions[number].span.start)
        stored = keep.get(excerpt.source.text, line) if keep is not None else None
        if stored is not None:
            outcome = msgpack.decode(stored, type=KernelOutcome)
        else:
            each = yield from passes.steps(excerpt)
            if description is None:
                kernel = kernel_report(each)
            else:
                kernel = yield from description.steps(excerpt, each, arch)
            proofs = _proofs(each) if options.smt2 else {}
            outcome = KernelOutcome(_named(kernel), each.since, proofs)
            if keep is not None:
                keep.put(excerpt.source.text, line, msgpack.encode(outcome))
        return replace(outcome, edits=tuple(map(excerpt.whole, outcome.edits)))

    def work(numbers: Iterator[int]) -> Iterator[tuple[int, KernelOutcome]]:
        return batched(((number, task(number)) for number in numbers), answers, _WAITING)

    if len(functions) == 1:
        keep = None  # whoever keeps the answer for the file has it
    numbered: dict[int, KernelOutcome] = {}
    order = range(len(functions)) if watch is None else _shortest_first(functions)
    for number, one in streamed(order, work, jobs if _characters(functions) > LONG else 1):
        numbered[number] = one
        if watch is not None:
            watch.finished(number, one.report, one.edits)
    every = [numbered[number] for number in range(len(functions))]
    edits = tuple(edit for each in every for edit in each.edits)
    report = _report(name, arch, begin, [each.report for each in every])
    proofs = {file: proof for each in every for file, proof in each.proofs.items()}
    return Result(apply(text, edits), report, proofs, edits)


def _characters(functions: Sequence[Function]) -> int:
    return sum(function.span.end - function.span.start for function in functions)


def _shortest_first(functions: Sequence[Function]) -> list[int]:
    """The numbers of the functions in the order in which to take them: where the time does not
    suffice for all, it suffices for the most."""

    def length(number: int) -> int:
        span = functions[number].span
        return span.end - span.start

    return sorted(range(len(functions)), key=length)


def _report(name: str, arch: str | None, begin: float, kernels: list[model.Kernel]) -> Report:
    seconds = round(perf_counter() - begin, 6)
    return Report(ptxsw.__version__, name, arch, seconds, tuple(kernels))


def _named(kernel: model.Kernel) -> model.Kernel:
    return replace(kernel, readable=readable(kernel.name))


def _proofs(each: Progress) -> dict[str, str]:
    """The obligations of each change as SMT-LIB 2, by file name."""
    texts: dict[str, str] = {}
    for attempt in each.attempts:
        name = file_stem(attempt.kernel.function.name)
        for change in attempt.changes:
            source = f"-from-{attempt.line(change.source)}" if change.source is not None else ""
            stem = f"{name}-{attempt.line(change.at)}{source}"
            solver = attempt.kernel.solver
            claims = dict.fromkeys(solver.smt2(o.claim, o.given) for o in change.obligations)
            texts.update((f"{stem}-{n}.smt2", claim) for n, claim in enumerate(claims))
    return texts


def _arch(module: Module) -> str | None:
    return next((t for t in module.targets if t.startswith(("sm_", "compute_"))), None)
