"""Rounding to formats and in directions that numpy does not offer.

What makes it exact: the error of a floating-point sum is itself a floating-point number (Knuth's
TwoSum), so is that of a product (Dekker's, by splitting), and rounding to odd at twice the
precision keeps all that a later rounding needs to know (Boldo and Melquiond).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
UP, DOWN = np.inf, -np.inf
_HALFWAY, _DROPPED = np.uint64(0x10000000), np.uint64(0x1FFFFFFF)
_TINY_SINGLE = 2.0**-125


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and what the rounding lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b in double precision rounded, and what the rounding lost (without overflow)."""
    product = a * b
    scale = np.float64(2**27 + 1)
    a_high = a * scale - (a * scale - a)
    b_high = b * scale - (b * scale - b)
    a_low, b_low = a - a_high, b - b_high
    lost = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, lost


def odd_sum(a: Array, b: Array) -> Array:
    """a + b in double precision rounded to odd: of the two neighbours of an inexact sum the one
    whose last bit is set, so that a rounding to fewer bits is right."""
    total, lost = two_sum(a, b)
    inexact = (lost != 0) & np.isfinite(total)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    toward = np.where(lost > 0, UP, DOWN)
    return np.where(inexact & even, np.nextafter(total, toward), total)


def fused_single(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of singles, rounded once. The product is exact in double precision; the sum is
    rounded twice only where its dropped half is a tie or the result is tiny."""
    product = a.astype(np.float64) * b.astype(np.float64)
    wide = c.astype(np.float64)
    total = product + wide
    result = total.astype(np.float32)
    doubtful = (total.view(np.uint64) & _DROPPED) == _HALFWAY
    doubtful |= np.abs(total) < _TINY_SINGLE
    if doubtful.any():
        product, wide = np.broadcast_to(product, total.shape), np.broadcast_to(wide, total.shape)
        result[doubtful] = odd_sum(product[doubtful], wide[doubtful]).astype(np.float32)
    return result


def fused_wide(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of values with few bits (halves), as a double rounded to odd."""
    return odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))


def _one_fused(a: float, b: float, c: float) -> float:
    """a * b + c rounded once, by exact fractions."""
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c)) if a * b == 0 else 0.0
    try:
        return float(exact)  # Fraction divides integers, which rounds correctly
    except OverflowError:
        return UP if exact > 0 else DOWN


def fused_double(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of doubles, rounded once; far from the ends of the range without Fractions."""
    a, b, c = np.broadcast_arrays(a, b, c)
    product, low = two_product(a, b)
    high, rest = two_sum(c, low)
    top, tail = two_sum(product, high)
    result = top + odd_sum(tail, rest)
    size = np.abs(product)
    safe = (np.abs(a) < 2.0**500) & (np.abs(b) < 2.0**500) & (np.abs(c) < 2.0**1000)
    safe &= (size > 2.0**-900) | ((size == 0) & ((a == 0) | (b == 0)))
    safe &= (np.abs(c) > 2.0**-900) | (c == 0)
    exact_zero = (product == 0) | (result == 0)
    if exact_zero.any():  # the sign of zero follows the plain sum
        result = np.where(exact_zero & safe & (low == 0), product + c, result)
    if not safe.all():
        for index in np.flatnonzero(~safe):
            at = np.unravel_index(index, result.shape)
            result[at] = _one_fused(float(a[at]), float(b[at]), float(c[at]))
    return result


def direct(rounded: Array, error: Array, mode: str) -> Array:
    """A result rounded to nearest, moved to its neighbour where direction `mode` asks for it;
    `error` has the sign of exact minus rounded."""
    if mode == "rn":
        return rounded
    target = rounded.dtype.type
    if mode == "rz":
        wrong = (error != 0) & (np.signbit(error) != np.signbit(rounded)) & (rounded != 0)
        return np.where(wrong, np.nextafter(rounded, target(0)), rounded)
    if mode == "rm":
        return np.where(error < 0, np.nextafter(rounded, target(DOWN)), rounded)
    assert mode == "rp", mode
    return np.where(error > 0, np.nextafter(rounded, target(UP)), rounded)


def overflowed(rounded: Array, finite: Array, mode: str) -> Array:
    """An overflow to infinity, taken back where the direction leads away from it."""
    if mode == "rn":
        return rounded
    limit = np.finfo(rounded.dtype).max
    back = finite & np.isinf(rounded)
    if mode == "rm":
        back &= rounded > 0
    elif mode == "rp":
        back &= rounded < 0
    return np.where(back, np.copysign(limit, rounded), rounded)


def narrow(exact: Array, dtype: Any, mode: str) -> Array:
    """Doubles (exact, or rounded to odd) rounded to singles or halves."""
    rounded = exact.astype(dtype)
    if mode == "rn":
        return rounded
    finite = np.isfinite(exact)
    rounded = overflowed(rounded, finite, mode)
    error = np.where(finite, exact - rounded.astype(np.float64), 0.0)
    return direct(rounded, error, mode)


def bfloat(exact: Array, mode: str) -> Array:
    """Doubles (exact, or rounded to odd) rounded to the 16 bits of a bfloat16."""
    single = exact.astype(np.float32)
    lost = (single.astype(np.float64) != exact) & np.isfinite(exact)
    even = (single.view(np.uint32) & np.uint32(1)) == 0
    toward = np.where(exact > single, np.float32(UP), np.float32(DOWN))
    fixed = np.where(lost & (even | np.isinf(single)), np.nextafter(single, toward), single)
    bits = np.asarray(fixed, np.float32).view(np.uint32)
    return _drop_half(bits, mode)


def _drop_half(bits: Array, mode: str) -> Array:
    """The upper 16 bits of singles, rounded by the lower 16."""
    upper = bits >> np.uint32(16)
    rest = bits & np.uint32(0xFFFF)
    if mode == "rn":
        up = (rest > 0x8000) | ((rest == 0x8000) & ((upper & np.uint32(1)) == 1))
    elif mode == "rna":
        up = rest >= 0x8000
    else:
        negative = (bits >> np.uint32(31)) == 1
        away = {"rz": np.zeros_like(negative), "rm": negative, "rp": ~negative}[mode]
        up = (rest != 0) & away
    special = (bits & np.uint32(0x7F800000)) == 0x7F800000
    nan = special & ((bits & np.uint32(0x7FFFFF)) != 0)
    result = upper + (up & ~special).astype(np.uint32)
    return np.where(nan, np.uint32(0x7FFF), result).astype(np.uint16)


def tf32(bits: Array, mode: str) -> Array:
    """Singles rounded to 10 bits behind the point (`rna`: ties away from zero)."""
    special = (bits & np.uint32(0x7F800000)) == 0x7F800000
    rest, upper = bits & np.uint32(0x1FFF), bits & ~np.uint32(0x1FFF)
    if mode == "rz":
        up = np.zeros_like(special)
    elif mode == "rna":
        up = rest >= 0x1000
    else:
        up = (rest > 0x1000) | ((rest == 0x1000) & ((bits >> np.uint32(13)) & np.uint32(1) == 1))
    return np.where(special, bits, upper + (up.astype(np.uint32) << np.uint32(13)))


TO_INTEGRAL: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
