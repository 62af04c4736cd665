"""Terms as expressions of Z3, and how large a circuit Z3 makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptxsw.terms import op
from ptxsw.terms.node import Term, ones, walk_until

# Kinds that the generalised form replaces by variables, too.
COSTLY = op.QUOTIENTS | op.SHIFTS | {op.MUL}
_BOOLEAN = op.COMPARISONS | {op.NOT}


class Z3Terms:
    """Translates terms of one table, each once. `context`: where the expressions live; without
    one, Z3's main context. Z3 mixes expressions of one context only."""

    def __init__(self, context: Any = None) -> None:
        import z3

        self._z3, self._context = z3, context
        self._memo: tuple[dict[Term, Any], dict[Term, Any]] = ({}, {})

    def expression(self, term: Term, *, exact: bool = True) -> Any:
        """The Z3 expression of a term: a Bool for width 1, else a BitVec. Uninterpreted values
        become constants, one for each distinct value; unless `exact`, so do products, shifts and
        quotients."""
        memo = self._memo[exact]
        for node in walk_until(memo, term):
            memo[node] = self._translation(node, [memo[a] for a in node.args], exact)
        return memo[term]

    def _translation(self, node: Term, args: list[Any], exact: bool) -> Any:
        z3 = self._z3
        if node.kind in op.OPAQUE or (node.kind in COSTLY and not exact):
            name = variable_name(node)
            if node.width == 1:
                return z3.Bool(name, self._context)
            return z3.BitVec(name, node.width, self._context)
        if node.kind is op.CONST:
            if node.width == 1:
                return z3.BoolVal(bool(node.value), self._context)
            return self._number(int(node.value), node.width)
        if node.width == 1 or node.kind in _BOOLEAN:
            return self._boolean(node, args)
        if node.kind is op.ITE:
            return z3.If(args[0], *map(self._bits, args[1:]))
        return self._vector(node, [self._bits(a) for a in args])

    def _number(self, value: int, width: int) -> Any:
        return self._z3.BitVecVal(value, width, self._context)

    def _bits(self, value: Any) -> Any:
        """A Bool as a bit vector of width 1."""
        z3 = self._z3
        return z3.If(value, self._number(1, 1), self._number(0, 1)) if z3.is_bool(value) else value

    def _boolean(self, node: Term, args: list[Any]) -> Any:
        z3 = self._z3
        match node.kind:
            case op.EQ:
                return args[0] == args[1]
            case op.ULT | op.ULE | op.SLT | op.SLE:
                a, b = map(self._bits, args)
                if node.kind in op.SIGNED:
                    return a < b if node.kind is op.SLT else a <= b
                return z3.ULT(a, b) if node.kind is op.ULT else z3.ULE(a, b)
            case op.NOT:
                return z3.Not(args[0])
            case op.AND | op.MUL:
                return z3.And(*args)
            case op.OR:
                return z3.Or(*args)
            case op.XOR:
                return z3.Xor(*args)
            case op.ITE:
                return z3.If(*args)
            case op.EXTRACT:
                low = int(node.value)
                return z3.Extract(low, low, args[0]) == 1
        raise KeyError(node.kind)

    def _vector(self, node: Term, bits: list[Any]) -> Any:
        z3, width = self._z3, node.width
        match node.kind:
            case op.SUM:
                constant, coefficients = node.value
                total = self._number(constant, width)
                for value, coefficient in zip(bits, coefficients, strict=True):
                    total = total + value * self._number(coefficient, width)
                return total
            case op.MUL:
                product = bits[0]
                for value in bits[1:]:
                    product = product * value
                return product
            case op.UDIV:
                return z3.UDiv(*bits)
            case op.UREM:
                return z3.URem(*bits)
            case op.SDIV:
                return bits[0] / bits[1]
            case op.SREM:
                return z3.SRem(*bits)
            case op.AND:
                return bits[0] & bits[1]
            case op.OR:
                return bits[0] | bits[1]
            case op.XOR:
                return bits[0] ^ bits[1]
            case op.SHL:
                return bits[0] << bits[1]
            case op.LSHR:
                return z3.LShR(*bits)
            case op.ASHR:
                return bits[0] >> bits[1]
            case op.EXTRACT:
                return z3.Extract(int(node.value) + width - 1, int(node.value), bits[0])
            case op.CONCAT:
                return z3.Concat(*bits)
            case op.ZEXT:
                return z3.ZeroExt(width - bits[0].size(), bits[0])
            case op.SEXT:
                return z3.SignExt(width - bits[0].size(), bits[0])
        raise KeyError(node.kind)


def variable_name(node: Term) -> str:
    """The variable that stands for an uninterpreted term."""
    return f"{node.value if node.kind is op.ATOM else node.kind}!{node.id}"


# Z3 asks about bits: it writes products and quotients out as gates, a product of 64 bits in 6 MB, a
# quotient in 100 MB and more. Its limit of work (`rlimit`) does not count that, and its limit of
# memory counts what else the process holds. So the size is known before the question is asked, and
# is the same wherever it is asked.
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
