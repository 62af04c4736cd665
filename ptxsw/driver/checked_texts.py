"""What a rewrite makes of a kernel's text: spliced, checked, and taken back where it is not right.

What is weighed first is checked later: only what stays has to be right. Where the check of changes
fails that are planned together, or that name spaces, part of them may still be right
(`rewrites/parts.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ptxsw.changes.assumptions import ASSUMPTIONS
from ptxsw.changes.change import Refusal
from ptxsw.driver.kernel_state import KernelState, RewrittenState, rewritten
from ptxsw.emulator.budget import OUT_OF_TIME, OutOfTime
from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from ptxsw.rewrites.base import IN_PARTS, UNIFORM_LOOPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxsw.codegen.splice import Edit
    from ptxsw.ptx.ir import Module
    from ptxsw.rewrites.base import Attempt, Rewrite

    Text = tuple[tuple[Edit, ...], Module]


UNCHECKED = "the new PTX could not be proved equal"


class CheckedTexts:
    """Writes texts of some rewrites and checks them; but for those of a `stand_in`, which are taken
    as they are."""

    def __init__(self, rewrites: Iterable[Rewrite], stand_in: Rewrite | None) -> None:
        self._rewrites = {one.name: one for one in rewrites}
        self._stand_in = stand_in

    def write(self, one: Rewrite, each: KernelState, attempt: Attempt, *, checked: bool) -> None:
        """Splice what a rewrite wrote, and check it, if that is to be done at once. Where it fails,
        the part of the changes is kept that is proved right."""
        each.rest()
        if attempt.rewrite in IN_PARTS:
            from ptxsw.rewrites.parts import share_of_whole

            if checked or share_of_whole(attempt) is None:
                self._write_part(one, each, attempt)
                return
        text = self._text(one, each, attempt)
        problem = self._problem(attempt, text[1], 1.0) if checked else None
        if problem is None:
            self._keep(each, attempt, text, checked=checked)
        else:
            self._give_up(each, len(each.attempts) - 1, problem)

    def _write_part(
        self, one: Rewrite, each: KernelState, attempt: Attempt, refused: str | None = None
    ) -> None:
        """The same of changes that are planned together: part of them may be right. All of them
        are not, if it is known why they are `refused`."""
        from ptxsw.rewrites.parts import attempts

        tried, right = attempts(attempt, refused), None
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

    def _text(self, one: Rewrite, each: KernelState, attempt: Attempt) -> Text:
        """What the changes make of the kernel: the edits, and the text read again."""
        since = each.composed(one.lower(attempt.kernel, attempt.changes))
        try:
            return since, parse(rewritten(each.excerpt.module.source, since))
        except ParseError as error:  # not the input's fault, as it is elsewhere
            raise AssertionError(f"what {one.name} wrote is not PTX: {error.message}") from error

    def _keep(self, each: KernelState, attempt: Attempt, text: Text, *, checked: bool) -> None:
        number = len(each.attempts) - 1
        each.attempts[number] = attempt
        each.since, each.module = text
        each.trace, each.function = None, each.module.kernel(each.function.name)
        state = RewrittenState(number, each.module, each.function, each.since, checked=checked)
        each.states.append(state)

    def _problem(self, attempt: Attempt, text: Module, share: float) -> str | None:
        """Why the text that was written is not taken; None where it is right, or where a
        replacement wrote it."""
        if self._stand_in is not None and attempt.rewrite == self._stand_in.name:
            return None
        try:
            return problem(attempt, text, share)
        except OutOfTime:
            return OUT_OF_TIME

    def take_back_wrong(self, each: KernelState, kept: int) -> str | None:
        """Check those of the first `kept` texts that were not checked before. One that is not right
        is taken back with all behind it; the name of its rewrite, of whose changes those stay that
        are right without the others."""
        for number, state in enumerate(each.states[:kept]):
            reason = None if state.checked else self._late_problem(each, state)
            if reason is None:
                continue
            attempt = each.attempts[state.number]
            each.return_to(number)
            del each.attempts[state.number + 1 :]
            if attempt.rewrite in IN_PARTS:
                self._write_part(self._rewrites[attempt.rewrite], each, attempt, reason)
            else:
                self._give_up(each, state.number, reason)
            return attempt.rewrite
        return None

    def _late_problem(self, each: KernelState, state: RewrittenState) -> str | None:
        """Why a text is not right that was not checked when it was written."""
        attempt, share = each.attempts[state.number], 1.0
        if attempt.rewrite in IN_PARTS:
            from ptxsw.rewrites.parts import share_of_whole

            share = share_of_whole(attempt) or share
        problem = self._problem(attempt, state.module, share)
        state.checked = problem is None
        return problem

    def _give_up(self, each: KernelState, number: int, reason: str) -> None:
        """Take back what a rewrite has made, and say why. What earlier ones made stays."""
        from ptxsw.rewrites import joint

        attempt = each.attempts[number]
        if joint.is_planned(attempt):  # what was said of other loads counted on it
            loads = [load.index for load in attempt.kernel.trace.global_loads]
            loops = [change for change in attempt.changes if change.rewrite == UNIFORM_LOOPS]
            refusals = (
                *(Refusal(attempt.rewrite, at, reason) for at in loads),
                *(Refusal(loop.rewrite, loop.at, reason) for loop in loops),
            )
            each.attempts[number] = replace(attempt, changes=(), refusals=refusals, choice=None)
        else:
            each.drop(number, reason)


def problem(attempt: Attempt, text: Module, share: float = 1.0) -> str | None:
    """Why the text that was written is not taken: it does not do what the one before did, or
    whether it does cannot be told. None where it is right. Raises OutOfTime where that share of
    the kernel's time is spent."""
    from ptxsw.validate import Proved, validate  # not for what stays as it is

    kernel = attempt.kernel
    budget = kernel.budget.until(share)
    budget.check()
    claims = tuple(dict.fromkeys(claim for c in attempt.changes for claim in c.claims))
    assume = frozenset(kernel.options.assume & ASSUMPTIONS.keys())
    outcome = validate(
        (kernel.module, kernel.function),
        (text, text.kernel(kernel.function.name)),
        claims=claims,
        assume=assume,
        shared_layout=attempt.shared_layout,
        budget=budget,
    )
    return None if isinstance(outcome, Proved) else f"{UNCHECKED}: {outcome}"
