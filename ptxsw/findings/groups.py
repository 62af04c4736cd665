"""Accesses of global memory that go over the same sectors: their addresses differ by constants.

The fields of a struct, the neighbours of a stencil and the copies of an unrolled loop each form a
group. The first access of a group fetches the sectors, the others find them in the L1 cache.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property, lru_cache

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES, SECTOR, touched
from ptxsw.findings.base import Scene, Site
from ptxsw.report.reuse import Stable, over_iterations
from ptxsw.terms.affine import Polynomial, constant, without_constant


class Group(Struct, frozen=True, dict=True):
    """Accesses in program order, and the bytes of each behind the first. `stride` is in bytes from
    lane to lane; `growth` in bytes from one iteration of the innermost loop to the next. Each is
    None where it is no constant. `step` is the stride as text, where it is a symbolic value."""

    sites: tuple[Site, ...]
    offsets: tuple[int, ...]
    stride: int | None
    step: str | None
    growth: int | None

    @property
    def times(self) -> float:
        return self.sites[0].times

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(site.index for site in self.sites)

    @cached_property
    def bytes(self) -> int:
        """Different bytes that one lane asks for; of several strides, those of one."""
        touched_bytes = self._touched(1)
        return len({at % self.stride for at in touched_bytes} if self.stride else touched_bytes)

    @cached_property
    def fetched(self) -> float:
        """Sectors that a warp brings into the L1 cache each time it makes all accesses. What the
        iteration of a loop before has brought does not count."""
        if self.stride is None:
            counts = [site.shown.sectors or 0 for site in self.sites]
            alone = max(counts, default=0)
            own = len(self._touched(SECTOR))
            return self._new(alone * own if self.step is not None else alone)
        phase = self.sites[0].shown.phase or 0
        starts = [phase + lane * self.stride for lane in range(LANES)]
        sectors: set[int] = set()
        for site, offset in zip(self.sites, self.offsets, strict=True):
            sectors |= touched((at + offset for at in starts), site.shown.bytes or 1, SECTOR)
        return self._new(len(sectors))

    @cached_property
    def used(self) -> float:
        """The sectors that the same bytes would fill."""
        if self.stride is None:
            return self._new(max(1.0, self.bytes * LANES / SECTOR))
        asked: set[int] = set()
        for site, offset in zip(self.sites, self.offsets, strict=True):
            at = [lane * self.stride + offset for lane in range(LANES)]
            asked |= touched(at, site.shown.bytes or 1, 1)
        return self._new(max(1.0, len(asked) / SECTOR))

    def _touched(self, unit: int) -> set[int]:
        """The units of memory that one lane touches."""
        sectors: set[int] = set()
        for site, offset in zip(self.sites, self.offsets, strict=True):
            sectors |= touched((offset - min(self.offsets),), site.shown.bytes or 1, unit)
        return sectors

    def _new(self, count: float) -> float:
        if self.growth is None:
            return count
        if self.growth == 0:
            return count / max(1.0, self.times)
        return count * min(1.0, abs(self.growth) / SECTOR)


@lru_cache(maxsize=1)
def groups(scene: Scene) -> tuple[Group, ...]:
    """The accesses of global memory whose sectors are known, in groups."""
    by_row: dict[Hashable, list[tuple[Site, int]]] = {}
    for site in scene.sites:
        if not site.is_global or site.shown.sectors is None or not site.shown.bytes:
            continue
        polynomial = scene.polynomial(site.access)
        if polynomial is None:
            by_row["alone", site.index] = [(site, 0)]
            continue
        loop = scene.trace.cfg.loop_of.get(scene.trace.cfg.block_of[site.index])
        key = (loop, site.shown.space, without_constant(polynomial))
        by_row.setdefault(key, []).append((site, polynomial.get((), 0)))
    return tuple(_group(scene, members) for members in by_row.values())


def _group(scene: Scene, members: list[tuple[Site, int]]) -> Group:
    first, start = members[0]
    step = first.shown.lane_step
    return Group(
        tuple(site for site, _ in members),
        tuple(offset - start for _, offset in members),
        first.shown.lane_stride,
        None if first.shown.lane_stride is not None or step in (None, "0") else step,
        _growth(scene, first, scene.polynomial(first.access)),
    )


def _growth(scene: Scene, site: Site, polynomial: Polynomial | None) -> int | None:
    """What an address grows by in an iteration of the innermost loop; None outside loops, too."""
    cfg = scene.trace.cfg
    header = cfg.loop_of.get(cfg.block_of[site.index])
    if header is None or polynomial is None:
        return None
    parts = over_iterations(polynomial, cfg.name(header), Stable(scene.trace, header))
    return None if parts is None else constant(parts[1])
