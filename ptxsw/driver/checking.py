"""Is the text right that a rewrite has written? Nothing else is made of it before that is known."""

from __future__ import annotations

from ptxsw.changes.assumptions import ASSUMPTIONS
from ptxsw.ptx.ir import Module
from ptxsw.rewrites.base import Attempt
from ptxsw.validate import Proved, validate

UNCHECKED = "the text written for it could not be proved right"


def problem(attempt: Attempt, text: Module, share: float = 1.0) -> str | None:
    """Why the text that was written is not taken: it does not do what the one before did, or
    whether it does cannot be told. None where it is right. Raises OutOfTime where that share of
    the kernel's time is spent."""
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
