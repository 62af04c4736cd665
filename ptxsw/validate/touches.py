"""The accesses of a path by what their addresses are made of.

A path of thousands of accesses is compared with another one. Of each access only those matter, as
a rule, that lie at a known distance: their addresses are sums of the same terms.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.bits import wrapped
from ptxsw.emulator.node import Term, split
from ptxsw.validate.memory import Bytes
from ptxsw.validate.path import Touch

_Sum = tuple[str, int, tuple[tuple[Term, int], ...]]


class TouchesBySum:
    """Accesses, in their order, by space and by the sum in their address without its constant."""

    def __init__(self, touches: Iterable[Touch]) -> None:
        self._groups: dict[_Sum, list[tuple[int, Touch]]] = {}
        self._starts: dict[tuple[_Sum, int], list[Touch]] = {}
        for touch in touches:
            group, at = start = _parted(touch.target)
            self._groups.setdefault(group, []).append((at, touch))
            self._starts.setdefault(start, []).append(touch)

    def beginning_with(self, touch: Touch) -> list[Touch]:
        """Those that begin where another access does, by its time."""
        found = self._starts.get(_parted(touch.target), ())
        return [other for other in found if other.before <= touch.before]

    def level(self, touch: Touch) -> list[tuple[int, Touch]]:
        """Those at a known distance by the time of another access, each with how many bytes it
        begins behind that."""
        group, at = _parted(touch.target)
        width, before = touch.target.place.width, touch.before
        return [
            (wrapped(other - at, width), t)
            for other, t in self._groups.get(group, ())
            if t.before <= before
        ]


def _parted(target: Bytes) -> tuple[_Sum, int]:
    constant, items = split(target.place)
    return (target.space, target.place.width, items), constant
