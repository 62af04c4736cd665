"""Which rewrites a uniform loop cannot hold."""

from __future__ import annotations

from collections.abc import Callable

from ptxsw.changes.plan import ServedLoad, UniformLoop


def conflicts_with_uniform_loops(
    loops: tuple[UniformLoop, ...],
) -> Callable[[ServedLoad], str | None]:
    """Why a rewrite cannot be made once these loops are uniform; None where it can.

    Lanes that have left a loop run through it with the others, and take any side of a branch
    that they do not all take: no active mask tells there who takes part, and no vote can ask.
    What they keep of a source that they would have gone around is no longer what it was.
    """
    around = {index: loop for loop in loops for index in loop.inside}

    def reason(rewrite: ServedLoad) -> str | None:
        loop = around.get(rewrite.dest)
        if loop is not None and rewrite.proof.bypasses:
            return "in the uniform loop, a path bypasses its source"
        if loop is None or rewrite.is_copy or rewrite.dest in loop.together:
            return None
        return "in the uniform loop, lanes do not reach it together"

    return reason
