"""Terms evaluated on integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import and_, eq, le, lt, or_, xor

from ptxsw.emulator.node import Term, bottom_up, truncated

Column = tuple[int, ...]
"""A value for each of some threads, or one for all of them."""


_BY_BIT: Mapping[str, Callable[[int, int], int]] = {"and": and_, "or": or_, "xor": xor}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": eq, "ult": lt, "ule": le, "slt": lt, "sle": le,
}  # fmt: skip


def evaluate(term: Term, values: Mapping[Term, int]) -> int:
    """The unsigned value of a term whose atoms, loads and floating-point results are given."""
    results: dict[Term, int] = {}
    for node in bottom_up(results, lambda n: () if n in values else n.args, term):
        if node in values:
            results[node] = values[node] & ((1 << node.width) - 1)
        else:
            results[node] = value_of(node, [results[a] for a in node.args])
    return results[term]


def column(node: Term, args: Sequence[Column], threads: int) -> Column:
    """The unsigned values of a term that is no unknown, from those of its arguments."""
    if all(len(one) == 1 for one in args):
        return (value_of(node, [one[0] for one in args]),)
    if node.kind == "sum":  # most of what addresses are made of
        return _sum(node, args, threads)
    whole = [one * threads if len(one) == 1 else one for one in args]
    by_bit = _BY_BIT.get(node.kind)
    if by_bit is not None:
        return tuple(map(by_bit, *whole))
    compared = _COMPARED.get(node.kind)
    if compared is not None:
        if node.kind in ("slt", "sle"):  # with the sign bit flipped, signed order is unsigned order
            sign = 1 << (node.args[0].width - 1)
            whole = [tuple([value ^ sign for value in one]) for one in whole]
        return tuple(map(int, map(compared, *whole)))
    mask, (first, *rest) = (1 << node.width) - 1, whole
    match node.kind:
        case "zext":
            return first
        case "extract":
            low = int(node.value)
            return tuple([value >> low & mask for value in first])
        case "shl" | "lshr" if len(set(rest[0])) == 1 and rest[0][0] < node.width:
            distance = rest[0][0]
            if node.kind == "lshr":
                return tuple([value >> distance for value in first])
            return tuple([value << distance & mask for value in first])
    return tuple([value_of(node, list(each)) for each in zip(*whole, strict=True)])


def _sum(node: Term, args: Sequence[Column], threads: int) -> Column:
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


def value_of(term: Term, args: list[int]) -> int:
    """The unsigned value of a term that is no unknown, from those of its arguments."""
    width = term.width
    mask = (1 << width) - 1
    inner = term.args[0].width if term.args else width

    def sign(value: int) -> int:
        return value - (1 << inner) if value >> (inner - 1) else value

    match term.kind:
        case "const":
            return int(term.value)
        case "sum":
            constant, coefficients = term.value
            total = sum(c * v for c, v in zip(coefficients, args, strict=True))
            return int(constant + total) & mask
        case "mul":
            product = 1
            for value in args:
                product = product * value & mask
            return product
        case "udiv":
            return mask if args[1] == 0 else args[0] // args[1]
        case "urem":
            return args[0] if args[1] == 0 else args[0] % args[1]
        case "sdiv" | "srem":
            a, b = sign(args[0]), sign(args[1])
            if b == 0:
                return (1 if a < 0 else mask) if term.kind == "sdiv" else args[0]
            return truncated(a, b)[0 if term.kind == "sdiv" else 1] & mask
        case "and":
            return args[0] & args[1]
        case "or":
            return args[0] | args[1]
        case "xor":
            return args[0] ^ args[1]
        case "not":
            return 1 - args[0]
        case "shl":
            return args[0] << args[1] & mask if args[1] < width else 0
        case "lshr":
            return args[0] >> args[1] if args[1] < width else 0
        case "ashr":
            return sign(args[0]) >> min(args[1], width - 1) & mask
        case "extract":
            return args[0] >> int(term.value) & mask
        case "concat":
            return args[0] << term.args[1].width | args[1]
        case "zext":
            return args[0]
        case "sext":
            return sign(args[0]) & mask
        case "eq":
            return int(args[0] == args[1])
        case "ult":
            return int(args[0] < args[1])
        case "ule":
            return int(args[0] <= args[1])
        case "slt":
            return int(sign(args[0]) < sign(args[1]))
        case "sle":
            return int(sign(args[0]) <= sign(args[1]))
        case "ite":
            return args[1] if args[0] else args[2]
    raise KeyError(term)
