"""The plainest algebra there is: Python integers that know their width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Int:
    value: int
    width: int

    def __post_init__(self) -> None:
        assert self.width > 0
        assert 0 <= self.value < 1 << self.width


def signed(a: Int) -> int:
    return a.value - (1 << a.width) if a.value >> (a.width - 1) else a.value


class Ints:
    """`Algebra[Int]`, operation by operation as SMT-LIB's QF_BV has them."""

    def const(self, value: int, width: int) -> Int:
        return Int(value, width)

    def width(self, a: Int) -> int:
        return a.width

    def _same(self, value: int, a: Int, b: Int) -> Int:
        assert a.width == b.width, (a, b)
        return Int(value & ((1 << a.width) - 1), a.width)

    def add(self, a: Int, b: Int) -> Int:
        return self._same(a.value + b.value, a, b)

    def sub(self, a: Int, b: Int) -> Int:
        return self._same(a.value - b.value, a, b)

    def mul(self, a: Int, b: Int) -> Int:
        return self._same(a.value * b.value, a, b)

    def udiv(self, a: Int, b: Int) -> Int:
        return self._same(a.value // b.value if b.value else -1, a, b)

    def urem(self, a: Int, b: Int) -> Int:
        return self._same(a.value % b.value if b.value else a.value, a, b)

    def sdiv(self, a: Int, b: Int) -> Int:
        x, y = signed(a), signed(b)
        if y == 0:
            return self._same(1 if x < 0 else -1, a, b)
        return self._same(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), a, b)

    def srem(self, a: Int, b: Int) -> Int:
        x, y = signed(a), signed(b)
        if y == 0:
            return a
        return self._same(abs(x) % abs(y) * (-1 if x < 0 else 1), a, b)

    def and_(self, a: Int, b: Int) -> Int:
        return self._same(a.value & b.value, a, b)

    def or_(self, a: Int, b: Int) -> Int:
        return self._same(a.value | b.value, a, b)

    def xor(self, a: Int, b: Int) -> Int:
        return self._same(a.value ^ b.value, a, b)

    def not_(self, a: Int) -> Int:
        return Int(~a.value & ((1 << a.width) - 1), a.width)

    def shl(self, a: Int, b: Int) -> Int:
        return self._same(a.value << b.value if b.value < a.width else 0, a, b)

    def lshr(self, a: Int, b: Int) -> Int:
        return self._same(a.value >> b.value if b.value < a.width else 0, a, b)

    def ashr(self, a: Int, b: Int) -> Int:
        return self._same(signed(a) >> min(b.value, a.width), a, b)

    def extract(self, a: Int, low: int, width: int) -> Int:
        assert low >= 0 and low + width <= a.width, (a, low, width)
        return Int(a.value >> low & ((1 << width) - 1), width)

    def concat(self, high: Int, low: Int) -> Int:
        return Int(high.value << low.width | low.value, high.width + low.width)

    def zext(self, a: Int, width: int) -> Int:
        assert width >= a.width
        return Int(a.value, width)

    def sext(self, a: Int, width: int) -> Int:
        assert width >= a.width
        return Int(signed(a) & ((1 << width) - 1), width)

    def _truth(self, holds: bool, a: Int, b: Int) -> Int:
        assert a.width == b.width, (a, b)
        return Int(int(holds), 1)

    def eq(self, a: Int, b: Int) -> Int:
        return self._truth(a.value == b.value, a, b)

    def ult(self, a: Int, b: Int) -> Int:
        return self._truth(a.value < b.value, a, b)

    def ule(self, a: Int, b: Int) -> Int:
        return self._truth(a.value <= b.value, a, b)

    def slt(self, a: Int, b: Int) -> Int:
        return self._truth(signed(a) < signed(b), a, b)

    def sle(self, a: Int, b: Int) -> Int:
        return self._truth(signed(a) <= signed(b), a, b)

    def ite(self, condition: Int, yes: Int, no: Int) -> Int:
        assert condition.width == 1 and yes.width == no.width, (condition, yes, no)
        return yes if condition.value else no

    def floating(self, name: str, width: int, operands: Sequence[Int]) -> Int:
        """Some function of the name and the operands: enough to see that both arrive."""
        seed = sum((i + 1) * operand.value for i, operand in enumerate(operands))
        return Int((hash(name) + seed) & ((1 << width) - 1), width)
