"""Floating-point instructions over arrays of bits, found by the name semantics give them.

Exact (bit for bit as PTX defines them): add, sub, mul, fma, mad, comparisons, min, max, abs,
neg, conversions, and div, rcp, sqrt rounded to nearest; `.ftz`, `.sat`, `.relu`; directed
rounding of f32 and of f64 sums. Approximated: everything `.approx` or `.full` (computed in
double precision and rounded: closer than hardware, and the same on every run), directed rounding
of f64 products, quotients and roots within 2^-900 of zero or of the largest number. Results that
are no number have one pattern per type: 0x7fffffff, 0x7fff, 0x7ff8000000000000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ptxsw.simt import rounding

Array = NDArray[Any]
Function = Callable[..., Array]

_MODES = ("rn", "rz", "rm", "rp")
_NAN32, _NAN64, _NAN16 = np.uint32(0x7FFFFFFF), np.uint64(0x7FF8 << 48), np.uint16(0x7FFF)
_ABS32 = np.uint32(0x7FFFFFFF)


class NoFunction(Exception):
    """A floating-point instruction the interpreter cannot compute."""


class ArithmeticModifiers(Struct, frozen=True):
    """What the modifiers of an arithmetic instruction say."""

    mode: str = "rn"
    ftz: bool = False
    sat: bool = False
    relu: bool = False
    nan: bool = False  # min, max: no number if either is none


def flush(bits: Array) -> Array:
    """Subnormal singles become zeros of their sign."""
    small = (bits & np.uint32(0x7F800000)) == 0
    if not small.any():
        return bits
    return np.where(small, bits & np.uint32(0x80000000), bits)


# ---------------------------------------------------------------- formats


def read32(bits: Array) -> Array:
    return bits.view(np.float32)


def read64(bits: Array) -> Array:
    return bits.view(np.float64)


def read_half(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float64)


def read_bfloat(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def write32(value: Array, shape: ArithmeticModifiers) -> Array:
    value = np.asarray(value, np.float32)
    if shape.sat:
        value = np.clip(
            np.where(np.isnan(value), np.float32(0), value), np.float32(0), np.float32(1)
        )
        value = value + np.float32(0)  # no negative zero
    bits = value.view(np.uint32)
    nan = np.isnan(value)
    if nan.any():
        bits = np.where(nan, _NAN32, bits)
    return flush(bits) if shape.ftz else bits


def write64(value: Array, shape: ArithmeticModifiers) -> Array:
    value = np.asarray(value, np.float64)
    if shape.sat:
        value = np.clip(np.where(np.isnan(value), 0.0, value), 0.0, 1.0) + 0.0
    nan = np.isnan(value)
    bits = value.view(np.uint64)
    return np.where(nan, _NAN64, bits) if nan.any() else bits


def write_half(value: Array, shape: ArithmeticModifiers) -> Array:
    """From doubles that are exact or rounded to odd."""
    value = _clamped(value, shape)
    half = rounding.narrow(value, np.float16, shape.mode)
    bits = half.view(np.uint16)
    if shape.ftz:
        small = (bits & np.uint16(0x7C00)) == 0
        bits = np.where(small, bits & np.uint16(0x8000), bits)
    return np.where(np.isnan(half), _NAN16, bits)


def write_bfloat(value: Array, shape: ArithmeticModifiers) -> Array:
    """From doubles that are exact or rounded to odd."""
    value = _clamped(value, shape)
    return np.where(np.isnan(value), _NAN16, rounding.bfloat(value, shape.mode))


def _clamped(value: Array, shape: ArithmeticModifiers) -> Array:
    value = np.asarray(value, np.float64)
    if shape.sat:
        value = np.clip(np.where(np.isnan(value), 0.0, value), 0.0, 1.0) + 0.0
    if shape.relu:
        value = np.where(value < 0, 0.0, value)
        value = np.where(value == 0, 0.0, value)
    return value


# ---------------------------------------------------------------- arithmetic


def _sum32(a: Array, b: Array, shape: ArithmeticModifiers) -> Array:
    if shape.mode == "rn":
        return a + b
    wide = rounding.odd_sum(a.astype(np.float64), b.astype(np.float64))
    return _signed_zero(rounding.narrow(wide, np.float32, shape.mode), a, b, shape.mode)


def _signed_zero(total: Array, a: Array, b: Array, mode: str) -> Array:
    """x - x is -0 when rounding down; -0 + -0 stays."""
    if mode != "rm":
        return total
    cancelled = (total == 0) & ((a != 0) | (np.signbit(a) != np.signbit(b)))
    return np.where(cancelled, total.dtype.type(-0.0), total)


def _sum64(a: Array, b: Array, shape: ArithmeticModifiers) -> Array:
    if shape.mode == "rn":
        return a + b
    total, lost = rounding.two_sum(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    lost = np.where(np.isfinite(total), lost, 0.0)
    total = rounding.overflowed(total, finite, shape.mode)
    return _signed_zero(rounding.direct(total, lost, shape.mode), a, b, shape.mode)


def _product32(a: Array, b: Array, shape: ArithmeticModifiers) -> Array:
    if shape.mode == "rn":
        return a * b
    return rounding.narrow(a.astype(np.float64) * b.astype(np.float64), np.float32, shape.mode)


def _product64(a: Array, b: Array, shape: ArithmeticModifiers) -> Array:
    if shape.mode == "rn":
        return a * b
    total, lost = rounding.two_product(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    lost = np.where(np.isfinite(total) & np.isfinite(lost), lost, 0.0)
    return rounding.direct(rounding.overflowed(total, finite, shape.mode), lost, shape.mode)


def _fused32(a: Array, b: Array, c: Array, shape: ArithmeticModifiers) -> Array:
    if shape.mode == "rn":
        return rounding.fused_single(a, b, c)
    product, wide = a.astype(np.float64) * b.astype(np.float64), rounding.fused_wide(a, b, c)
    total = rounding.narrow(wide, np.float32, shape.mode)
    return np.where(wide == 0, _signed_zero(total, product, c, shape.mode), total)


def _fused64(a: Array, b: Array, c: Array, shape: ArithmeticModifiers) -> Array:
    rounded = rounding.fused_double(a, b, c)
    if shape.mode == "rn":
        return rounded
    product, low = rounding.two_product(a, b)
    top, tail = rounding.two_sum(product, c)
    error = ((top - rounded) + tail) + low
    total = rounding.direct(rounded, np.where(np.isfinite(error), error, 0.0), shape.mode)
    cancelled = (top == 0) & (tail == 0) & (low == 0)
    return np.where(cancelled, _signed_zero(total, product, c, shape.mode), total)


def _quotient(a: Array, b: Array, shape: ArithmeticModifiers) -> Array:
    rounded = a / b
    if shape.mode == "rn":
        return rounded
    if rounded.dtype == np.float32:
        wide = a.astype(np.float64) / b.astype(np.float64)
        back = wide * b.astype(np.float64)
        # The double quotient is inexact wherever the single one is; nudge it off a tie.
        rest = np.where(np.isfinite(back), a.astype(np.float64) - back, 0.0)
        toward = np.where((rest > 0) == (b > 0), np.inf, -np.inf)
        wide = np.where(rest != 0, np.nextafter(wide, toward), wide)
        return rounding.narrow(wide, np.float32, shape.mode)
    product, low = rounding.two_product(rounded, b)
    rest = ((a - product) - low) * np.sign(b)
    return rounding.direct(rounded, np.where(np.isfinite(rest), rest, 0.0), shape.mode)


def _root(a: Array, shape: ArithmeticModifiers) -> Array:
    rounded = np.sqrt(a)
    if shape.mode == "rn":
        return rounded
    wide = rounded.astype(np.float64)
    square, low = rounding.two_product(wide, wide)
    rest = (a.astype(np.float64) - square) - low
    return rounding.direct(rounded, np.where(np.isfinite(rest), rest, 0.0), shape.mode)


def _extreme(a: Array, b: Array, shape: ArithmeticModifiers, greatest: bool) -> Array:
    best = (np.fmax if greatest else np.fmin)(a, b)
    if shape.nan:
        best = np.where(np.isnan(a) | np.isnan(b), best.dtype.type(np.nan), best)
    zero = (a == 0) & (b == 0)
    if zero.any():  # -0 is less than +0
        negative = (np.signbit(a) & np.signbit(b)) if greatest else (np.signbit(a) | np.signbit(b))
        signed = np.where(negative, best.dtype.type(-0.0), best.dtype.type(0.0))
        best = np.where(zero, signed, best)
    return best


def _approximate(f: Callable[[Array], Array]) -> Callable[[Array, ArithmeticModifiers], Array]:
    """By double precision."""

    def compute(a: Array, shape: ArithmeticModifiers) -> Array:
        return f(a.astype(np.float64)).astype(a.dtype)

    return compute


def _inverse_root(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


ONE_OPERAND: dict[str, Callable[[Array, ArithmeticModifiers], Array]] = {
    "rcp": lambda a, s: _quotient(np.ones_like(a), a, s),
    "sqrt": _root,
    "rsqrt": _approximate(_inverse_root),
    "sin": _approximate(np.sin),
    "cos": _approximate(np.cos),
    "lg2": _approximate(np.log2),
    "ex2": _approximate(np.exp2),
    "tanh": _approximate(np.tanh),
}
MORE_OPERANDS: dict[tuple[str, int], Callable[..., Array]] = {
    ("add", 32): _sum32,
    ("add", 64): _sum64,
    ("sub", 32): lambda a, b, s: _sum32(a, -b, s),
    ("sub", 64): lambda a, b, s: _sum64(a, -b, s),
    ("mul", 32): _product32,
    ("mul", 64): _product64,
    ("fma", 32): _fused32,
    ("fma", 64): _fused64,
    ("mad", 32): _fused32,
    ("mad", 64): _fused64,
    ("div", 32): _quotient,
    ("div", 64): _quotient,
    ("min", 32): lambda a, b, s: _extreme(a, b, s, False),
    ("min", 64): lambda a, b, s: _extreme(a, b, s, False),
    ("max", 32): lambda a, b, s: _extreme(a, b, s, True),
    ("max", 64): lambda a, b, s: _extreme(a, b, s, True),
}
# On halves, computed in double precision; sums and fused sums are rounded to odd there.
HALF_OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": lambda a, b, s: rounding.odd_sum(a, b),
    "sub": lambda a, b, s: rounding.odd_sum(a, -b),
    "mul": lambda a, b, s: a * b,
    "fma": lambda a, b, c, s: rounding.fused_wide(a, b, c),
    "min": lambda a, b, s: _extreme(a, b, s, False),
    "max": lambda a, b, s: _extreme(a, b, s, True),
    "ex2": lambda a, s: np.exp2(a),
    "tanh": lambda a, s: np.tanh(a),
}


def _sign_operation(opcode: str, bits: Array, sign: Any, shape: ArithmeticModifiers) -> Array:
    result = bits & ~sign if opcode == "abs" else bits ^ sign
    return flush(result) if shape.ftz and result.dtype == np.uint32 else result


def _scalar(opcode: str, width: int, shape: ArithmeticModifiers) -> Function:
    """An f32 or f64 instruction over bits."""
    read, write = (read32, write32) if width == 32 else (read64, write64)
    if opcode in ("abs", "neg"):
        sign = np.uint32(1 << 31) if width == 32 else np.uint64(1 << 63)
        return lambda a: _sign_operation(opcode, a, sign, shape)
    operation: Function | None = ONE_OPERAND.get(opcode) or MORE_OPERANDS.get((opcode, width))
    if operation is None:
        raise NoFunction(opcode)
    if shape.ftz and width == 32:
        return lambda *v: write(operation(*(read(flush(x)) for x in v), shape), shape)
    return lambda *v: write(operation(*map(read, v), shape), shape)


def _half(opcode: str, brain: bool, shape: ArithmeticModifiers) -> Function:
    """An f16 or bf16 instruction over bits."""
    if opcode in ("abs", "neg"):
        return lambda a: _sign_operation(opcode, a, np.uint16(1 << 15), shape)
    operation = HALF_OPERATIONS.get(opcode)
    if operation is None:
        raise NoFunction(opcode)
    read, write = (read_bfloat, write_bfloat) if brain else (read_half, write_half)

    def compute(*operands: Array) -> Array:
        return write(operation(*map(read, operands), shape), shape)

    return compute


def _packed(one: Function, half: int) -> Function:
    """The same on both halves of a register, of `half` bits each."""
    small, large = np.dtype(f"u{half // 8}"), np.dtype(f"u{half // 4}")
    up = large.type(half)

    def compute(*operands: Array) -> Array:
        low = one(*(a.astype(small) for a in operands)).astype(large)
        high = one(*((a >> up).astype(small) for a in operands)).astype(large)
        joined: Array = low | high << up
        return joined

    return compute


def _mixed(opcode: str, brain: bool, shape: ArithmeticModifiers) -> Function:
    """Half sources but for the last, which is single like the result."""
    read = read_bfloat if brain else read_half
    single = _scalar(opcode, 32, shape)

    def compute(*operands: Array) -> Array:
        wide = [read(a).astype(np.float32).view(np.uint32) for a in operands[:-1]]
        return single(*wide, operands[-1])

    return compute


def arithmetic(opcode: str, modifiers: list[str]) -> Function:
    mode = next((m for m in modifiers if m in _MODES), "rn")
    shape = ArithmeticModifiers(
        mode, "ftz" in modifiers, "sat" in modifiers, "relu" in modifiers, "NaN" in modifiers
    )
    if {"xorsign", "abs", "oob"} & set(modifiers):
        raise NoFunction(opcode)
    if "f32" in modifiers:
        if {"f16", "bf16"} & set(modifiers):
            return _mixed(opcode, "bf16" in modifiers, shape)
        return _scalar(opcode, 32, shape)
    if "f64" in modifiers:
        return _scalar(opcode, 64, shape)
    if "f32x2" in modifiers:
        return _packed(_scalar(opcode, 32, shape), 32)
    brain = bool({"bf16", "bf16x2"} & set(modifiers))
    one = _half(opcode, brain, shape)
    return _packed(one, 16) if {"f16x2", "bf16x2"} & set(modifiers) else one


# ---------------------------------------------------------------- predicates

_ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_READ: dict[str, Callable[[Array], Array]] = {
    "f32": read32, "f64": read64, "f16": read_half, "bf16": read_bfloat,
}  # fmt: skip


def comparison(modifiers: list[str]) -> Function:
    operator, type_ = modifiers[0], modifiers[-1]
    ftz = "ftz" in modifiers and type_ == "f32"
    read = (lambda bits: read32(flush(bits))) if ftz else _READ[type_]

    def compute(a: Array, b: Array) -> Array:
        x, y = read(a), read(b)
        if operator in _ORDERED:
            return _ORDERED[operator](x, y)
        unordered = np.isnan(x) | np.isnan(y)
        if operator == "nan":
            return unordered
        if operator == "num":
            return ~unordered
        return unordered | _ORDERED[operator[:2]](x, y)

    return compute


def float_property(modifiers: list[str]) -> Function:
    kind, type_ = modifiers
    read = _READ[type_]
    least = np.finfo(np.float32 if type_ == "f32" else np.float64).tiny
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= least),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < least),
    }
    return lambda a: tests[kind](read(a))
