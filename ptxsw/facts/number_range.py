"""Ranges of numbers of a fixed width, each read as unsigned and as signed.

tid - 1, with tid from 0 to 63      signed from -1 to 62; unsigned it may be anything
"""

from __future__ import annotations

from ptxsw.ptx.bits import wrapped

Interval = tuple[int, int]
"""The least and the greatest number."""


class NumberRange:
    """The range of a value as an unsigned and as a signed number."""

    __slots__ = ("signed", "unsigned")

    def __init__(self, unsigned: Interval, signed: Interval) -> None:
        self.unsigned, self.signed = unsigned, signed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberRange) and (self.unsigned, self.signed) == (
            other.unsigned,
            other.signed,
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_empty(self) -> bool:
        return self.unsigned[0] > self.unsigned[1] or self.signed[0] > self.signed[1]

    def read(self, signed: bool) -> Interval:
        return self.signed if signed else self.unsigned

    def meet(self, other: NumberRange) -> NumberRange:
        """What both allow; it may be empty."""
        return NumberRange(
            overlap(self.unsigned, other.unsigned), overlap(self.signed, other.signed)
        )

    def met(self, other: NumberRange) -> NumberRange:
        """The same, where something is allowed; else no thread has the value, and this one is as
        right as any."""
        both = self.meet(other)
        return self if both.is_empty else both

    def joined(self, other: NumberRange) -> NumberRange:
        """What either allows."""
        return NumberRange(_outer(self.unsigned, other.unsigned), _outer(self.signed, other.signed))

    def times(self, factor: int, moved: int, width: int) -> NumberRange:
        """Of so many times the value, plus a number."""
        both = of_total(*full(width, signed=False), width)
        for ends in (self.unsigned, self.signed):
            low, high = sorted((factor * ends[0], factor * ends[1]))
            both = both.met(of_total(low + moved, high + moved, width))
        return both


def overlap(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def _outer(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def full(width: int, *, signed: bool) -> Interval:
    top = 1 << width - signed
    return (-top if signed else 0), top - 1


def nearest(both: NumberRange) -> Interval:
    """The range by which a value goes into a sum: the shorter one."""
    (a, b), (c, d) = both.unsigned, both.signed
    return (a, b) if b - a <= d - c else (c, d)


def of_total(low: int, high: int, width: int) -> NumberRange:
    """Of a value that is a whole number between two, modulo 2^width."""
    size = 1 << width
    if low > high:
        return NumberRange((1, 0), (1, 0))
    if high - low >= size:
        return NumberRange(full(width, signed=False), full(width, signed=True))
    least, lowest = low % size, wrapped(low, width)
    most, highest = least + high - low, lowest + high - low
    unsigned = (least, most) if most < size else full(width, signed=False)
    signed = (lowest, highest) if highest < size // 2 else full(width, signed=True)
    return NumberRange(unsigned, signed)


def of_unsigned(ends: Interval, width: int) -> NumberRange:
    return of_total(*overlap(ends, full(width, signed=False)), width)


def of_signed(ends: Interval, width: int) -> NumberRange:
    return of_total(*overlap(ends, full(width, signed=True)), width)
