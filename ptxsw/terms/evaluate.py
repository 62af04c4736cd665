"""Terms evaluated on integers."""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.terms import op
from ptxsw.terms.node import Term, bottom_up, truncated


def evaluate(term: Term, values: Mapping[Term, int]) -> int:
    """The unsigned value of a term whose atoms, loads and floating-point results are given."""
    results: dict[Term, int] = {}
    for node in bottom_up(results, lambda n: () if n in values else n.args, term):
        if node in values:
            results[node] = values[node] & ((1 << node.width) - 1)
        else:
            results[node] = value_of(node, [results[a] for a in node.args])
    return results[term]


def value_of(term: Term, args: list[int]) -> int:
    """The unsigned value of a term that is no unknown, from those of its arguments."""
    width = term.width
    mask = (1 << width) - 1
    inner = term.args[0].width if term.args else width

    def sign(value: int) -> int:
        return value - (1 << inner) if value >> (inner - 1) else value

    match term.kind:
        case op.CONST:
            return int(term.value)
        case op.SUM:
            constant, coefficients = term.value
            total = sum(c * v for c, v in zip(coefficients, args, strict=True))
            return int(constant + total) & mask
        case op.MUL:
            product = 1
            for value in args:
                product = product * value & mask
            return product
        case op.UDIV:
            return mask if args[1] == 0 else args[0] // args[1]
        case op.UREM:
            return args[0] if args[1] == 0 else args[0] % args[1]
        case op.SDIV | op.SREM:
            a, b = sign(args[0]), sign(args[1])
            if b == 0:
                return (1 if a < 0 else mask) if term.kind is op.SDIV else args[0]
            return truncated(a, b)[0 if term.kind is op.SDIV else 1] & mask
        case op.AND:
            return args[0] & args[1]
        case op.OR:
            return args[0] | args[1]
        case op.XOR:
            return args[0] ^ args[1]
        case op.NOT:
            return 1 - args[0]
        case op.SHL:
            return args[0] << args[1] & mask if args[1] < width else 0
        case op.LSHR:
            return args[0] >> args[1] if args[1] < width else 0
        case op.ASHR:
            return sign(args[0]) >> min(args[1], width - 1) & mask
        case op.EXTRACT:
            return args[0] >> int(term.value) & mask
        case op.CONCAT:
            return args[0] << term.args[1].width | args[1]
        case op.ZEXT:
            return args[0]
        case op.SEXT:
            return sign(args[0]) & mask
        case op.EQ:
            return int(args[0] == args[1])
        case op.ULT:
            return int(args[0] < args[1])
        case op.ULE:
            return int(args[0] <= args[1])
        case op.SLT:
            return int(sign(args[0]) < sign(args[1]))
        case op.SLE:
            return int(sign(args[0]) <= sign(args[1]))
        case op.ITE:
            return args[1] if args[0] else args[2]
    raise KeyError(term)
