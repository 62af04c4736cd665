"""How large a circuit Z3 makes of a question, before it counts any work.

Z3 asks about bits: it writes products and quotients out as gates, a product of 64 bits in 6 MB, a
quotient in 100 MB and more. Its limit of work (`rlimit`) does not count that, and its limit of
memory counts what else the process holds. So the size is known before the question is asked, and is
the same wherever it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.terms import op
from ptxsw.terms.node import Term, ones

MOST_CELLS = 40_000
"""Cells of all products and quotients in a question: some 60 MB."""

_OF_A_QUOTIENT = 15  # an unknown divisor is subtracted or not at each bit, and the sign is separate


def is_too_large(nodes: Iterable[Term], *, exact: bool) -> bool:
    """Does a question of these terms take more memory than any answer is worth? In a form that is
    not `exact` products and quotients are variables."""
    cells = 0
    for node in nodes:
        cells += _cells(node, exact)
        if cells > MOST_CELLS:
            return True
    return False


def _cells(node: Term, exact: bool) -> int:
    """Cells of the adders that a term is written out as, a bit of one number for a bit of
    another."""
    if node.kind is op.SUM:
        return node.width * sum(map(_added, node.value[1]))
    if not exact or node.kind in op.OPAQUE:
        return 0
    if node.kind in op.QUOTIENTS:
        known = node.args[1].kind is op.CONST
        return node.width**2 * (1 if known else _OF_A_QUOTIENT)
    if node.kind is op.MUL:
        bits = [ones(part).bit_length() for part in node.args]
        return sum(min(node.width, one) * node.width for one in bits[1:])
    return 0


def _added(coefficient: int) -> int:
    """How many shifted copies make up a multiple; for a small or regular one it is one or two."""
    return (coefficient ^ (3 * coefficient)).bit_count()
