"""A kernel goes through the rewrites, one after the other.

A kernel that a rewrite has changed is read and run again for the next one. What was written is
checked before it is handed out; where the check fails the kernel stays as it was, and what others
have built on it is made anew. In mode auto what rewrites make is weighed first: most of it does not
pay, and a check costs more than a question to ptxas.
Each kernel is taken out of its module first: kernels know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.changes.change import Change, Refusal
from ptxsw.driver.batches import alone
from ptxsw.driver.checked_texts import CheckedTexts
from ptxsw.driver.gate import SHUFFLES, Profitability
from ptxsw.driver.kernel_state import KernelState
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING, Budget
from ptxsw.emulator.run import emulate
from ptxsw.ptx.failures import stage
from ptxsw.rewrites import REGISTERS, every, named
from ptxsw.rewrites.base import TOGETHER, Attempt, Kernel, LazyRewrite, RefusedSource, leads
from ptxsw.rewrites.rules import LocalRewrite
from ptxsw.terms.solver import Solver

if TYPE_CHECKING:
    from ptxsw.changes.options import Options
    from ptxsw.codegen.excerpt import Excerpt
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered
    from ptxsw.emulator.trace import Trace
    from ptxsw.ptx.ir import Function, Module
    from ptxsw.rewrites.base import Outcome, Rewrite
    from ptxsw.toolchain.tuned import Tuned

    Steps = Generator[Question, Answered, KernelState]


def considered(options: Options) -> tuple[Rewrite, ...]:
    """The rewrites that are asked for, in order. Asking for a scheme or a form asks for those
    that have them. Raises ValueError for a name nobody knows."""
    names = None if options.rewrites is None else named(options.rewrites)
    if options.rewrites is None and (options.scheme, options.form) != ("auto", "auto"):
        names = TOGETHER
    if names is None:
        names = named(["all"])
    return tuple(one for one in every() if one.name in names)


class Passes:
    """Sends kernels through the rewrites that are asked for. Raises ValueError for
    a rewrite nobody knows."""

    def __init__(
        self,
        options: Options,
        arch: str | None,
        block: tuple[int, int, int] | None = None,
        *,
        stand_in: Rewrite | None = None,
    ) -> None:
        """`block` are the threads of a block along x, y and z, where they are known. A `stand_in`
        takes the place of the rewrite of its name; what it writes is not checked."""
        self._options, self._arch, self._block = options, arch, block
        self._rewrites = tuple(
            stand_in if stand_in is not None and one.name == stand_in.name else one
            for one in considered(options)
        )
        self._names = frozenset(one.name for one in self._rewrites)
        self._texts = CheckedTexts(self._rewrites, stand_in)
        self._profitability = Profitability(options, arch, block, self._rewrites, self._texts)
        auto = options.mode == "auto"
        self._last_unsure = _last_built_on(self._rewrites) if auto else None

    def run(self, excerpt: Excerpt) -> KernelState:
        """One kernel, and what was made of it. Raises ParseError."""
        return alone(self.steps(excerpt), answers)

    def steps(self, excerpt: Excerpt) -> Steps:
        """The same, which yields what ptxas has to be asked, and is sent the answers."""
        best = self._tuned(excerpt)
        if best is None or not best.measured:
            return (yield from self._run(excerpt, self._rewrites))
        if best.rewrites:
            chosen = replace(
                self._options, mode="force", min_gain=None, scheme="auto", form="auto",
                rewrites=best.rewrites, register_limit=best.register_limit,
            )  # fmt: skip
            each = yield from Passes(chosen, self._arch, self._block).steps(excerpt)
            each.nothing_found = {}  # nobody has named them
        else:
            left = (one for one in self._rewrites if one.name not in best.measured)
            each = yield from self._run(excerpt, tuple(left))
        from ptxsw.cost.decide import TUNED, Decision

        each.decision = each.decision or Decision(bool(each.since), TUNED, str(best))
        return each

    def _tuned(self, excerpt: Excerpt) -> Tuned | None:
        """What `ptxsw tune` found out about a kernel, where mode auto may choose what to make of
        it: a measurement wins over all models."""
        options = self._options
        asked = options.rewrites is not None or (options.scheme, options.form) != ("auto", "auto")
        if options.mode != "auto" or self._arch is None or asked:
            return None
        from ptxsw.toolchain import tuned

        choice = tuned.find(excerpt.module.source.slice(excerpt.function.span), self._arch)
        names = {one.name for one in every()}
        return choice if choice is not None and names.issuperset(choice.rewrites) else None

    def run_again(self, excerpt: Excerpt, trace: Trace) -> Steps:
        """The same of a kernel whose symbolic run is known, whatever was measured."""
        return (yield from self._run(excerpt, self._rewrites, trace))

    def _run(
        self, excerpt: Excerpt, rewrites: tuple[Rewrite, ...], trace: Trace | None = None
    ) -> Steps:
        """One kernel sent through some rewrites."""
        with Budget(self._options.budget_s) as budget:
            solver, module, function = Solver(), excerpt.module, excerpt.function
            if trace is None:
                trace = self._traced(module, function, budget.seconds, solver)
            each = KernelState(trace, excerpt, module, function, trace, solver, budget)
            wrong = yield from self._send_through(rewrites, each, None)
            while wrong is not None:
                behind = [one.name for one in rewrites].index(wrong)
                wrong = yield from self._send_through(rewrites[behind:], each, wrong)
            assert all(state.checked for state in each.states)
            each.nothing_found = dict(self._nothing_found(each))
            each.rest()
        return each

    def _send_through(
        self, rewrites: tuple[Rewrite, ...], each: KernelState, given_up: str | None
    ) -> Generator[Question, Answered, str | None]:
        """Some rewrites, one after the other, but for what one of them makes that was given up, or
        of which a part has stayed. The name of one that wrote what is not right, where that comes
        out: it is taken back, with what others have found behind it."""
        auto, profitability = self._options.mode == "auto", self._profitability
        for one in rewrites:
            wrong = None
            if auto and one.name == REGISTERS:  # for the text that is kept
                wrong = yield from profitability.weigh(each)
            attempt = None
            if wrong is None and one.name != given_up:
                attempt = self._visit(one, each)
            if attempt is not None:
                each.attempts.append(attempt)
            if attempt is not None and attempt.changes:
                checked = not profitability.is_weighed(one)
                with stage(f"the text of {one.name}"):
                    self._texts.write(one, each, attempt, checked=checked)
                if one.requires.shorter_code and not auto:
                    yield from profitability.keep_shorter(each)
            # Shuffles stand in the way of later rewrites. If ptxas was asked before, they stay to
            # the end: it is not started for them alone.
            shuffled = auto and each.cost_gate is None and _shuffled(each)
            # What a permuted text asks of memory is known before it is run. Most of them do not
            # stay, so that none is run for later rewrites before it is weighed.
            foreseen = auto and attempt is not None and attempt.shared_layout is not None
            if wrong is None and (one is self._last_unsure or shuffled or foreseen):
                wrong = yield from profitability.weigh(each)
            if wrong is not None:
                return wrong
        return (yield from profitability.weigh(each)) if auto else None

    # ------------------------------------------------------------ finding

    def _visit(self, one: Rewrite, each: KernelState) -> Attempt | None:
        """What a rewrite has to say of a kernel, unless it is skipped."""
        reason = self._skip_reason(one, each)
        if reason is not None:
            each.skipped[one.name] = reason
            return None
        with stage(one.name):
            return self._find(one, each)

    def _skip_reason(self, one: Rewrite, each: KernelState) -> str | None:
        """Why a rewrite does not look at a kernel."""
        if not one.requires.may_apply(each.module.source.slice(each.function.span)):
            return one.requires.no_words
        if one.requires.loops and not each.original.cfg.loops and self._options.rewrites is None:
            return "it has no loop"  # who asks for it by name is told more
        if one.name in TOGETHER:
            return None
        if each.original.statistics.timed_out:
            return f"the symbolic run took more than {self._options.budget_s:g} s"
        return OUT_OF_TIME if each.budget.spent(PLANNING) else None

    def _find(self, one: Rewrite, each: KernelState) -> Attempt:
        """What a rewrite has to say of a kernel."""
        joined = one.name in TOGETHER
        kernel = self._kernel(each, one.follows)
        missing = one.requires.missing(each.module)
        outcomes: list[Outcome] = []
        if missing is None:
            outcomes = list(one.find(kernel))
        elif joined and leads(one.name, kernel):
            outcomes = [Refusal(one.name, a.index, missing) for a in kernel.trace.global_loads]
        changes = tuple(item for item in outcomes if isinstance(item, Change))
        refusals = tuple(without_copies(kernel, outcomes))
        if one.needs_ptxas and not kernel.explains:
            refusals = tuple(one for one in refusals if one.because_of is not None)
        reason = self._profitability.not_weighed(one, each) if changes else None
        if reason is not None:
            refusals = tuple(one for one in refusals if one.because_of is None)
            refusals += tuple(Refusal(one.name, change.at, reason) for change in changes)
            changes = ()
        return Attempt(
            one.name,
            kernel,
            changes,
            refusals,
            next((item for item in outcomes if not isinstance(item, Change | Refusal)), None),
        )

    def _nothing_found(self, each: KernelState) -> Iterator[tuple[str, str]]:
        """Why rewrites changed nothing that were named, and say nothing of any instruction."""
        names = self._options.rewrites
        if names is None or tuple(names) == ("all",):
            return
        reported = {change.rewrite for attempt in each.attempts for change in attempt.changes}
        reported |= {refusal.rewrite for attempt in each.attempts for refusal in attempt.refusals}
        kernels = {attempt.rewrite: attempt.kernel for attempt in each.attempts}
        for one in self._rewrites:
            if one.name in reported:
                continue
            if one.name in each.skipped:
                yield one.name, each.skipped[one.name]
            elif one.name in kernels:
                missing = one.requires.missing(each.module)
                yield one.name, missing or _nothing(one, kernels[one.name])

    def _traced(self, module: Module, function: Function, budget_s: float, solver: Solver) -> Trace:
        """A kernel run symbolically. What rewrites follow is noted where it costs nothing."""
        note = followed(self._rewrites, module, function)
        with stage("symbolic execution"):
            return emulate(module, function, budget_s=budget_s, solver=solver, note=note)

    def _kernel(self, each: KernelState, follows: frozenset[str]) -> Kernel:
        """The kernel as it is now, run symbolically if it has not been. A rewrite that follows
        instructions has a solver of its own, and a run where the first one has not followed them:
        others find what they would find without it."""
        budget = self._options.budget_s
        if each.trace is None:
            each.solver = Solver()
            each.trace = self._traced(each.module, each.function, budget, each.solver)
            if each.states:
                each.states[-1].trace = each.trace
        trace, solver = each.trace, each.solver
        if follows:
            solver = Solver()
        if not follows <= trace.followed:
            trace = emulate(
                each.module, each.function, budget_s=budget, solver=solver, follow=follows
            )
        return Kernel(
            each.module, each.function, trace, solver, self._options, self._arch, self._names,
            each.budget, self._block,
        )  # fmt: skip


def without_copies(kernel: Kernel, outcomes: Iterable[Outcome]) -> Iterator[Refusal]:
    """What was refused of the kernel as it was written: nothing is said of code that rewrites wrote
    beside what it copies, nor of what is changed in such a copy."""
    changes, refusals = list[Change](), list[Refusal]()
    for outcome in outcomes:
        if isinstance(outcome, Change):
            changes.append(outcome)
        elif isinstance(outcome, Refusal):
            refusals.append(outcome)
    changed = {(c.rewrite, kernel.line(c.at)) for c in changes if kernel.is_copy(c.at)}
    for refusal in refusals:
        source = refusal.detail.index if isinstance(refusal.detail, RefusedSource) else refusal.at
        if kernel.is_copy(refusal.at) or kernel.is_copy(source):
            continue
        if (refusal.rewrite, kernel.line(refusal.at)) not in changed:
            yield refusal


def followed(rewrites: Iterable[Rewrite], module: Module, function: Function) -> frozenset[str]:
    """The instructions whose operands some rewrites want to know, those left out that do not apply
    to a kernel."""
    text = module.source.slice(function.span)
    names = (
        one.follows
        for one in rewrites
        if one.requires.words and one.requires.may_apply(text)
        and one.requires.missing(module) is None
    )  # fmt: skip
    return frozenset().union(*names)


def _last_built_on(rewrites: Sequence[Rewrite]) -> Rewrite | None:
    """The last rewrite whose cost only ptxas knows and that others come behind. There it is asked;
    what such rewrites make at the end is weighed with all else."""
    base = None
    for number, one in enumerate(rewrites):
        behind = any(not o.needs_ptxas and o.name != REGISTERS for o in rewrites[number + 1 :])
        base = one if one.needs_ptxas and behind else base
    return base


def _nothing(one: Rewrite, kernel: Kernel) -> str:
    """What a rewrite looked for; one of a plugin does not say it."""
    if isinstance(one, LazyRewrite | LocalRewrite):
        return one.nothing(kernel)
    return "it found nothing to change"


def answers(questions: Sequence[Question]) -> Sequence[Answered]:
    """What ptxas makes of the texts of some kernels."""
    from ptxsw.cost import counted

    return counted.answers(questions, counted.tools(questions[0].arch))


def _shuffled(each: KernelState) -> bool:
    """Are there shuffles in it that the last rewrite made?"""
    return bool(each.attempts) and any(c.rewrite in SHUFFLES for c in each.attempts[-1].changes)
