"""Fields of a term: bits of it that lie side by side, and what they are made of.

`Terms.extract` makes them, inner ones first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.terms import op
from ptxsw.terms.node import Term, ones

Field = tuple[Term, int, int]
"""A term, the lowest bit of the field and its width."""


def field_parts(field: Field) -> Sequence[Field]:
    """The fields that bits of a term are made of; none where they are a field of their own."""
    a, low, width = field
    if width == a.width:
        return ()
    match a.kind:
        case op.EXTRACT:
            return [(a.args[0], a.value + low, width)]
        case op.SUM:
            # The low bits of a sum are the sum of the low bits; higher bits likewise where no
            # carry can come from below.
            above = terms_above(a, low)
            return () if above is None else [(t, 0, width) for t, _ in above]
        case op.MUL if low == 0:
            return [(factor, 0, width) for factor in a.args]
        case op.AND | op.OR | op.XOR:
            return [(arg, low, width) for arg in a.args]
        case op.ZEXT | op.SEXT:
            (inner,) = a.args
            if low < inner.width:
                return [(inner, low, min(width, inner.width - low))]
            return [(inner, inner.width - 1, 1)] if a.kind is op.SEXT else ()
        case op.CONCAT:
            high, lower = a.args
            if low >= lower.width:
                return [(high, low - lower.width, width)]
            return [(lower, low, width)] if low + width <= lower.width else ()
        case op.ITE:
            return [(arm, low, width) for arm in a.args[1:]]
    return ()


def terms_above(a: Term, low: int) -> Sequence[tuple[Term, int]] | None:
    """The terms of a sum that are multiples of a power of two, 2^low, each with its coefficient;
    None where the others, with the constant's low bits, may carry into bit `low`."""
    constant, coefficients = a.value
    mask = (1 << low) - 1
    above, most = [], constant & mask  # most: no larger are the others together
    for term, coefficient in zip(a.args, coefficients, strict=True):
        if coefficient & mask:
            most += ones(term) * coefficient
        else:
            above.append((term, coefficient))
    return above if most <= mask else None
