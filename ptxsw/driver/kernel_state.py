"""One kernel on its way through the rewrites: its text after each, and how to go back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ptxsw.changes.change import Refusal
from ptxsw.codegen.splice import Edit, LineOrigins, apply, compose
from ptxsw.ptx.source import Source
from ptxsw.rewrites.base import TUNED

if TYPE_CHECKING:
    from ptxsw.codegen.excerpt import Excerpt
    from ptxsw.cost.decide import Decision
    from ptxsw.cost.weighing import CostGate
    from ptxsw.emulator.budget import Budget
    from ptxsw.emulator.trace import Trace
    from ptxsw.ptx.ir import Function, Module
    from ptxsw.rewrites.base import Attempt
    from ptxsw.terms.solver import Solver


class RewrittenState(Struct):
    """A kernel as a rewrite left it: the text, and the number of what that rewrite made. What is
    not `checked` has still to be proved right."""

    number: int
    module: Module
    function: Function
    since: tuple[Edit, ...]
    trace: Trace | None = None
    checked: bool = True


class KernelState(Struct):
    """A kernel as it is now. `trace` is None where it has not been run since it was changed;
    `since` are the edits that made its text from that of the excerpt."""

    original: Trace
    excerpt: Excerpt
    module: Module
    function: Function
    trace: Trace | None
    solver: Solver
    budget: Budget
    since: tuple[Edit, ...] = ()
    attempts: list[Attempt] = field(default_factory=list)
    states: list[RewrittenState] = field(default_factory=list)  # after each rewrite that changed it
    weighed: int = 0  # of the states; all of these are kept
    cost_gate: CostGate | None = None
    decision: Decision | None = None  # where there was something to weigh
    skipped: dict[str, str] = field(default_factory=dict)  # why rewrites were, by name
    nothing_found: dict[str, str] = field(default_factory=dict)  # why named ones found nothing

    @property
    def is_measured(self) -> bool:
        """Has a measurement chosen shuffles for it?"""
        return any(
            attempt.choice is not None and attempt.choice.by == TUNED and attempt.changes
            for attempt in self.attempts
        )

    def composed(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """Edits of the text as it is, as edits of the excerpt."""
        if not self.since:
            return edits
        return compose(len(self.excerpt.module.source.text), self.since, edits)

    def rest(self) -> None:
        """Free what Z3 holds while nothing is asked about this kernel."""
        for solver in (self.solver, *(attempt.kernel.solver for attempt in self.attempts)):
            solver.rest()

    def drop(self, number: int, reason: str) -> None:
        """Take back the changes of a rewrite, which are right, but not worth it."""
        attempt = self.attempts[number]
        left = dict.fromkeys((change.rewrite, change.at) for change in attempt.changes)
        refusals = tuple(Refusal(name, at, reason) for name, at in left)
        kept = tuple(one for one in attempt.refusals if one.because_of is None)
        self.attempts[number] = replace(attempt, changes=(), refusals=kept + refusals, choice=None)

    def return_to(self, number: int) -> None:
        """Go back to what the kernel was after so many of its changes."""
        del self.states[number:]
        if number:
            state = self.states[-1]
            self.since, self.module, self.function = state.since, state.module, state.function
            self.trace = state.trace
        else:
            self.since, self.module, self.function = (), self.excerpt.module, self.excerpt.function
            self.trace = self.original

    def forget_weighed(self, begun: bool) -> None:
        """Forget what was weighed of texts that were taken back, and of the one whose rewrite
        looked last; all of it where weighing had not `begun` before these."""
        if not begun:
            self.cost_gate = None
        elif self.cost_gate is not None:
            last = len(self.attempts) - 1
            self.cost_gate.forget(sum(state.number < last for state in self.states))


def rewritten(source: Source, edits: tuple[Edit, ...]) -> Source:
    """The text that edits make, with the lines of the one it was made from."""
    origins = LineOrigins(source, edits)
    return Source(apply(source.text, edits), "the rewritten text", origins, origins.is_copy)
