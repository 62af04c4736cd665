"""Operands from trees of the grammar, for statements that regular expressions leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ptxsw.parser.scope import Scope
from ptxsw.ptx.ir import (
    Args,
    Float,
    Int,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Sink,
    Special,
    Sum,
    Symbol,
    Vec,
)

if TYPE_CHECKING:
    from lark import Token, Tree
from ptxsw.parser.operands import (
    ELEMENTS,
    HALVES,
    LIMIT,
    LISTED,
    Misread,
    Unreadable,
    int_of,
    with_parts,
)


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}


def _constant(value: int) -> Int:
    """A folded constant, kept to 64 bits as PTX computes it."""
    if -(LIMIT >> 1) <= value < LIMIT:
        return Int(value)
    return Int((value + (LIMIT >> 1)) % LIMIT - (LIMIT >> 1))


class OperandBuilder:
    """Operands from the grammar's trees, with names resolved in a scope."""

    def __init__(self, scope: Scope, element_bytes: Callable[[str], int]) -> None:
        self._scope = scope
        self._element_bytes = element_bytes

    def operand(self, node: Tree[Any]) -> Operand:
        """The operand a tree stands for. Raises Misread."""
        return cast(Operand, getattr(self, f"_{node.data}")(*node.children))

    def _name(self, name: Token, *parts: Token) -> Operand:
        if name == "_" and not parts:
            return Sink()
        base = self._scope.resolve(str(name))
        try:
            return with_parts(base, tuple(str(p)[1:] for p in parts))
        except Unreadable:
            assert type(base) is Vec
            letters = " and ".join(f".{letter}" for letter in "xyzw"[: len(base.elements)])
            raise _misread(f"the vector register {name} has {letters} only", name) from None

    def _element(self, name: Token, index: Tree[Any]) -> Operand:
        base, at = self._scope.resolve(str(name)), self.operand(index)
        if type(base) is Symbol and type(at) is Int:
            return Symbol(base.name, at.value * self._element_bytes(base.name), base.scope)
        raise _misread("expected a constant index into a variable", name)

    def _integer(self, token: Token) -> Operand:
        try:
            return Int(int_of(str(token)))
        except ValueError:
            raise _misread("expected an integer of at most 64 bits", token) from None

    def _bits_of_float(self, token: Token) -> Operand:
        digits = str(token)[2:]
        return Float(int(digits, 16), 4 * len(digits))

    def _decimal(self, token: Token) -> Operand:
        import struct

        return Float(struct.unpack("<Q", struct.pack("<d", float(token)))[0], 64)

    def _address(self, base: Tree[Any], *extra: Tree[Any]) -> Operand:
        at = self.operand(base)
        if type(at) in (Vec, RegisterPart):
            token = next(base.scan_values(lambda _: True), None)
            what = "a vector" if type(at) is Vec else "a part of one"
            raise _misread(f"expected a register or a name as address, not {what}", token)
        if type(at) is Special:
            raise _undeclared(at, base)
        if type(at) not in _BASES:
            token = next(base.scan_values(lambda _: True), None)
            raise _misread("expected a register, a name or a number as address", token)
        rest = tuple(self.operand(e) for e in extra)
        if type(at) is Sum:
            return Mem(at.base, at.offset, rest)
        if type(at) is Symbol and at.offset:
            return Mem(Symbol(at.name, 0, at.scope), at.offset, rest)
        return Mem(at, 0, rest)

    def _marked(self, *parts: Any) -> Operand:
        return RegisterPart(self._address(*parts[:-1]), str(parts[-1])[1:])

    def _applied(self, name: Token, *_: Tree[Any] | None) -> Operand:
        raise _misread(f"'{name}(...)' can only initialise a variable", name)

    def _text(self, token: Token) -> Operand:
        raise _misread("expected an operand, not a text", token)

    def _vector(self, *elements: Tree[Any] | None) -> Operand:
        if elements == (None,):
            raise Misread("expected a register, a name or a number in the vector", 0, 1)
        return Vec(self._elements(elements, ELEMENTS, "a vector"))

    def _list(self, *elements: Tree[Any] | None) -> Operand:
        return Args(self._elements(elements, LISTED, "a list"))

    def _elements(
        self, nodes: tuple[Tree[Any] | None, ...], allowed: frozenset[type], what: str
    ) -> tuple[Operand, ...]:
        given = [(node, self.operand(node)) for node in nodes if node is not None]
        for node, element in given:
            if type(element) not in allowed:
                token = next(node.scan_values(lambda _: True), None)
                raise _misread(f"expected a register, a name or a number in {what}", token)
        return tuple(element for _, element in given)

    def _value(self, node: Tree[Any]) -> Operand:
        """An operand inside an expression, where `(a)` only groups."""
        operand = self.operand(node)
        while type(operand) is Args and len(operand.elements) == 1:
            operand = operand.elements[0]
        return operand

    def _binary(self, left: Tree[Any], sign: Token, right: Tree[Any]) -> Operand:
        a, b = self._value(left), self._value(right)
        if type(a) is Int and type(b) is Int:
            return _constant(_BINARY[str(sign)](a.value, b.value))
        if sign == "|":
            if type(a) not in HALVES or type(b) not in HALVES:
                raise _misread("expected a register on both sides of '|'", sign)
            return Pair(a, b)
        if sign in "+-" and type(b) is Int:
            offset = b.value if sign == "+" else -b.value
            if type(a) is Symbol:
                return Symbol(a.name, a.offset + offset, a.scope)
            if type(a) is Sum:
                return Sum(a.base, a.offset + offset)
            if type(a) is Reg:
                return Sum(a, offset)
        if type(a) is Special:
            raise _undeclared(a, left)
        raise _misread("expected a constant expression, a register or a symbol plus a number", sign)

    def _ternary(self, condition: Tree[Any], yes: Tree[Any], no: Tree[Any]) -> Operand:
        return self._value(yes) if self._fold(condition) else self._value(no)

    def _prefix(self, sign: Token, node: Tree[Any]) -> Operand:
        operand = self._value(node)
        if type(operand) is Float:
            return Float(operand.bits ^ (sign == "-") << (operand.width - 1), operand.width)
        if type(operand) is not Int:
            raise _misread(f"expected a number after '{sign}'", sign)
        return _constant(-operand.value if sign == "-" else operand.value)

    def _negation(self, node: Tree[Any]) -> Operand:
        operand = self._value(node)
        if type(operand) is Int:
            return Int(int(not operand.value))
        if type(operand) is not Reg:
            token = next(node.scan_values(lambda _: True), None)
            raise _misread("expected a predicate register after '!'", token)
        return Not(operand)

    def _complement(self, node: Tree[Any]) -> Operand:
        return _constant(~self._fold(node))

    def _cast(self, kind: Token, node: Tree[Any]) -> Operand:
        value = self._fold(node)
        if kind == ".u64":
            return Int(value % LIMIT)
        return Int((value + (LIMIT >> 1)) % LIMIT - (LIMIT >> 1))

    def _fold(self, node: Tree[Any]) -> int:
        value = self._value(node)
        if type(value) is Int:
            return value.value
        token = next(node.scan_values(lambda _: True), None)
        raise _misread("expected a constant", token)


_BASES = frozenset({Reg, Symbol, Int, Sum})


def _misread(message: str, token: Token | None) -> Misread:
    start = token.start_pos if token is not None and token.start_pos is not None else 0
    end = token.end_pos if token is not None and token.end_pos is not None else start + 1
    return Misread(message, start, end)


def _undeclared(special: Special, tree: Tree[Any]) -> Misread:
    """Nothing is added to a special register, and it is no address."""
    token = next(tree.scan_values(lambda _: True), None)
    return _misread(f"{special.name} is not a declared register or name", token)
