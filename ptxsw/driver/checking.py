"""`check`: what rules find in every kernel of a text, and which faults are proved absent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.changes.options import Options, block_shape
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.driver import check_rules
from ptxsw.driver.command_lines import check_command
from ptxsw.driver.outcome import failed_report
from ptxsw.driver.pipeline import optimize, report_of, target
from ptxsw.driver.workers import Workers, spread
from ptxsw.findings.judge import Judge, of_kernel, source_of
from ptxsw.parser import parse
from ptxsw.ptx.failures import failure, is_ours, stage
from ptxsw.ptx.ir import Function, Module
from ptxsw.report import model
from ptxsw.report.serial import Report
from ptxsw.toolchain.jobs import LONG

if TYPE_CHECKING:
    from ptxsw.analysis.warps import Block
    from ptxsw.report.source_files import SourceFiles
    from ptxsw.verify.launches import Launch


def check(
    text: str,
    name: str = "<ptx>",
    *,
    select: str | Collection[str] | None = None,
    block: int | Sequence[int] | None = None,
    ptxas: bool = True,
    launches: Mapping[str, Launch] | None = None,
    sources: SourceFiles | None = None,
    seconds: float = check_rules.SECONDS,
    accesses: bool = False,
    jobs: Workers = 1,
    finished: Callable[[int, int, model.Kernel], None] | None = None,
) -> Report:
    """Find what makes kernels slow, or wrong. Nothing is rewritten.

    Returns a `Report`; each of its kernels has `findings`, the worst first, and with rules of
    correctness `verdicts`: by rule "absent" (proved), "found" (shown) or "unknown", with a reason.

    Args:
        text: The PTX.
        name: Its name in messages.
        select: Rules or groups of them, as a collection or a text with commas: "performance" (the
            default), "correctness", "all", or names as in `ptxsw rule`.
        block: Threads along x, y and z (or fewer axes) of kernels without `.reqntid`.
        ptxas: Ask ptxas for registers and spills, if there is one.
        launches: By a kernel's PTX or C++ name ("" for the only kernel): its execution counts
            and the sizes of its buffers.
        sources: Names from the source files.
        seconds: CPU time per kernel for the correctness rules; after that, the verdict is
            "unknown".
        accesses: Give each kernel its `accesses` even if only rules of correctness are selected.
        jobs: Number of processes, or a cluster, that share the kernels.
        finished: Is called after each kernel with how many are done, of how many, and its report.

    Raises:
        ParseError: If the text is not PTX.
        ValueError: For an unknown rule, or a block of no or too many threads.
    """
    begin = perf_counter()
    module = parse(text, name)
    arch = target(module)
    shape = None if block is None else block_shape(block)
    one = _Check(module, select, arch, shape, ptxas, launches or {}, sources, seconds, accesses)
    functions = module.kernels

    def answer(number: int) -> tuple[model.Kernel, tuple[str, ...]]:
        known = len(one.judge.problems)
        return one.kernel(functions[number], name), tuple(one.judge.problems[known:])

    problems = list(one.judge.problems)
    answers: dict[int, tuple[model.Kernel, tuple[str, ...]]] = {}
    processes = jobs if len(text) > LONG else 1
    for number, kernel in spread(range(len(functions)), answer, processes):
        answers[number] = kernel
        if finished is not None:
            finished(len(answers), len(functions), kernel[0])
    in_order = [answers[number] for number in range(len(functions))]
    problems += (problem for _, own in in_order for problem in own)
    report = report_of(name, arch, begin, [kernel for kernel, _ in in_order])
    return replace(report, warning="\n".join(problems) or None)


class _Check:
    """The rules that were chosen, ready for the kernels of a module."""

    def __init__(
        self, module: Module, select: str | Collection[str] | None, arch: str | None,
        block: Block | None, ptxas: bool, launches: Mapping[str, Launch],
        sources: SourceFiles | None, seconds: float, accesses: bool,
    ) -> None:  # fmt: skip
        names, groups = check_rules.chosen(select), check_rules.groups()
        self._cost, self._right = names & groups["performance"], names & groups["correctness"]
        self._module, self._block, self._launches = module, block, launches
        self._seconds, self._sources = seconds, sources
        self._describes = accesses or bool(self._cost)
        trials = RewriteTrials(module)
        self.judge = Judge(module, arch, block, self._cost, ptxas, launches, trials, sources)

    def kernel(self, function: Function, name: str) -> model.Kernel:
        """The report of one kernel, also where it could not be finished."""
        try:
            return self._judged(function)
        except Exception as error:
            if not is_ours(error):
                raise
            failed = failure(error, self._module, function, check_command(name))
            return failed_report(self._module, function, failed)

    def _judged(self, function: Function) -> model.Kernel:
        if not self._right:
            return self.judge.kernel(function)
        from ptxsw.correctness.reporting import judged
        from ptxsw.correctness.subject import Subject
        from ptxsw.emulator.budget import Budget

        kernel = self.judge.kernel(function) if self._describes else None
        launch = of_kernel(self._module, function, self._launches)
        budget = Budget(self._seconds)
        with stage("correctness"):
            subject = Subject(self._module, function, budget, self._block, launch)
            named = source_of(subject.trace, self._sources).named
            return judged(subject, self._right, kernel, named)


_LARGEST = 1_500
"""Instructions of a kernel that is rewritten to see whether that works."""


class RewriteTrials:
    """Tries rewrites of kernels, so that none is advised that leaves its kernel alone."""

    def __init__(self, module: Module) -> None:
        self._excerpts = Excerpts(module)

    def __call__(self, function: Function, rewrite: str) -> bool:
        """Does a rewrite change a kernel?"""
        if len(function.body.instructions) > _LARGEST:
            return False
        alone = self._excerpts.of(function)
        options = Options(rewrites=(rewrite,), mode="force")
        result = optimize(alone.source.text, options, alone.source.name)
        return result.text != alone.source.text
