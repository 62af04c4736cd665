"""Index sums that must not overflow: what that means, and its proof from the conditions of a path.

`base + 4 * sext(i + 1)` is `base + 4 * sext(i) + 4` only where `i + 1` does not overflow.
"""

from __future__ import annotations

from msgspec import Struct

from ptxsw.emulator.node import Term, bottom_up, split
from ptxsw.emulator.solver import Proved, Solver
from ptxsw.emulator.terms import Terms


class NoOverflow(Struct, frozen=True):
    """`value + step` keeps its sign- (or zero-) extended value."""

    value: Term
    step: int
    signed: bool


class Obligation(Struct, frozen=True):
    """What was proved: `claim` holds wherever all of `given` do."""

    claim: Term
    given: frozenset[Term] = frozenset()


def discharge(
    terms: Terms, solver: Solver, need: NoOverflow, conditions: frozenset[Term]
) -> Obligation | None:
    """The proof that the sum does not overflow, from the path's conditions, if there is one.

    Z3 is asked only where a condition bounds this very index: it is compared up to a constant.
    """
    claim = no_overflow(terms, need)
    if claim.kind == "const":
        return Obligation(claim) if claim.value else None
    bounds = frozenset(c for c in conditions if _bounds(c, need.value))
    if bounds and isinstance(solver.prove(claim, bounds), Proved):
        return Obligation(claim, bounds)
    return None


def no_overflow(terms: Terms, need: NoOverflow) -> Term:
    """The condition that a sum does not overflow."""
    value, step, width = need.value, need.step, need.value.width
    if need.signed:
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        if step >= 0:
            return terms.sle(value, terms.const(high - step, width))
        return terms.sle(terms.const(low - step, width), value)
    if step >= 0:
        return terms.ule(value, terms.const((1 << width) - 1 - step, width))
    return terms.ule(terms.const(-step, width), value)


def varying_part(term: Term) -> tuple[int, tuple[tuple[Term, int], ...]]:
    """The same for terms that differ by a constant, and for no others."""
    return term.width, split(term)[1]


def _bounds(condition: Term, value: Term) -> bool:
    """Does a comparison in the condition speak of this very value, up to a constant?"""
    seen, wanted = set[Term](), varying_part(value)
    for node in bottom_up(seen, _joined, condition):
        seen.add(node)
        if not _joined(node) and any(varying_part(side) == wanted for side in node.args):
            return True
    return False


def _joined(condition: Term) -> tuple[Term, ...]:
    """The conditions that one is made of."""
    return condition.args if condition.kind in ("not", "and", "or", "xor") else ()
