"""A number of which only bounds are known."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Interval(Struct, frozen=True, order=True):
    """At least `low`, at most `high`; neither is negative. What is computed of intervals holds
    whatever the truth within them is, so one that is used twice counts as two unknowns."""

    low: float
    high: float

    def __post_init__(self) -> None:
        assert 0 <= self.low <= self.high, self

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)

    def __truediv__(self, rate: Interval) -> Interval:
        """An amount by a rate: least over fastest, most over slowest."""
        return Interval(self.low / rate.high, self.high / rate.low)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    @property
    def middle(self) -> float:
        """The geometric mean of the ends: what is wrong by the same factor at most, either way."""
        return float((self.low * self.high) ** 0.5)

    @property
    def width(self) -> float:
        """The upper end over the lower; 1 for an exact number."""
        return self.high / self.low if self.low else (1.0 if self.high == 0 else float("inf"))


def exactly(value: float) -> Interval:
    return Interval(value, value)


def total(items: Iterable[Interval]) -> Interval:
    return sum(items, start=exactly(0.0))


def greatest(items: Iterable[Interval]) -> Interval:
    """Bounds of the maximum; 0 for none."""
    every = [exactly(0.0), *items]
    return Interval(max(i.low for i in every), max(i.high for i in every))
