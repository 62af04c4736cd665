"""Terms evaluated on integers: in one thread, or in many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from math import prod
from operator import and_, mul, or_, xor
from typing import TypeAlias, assert_never

from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, truncated

Column = tuple[int, ...]
"""A value for each of some threads, or one for all of them."""

Operation: TypeAlias = Callable[..., int]
"""The unsigned value of a term, from those of its arguments."""


def evaluate(term: Term, values: Mapping[Term, int]) -> int:
    """The unsigned value of a term whose atoms, loads and floating-point results are given."""
    results: dict[Term, int] = {}
    for node in bottom_up(results, lambda n: () if n in values else n.args, term):
        if node in values:
            results[node] = values[node] & ((1 << node.width) - 1)
        else:
            results[node] = value_of(node, [results[a] for a in node.args])
    return results[term]


def value_of(term: Term, args: Iterable[int]) -> int:
    """The unsigned value of a term that is no unknown, from those of its arguments."""
    return operation(term)(*args)


def column(term: Term, args: Sequence[Column]) -> Column:
    """The same in each of many threads."""
    if all(len(values) == 1 for values in args):
        return (value_of(term, [value for (value,) in args]),)
    whole = [repeat(values[0]) if len(values) == 1 else values for values in args]
    return tuple(map(operation(term), *whole))


def operation(term: Term) -> Operation:
    """What a term that is no unknown computes. It is decided once for each term."""
    known = term.operation
    if known is None:
        known = term.operation = _operation(term)
    return known


def _operation(term: Term) -> Operation:
    width = term.width
    mask = (1 << width) - 1
    sign = 1 << (term.args[0].width if term.args else width) - 1  # of an argument
    match term.kind:
        case op.CONST:
            constant = int(term.value)
            return lambda: constant
        case op.SUM:
            return _sum(term.value[0], term.value[1], mask)
        case op.MUL:
            return lambda *factors: prod(factors) & mask
        case op.UDIV:
            return lambda a, b: a // b if b else mask
        case op.UREM:
            return lambda a, b: a % b if b else a
        case op.SDIV:
            return lambda a, b: _divided(a, b, sign)[0] & mask if b else 1 if a >= sign else mask
        case op.SREM:
            return lambda a, b: _divided(a, b, sign)[1] & mask if b else a
        case op.AND:
            return and_
        case op.OR:
            return or_
        case op.XOR:
            return xor
        case op.NOT:
            return lambda a: 1 - a
        case op.SHL:
            return lambda a, by: a << by & mask if by < width else 0
        case op.LSHR:
            return lambda a, by: a >> by if by < width else 0
        case op.ASHR:
            return lambda a, by: _signed(a, sign) >> min(by, width - 1) & mask
        case op.EXTRACT:
            low = int(term.value)
            return lambda a: a >> low & mask
        case op.CONCAT:
            shift = term.args[1].width
            return lambda high, low: high << shift | low
        case op.ZEXT:
            return lambda a: a
        case op.SEXT:
            return lambda a: _signed(a, sign) & mask
        case op.EQ:
            return lambda a, b: int(a == b)
        case op.ULT:
            return lambda a, b: int(a < b)
        case op.ULE:
            return lambda a, b: int(a <= b)
        # With the sign bit flipped, the order of signed numbers is that of unsigned ones.
        case op.SLT:
            return lambda a, b: int(a ^ sign < b ^ sign)
        case op.SLE:
            return lambda a, b: int(a ^ sign <= b ^ sign)
        case op.ITE:
            return lambda holds, yes, no: yes if holds else no
        case op.ATOM | op.APPLY | op.FLOAT:
            raise KeyError(term)
        case _:
            assert_never(term.kind)


def _sum(constant: int, coefficients: Sequence[int], mask: int) -> Operation:
    """Most sums are of one or two terms."""
    match coefficients:
        case (one,):
            return lambda a: constant + one * a & mask
        case (one, other):
            return lambda a, b: constant + one * a + other * b & mask
    return lambda *args: constant + sum(map(mul, coefficients, args)) & mask


def _signed(value: int, sign: int) -> int:
    return (value ^ sign) - sign


def _divided(a: int, b: int, sign: int) -> tuple[int, int]:
    return truncated(_signed(a, sign), _signed(b, sign))
