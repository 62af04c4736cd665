"""Which accesses of a loop may go to the same bytes, and is there surely a store in between that no
proof and no test tells apart? Both are seen without proofs, and of most loops nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ptxsw.analysis.address_fingerprint import Fingerprints
from ptxsw.analysis.boundless import Shapes
from ptxsw.emulator.trace import Access
from ptxsw.facts.grid import Grid
from ptxsw.ptx import isa
from ptxsw.rewrites.hazards import SPACES, is_plain
from ptxsw.rewrites.loop_ranges import LoopRanges
from ptxsw.terms.node import Term, split


class Meeting(Struct, frozen=True):
    """A load, other accesses that go where it goes in an iteration, and those that go where it goes
    in the next one, by instruction."""

    load: int
    here: frozenset[int]
    ahead: frozenset[int]


class Meetings(Struct, frozen=True):
    """What may meet in a loop. `staying` are the accesses to the same bytes in each iteration."""

    staying: frozenset[int]
    loads: tuple[Meeting, ...]

    @property
    def members(self) -> frozenset[int]:
        """All accesses that meet others, or themselves."""
        return self.staying.union(*({m.load} | m.here | m.ahead for m in self.loads))


def shape(access: Access) -> tuple[object, ...]:
    """Only accesses of one shape can stand for each other."""
    kind = isa.access_type(access.instruction)
    return access.space, kind, access.elements, "nc" in access.instruction.modifiers


def meetings(
    accesses: Iterable[Access], count: Term, block_shape: tuple[int, int, int] | None
) -> Meetings:
    """Those of the accesses of a loop whose iterations `count` counts."""
    fingerprints = Fingerprints(count, block_shape)
    staying: set[int] = set()
    places: dict[object, set[int]] = {}
    loads: list[tuple[int, object, object]] = []
    for access in accesses:
        addresses = {variant.address for variant in access.variants}
        if len(addresses) != 1 or not is_plain(access.instruction):
            continue
        now, later = fingerprints.of(addresses.pop())
        if now == later:
            staying.add(access.index)
        kind = shape(access)
        places.setdefault((kind, now), set()).add(access.index)
        if access.kind == "load":
            loads.append((access.index, (kind, now), (kind, later)))
    met = (
        Meeting(
            load, frozenset(places[here] - {load}), frozenset(places.get(ahead, set()) - {load})
        )
        for load, here, ahead in loads
    )
    return Meetings(frozenset(staying), tuple(one for one in met if one.here or one.ahead))


class Blockers:
    """Stores that surely stay in the way of what a loop could keep: nothing bounds them, or what
    they could meet, and no test before the loop tells them apart."""

    def __init__(self, grid: Grid, ranges: LoopRanges | None) -> None:
        """Without `ranges` there can be no test before the loop."""
        self._grid, self._shapes, self._ranges = grid, Shapes(grid), ranges
        self._boundless: dict[int, bool] = {}
        self._blocks: dict[tuple[int, int], bool] = {}

    def leave_something(
        self, met: Meetings, accesses: Sequence[Access], when: Callable[[int], tuple[int, int]]
    ) -> bool:
        """May anything be kept? `when` tells when an access is made in an iteration."""
        access_at = {access.index: access for access in accesses}
        stores = [(when(a.index), a) for a in accesses if a.kind != "load"]
        first, last = (-1, -1), (1 << 62, 0)

        def is_free(at: int, after: tuple[int, int], before: tuple[int, int]) -> bool:
            crossed = (store for then, store in stores if after < then < before)
            return not any(self._stays_between(access_at[at], store) for store in crossed)

        if any(access_at[at].kind != "load" or is_free(at, first, last) for at in met.staying):
            return True
        return any(
            any(when(o) < when(m.load) and is_free(m.load, when(o), when(m.load)) for o in m.here)
            or any(
                is_free(o, when(o), last) and is_free(m.load, first, when(m.load)) for o in m.ahead
            )
            for m in met.loads
        )

    def _stays_between(self, one: Access, store: Access) -> bool:
        key = (one.index, store.index)
        if key not in self._blocks:
            self._blocks[key] = self._is_blocked(one, store)
        return self._blocks[key]

    def _is_blocked(self, one: Access, store: Access) -> bool:
        """Is there surely neither a proof that a store misses the bytes of an access, nor a test
        for it?"""
        spaces = {one.space, store.space}
        if "nc" in one.instruction.modifiers or spaces == SPACES or store.space == "local":
            return False
        if len(spaces) > 1:
            return True
        if spaces != {"global"} or not (self._has_no_bounds(store) or self._has_no_bounds(one)):
            return False
        if not self._on_other_pointers(one, store):
            return False
        return self._ranges is None or not self._ranges.apart(one, store)

    def _has_no_bounds(self, access: Access) -> bool:
        if access.index not in self._boundless:
            self._boundless[access.index] = self._shapes.is_boundless(access)
        return self._boundless[access.index]

    def _on_other_pointers(self, one: Access, other: Access) -> bool:
        """Is the distance of two accesses that of two parameters, and so no number?"""
        places = [{variant.address for variant in access.variants} for access in (one, other)]
        if any(len(several) > 1 for several in places):
            return True  # such an address is not followed from iteration to iteration
        addresses = [address for (address,) in places]
        parts = [{part for part, _ in split(address)[1]} for address in addresses]
        a, b = map(self._grid.pointer, addresses)
        return a is not None and b is not None and a not in parts[1] and b not in parts[0]
