"""The numpy algebra: one array element per thread.

A value is an array of unsigned integers with its width in bits. The container is the next
larger numpy type, so that widths such as 33 exist; bits above the width are zero. Widths above
64 use Python integers in object arrays: slow, exact and rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsw.simt.conversion import function

Array = NDArray[Any]

_DTYPES = {
    1: np.dtype(np.bool_),
    **{w: np.dtype(np.uint8) for w in range(2, 9)},
    **{w: np.dtype(np.uint16) for w in range(9, 17)},
    **{w: np.dtype(np.uint32) for w in range(17, 33)},
    **{w: np.dtype(np.uint64) for w in range(33, 65)},
}
_SIGNED = {np.dtype(f"u{size}"): np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
_NATIVE = (8, 16, 32, 64)


def dtype_of(width: int) -> np.dtype[Any]:
    """The container of values of `width` bits."""
    return _DTYPES.get(width, np.dtype(object))


class Bits:
    """Bit vectors of one width, an element per thread (or one element for all of them)."""

    __slots__ = ("array", "width")

    def __init__(self, array: Array, width: int) -> None:
        self.array = array
        self.width = width


def _kept(array: Array, width: int) -> Bits:
    """The low `width` bits of each element."""
    if width in _NATIVE:
        return Bits(array, width)
    mask = (1 << width) - 1
    if width > 64:
        return Bits(array & mask, width)
    return Bits(array & array.dtype.type(mask), width)


def as_signed(a: Bits) -> Array:
    """The numbers that two's complement makes of the elements."""
    if a.width in _NATIVE:
        return a.array.view(_SIGNED[a.array.dtype])
    if a.width > 64:
        top = 1 << (a.width - 1)
        number: Array = (a.array ^ top) - top
        return number
    if a.width == 1:
        minus: Array = -a.array.astype(np.int8)
        return minus
    shift = 8 * a.array.dtype.itemsize - a.width
    signed = _SIGNED[a.array.dtype]
    high: Array = (a.array << a.array.dtype.type(shift)).view(signed)
    out: Array = high >> signed.type(shift)
    return out


def as_array(value: int | Bits) -> Array:
    """The elements of an operand: one for all threads where it is a literal."""
    return np.array([value]) if isinstance(value, int) else value.array


