"""Integer arithmetic: PTX ISA 9.0, section 9.7.1 (bit fields: `bitfield`).

Division by zero, which the manual leaves to the machine, follows SMT-LIB: `div` gives all ones
(signed: 1 for a negative dividend, else -1) and `rem` the dividend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.registry import Meaning, Modifiers, NoForm, Type, V, semantics

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
PACKED = ("u16x2", "s16x2")
WIDENABLE = ("u16", "s16", "u32", "s32")


def same_width(type_: Type, count: int, compute: Callable[..., Any]) -> Meaning:
    """All sources and the destination have the width of the instruction's type."""
    return Meaning((type_.width,) * count, (type_.width,), compute)


def extend(g: Algebra[V], a: V, width: int, signed: bool) -> V:
    return g.sext(a, width) if signed else g.zext(a, width)


def halves(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same on both 16-bit halves of 32-bit operands."""

    def both(g: Algebra[V], *sources: V) -> V:
        high = compute(g, *(g.extract(a, 16, 16) for a in sources))
        low = compute(g, *(g.extract(a, 0, 16) for a in sources))
        return g.concat(high, low)

    return both


def clamp(g: Algebra[V], a: V, low: int, high: int) -> V:
    """`a`, read as signed, brought into `low` to `high`."""
    width = g.width(a)
    mask = (1 << width) - 1
    least, most = g.const(low & mask, width), g.const(high & mask, width)
    return g.ite(g.slt(a, least), least, g.ite(g.slt(most, a), most, a))


def _saturated(operation: str) -> Callable[..., Any]:
    def compute(g: Algebra[V], a: V, b: V) -> V:
        wide = getattr(g, operation)(g.sext(a, 64), g.sext(b, 64))
        return g.extract(clamp(g, wide, -(2**31), 2**31 - 1), 0, 32)

    return compute


def _add(g: Algebra[V], a: V, b: V) -> V:
    return g.add(a, b)


def _sub(g: Algebra[V], a: V, b: V) -> V:
    return g.sub(a, b)


@semantics("add", "9.7.1.1")
def add(m: Modifiers) -> Meaning:
    """d = a + b, wrapping, or with `.sat` (s32 only) kept within the type."""
    if m.flag("sat"):
        return same_width(m.type("s32"), 2, _saturated("add"))
    type_ = m.type(*INTEGERS, *PACKED)
    return same_width(type_, 2, halves(_add) if type_.name in PACKED else _add)


@semantics("sub", "9.7.1.2")
def sub(m: Modifiers) -> Meaning:
    """d = a - b, wrapping, or with `.sat` (s32 only) kept within the type."""
    if m.flag("sat"):
        return same_width(m.type("s32"), 2, _saturated("sub"))
    return same_width(m.type(*INTEGERS), 2, _sub)


def product(type_: Type, half: str) -> Callable[..., Any]:
    """a * b: its low half, its high half, or all of it."""
    width, signed = type_.width, type_.signed

    def low(g: Algebra[V], a: V, b: V) -> V:
        return g.mul(a, b)

    def wide(g: Algebra[V], a: V, b: V) -> V:
        return g.mul(extend(g, a, 2 * width, signed), extend(g, b, 2 * width, signed))

    def high(g: Algebra[V], a: V, b: V) -> V:
        return g.extract(wide(g, a, b), width, width)

    return {"lo": low, "hi": high, "wide": wide}[half]


@semantics("mul", "9.7.1.3")
def mul(m: Modifiers) -> Meaning:
    """t = a * b; d = the low or high half of t, or with `.wide` all of it."""
    half = m.choice("lo", "hi", "wide")
    type_ = m.type(*(WIDENABLE if half == "wide" else INTEGERS))
    width = 2 * type_.width if half == "wide" else type_.width
    return Meaning((type_.width,) * 2, (width,), product(type_, half))


def saturating_sum(g: Algebra[V], a: V, b: V) -> V:
    wide = g.add(g.sext(a, 64), g.sext(b, 64))
    return g.extract(clamp(g, wide, -(2**31), 2**31 - 1), 0, 32)


@semantics("mad", "9.7.1.4")
def mad(m: Modifiers) -> Meaning:
    """d = the chosen half of a * b, plus c; with `.hi.sat` (s32 only) kept within the type."""
    half = m.choice("lo", "hi", "wide")
    saturate = m.flag("sat")
    type_ = m.type(*(WIDENABLE if half == "wide" else INTEGERS))
    if saturate and (half, type_.name) != ("hi", "s32"):
        raise NoForm
    times = product(type_, half)
    total = saturating_sum if saturate else _add

    def compute(g: Algebra[Any], a: Any, b: Any, c: Any) -> Any:
        return total(g, times(g, a, b), c)

    width = 2 * type_.width if half == "wide" else type_.width
    return Meaning((type_.width, type_.width, width), (width,), compute)


def _product24(type_: Type, half: str) -> Callable[..., Any]:
    def compute(g: Algebra[V], a: V, b: V) -> V:
        x = extend(g, g.extract(a, 0, 24), 64, type_.signed)
        y = extend(g, g.extract(b, 0, 24), 64, type_.signed)
        return g.extract(g.mul(x, y), 16 if half == "hi" else 0, 32)

    return compute


@semantics("mul24", "9.7.1.5")
def mul24(m: Modifiers) -> Meaning:
    """d = bits 31..0 or 47..16 of the product of the low 24 bits of a and b."""
    half = m.choice("lo", "hi")
    return same_width(type_ := m.type("u32", "s32"), 2, _product24(type_, half))


@semantics("mad24", "9.7.1.6")
def mad24(m: Modifiers) -> Meaning:
    """d = mul24(a, b) + c; with `.hi.sat` (s32 only) kept within the type."""
    half, saturate = m.choice("lo", "hi"), m.flag("sat")
    type_ = m.type("u32", "s32")
    if saturate and (half, type_.name) != ("hi", "s32"):
        raise NoForm
    times = _product24(type_, half)
    total = saturating_sum if saturate else _add

    def compute(g: Algebra[Any], a: Any, b: Any, c: Any) -> Any:
        return total(g, times(g, a, b), c)

    return same_width(type_, 3, compute)


@semantics("sad", "9.7.1.7")
def sad(m: Modifiers) -> Meaning:
    """d = c + |a - b|."""
    type_ = m.type(*INTEGERS)

    def compute(g: Algebra[V], a: V, b: V, c: V) -> V:
        less = g.slt(a, b) if type_.signed else g.ult(a, b)
        return g.add(c, g.ite(less, g.sub(b, a), g.sub(a, b)))

    return same_width(type_, 3, compute)


@semantics("div", "9.7.1.8")
def div(m: Modifiers) -> Meaning:
    """d = a / b, truncated toward zero."""
    type_ = m.type(*INTEGERS)

    def compute(g: Algebra[V], a: V, b: V) -> V:
        return g.sdiv(a, b) if type_.signed else g.udiv(a, b)

    return same_width(type_, 2, compute)


@semantics("rem", "9.7.1.9")
def rem(m: Modifiers) -> Meaning:
    """d = a - b * (a / b): the remainder has the sign of a."""
    type_ = m.type(*INTEGERS)

    def compute(g: Algebra[V], a: V, b: V) -> V:
        return g.srem(a, b) if type_.signed else g.urem(a, b)

    return same_width(type_, 2, compute)


@semantics("abs", "9.7.1.10")
def abs_(m: Modifiers) -> Meaning:
    """d = |a|; the least integer is its own absolute value."""
    type_ = m.type("s16", "s32", "s64")

    def compute(g: Algebra[V], a: V) -> V:
        zero = g.const(0, type_.width)
        return g.ite(g.slt(a, zero), g.sub(zero, a), a)

    return same_width(type_, 1, compute)


@semantics("neg", "9.7.1.11")
def neg(m: Modifiers) -> Meaning:
    """d = -a, wrapping."""
    type_ = m.type("s16", "s32", "s64")

    def compute(g: Algebra[V], a: V) -> V:
        return g.sub(g.const(0, type_.width), a)

    return same_width(type_, 1, compute)


def _extreme(m: Modifiers, greatest: bool) -> Meaning:
    relu = m.flag("relu")
    type_ = m.type(*INTEGERS, *PACKED)
    if relu and type_.name not in ("s32", "s16x2"):
        raise NoForm
    signed = type_.signed

    def compute(g: Algebra[V], a: V, b: V) -> V:
        less = g.slt(a, b) if signed else g.ult(a, b)
        best = g.ite(less, b, a) if greatest else g.ite(less, a, b)
        if not relu:
            return best
        zero = g.const(0, g.width(a))
        return g.ite(g.slt(best, zero), zero, best)

    return same_width(type_, 2, halves(compute) if type_.name in PACKED else compute)


@semantics("min", "9.7.1.12")
def min_(m: Modifiers) -> Meaning:
    """d = the lesser of a and b; `.relu` turns a negative result into 0."""
    return _extreme(m, greatest=False)


@semantics("max", "9.7.1.13")
def max_(m: Modifiers) -> Meaning:
    """d = the greater of a and b; `.relu` turns a negative result into 0."""
    return _extreme(m, greatest=True)


def _dot(m: Modifiers, a_bits: int, start: int) -> Meaning:
    first, second = m.type("u32", "s32"), m.type("u32", "s32")
    count = 32 // a_bits

    def compute(g: Algebra[V], a: V, b: V, c: V) -> V:
        for index in range(count):
            x = extend(g, g.extract(a, a_bits * index, a_bits), 32, first.signed)
            y = extend(g, g.extract(b, start + 8 * index, 8), 32, second.signed)
            c = g.add(c, g.mul(x, y))
        return c

    return Meaning((32, 32, 32), (32,), compute)


@semantics("dp4a", "9.7.1.23")
def dp4a(m: Modifiers) -> Meaning:
    """d = c plus the products of the four bytes of a and b, each of its operand's sign."""
    return _dot(m, 8, 0)


@semantics("dp2a", "9.7.1.24")
def dp2a(m: Modifiers) -> Meaning:
    """d = c plus the products of the two halves of a and two bytes (low or high) of b."""
    return _dot(m, 16, 0 if m.choice("lo", "hi") == "lo" else 16)
