"""Questions about paths, each answered once; one that comes back to itself is not answered.

What a loop's counter starts at may be known by the bounds of another loop, and these by the first
loop's. A question that is asked while it is looked into has no answer there. Whatever was found
with such a missing answer is no more than that, and is forgotten, until the question that was
missing is itself answered: it would meet itself in the same place each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ptxsw.terms.polynomial import Polynomial

Key = tuple[object, ...]

_DEEPEST = 16  # questions that wait for one another
_MOST_MISSING = 200  # answers, for one question that nobody waits for; then it has none itself


class PathFact(Struct, frozen=True):
    """What a path has found out about conditions or a loop, and what that needs; or why nothing."""

    value: Any
    needs: tuple[Polynomial, ...] = ()
    problem: str | None = None


class PathFacts:
    """The answers by their questions."""

    def __init__(self) -> None:
        self._facts: dict[Key, PathFact] = {}
        self._open: dict[Key, int] = {}  # questions that are looked into, by how deep
        self._missing = 0
        self._lowest = _DEEPEST  # the depth of the first open question whose answer was missing

    def once(self, key: Key, find: Callable[[], PathFact], unknown: PathFact) -> PathFact:
        """The answer to a question; `unknown` if it is asked for itself."""
        fact = self._facts.get(key)
        if fact is not None:
            return fact
        depth = len(self._open)
        if depth == 0:
            self._missing = 0
        if key in self._open or depth == _DEEPEST or self._missing > _MOST_MISSING:
            self._missing += 1
            self._lowest = min(self._lowest, self._open.get(key, 0))
            return unknown
        outer, self._lowest = self._lowest, _DEEPEST
        self._open[key] = depth
        try:
            fact = find()
        finally:
            del self._open[key]
            complete = self._lowest >= depth
            self._lowest = outer if complete else min(outer, self._lowest)
        if complete:
            self._facts[key] = fact
        return fact
