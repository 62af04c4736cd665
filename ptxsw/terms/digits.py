"""What a flat index is taken apart into: quotients and remainders.

    t / n    t % n    t >> s    t & m    and what a compiler makes of them where n is a number

They jump at the end of a row, wherever that is; inside a row a quotient stays as it is and a
remainder grows by what the index grows by.
"""

from __future__ import annotations

from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, split

_QUOTIENTS = frozenset({op.UDIV, op.SDIV, op.LSHR, op.ASHR})
_REMAINDERS = frozenset({op.UREM, op.SREM, op.AND})
_DIGITS = _QUOTIENTS | _REMAINDERS | {op.EXTRACT}


def unextended(term: Term) -> Term:
    """The term that is sign- or zero-extended into this one, or the term itself."""
    return term.args[0] if term.kind in op.EXTENSIONS else term


def is_digit(term: Term) -> bool:
    """Is it a quotient or a remainder that may differ between lanes?"""
    return term.kind in _DIGITS and term.variance is Variance.LANE


def is_remainder(term: Term) -> bool:
    """Is it a digit that grows with what it is taken from?"""
    return term.kind in _REMAINDERS or (term.kind is op.EXTRACT and term.value == 0)


def digits_in(value: Term) -> tuple[Term, ...]:
    """The digits that a value is the sum of, up to what the lanes of a warp share; none where
    anything else in it differs between them."""
    if value.kind not in _HOLDING:
        return ()
    digits = []
    for item, _ in split(value)[1]:
        inner = unextended(item)
        if is_digit(inner):
            digits.append(inner)
        elif item.variance is Variance.LANE:
            return ()
    return tuple(digits)


_HOLDING = _DIGITS | op.EXTENSIONS | {op.SUM}
