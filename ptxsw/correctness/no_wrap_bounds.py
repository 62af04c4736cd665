"""Between which whole numbers a sum of 32 bits lies if it never wraps.

The number of a thread along an axis counts as one number (`grid-fits`), and `i - w·(i / w)` as a
remainder, so that neither is taken apart:

    2·(ctaid·ntid + tid) + 1        from 1 to 2^32 - 2^21 - 1
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.facts.grid import AXES
from ptxsw.facts.number_bounds import Bounds
from ptxsw.facts.number_range import Interval
from ptxsw.ptx.bits import wrapped
from ptxsw.terms import op
from ptxsw.terms.node import Term, split

MOST_IN_GRID = (1 << 31) - (1 << 20)
"""Threads along an axis. A million fewer than there may be, so that `i + 1` fits as well."""
_DEEPEST = 20


class WholeNumbers:
    """Sums of one kernel."""

    def __init__(self, values: KernelValues) -> None:
        self._values = values

    @cached_property
    def numbers_in_grid(self) -> tuple[Term, ...]:
        """The numbers of a thread, and of the first of its block, along each axis."""
        terms, shape = self._values.terms, self._values.shape
        numbers: dict[Term, None] = {}
        for at, axis in enumerate(AXES):
            block, thread = terms.special(f"%ctaid.{axis}"), terms.special(f"%tid.{axis}")
            starts = [terms.mul(block, terms.special(f"%ntid.{axis}"))]
            if shape is not None:
                starts.append(terms.scale(block, shape[at]))
            for start in starts:
                numbers.update(dict.fromkeys((terms.add(start, thread), start)))
        return tuple(numbers)

    @cached_property
    def grid_fits(self) -> tuple[Term, ...]:
        """That these are below their most, as conditions."""
        terms, most = self._values.terms, self._values.terms.const(MOST_IN_GRID, 32)
        return tuple(terms.ult(number, most) for number in self.numbers_in_grid)

    def ends(self, term: Term, given: Iterable[Term], *, signed: bool) -> Interval:
        """The least and the greatest number, with what is no sum read as signed or not."""
        return self._ends(term, self._values.bounds(given), signed, 0)

    def _ends(self, term: Term, bounds: Bounds, signed: bool, depth: int) -> Interval:
        if depth < _DEEPEST and term.kind is op.SUM:
            constant, items = split(term)
            low = high = wrapped(constant, term.width)
            for part, factor in self._grouped(items, term.width):
                if part in self._kept:
                    ends = bounds.unsigned(part)
                else:
                    ends = self._ends(part, bounds, signed, depth + 1)
                sides = factor * ends[0], factor * ends[1]
                low, high = low + min(sides), high + max(sides)
            return low, high
        if depth < _DEEPEST and term.kind is op.MUL:
            low = high = 1
            for part in term.args:
                ends = self._ends(part, bounds, signed, depth + 1)
                products = [x * y for x in (low, high) for y in ends]
                low, high = min(products), max(products)
            return low, high
        return bounds.signed(term) if signed else bounds.unsigned(term)

    @cached_property
    def _kept(self) -> set[Term]:
        """Sums that are known not to wrap."""
        return set(self.numbers_in_grid)

    def _grouped(self, items: Iterable[tuple[Term, int]], width: int) -> list[tuple[Term, int]]:
        """The parts of a sum, with those of a number in the grid, or of a remainder, as one."""
        left = {part: wrapped(factor, width) for part, factor in items}
        grouped: list[tuple[Term, int]] = []
        for whole in self._remainders(left):
            self._take(whole[0], whole[1], left, grouped)
        for number in self.numbers_in_grid:
            if number.width == width:
                self._take(number, number, left, grouped)
        return [*grouped, *left.items()]

    def _take(
        self, parts: Term, one: Term, left: dict[Term, int], grouped: list[tuple[Term, int]]
    ) -> None:
        """Replace the parts of a sum by one term, as often as they are all there."""
        constant, items = split(parts)
        if constant or not items or items[0][0] not in left:
            return
        times, rest = divmod(left[items[0][0]], wrapped(items[0][1], parts.width))
        if rest or any(left.get(t) != times * wrapped(f, parts.width) for t, f in items):
            return
        for part, _ in items:
            del left[part]
        grouped.append((one, times))

    def _remainders(self, left: dict[Term, int]) -> list[tuple[Term, Term]]:
        """`x - w·(x / w)` for quotients among the parts, each with the remainder that it is."""
        terms, found = self._values.terms, list[tuple[Term, Term]]()
        for part in left:
            for quotient in part.args if part.kind is op.MUL else (part,):
                if quotient.kind is op.UDIV:
                    whole, by = quotient.args
                    product = terms.mul(quotient, by)
                elif (divided := divided_by_number(quotient)) is not None:
                    whole, by = divided[0], terms.const(divided[1], quotient.width)
                    product = terms.scale(quotient, divided[1])
                else:
                    continue
                remainder = terms.urem(whole, by)
                self._kept.add(remainder)
                found.append((terms.sub(whole, product), remainder))
                break
        return found


def divided_by_number(term: Term) -> tuple[Term, int] | None:
    """What is divided by which number where a compiler multiplies and shifts instead, as in
    `(x · 0x51eb851f) >> 36`, which is x / 50 (Granlund and Montgomery 1994)."""
    high = term.args[0] if term.kind is op.ZEXT else term
    if high.kind is not op.EXTRACT or high.value < 32:
        return None
    constant, items = split(high.args[0])
    if constant or len(items) != 1 or items[0][0].kind is not op.ZEXT:
        return None
    (extended, times), shift = items[0], int(high.value)
    whole = extended.args[0]
    by = -(-(1 << shift) // times)
    for divisor in (by, by - 1):
        beyond = times * divisor - (1 << shift)
        exact = 0 <= beyond <= 1 << max(shift - whole.width, 0)
        if divisor > 1 and exact and whole.width == term.width and times < 1 << whole.width:
            return whole, divisor
    return None
