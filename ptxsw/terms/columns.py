"""Terms evaluated on the integers of many threads at once.

For one thread after the other this says what `evaluate.value_of` says, which decides for each what
kind of term it is. Here that is decided once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import and_, eq, le, lt, or_, xor

from ptxsw.terms import op
from ptxsw.terms.evaluate import value_of
from ptxsw.terms.node import Term
from ptxsw.terms.op import Op

Column = tuple[int, ...]
"""A value for each of some threads, or one for all of them."""

_BY_BIT: Mapping[Op, Callable[[int, int], int]] = {op.AND: and_, op.OR: or_, op.XOR: xor}
_COMPARED: Mapping[Op, Callable[[int, int], bool]] = {
    op.EQ: eq, op.ULT: lt, op.ULE: le, op.SLT: lt, op.SLE: le,
}  # fmt: skip
_BY_NUMBER = op.QUOTIENTS | op.SHIFTS
"""Terms whose second argument is most often the same for all threads."""


def column(node: Term, args: Sequence[Column], threads: int) -> Column:
    """The unsigned values of a term that is no unknown, from those of its arguments."""
    if all(len(one) == 1 for one in args):
        return (value_of(node, [one[0] for one in args]),)
    if node.kind is op.SUM:  # most of what addresses are made of
        return _sum(node, args)
    if node.kind in _BY_NUMBER and len(set(args[1])) == 1:
        return _by_number(node, args[0], args[1][0])
    whole = [one * threads if len(one) == 1 else one for one in args]
    by_bit = _BY_BIT.get(node.kind)
    if by_bit is not None:
        return tuple(map(by_bit, *whole))
    compared = _COMPARED.get(node.kind)
    if compared is not None:
        if node.kind in op.SIGNED:
            whole = [_ordered(one, node.args[0].width) for one in whole]
        return tuple(map(int, map(compared, *whole)))
    mask, first = (1 << node.width) - 1, whole[0]
    match node.kind:
        case op.ZEXT:
            return first
        case op.SEXT:
            sign = 1 << (node.args[0].width - 1)
            return tuple([((value ^ sign) - sign) & mask for value in first])
        case op.EXTRACT:
            low = int(node.value)
            return tuple([value >> low & mask for value in first])
        case op.MUL if len(whole) == 2:
            return tuple([a * b & mask for a, b in zip(*whole, strict=True)])
        case op.ITE:
            return tuple([yes if holds else no for holds, yes, no in zip(*whole, strict=True)])
    return tuple([value_of(node, list(each)) for each in zip(*whole, strict=True)])


def _sum(node: Term, args: Sequence[Column]) -> Column:
    constant, coefficients = node.value
    mask = (1 << node.width) - 1
    apart: list[tuple[int, Column]] = []
    for coefficient, one in zip(coefficients, args, strict=True):
        if len(one) == 1:
            constant += coefficient * one[0]
        else:
            apart.append((coefficient, one))
    (coefficient, first), *rest = apart
    total = [constant + coefficient * value for value in first]
    for coefficient, one in rest:
        total = [before + coefficient * value for before, value in zip(total, one, strict=True)]
    return tuple([value & mask for value in total])


def _by_number(node: Term, values: Column, number: int) -> Column:
    """Shifts by a distance, quotients and remainders by a divisor."""
    mask, sign = (1 << node.width) - 1, 1 << (node.width - 1)
    if number == 0 or (node.kind in op.SHIFTS and number >= node.width):
        return tuple([value_of(node, [value, number]) for value in values])
    match node.kind:
        case op.SHL:
            return tuple([value << number & mask for value in values])
        case op.LSHR:
            return tuple([value >> number for value in values])
        case op.ASHR:
            return tuple([((value ^ sign) - sign) >> number & mask for value in values])
        case op.UDIV:
            return tuple([value // number for value in values])
        case op.UREM:
            return tuple([value % number for value in values])
    # Python rounds down, PTX toward zero: magnitudes are divided, and signs put back.
    size = number if number < sign else mask + 1 - number
    if node.kind is op.SREM:
        return tuple([v % size if v < sign else -((mask + 1 - v) % size) & mask for v in values])
    towards = 1 if number < sign else -1
    return tuple(
        [(v // size if v < sign else -((mask + 1 - v) // size)) * towards & mask for v in values]
    )


def _ordered(values: Column, width: int) -> Column:
    """With the sign bit flipped, the order of signed numbers is that of unsigned ones."""
    sign = 1 << (width - 1)
    return tuple([value ^ sign for value in values])
