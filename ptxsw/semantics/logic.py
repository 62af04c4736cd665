"""Logic and shifts: PTX ISA 9.0, section 9.7.8."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import extend, same_width
from ptxsw.semantics.registry import AS_IS, Meaning, Modifiers, V, semantics

BITS = ("pred", "b16", "b32", "b64")


@semantics("and", "9.7.8.1")
def and_(m: Modifiers) -> Meaning:
    """d = a & b, bit by bit."""

    def compute(g: Algebra[V], a: V, b: V) -> V:
        return g.and_(a, b)

    return same_width(m.type(*BITS), 2, compute)


@semantics("or", "9.7.8.2")
def or_(m: Modifiers) -> Meaning:
    """d = a | b, bit by bit."""

    def compute(g: Algebra[V], a: V, b: V) -> V:
        return g.or_(a, b)

    return same_width(m.type(*BITS), 2, compute)


@semantics("xor", "9.7.8.3")
def xor(m: Modifiers) -> Meaning:
    """d = a ^ b, bit by bit."""

    def compute(g: Algebra[V], a: V, b: V) -> V:
        return g.xor(a, b)

    return same_width(m.type(*BITS), 2, compute)


@semantics("not", "9.7.8.4")
def not_(m: Modifiers) -> Meaning:
    """d = ~a, bit by bit."""

    def compute(g: Algebra[V], a: V) -> V:
        return g.not_(a)

    return same_width(m.type(*BITS), 1, compute)


@semantics("cnot", "9.7.8.5")
def cnot(m: Modifiers) -> Meaning:
    """d = 1 where a is 0, else 0."""
    type_ = m.type("b16", "b32", "b64")

    def compute(g: Algebra[V], a: V) -> V:
        return g.zext(g.eq(a, g.const(0, type_.width)), type_.width)

    return same_width(type_, 1, compute)


Table = Callable[..., Any]


@cache
def _table(table: int, inputs: int) -> Table | bool:
    """A truth table of the last `inputs` of three operands as logic on whole words.

    Shannon expansion by the first operand: bits of the upper half of the table are what holds
    where it is 1. True and False stand for the constants.
    """
    half = 1 << (inputs - 1)
    ones = (1 << half) - 1
    upper, lower = table >> half, table & ones
    if table in (0, (1 << 2 * half) - 1):
        return table != 0
    if upper == lower:  # the first operand makes no difference
        return _table(lower, inputs - 1)
    place = 3 - inputs
    if upper == ones ^ lower:  # a ^ lower
        rest = _table(lower, inputs - 1) if inputs > 1 else bool(lower)
        return _exclusive(place, rest)
    return _choice(place, _table(upper, inputs - 1), _table(lower, inputs - 1))


def _exclusive(place: int, rest: Table | bool) -> Table:
    if rest is False:
        return lambda g, *v: v[place]
    if rest is True:
        return lambda g, *v: g.not_(v[place])
    return lambda g, *v: g.xor(v[place], rest(g, *v))


def _choice(place: int, upper: Table | bool, lower: Table | bool) -> Table:
    if upper is False:
        assert not isinstance(lower, bool)
        return lambda g, *v: g.and_(g.not_(v[place]), lower(g, *v))
    if upper is True:
        assert not isinstance(lower, bool)
        return lambda g, *v: g.or_(v[place], lower(g, *v))
    if lower is False:
        return lambda g, *v: g.and_(v[place], upper(g, *v))
    if lower is True:
        return lambda g, *v: g.or_(g.not_(v[place]), upper(g, *v))
    return lambda g, *v: g.or_(
        g.and_(v[place], upper(g, *v)), g.and_(g.not_(v[place]), lower(g, *v))
    )


def _lookup(g: Algebra[V], a: V, b: V, c: V, table: V | int) -> V:
    if not isinstance(table, int):
        raise ValueError("the table of lop3 is not a literal")
    logic = _table(table & 0xFF, 3)
    if isinstance(logic, bool):
        return g.const(-logic & 0xFFFFFFFF, 32)
    result: V = logic(g, a, b, c)
    return result


@semantics("lop3", "9.7.8.6")
def lop3(m: Modifiers) -> Meaning:
    """d = the table at index 4a + 2b + c, bit by bit; with `.and` or `.or` and a predicate q,
    d|p: p = (d != 0) combined with q."""
    combine = m.option(("and", "or"))
    m.type("b32")
    if combine is None:
        return Meaning((32, 32, 32, AS_IS), (32,), _lookup)

    def compute(g: Algebra[V], a: V, b: V, c: V, table: V | int, q: V) -> tuple[V, V]:
        result = _lookup(g, a, b, c, table)
        predicate = g.not_(g.eq(result, g.const(0, 32)))
        return result, g.and_(predicate, q) if combine == "and" else g.or_(predicate, q)

    return Meaning((32, 32, 32, AS_IS, 1), (32, 1), compute)


@semantics("shf", "9.7.8.7")
def shf(m: Modifiers) -> Meaning:
    """The 64-bit value b:a shifted by c (`.wrap`: modulo 32, `.clamp`: at most 32); `.l` gives
    its upper, `.r` its lower half."""
    left, wrap = m.choice("l", "r") == "l", m.choice("wrap", "clamp") == "wrap"
    m.type("b32")

    def compute(g: Algebra[V], a: V, b: V, c: V) -> V:
        most = g.const(32, 32)
        amount = g.and_(c, g.const(31, 32)) if wrap else g.ite(g.ult(most, c), most, c)
        other = g.sub(most, amount)
        if left:
            return g.or_(g.shl(b, amount), g.lshr(a, other))
        return g.or_(g.shl(b, other), g.lshr(a, amount))

    return Meaning((32, 32, 32), (32,), compute)


def _shift(width: int, signed: bool, operation: str) -> Meaning:
    def compute(g: Algebra[V], a: V, b: V) -> V:
        shift = getattr(g, operation)
        if width >= 32:
            return shift(a, b if width == 32 else g.zext(b, 64))  # type: ignore[no-any-return]
        # The amount has 32 bits and must not lose any: the shift is done on 32 bits.
        return g.extract(shift(extend(g, a, 32, signed), b), 0, width)

    return Meaning((width, 32), (width,), compute)


@semantics("shl", "9.7.8.8")
def shl(m: Modifiers) -> Meaning:
    """d = a << b; amounts from the width on give 0."""
    return _shift(m.type("b16", "b32", "b64").width, False, "shl")


@semantics("shr", "9.7.8.9")
def shr(m: Modifiers) -> Meaning:
    """d = a >> b, filled with the sign for signed types; amounts are clamped to the width."""
    type_ = m.type("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")
    return _shift(type_.width, type_.signed, "ashr" if type_.signed else "lshr")
