"""The kernels of a module, each by itself on its way to what becomes of it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, msgpack
from msgspec.structs import replace

from ptxsw.changes.steps import RewriteStep
from ptxsw.codegen.excerpt import Excerpts
from ptxsw.codegen.splice import Edit
from ptxsw.driver.batches import batched
from ptxsw.driver.command_lines import analyze_command, optimize_command
from ptxsw.driver.outcome import failed_report, kernel_report, waiting_report
from ptxsw.driver.passes import Passes, answers
from ptxsw.driver.workers import Workers, streamed
from ptxsw.ptx.cxx_names import chosen, readable, without
from ptxsw.ptx.failures import failure, is_ours
from ptxsw.ptx.text_files import file_stem
from ptxsw.report import model
from ptxsw.toolchain.jobs import LONG

if TYPE_CHECKING:
    from ptxsw.changes.options import Options
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered
    from ptxsw.driver.description import Description
    from ptxsw.driver.kernel_state import KernelState
    from ptxsw.ptx.ir import Function, Module
    from ptxsw.rewrites.base import Rewrite

    Steps = Generator[Question, Answered, "KernelOutcome"]

_WAITING = 4
"""Kernels of a process that wait to be weighed together. All that is known of them is held."""


class KernelOutcome(Struct, frozen=True):
    """All that is kept of one kernel."""

    report: model.Kernel
    edits: tuple[Edit, ...]  # in offsets of its excerpt
    proofs: Mapping[str, str]  # SMT-LIB 2 by file name
    steps: tuple[RewriteStep, ...] = ()  # what `verify` needs to prove it again, beside both texts


class OutcomeStore(Protocol):
    """Keeps outcomes of `optimize` from run to run, by the excerpt's text and the kernel's line."""

    def get(self, text: str, line: int) -> bytes | None: ...

    def put(self, text: str, line: int, data: bytes) -> None: ...


class KernelTasks:
    """What is to be done with the kernels of a module that `options` choose. Raises ValueError
    where there is no kernel or no rewrite of a name that `options` gives."""

    def __init__(
        self,
        module: Module,
        name: str,
        options: Options,
        arch: str | None,
        description: Description | None,
        keep: OutcomeStore | None,
        stand_in: Rewrite | None,
    ) -> None:
        self._module, self._name, self._options, self._arch = module, name, options, arch
        self._functions = without(chosen(module, options.only), options.skip)
        self._description = description
        # Of a single kernel, whoever keeps the answer for the file has it.
        self._keep = keep if len(self._functions) != 1 else None
        block = description.block if description else None
        self._passes = Passes(options, arch, block, stand_in=stand_in)
        self._excerpts = Excerpts(module)

    def waiting(self) -> list[model.Kernel]:
        """What a report says of the kernels before anything is known."""
        return [_named(waiting_report(self._module, each)) for each in self._functions]

    def outcomes(
        self, jobs: Workers, *, shortest_first: bool
    ) -> Iterator[tuple[int, KernelOutcome]]:
        """The kernels' outcomes with their numbers, each as soon as it is there, by up to `jobs`
        processes. Where the time does not suffice for all, it suffices for the most if the
        shortest kernels come first."""
        order: Sequence[int] = range(len(self._functions))
        if shortest_first:
            order = sorted(order, key=self._length)

        def work(numbers: Iterator[int]) -> Iterator[tuple[int, KernelOutcome]]:
            tasks = ((number, self._task(number)) for number in numbers)
            return batched(tasks, answers, _WAITING)

        return streamed(order, work, jobs if sum(map(self._length, order)) > LONG else 1)

    def _length(self, number: int) -> int:
        span = self._functions[number].span
        return span.end - span.start

    def _task(self, number: int) -> Steps:
        """A fault of ours stays with the kernel that met it."""
        try:
            return (yield from self._finished(number))
        except Exception as error:
            if not is_ours(error):
                raise
            function = self._functions[number]
            failed = failure(error, self._module, function, self._command(function))
            return KernelOutcome(_named(failed_report(self._module, function, failed)), (), {})

    def _command(self, function: Function) -> list[str]:
        """What shows a fault again."""
        if self._description is None:
            return optimize_command(self._name, function.name, self._options)
        return analyze_command(self._name, function.name, self._options, self._description.block)

    def _finished(self, number: int) -> Steps:
        """Take a kernel out of its module; rewrite it, or look up what became of it; describe it
        where that is asked for."""
        excerpt = self._excerpts.of(self._functions[number])
        line = self._module.source.line(self._functions[number].span.start)
        stored = None if self._keep is None else self._keep.get(excerpt.source.text, line)
        if stored is not None:
            outcome = msgpack.decode(stored, type=KernelOutcome)
        else:
            state = yield from self._passes.steps(excerpt)
            if self._description is None:
                kernel = kernel_report(state)
            else:
                kernel = yield from self._description.steps(excerpt, state, self._arch)
            proofs = _proofs(state) if self._options.smt2 else {}
            outcome = KernelOutcome(_named(kernel), state.since, proofs, _steps(state))
            if self._keep is not None:
                self._keep.put(excerpt.source.text, line, msgpack.encode(outcome))
        return replace(outcome, edits=tuple(map(excerpt.whole, outcome.edits)))


def _named(kernel: model.Kernel) -> model.Kernel:
    return replace(kernel, readable=readable(kernel.name))


def _steps(state: KernelState) -> tuple[RewriteStep, ...]:
    """The steps that made the text; none where both texts tell all of its proof, or where what
    stands outside the kernel gave way."""
    excerpt, span = state.excerpt, state.excerpt.function.span
    begin = excerpt.offset(span.start)
    steps = []
    for number, each in enumerate(state.states, 1):
        attempt = state.attempts[each.number]
        claims = tuple(dict.fromkeys(claim for c in attempt.changes for claim in c.claims))
        edits = each.since if number < len(state.states) else ()
        outside = (e for e in edits if not span.start <= e.span.start <= e.span.end <= span.end)
        if any(e.span.start < e.span.end for e in outside):
            return ()
        ordered = sorted(map(excerpt.whole, edits), key=lambda e: (e.span.start, e.span.end))
        moved = ((e.span.start - begin, e.span.end - begin, e.text) for e in ordered)
        steps.append(RewriteStep(claims, attempt.shared_layout, tuple(moved)))
    return () if steps == [RewriteStep()] else tuple(steps)


def _proofs(state: KernelState) -> dict[str, str]:
    """The obligations of each change as SMT-LIB 2, by file name."""
    texts: dict[str, str] = {}
    for attempt in state.attempts:
        name = file_stem(attempt.kernel.function.name)
        for change in attempt.changes:
            source = f"-from-{attempt.line(change.source)}" if change.source is not None else ""
            stem = f"{name}-{attempt.line(change.at)}{source}"
            solver = attempt.kernel.solver
            claims = dict.fromkeys(solver.smt2(o.claim, o.given) for o in change.obligations)
            texts.update((f"{stem}-{n}.smt2", claim) for n, claim in enumerate(claims))
    return texts
