"""A proof made of the proofs of some steps: the first text equals the next one, and so on to the
second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.steps import Replaced, RewriteStep
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from ptxsw.ptx.errors import ParseError
from ptxsw.ptx.ir import Function, Module
from ptxsw.validate import Outcome, Proved, Unproved, validate
from ptxsw.verify.blocks import in_blocks_of

Text = tuple[Module, Function]


def composed(
    old: Text, new: Text, steps: Sequence[RewriteStep], budget: Budget,
    assume: Iterable[str] = DEFAULT_ASSUME,
) -> Outcome:  # fmt: skip
    """What the proofs of all steps from `old` to `new` say together: nothing where one of them
    fails. What a step says is proved, never believed. Raises OutOfTime."""
    assumptions: dict[str, None] = {}
    loops, before = 0, old
    try:
        for number, text in enumerate(_texts(old, new, steps)):
            step = steps[number]
            outcome = validate(
                before, text, claims=step.claims, assume=assume, shared_layout=step.layout,
                budget=budget,
            )  # fmt: skip
            if not isinstance(outcome, Proved):
                return Unproved(f"step {number + 1} of {len(steps)}: {outcome}")
            assumptions |= dict.fromkeys(outcome.assumptions)
            loops, before = loops + outcome.loops, text
    except (ValueError, ParseError, StopIteration) as error:
        return Unproved(f"the steps do not fit the files: {error}")
    return Proved(tuple(assumptions), loops)


def _texts(old: Text, new: Text, steps: Sequence[RewriteStep]) -> Iterator[Text]:
    """The text behind each step. Raises ValueError for edits that do not fit the text, and
    ParseError where they make no PTX of it."""
    module, kernel = old
    whole, span = module.source.text, kernel.span
    for step in steps[:-1]:
        edits = [(span.start + start, span.start + end, now) for start, end, now in step.edits]
        text = in_blocks_of(kernel, parse(edited(whole, edits)))
        yield text, next(f for f in text.kernels if f.name == kernel.name)
    yield new


def edited(text: str, edits: Sequence[Replaced]) -> str:
    """A text with some places replaced, in order. Raises ValueError where one lies outside."""
    parts, at = [], 0
    for start, end, new in edits:
        if not at <= start <= end <= len(text):
            raise ValueError("an edit lies outside the text")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])