class Lanes:
    """`Algebra[Bits]` over numpy."""

    def const(self, value: int, width: int) -> Bits:
        return Bits(np.array([value], dtype_of(width)), width)

    def width(self, a: Bits) -> int:
        return a.width

    def add(self, a: Bits, b: Bits) -> Bits:
        if a.width == 1:
            return self.xor(a, b)
        return _kept(a.array + b.array, a.width)

    def sub(self, a: Bits, b: Bits) -> Bits:
        if a.width == 1:
            return self.xor(a, b)
        return _kept(a.array - b.array, a.width)

    def mul(self, a: Bits, b: Bits) -> Bits:
        if a.width == 1:
            return self.and_(a, b)
        return _kept(a.array * b.array, a.width)

    def udiv(self, a: Bits, b: Bits) -> Bits:
        zero = b.array == 0
        quotient = a.array // np.where(zero, b.array.dtype.type(1), b.array)
        ones = self.not_(Bits(np.zeros(1, a.array.dtype), a.width)).array
        return Bits(np.where(zero, ones, quotient), a.width)

    def urem(self, a: Bits, b: Bits) -> Bits:
        zero = b.array == 0
        rest = a.array % np.where(zero, b.array.dtype.type(1), b.array)
        return Bits(np.where(zero, a.array, rest), a.width)

    def _magnitude(self, a: Bits) -> tuple[Array, Bits]:
        """Which elements are negative, and the absolute values."""
        negative = as_signed(a) < 0
        minus = self.sub(self.const(0, a.width), a)
        return negative, Bits(np.where(negative, minus.array, a.array), a.width)

    def _negate_where(self, condition: Array, a: Bits) -> Bits:
        minus = self.sub(self.const(0, a.width), a)
        return Bits(np.where(condition, minus.array, a.array), a.width)

    def sdiv(self, a: Bits, b: Bits) -> Bits:
        a_negative, x = self._magnitude(a)
        b_negative, y = self._magnitude(b)
        return self._negate_where(a_negative != b_negative, self.udiv(x, y))

    def srem(self, a: Bits, b: Bits) -> Bits:
        a_negative, x = self._magnitude(a)
        _, y = self._magnitude(b)
        return self._negate_where(a_negative, self.urem(x, y))

    def and_(self, a: Bits, b: Bits) -> Bits:
        return Bits(a.array & b.array, a.width)

    def or_(self, a: Bits, b: Bits) -> Bits:
        return Bits(a.array | b.array, a.width)

    def xor(self, a: Bits, b: Bits) -> Bits:
        return Bits(a.array ^ b.array, a.width)

    def not_(self, a: Bits) -> Bits:
        if a.width == 1:
            return Bits(~a.array, 1)
        return _kept(~a.array, a.width)

    def shl(self, a: Bits, b: Bits) -> Bits:
        inside = b.array < a.width
        if inside.all():
            return _kept(a.array << b.array, a.width)
        moved = a.array << np.where(inside, b.array, b.array.dtype.type(0))
        return _kept(np.where(inside, moved, a.array.dtype.type(0)), a.width)

    def lshr(self, a: Bits, b: Bits) -> Bits:
        inside = b.array < a.width
        if inside.all():
            return Bits(a.array >> b.array, a.width)
        moved = a.array >> np.where(inside, b.array, b.array.dtype.type(0))
        return Bits(np.where(inside, moved, a.array.dtype.type(0)), a.width)

    def ashr(self, a: Bits, b: Bits) -> Bits:
        most = a.width - 1
        amount = np.minimum(b.array, b.array.dtype.type(most))
        signed = as_signed(a)
        shifted = signed >> amount.astype(signed.dtype)
        return _kept(shifted.astype(a.array.dtype), a.width)

    def extract(self, a: Bits, low: int, width: int) -> Bits:
        array = (
            a.array if low == 0 else a.array >> (low if a.width > 64 else a.array.dtype.type(low))
        )
        if width == 1:
            one = 1 if a.width > 64 else a.array.dtype.type(1)
            return Bits((array & one).astype(np.bool_), 1)
        if width <= 64 and a.width > 64:
            array = array & ((1 << width) - 1)
        return _kept(array.astype(dtype_of(width), copy=False), width)

    def concat(self, high: Bits, low: Bits) -> Bits:
        width = high.width + low.width
        upper = self.zext(high, width).array
        lower = self.zext(low, width).array
        shift = low.width if width > 64 else upper.dtype.type(low.width)
        return Bits(upper << shift | lower, width)

    def zext(self, a: Bits, width: int) -> Bits:
        target = dtype_of(width)
        if target == a.array.dtype:
            return Bits(a.array, width)
        array = a.array.astype(np.uint8) if a.width == 1 and width > 64 else a.array
        return Bits(array.astype(target), width)

    def sext(self, a: Bits, width: int) -> Bits:
        if width == a.width:
            return a
        signed = as_signed(a)
        return _kept(signed.astype(dtype_of(width)), width)

    def eq(self, a: Bits, b: Bits) -> Bits:
        return Bits(np.asarray(a.array == b.array, np.bool_), 1)

    def ult(self, a: Bits, b: Bits) -> Bits:
        return Bits(np.asarray(a.array < b.array, np.bool_), 1)

    def ule(self, a: Bits, b: Bits) -> Bits:
        return Bits(np.asarray(a.array <= b.array, np.bool_), 1)

    def slt(self, a: Bits, b: Bits) -> Bits:
        return Bits(np.asarray(as_signed(a) < as_signed(b), np.bool_), 1)

    def sle(self, a: Bits, b: Bits) -> Bits:
        return Bits(np.asarray(as_signed(a) <= as_signed(b), np.bool_), 1)

    def ite(self, condition: Bits, yes: Bits, no: Bits) -> Bits:
        return Bits(np.where(condition.array, yes.array, no.array), yes.width)

    def floating(self, name: str, width: int, operands: Sequence[Bits]) -> Bits:
        """IEEE arithmetic on the bits; see `ptxsw.simt.floats` for what is exact."""
        return Bits(function(name)(*(operand.array for operand in operands)), width)
