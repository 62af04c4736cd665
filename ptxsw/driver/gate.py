"""Which rewritten texts of a kernel stay, by what ptxas makes of them.

In mode auto what certainly pays stays. In mode force a rewrite that shortens code stays if it does.
Questions are yielded, so that those of several kernels can be answered together.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ptxsw.driver.kernel_state import KernelState, RewrittenState
from ptxsw.emulator.run import emulate
from ptxsw.ptx.target import assembled_for
from ptxsw.rewrites import REGISTERS
from ptxsw.rewrites.base import SHUFFLE, UNIFORM_LOOPS

# Of most kernels nothing is written: what weighs is imported by the functions that do.
if TYPE_CHECKING:
    from ptxsw.changes.options import Options
    from ptxsw.cost.combined import Question
    from ptxsw.cost.counted import Answered
    from ptxsw.cost.wavefronts import Wavefronts
    from ptxsw.cost.weighing import Asking, CostGate, Weighed
    from ptxsw.driver.checked_texts import CheckedTexts
    from ptxsw.emulator.budget import Budget
    from ptxsw.emulator.trace import Trace
    from ptxsw.rewrites.base import Attempt, Rewrite

_HARDLY = 0.01
"""Of a kernel's instructions: what a change saves at least in mode force, if it is made to shorten
code and what is executed once grows."""

SHUFFLES = frozenset({SHUFFLE, UNIFORM_LOOPS})


class Profitability:
    """Asks ptxas about the texts of kernels, where it can be asked."""

    def __init__(
        self,
        options: Options,
        arch: str | None,
        block: tuple[int, int, int] | None,
        rewrites: Iterable[Rewrite],
        texts: CheckedTexts,
    ) -> None:
        """`block` are the threads of a block along x, y and z, where they are known."""
        self._options, self._arch, self._block = options, arch, block
        self._texts = texts
        self._unsure = {one.name for one in rewrites if one.needs_ptxas} | SHUFFLES

    def not_weighed(self, one: Rewrite, each: KernelState) -> str | None:
        """Why nothing is made by a rewrite that may cost more than it counts itself: ptxas cannot
        be asked, or a measurement has chosen shuffles for the kernel without it."""
        if self._options.mode != "auto" or not one.needs_ptxas:
            return None
        if each.is_measured:
            return "shuffles were chosen for the kernel without it"
        from ptxsw.cost.counted import cannot_count

        reason = cannot_count(self._arch)
        return None if reason is None else f"its register cost is not known: {reason}"

    def is_weighed(self, one: Rewrite) -> bool:
        """Is what a rewrite makes weighed before it is checked?"""
        return self._options.mode == "auto" and one.name != REGISTERS

    def weigh(self, each: KernelState) -> Generator[Question, Answered, str | None]:
        """Keep what certainly pays, and is right. What was measured stays; what is kept of earlier
        rewrites is not weighed again. The name of a rewrite whose text is not right."""
        each.rest()
        new = each.states[each.weighed :]
        if {each.attempts[s.number].rewrite for s in new} <= {REGISTERS} or each.is_measured:
            return self._texts.take_back_wrong(each, len(each.states))
        from ptxsw.cost.decide import FALLS
        from ptxsw.cost.weighing import CostGate, WeighedText

        begun = each.cost_gate is not None
        if each.cost_gate is None:
            block = each.excerpt.function.block_shape or self._options.block or self._block
            least = self._options.min_gain
            falls = FALLS if least is None else least / 100
            each.cost_gate = CostGate(each.function.name, self._arch, block, falls)
        texts = [WeighedText(each.excerpt.module, lambda: each.original)]
        for state in each.states:
            attempt = each.attempts[state.number]
            foreseen = partial(self._foreseen, attempt, state, each.cost_gate)
            trace = partial(self._trace, state)
            texts.append(WeighedText(state.module, trace, self._cycles(attempt), foreseen))
        weighed = yield from _unhurried(each.cost_gate.choose(texts, each.weighed), each.budget)
        wrong = self._texts.take_back_wrong(each, weighed.kept)
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

    def keep_shorter(self, each: KernelState) -> Generator[Question, Answered, None]:
        """Mode force: what the last rewrite has made is put back if ptxas makes more instructions
        of it, and can be asked."""
        from ptxsw.cost.combined import Question
        from ptxsw.cost.counted import NotCounted, cannot_count

        number = len(each.attempts) - 1
        if not each.states or each.states[-1].number != number or cannot_count(self._arch):
            return
        before = each.states[-2].module if len(each.states) > 1 else each.excerpt.module
        asked = assembled_for(self._arch or "")
        each.rest()
        with each.budget.paused():
            answer = yield Question((before, each.module), each.function.name, asked)
        if isinstance(answer, NotCounted):
            return
        was, now = (round(counted.instructions) for counted in answer)
        reason = ""
        if now > was:
            reason = f"ptxas's output gets longer for {asked}: {was} to {now} instructions"
        elif any(change.shortens for change in each.attempts[-1].changes):
            first, second = (sum(counted.once.values()) for counted in answer)
            if now == was:
                reason = f"ptxas's output gets no shorter for {asked}: {was} instructions"
            elif now > was * (1 - _HARDLY) and second > first:
                less = f"{was} to {now} instructions"
                reason = f"ptxas's output gets hardly shorter for {asked}: {less}"
        if reason:
            each.drop(number, reason)
            each.return_to(len(each.states) - 1)

    def _cycles(self, attempt: Attempt) -> float | None:
        """What its changes add to the time of a warp by their own counts; None where only ptxas
        knows."""
        if not self._unsure.isdisjoint(change.rewrite for change in attempt.changes):
            return None
        return sum(change.worth.cycles for change in attempt.changes)

    def _foreseen(
        self, attempt: Attempt, state: RewrittenState, cost_gate: CostGate
    ) -> Wavefronts | None:
        """What a text asks of memory that was not run symbolically, where its changes tell."""
        permutation = attempt.shared_layout
        if permutation is None or state.trace is not None:
            return None
        # Where arrays beside others are permuted, an address does not tell whether it moves.
        if any(change.proof.assumptions for change in attempt.changes):
            return None
        from ptxsw.cost.wavefronts import permuted, wavefronts_of
        from ptxsw.flow.cfg import build

        before = attempt.kernel.trace
        known = wavefronts_of(before, cost_gate.block)
        return permuted(known, before.cfg, build(state.function.body), permutation)

    def _trace(self, state: RewrittenState) -> Trace:
        """The trace of a kernel as a rewrite left it."""
        if state.trace is None:
            budget = self._options.budget_s
            state.trace = emulate(state.module, state.function, budget_s=budget)
        return state.trace


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
