"""Contradictions found by trying every value, where conditions leave one unknown only a few.

    n - 1 <u 3, n > 0, n & 3 == 0      n is 1, 2 or 3, and no multiple of 4

So the remainder of an unrolled loop is decided without the solver.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.emulator.evaluate import evaluate
from ptxsw.emulator.node import OPAQUE, Term, ones, split, unknowns

_MOST = 16  # values
_MOST_NODES = 60  # of a condition
_MOST_CONDITIONS = 16


def contradict(conditions: Iterable[Term]) -> bool:
    """Can the conditions surely not all hold? A no may mean that no unknown has few values."""
    alone: dict[Term, list[Term]] = {}
    for condition in conditions:
        if condition.size <= _MOST_NODES:
            named = unknowns(condition)
            if len(named) == 1:  # conditions that speak of others may be left out
                alone.setdefault(named[0], []).append(condition)
    return any(_contradict(unknown, about) for unknown, about in alone.items())


def _contradict(unknown: Term, conditions: list[Term]) -> bool:
    about = conditions[:_MOST_CONDITIONS]
    values = next((few for each in about if (few := _values(unknown, each)) is not None), None)
    if values is None:
        return False
    possible = (value for value in values if value & ~ones(unknown) == 0)
    return not any(all(evaluate(each, {unknown: v}) for each in about) for v in possible)


def _values(unknown: Term, condition: Term) -> list[int] | None:
    """The values that an unknown may have where a condition holds, if they are few."""
    if condition.kind not in ("ult", "ule", "eq"):
        return None
    value, bound = condition.args
    if condition.kind == "eq" and value.kind == "const":
        value, bound = bound, value
    constant, items = split(value)
    if bound.kind != "const" or items != ((unknown, 1),) or unknown.kind not in OPAQUE:
        return None
    least = int(bound.value) if condition.kind == "eq" else 0
    end = int(bound.value) + (condition.kind != "ult")
    if end - least > _MOST:
        return None
    return [(each - constant) % (1 << unknown.width) for each in range(least, end)]
