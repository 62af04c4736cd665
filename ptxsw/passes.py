"""A kernel goes through the rewrites, one after the other.

A kernel that a rewrite has changed is read and run again for the next one. What was written is
checked before it is handed out; where the check fails the kernel stays as it was, and what others
have built on it is made anew. In mode auto what rewrites make is weighed first: most of it does not
pay, and a check costs more than a question to ptxas.
Each kernel is taken out of its module first: kernels know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.analysis.lane_reuse import global_loads
from ptxsw.batches import alone
from ptxsw.change import Change, Refusal
from ptxsw.emulator.budget import OUT_OF_TIME, PLANNING, Budget, OutOfTime
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.kernel_progress import Progress, RewrittenState, rewritten
from ptxsw.parser import parse
from ptxsw.rewrites import REGISTERS, every, named
from ptxsw.rewrites.base import Attempt, Kernel
from ptxsw.rewrites.jointly_planned import SHUFFLE, TOGETHER, UNIFORM_LOOPS, leads
from ptxsw.target import plain_name

# Of most kernels nothing is written: what weighs and checks is imported by the functions that do.
if TYPE_CHECKING:
    from ptxsw.codegen.splice import Edit
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered
    from ptxsw.emulator.trace import Trace
    from ptxsw.excerpt import Excerpt
    from ptxsw.ir import Module
    from ptxsw.options import Options
    from ptxsw.rewrites.base import Outcome, Rewrite
    from ptxsw.rewrites.weighing import Asking, Weighed
    from ptxsw.toolchain.tuned import Tuned

    Text = tuple[tuple[Edit, ...], Module]
    Steps = Generator[Question, Answered, "Progress"]

_SHUFFLES = frozenset({SHUFFLE, UNIFORM_LOOPS})


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
        registers: Mapping[str, int] | None = None,
    ) -> None:
        """`block` are the threads of a block along x, y and z, where they are known. A `stand_in`
        takes the place of the rewrite of its name; what it writes is not checked. `registers` are
        those that ptxas takes for kernels as they are, by name."""
        self._registers = registers or {}
        self._options, self._arch, self._block = options, arch, block
        self._stand_in = stand_in
        self._rewrites = tuple(
            stand_in if stand_in is not None and one.name == stand_in.name else one
            for one in considered(options)
        )
        self._names = frozenset(one.name for one in self._rewrites)
        auto = options.mode == "auto"
        self._last_unsure = _last_built_on(self._rewrites) if auto else None

    def run(self, excerpt: Excerpt) -> Progress:
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
        known = {one.name for one in every()}
        return choice if choice is not None and known.issuperset(choice.rewrites) else None

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
                trace = emulate(module, function, budget_s=budget.seconds, solver=solver)
            each = Progress(trace, excerpt, module, function, trace, solver, budget)
            wrong = yield from self._send_through(rewrites, each, None)
            while wrong is not None:
                behind = [one.name for one in rewrites].index(wrong)
                wrong = yield from self._send_through(rewrites[behind:], each, wrong)
            assert all(state.checked for state in each.states)
            if each.decision is None and each.no_room:
                from ptxsw.cost.decide import PTXAS, Decision

                each.decision = Decision(False, PTXAS, each.no_room)
            each.rest()
        return each

    def _send_through(
        self, rewrites: tuple[Rewrite, ...], each: Progress, given_up: str | None
    ) -> Generator[Question, Answered, str | None]:
        """Some rewrites, one after the other, but for what one of them makes that was given up. The
        name of one that wrote what is not right, where that comes out: it is taken back, with what
        others have found behind it."""
        auto = self._options.mode == "auto"
        for one in rewrites:
            wrong = None
            if auto and one.name == REGISTERS:  # for the text that is kept
                wrong = yield from self._weigh(each)
            left_out = one.name == given_up or (yield from self._left_out(one, each))
            attempt = None if wrong or left_out else self._find(one, each)
            if attempt is not None:
                each.attempts.append(attempt)
            if attempt is not None and attempt.changes:
                self._write(one, each, attempt)
                if one.requires.shorter_code and not auto:
                    yield from self._keep_shorter(each)
            # Shuffles stand in the way of later rewrites; if ptxas was asked before, they stay
            # to the end, since it is asked twice at most.
            shuffled = auto and each.scales is None and _shuffled(each)
            if wrong is None and (one is self._last_unsure or shuffled):
                wrong = yield from self._weigh(each)
            if wrong is not None:
                return wrong
        return (yield from self._weigh(each)) if auto else None

    # ------------------------------------------------------------ finding

    def _left_out(self, one: Rewrite, each: Progress) -> Generator[Question, Answered, bool]:
        """Mode auto: does a rewrite hold values longer, of a kernel that has no register left?"""
        if self._options.mode != "auto" or not one.requires.holds_longer:
            return False
        if each.no_room is None:
            each.no_room = (yield from self._no_room(each)) or ""
        return bool(each.no_room)

    def _no_room(self, each: Progress) -> Generator[Question, Answered, str | None]:
        """Why a kernel has no register left; None where it may have. ptxas is asked about texts
        alone that hold many, unless it is known already or a measurement has chosen."""
        from ptxsw.toolchain import held_registers, tuned

        arch, excerpt = self._arch or "", each.excerpt
        text = excerpt.module.source.slice(excerpt.function.span)
        if not held_registers.is_crowded(text.encode()) or tuned.find(text, arch) is not None:
            return None
        from ptxsw.cost.combined import Question
        from ptxsw.cost.counted import NotCounted
        from ptxsw.cost.occupancy import no_room
        from ptxsw.rewrites.weighing import cannot_count

        if cannot_count(self._arch):
            return None
        registers = self._registers.get(excerpt.name)
        if registers is None:
            asked = arch if arch.startswith("sm_") else str(plain_name(arch))
            with each.budget.paused():
                answer = yield Question((excerpt.module,), excerpt.name, asked)
            if isinstance(answer, NotCounted):
                return None
            registers = answer[0].registers
        return no_room(arch, registers)

    def _find(self, one: Rewrite, each: Progress) -> Attempt | None:
        """What a rewrite has to say of a kernel."""
        span = each.function.span
        if not one.requires.may_apply(each.module.source.text[span.start : span.end]):
            return None
        if one.requires.loops and not each.original.cfg.loops and self._options.rewrites is None:
            return None  # who asks for it by name is told why
        joined = one.name in TOGETHER
        if not joined and (each.original.statistics.timed_out or each.budget.spent(PLANNING)):
            return None
        kernel = self._kernel(each, one.follows)
        missing = one.requires.missing(each.module)
        outcomes: list[Outcome] = []
        if missing is None:
            outcomes = list(one.find(kernel))
        elif joined and leads(one.name, kernel):
            outcomes = [Refusal(one.name, a.index, missing) for a in global_loads(kernel.trace)]
        changes = tuple(item for item in outcomes if isinstance(item, Change))
        refusals = tuple(item for item in outcomes if isinstance(item, Refusal))
        if one.needs_ptxas and not kernel.explains:
            refusals = tuple(one for one in refusals if one.because_of is not None)
        reason = self._not_weighed(one, each) if changes else None
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

    def _kernel(self, each: Progress, follows: frozenset[str]) -> Kernel:
        """The kernel as it is now, run symbolically if it has not been. A rewrite that follows
        more instructions has a run of its own: others find what they would find without it."""
        budget = self._options.budget_s
        if each.trace is None:
            each.solver = Solver()
            each.trace = emulate(each.module, each.function, budget_s=budget, solver=each.solver)
            if each.states:
                each.states[-1].trace = each.trace
        trace, solver = each.trace, each.solver
        if follows:
            solver = Solver()
            trace = emulate(
                each.module, each.function, budget_s=budget, solver=solver, follow=follows
            )
        return Kernel(
            each.module, each.function, trace, solver, self._options, self._arch, self._names,
            each.budget, self._block,
        )  # fmt: skip

    # ------------------------------------------------------------ writing

    def _write(self, one: Rewrite, each: Progress, attempt: Attempt) -> None:
        """Splice what a rewrite wrote, and check it. Where that fails, the part of the changes is
        kept that is proved right."""
        each.rest()
        if self._is_weighed(one):
            self._keep(each, attempt, self._text(one, each, attempt), checked=False)
            return
        from ptxsw.rewrites.parts import attempts

        tried, right = attempts(attempt), None
        try:
            part, share = next(tried)
            while True:
                text = self._text(one, each, part)
                problem = self._problem(part, text[1], share)
                right = right if problem is not None else text
                part, share = tried.send(problem)
        except StopIteration as end:
            outcome: Attempt | str = end.value
        if isinstance(outcome, str) or right is None:
            self._give_up(each, len(each.attempts) - 1, str(outcome))
        else:
            self._keep(each, outcome, right, checked=True)

    def _text(self, one: Rewrite, each: Progress, attempt: Attempt) -> Text:
        """What the changes make of the kernel: the edits, and the text read again."""
        since = each.composed(one.lower(attempt.kernel, attempt.changes))
        return since, parse(rewritten(each.excerpt.module.source, since))

    def _keep(self, each: Progress, attempt: Attempt, text: Text, *, checked: bool) -> None:
        number = len(each.attempts) - 1
        each.attempts[number] = attempt
        each.since, each.module = text
        each.trace, each.function = None, each.module.kernel(each.function.name)
        state = RewrittenState(number, each.module, each.function, each.since, checked=checked)
        each.states.append(state)

    def _problem(self, attempt: Attempt, text: Module, share: float) -> str | None:
        """Why the text that was written is not taken; None where it is right, or where a stand-in
        wrote it."""
        if self._stand_in is not None and attempt.rewrite == self._stand_in.name:
            return None
        from ptxsw import checking

        try:
            return checking.problem(attempt, text, share)
        except OutOfTime:
            return OUT_OF_TIME

    # ------------------------------------------------------------ weighing

    def _not_weighed(self, one: Rewrite, each: Progress) -> str | None:
        """Why nothing is made by a rewrite that may cost more than it counts itself: ptxas cannot
        be asked, or a measurement has chosen shuffles for the kernel without it."""
        if self._options.mode != "auto" or not one.needs_ptxas:
            return None
        if each.is_measured:
            return "shuffles were chosen for the kernel without it"
        from ptxsw.rewrites.weighing import cannot_count

        reason = cannot_count(self._arch)
        return None if reason is None else f"its cost in registers is not known: {reason}"

    def _is_weighed(self, one: Rewrite) -> bool:
        """Is what a rewrite makes weighed before it is checked? What is planned together is
        checked at once: where it fails, less of it may be right."""
        alone = one.name not in TOGETHER and one.name != REGISTERS
        return self._options.mode == "auto" and alone

    def _weigh(self, each: Progress) -> Generator[Question, Answered, str | None]:
        """Keep what certainly pays, and is right. What was measured stays; what is kept of earlier
        rewrites is not weighed again. The name of a rewrite whose text is not right."""
        each.rest()
        new = each.states[each.weighed :]
        if {each.attempts[s.number].rewrite for s in new} <= {REGISTERS} or each.is_measured:
            return self._take_back_wrong(each, len(each.states))
        from ptxsw.cost.dominance import FALLS
        from ptxsw.rewrites.weighing import Scales, WeighedText

        begun = each.scales is not None
        if each.scales is None:
            block = each.excerpt.function.block_shape or self._options.block or self._block
            least = self._options.min_gain
            falls = FALLS if least is None else least / 100
            each.scales = Scales(each.function.name, self._arch, block, falls)
        unsure = {one.name for one in self._rewrites if one.needs_ptxas} | _SHUFFLES
        texts = [WeighedText(each.excerpt.module, lambda: each.original)]
        for state in each.states:
            sure = unsure.isdisjoint(c.rewrite for c in each.attempts[state.number].changes)
            texts.append(WeighedText(state.module, partial(self._trace, state), sure))
        weighed = yield from _unhurried(each.scales.choose(texts, each.weighed), each.budget)
        wrong = self._take_back_wrong(each, weighed.kept)
        if wrong is not None:
            each.forget_weighed(begun)
            return wrong
        if weighed.kept or each.decision is None:
            each.decision = weighed.decision
        for number in range(weighed.kept + 1, len(texts)):
            each.drop(each.states[number - 1].number, weighed.reasons[number])
        if weighed.kept < len(each.states):
            each.return_to(weighed.kept)
        each.weighed = len(each.states)
        return None

    def _take_back_wrong(self, each: Progress, kept: int) -> str | None:
        """Check those of the first `kept` texts that were not checked before. One that is not right
        is taken back with all behind it; the name of its rewrite."""
        for number, state in enumerate(each.states[:kept]):
            reason = None if state.checked else self._late_problem(each, state)
            if reason is None:
                continue
            name = each.attempts[state.number].rewrite
            self._give_up(each, state.number, reason)
            each.return_to(number)
            del each.attempts[state.number + 1 :]
            return name
        return None

    def _late_problem(self, each: Progress, state: RewrittenState) -> str | None:
        """Why a text is not right that was not checked when it was written."""
        attempt = each.attempts[state.number]
        problem = self._problem(attempt, state.module, 1.0)
        state.checked = problem is None
        return problem

    def _keep_shorter(self, each: Progress) -> Generator[Question, Answered, None]:
        """Mode force: what the last rewrite has made is put back if ptxas makes more instructions
        of it, and can be asked."""
        from ptxsw.cost.combined import Question
        from ptxsw.cost.counted import NotCounted
        from ptxsw.rewrites.weighing import cannot_count

        number = len(each.attempts) - 1
        if not each.states or each.states[-1].number != number or cannot_count(self._arch):
            return
        before = each.states[-2].module if len(each.states) > 1 else each.excerpt.module
        asked = str(plain_name(self._arch or ""))
        each.rest()
        with each.budget.paused():
            answer = yield Question((before, each.module), each.function.name, asked)
        if isinstance(answer, NotCounted):
            return
        was, now = (round(counted.instructions) for counted in answer)
        if now > was:
            reason = f"ptxas makes more of it for {asked}: {was} to {now} instructions"
            each.drop(number, reason)
            each.return_to(len(each.states) - 1)

    def _trace(self, state: RewrittenState) -> Trace:
        """The trace of a kernel as a rewrite left it."""
        if state.trace is None:
            budget = self._options.budget_s
            state.trace = emulate(state.module, state.function, budget_s=budget)
        return state.trace

    def _give_up(self, each: Progress, number: int, reason: str) -> None:
        """Take back what a rewrite has made, and say why. What earlier ones made stays."""
        from ptxsw.rewrites import joint

        attempt = each.attempts[number]
        if joint.is_planned(attempt):  # what was said of other loads counted on it
            loads = [load.index for load in global_loads(attempt.kernel.trace)]
            loops = [change for change in attempt.changes if change.rewrite == UNIFORM_LOOPS]
            refusals = (
                *(Refusal(attempt.rewrite, at, reason) for at in loads),
                *(Refusal(loop.rewrite, loop.at, reason) for loop in loops),
            )
            each.attempts[number] = replace(attempt, changes=(), refusals=refusals, choice=None)
        else:
            each.drop(number, reason)


def _last_built_on(rewrites: Sequence[Rewrite]) -> Rewrite | None:
    """The last rewrite whose cost only ptxas knows and that others come behind. There it is asked;
    what such rewrites make at the end is weighed with all else."""
    base = None
    for number, one in enumerate(rewrites):
        behind = any(not o.needs_ptxas and o.name != REGISTERS for o in rewrites[number + 1 :])
        base = one if one.needs_ptxas and behind else base
    return base


def _unhurried(asking: Asking, budget: Budget) -> Asking:
    """The same questions; the kernel's time stops until each is answered."""
    try:
        question = next(asking)
        while True:
            with budget.paused():
                answer = yield question
            question = asking.send(answer)
    except StopIteration as end:
        weighed: Weighed = end.value
        return weighed


def answers(questions: Sequence[Question]) -> Sequence[Answered]:
    """What ptxas makes of the texts of some kernels."""
    from ptxsw.cost import counted

    return counted.answers(questions, counted.tools(questions[0].arch))


def _shuffled(each: Progress) -> bool:
    """Are there shuffles in it that the last rewrite made?"""
    return bool(each.attempts) and any(c.rewrite in _SHUFFLES for c in each.attempts[-1].changes)
