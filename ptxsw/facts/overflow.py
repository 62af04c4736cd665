"""Index sums that must not overflow: what that means, and its proof from the conditions of a path.

`base + 4 * sext(i + 1)` is `base + 4 * sext(i) + 4` only where `i + 1` does not overflow.
"""

from __future__ import annotations

from msgspec import Struct

from ptxsw.changes.claim import Obligation
from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, split
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.terms import Terms


class NoOverflow(Struct, frozen=True):
    """`value + step` keeps its sign- (or zero-) extended value."""

    value: Term
    step: int
    signed: bool


class ComparedSides:
    """What conditions compare, up to a constant, remembered by condition."""

    def __init__(self) -> None:
        self._parts: dict[Term, frozenset[Varying]] = {}

    def of(self, condition: Term) -> frozenset[Varying]:
        """The sides of all comparisons in a condition."""
        parts = self._parts.get(condition)
        if parts is None:
            seen = set[Term]()
            for node in bottom_up(seen, _joined, condition):
                seen.add(node)
            sides = (side for node in seen if not _joined(node) for side in node.args)
            parts = self._parts[condition] = frozenset(map(varying_part, sides))
        return parts


def discharge(
    terms: Terms,
    solver: Solver,
    need: NoOverflow,
    conditions: frozenset[Term],
    compared: ComparedSides,
) -> Obligation | None:
    """The proof that the sum does not overflow, from the path's conditions, if there is one.

    Z3 is asked only where a condition bounds this very index: it is compared up to a constant.
    """
    claim = no_overflow(terms, need)
    if claim.kind is op.CONST:
        return Obligation(claim) if claim.value else None
    index = varying_part(need.value)
    bounds = frozenset(c for c in conditions if index in compared.of(c))
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


Varying = tuple[int, tuple[tuple[Term, int], ...]]


def varying_part(term: Term) -> Varying:
    """The same for terms that differ by a constant, and for no others."""
    return term.width, split(term)[1]


def _joined(condition: Term) -> tuple[Term, ...]:
    """The conditions that one is made of."""
    return condition.args if condition.kind in (op.NOT, op.AND, op.OR, op.XOR) else ()
