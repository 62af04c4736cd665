"""Is the text right that a rewrite has written? Nothing else is made of it before that is known."""

from __future__ import annotations

from ptxsw.codegen.lower_bank_conflicts import PermutedBanks
from ptxsw.ir import Module
from ptxsw.rewrites import joint
from ptxsw.rewrites.base import Made
from ptxsw.validate import ASSUMPTIONS, Proved, validate

UNCHECKED = "the text written for it could not be proved right"


def problem(made: Made, text: Module, share: float) -> str | None:
    """Why the text that was written is not taken: it does not do what the one before did, or
    whether it does cannot be told. None where it is right. `share` is that of the kernel's time
    until which shuffles are checked. Raises OutOfTime."""
    kernel = made.kernel
    if joint.follows_lines(made):
        wrong = joint.check(kernel, made.changes, text, share)
        return None if wrong is None else f"a bug in ptxsw: {wrong}"
    kernel.budget.check()
    layouts = [c.detail.permutation for c in made.changes if isinstance(c.detail, PermutedBanks)]
    outcome = validate(
        (kernel.module, kernel.function),
        (text, text.kernel(kernel.function.name)),
        claims=tuple(dict.fromkeys(claim for c in made.changes for claim in c.claims)),
        assume=kernel.options.assume & ASSUMPTIONS.keys(),
        shared_layout=layouts[0] if layouts else None,
        budget=kernel.budget,
    )
    return None if isinstance(outcome, Proved) else f"{UNCHECKED}: {outcome}"
