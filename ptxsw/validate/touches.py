"""The plain loads and stores of a path, and which of them meet.

A path of thousands of accesses is compared with another one. Of each access only those matter, as
a rule, that lie at a known distance: their addresses are sums of the same terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from msgspec import Struct

from ptxsw.ptx.bits import wrapped
from ptxsw.terms.node import Term, split
from ptxsw.validate.chain import Bytes

_Sum = tuple[str, int, tuple[tuple[Term, int], ...]]


class Touch(Struct, frozen=True):
    """A plain load or store. `before` is how many events the path had seen; `nc`: a load that
    says that nobody writes these bytes; `parted`: lanes of a warp may have gone other ways before;
    `mask`: which lanes are here, if that has been asked. `fresh`: may a load give some of what
    memory held when the epoch began? `behind`: the stores that may have hit all that it gives."""

    target: Bytes
    guard: Term
    index: int
    before: int
    loads: bool
    nc: bool = False
    parted: bool = False
    mask: Term | None = None
    fresh: bool = True
    behind: frozenset[Bytes] = frozenset()


class TouchesBySum:
    """Accesses, in their order, by space and by the sum in their address without its constant."""

    def __init__(self, touches: Iterable[Touch]) -> None:
        self._sizes: dict[_Sum, dict[int, list[tuple[int, Touch]]]] = {}
        self._starts: dict[_Sum, dict[int, list[tuple[int, Touch]]]] = {}
        self._longest = 0
        for number, touch in enumerate(touches):
            group, at = _parted(touch.target)
            sizes = self._sizes.setdefault(group, {})
            sizes.setdefault(touch.target.size, []).append((at, touch))
            self._starts.setdefault(group, {}).setdefault(at, []).append((number, touch))
            self._longest = max(self._longest, touch.target.size)

    def beginning_with(self, touch: Touch) -> list[Touch]:
        """Those that begin where another access does, by its time."""
        group, at = _parted(touch.target)
        touches = self._starts.get(group, {}).get(at, ())
        return [other for _, other in touches if other.before <= touch.before]

    def aligning(self, touch: Touch) -> Iterator[Touch]:
        """Those by the time of another access that are known to lie multiples of its size away, and
        are as large as such a multiple: it is aligned if one of them is."""
        group, at = _parted(touch.target)
        size, width, before = touch.target.size, touch.target.place.width, touch.before
        return (
            t
            for other_size, others in self._sizes.get(group, {}).items()
            if other_size % size == 0
            for other, t in others
            if t.before <= before and wrapped(other - at, width) % size == 0
        )

    def meeting(self, touch: Touch) -> list[Touch]:
        """Those by the time of another access that are known to have bytes in common with it."""
        return [t for t in self.overlapping(touch.target) if t.before <= touch.before]

    def overlapping(self, target: Bytes) -> list[Touch]:
        """Those that are known to have bytes in common with some, at any time."""
        group, at = _parted(target)
        starts, top = self._starts.get(group, {}), 1 << target.place.width
        numbered = [
            (number, t)
            for distance in range(1 - self._longest, target.size)
            for number, t in starts.get((at + distance) % top, ())
            if -distance < t.target.size
        ]
        return [t for _, t in sorted(numbered, key=itemgetter(0))]


def uncovered(
    target: Bytes,
    others: Iterable[tuple[Bytes, Term]],
    distance: Callable[[Bytes, Bytes], int | None],
    holds: Callable[[Term], bool],
) -> frozenset[int]:
    """The numbers of the target's bytes that none of the others surely covers. Each of these comes
    with the condition under which it is touched; `distance` is from the second to the first of
    two, in bytes, where it is known. `holds` is asked where that helps."""
    rest = frozenset(range(target.size))
    for other, guard in others:
        at = distance(other, target) if rest else None
        covers = range(0) if at is None else range(at, at + other.size)
        if not rest.isdisjoint(covers) and holds(guard):
            rest = rest.difference(covers)
    return rest


def _parted(target: Bytes) -> tuple[_Sum, int]:
    constant, items = split(target.place)
    return (target.space, target.place.width, items), constant
