"""Contradictions found by trying every value, where conditions leave one unknown only a few.

    n - 1 <u 3, n > 0, n & 3 == 0      n is 1, 2 or 3, and no multiple of 4

So the remainder of an unrolled loop is decided without the solver.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, ones, split, unknowns, walk

_MOST = 16  # values
_MOST_NODES = 60  # of a condition
_MOST_CONDITIONS = 16


class Enumeration:
    """The contradictions among the conditions of one run, on whose paths the same ones come again
    and again."""

    def __init__(self) -> None:
        self._unknowns: dict[Term, list[Term]] = {}
        self._truths: dict[tuple[Term, Term, int], bool] = {}

    def contradict(self, conditions: Iterable[Term]) -> bool:
        """Can the conditions surely not all hold? A no may mean that no unknown has few values."""
        alone: dict[Term, list[Term]] = {}
        for condition in conditions:
            if condition.size <= _MOST_NODES:
                named = self._unknowns.get(condition)
                if named is None:
                    named = self._unknowns[condition] = unknowns(condition)
                if len(named) == 1:  # conditions that speak of others may be left out
                    alone.setdefault(named[0], []).append(condition)
        return any(self._contradict(unknown, about) for unknown, about in alone.items())

    def _contradict(self, unknown: Term, about: list[Term]) -> bool:
        few = [few for each in about if (few := _values(unknown, each)) is not None]
        if not few:
            return False
        # Of more bits than others leave open more conditions can be told.
        bits, values = max(few, key=lambda each: (each[0], -len(each[1])))
        if bits < unknown.width:  # of the bits above these nothing is known
            about = [each for each in about if _reads_low(unknown, bits, each)]
        possible = (value for value in values if value & ~ones(unknown) == 0)
        conditions = about[:_MOST_CONDITIONS]
        return not any(all(self._holds(each, unknown, v) for each in conditions) for v in possible)

    def _holds(self, condition: Term, unknown: Term, value: int) -> bool:
        """Does a condition hold where its only unknown has this value?"""
        key = (condition, unknown, value)
        truth = self._truths.get(key)
        if truth is None:
            truth = self._truths[key] = bool(evaluate(condition, {unknown: value}))
        return truth


def _values(unknown: Term, condition: Term) -> tuple[int, list[int]] | None:
    """The values that the low bits of an unknown may have where a condition holds, if they are few,
    and the number of these bits."""
    if condition.kind not in (op.ULT, op.ULE, op.EQ):
        return None
    value, bound = condition.args
    if condition.kind is op.EQ and value.kind is op.CONST:
        value, bound = bound, value
    constant, items = split(value)
    if bound.kind is not op.CONST or len(items) != 1 or unknown.kind not in op.OPAQUE:
        return None
    part, factor = items[0]
    if factor != 1 or not (part is unknown or _is_low(unknown, part)):
        return None
    least = int(bound.value) if condition.kind is op.EQ else 0
    end = int(bound.value) + (condition.kind is not op.ULT)
    if end - least > _MOST:
        return None
    return part.width, [(each - constant) % (1 << part.width) for each in range(least, end)]


def _is_low(unknown: Term, part: Term) -> bool:
    """Are these the lowest bits of an unknown?"""
    return part.kind is op.EXTRACT and part.value == 0 and part.args[0] is unknown


def _reads_low(unknown: Term, bits: int, condition: Term) -> bool:
    """Does a condition depend on no more than so many of the lowest bits of an unknown?"""
    return not any(
        unknown in node.args and not (node.kind is op.EXTRACT and node.value + node.width <= bits)
        for node in walk(condition)
    )
