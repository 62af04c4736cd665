"""What accesses cost, so that findings of all kinds can be ranked.

The unit is a quarter of a cycle of a multiprocessor. In that time it issues one warp instruction
(it has four schedulers), passes one sector of 32 bytes through its L1 cache or a quarter of a
wavefront through the banks of shared memory (128 bytes a cycle), and gets half a sector from the L2
cache (64 bytes a cycle). Source: NVIDIA, "NVIDIA A100 Tensor Core GPU Architecture", 2020, and the
CUDA C++ Programming Guide, "Compute Capabilities"; the same for Volta to Hopper.

It is a yardstick, no prediction: latencies are hidden or not, caches hit or miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ptxsw.analysis.coalescing import LANES, SECTOR
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.groups import Group, groups
from ptxsw.report import model

FETCH = 2
"""Of a sector that the L1 cache does not hold."""
WAVEFRONT = 4
"""Of a pass through the banks of shared memory."""


def dense(size: int) -> int:
    """The sectors of a warp whose lanes ask for adjacent elements of `size` bytes."""
    return max(1, size * LANES // SECTOR)


def passes(site: Site) -> int | None:
    """Wavefronts of an access to shared memory; of 8 bytes a warp needs 2 even without
    conflicts."""
    ways, size = site.shown.bank_conflicts, site.shown.bytes
    return None if ways is None or not size else ways * max(1, size // 4)


def lost(group: Group) -> float:
    """What a warp loses to a group of accesses, each time it makes them, beside one whose lanes
    ask for adjacent elements."""
    through = sum(site.shown.sectors or 0 for site in group.sites)
    best = sum(dense(site.shown.bytes or 0) for site in group.sites)
    return through - best + FETCH * max(0.0, group.fetched - group.used)


def weigh(scene: Scene) -> tuple[tuple[model.Access, ...], model.Totals]:
    """The accesses with their weights, and what they move altogether."""
    weights = dict(_weights(scene))
    accesses = tuple(
        replace(site.shown, weight=round(float(weights[site.index]), 1))
        if site.index in weights
        else site.shown
        for site in scene.sites
    )
    return accesses, _totals(scene.sites, weights)


def _weights(scene: Scene) -> Iterator[tuple[int, float]]:
    for site in scene.sites:
        if site.shown.space == "shared" and (wavefronts := passes(site)) is not None:
            yield site.index, WAVEFRONT * wavefronts * site.times
        elif site.shown.space == "local" and site.shown.sectors is not None:
            yield site.index, site.shown.sectors * site.times
    for group in groups(scene):
        for number, site in enumerate(group.sites):
            fetched = group.fetched if number == 0 else 0  # L1 holds it for the others
            yield site.index, site.times * ((site.shown.sectors or 0) + FETCH * fetched)


def _totals(sites: Sequence[Site], weights: Mapping[int, float]) -> model.Totals:
    weighed = [site for site in sites if site.index in weights]
    return model.Totals(
        round(sum((s.shown.bytes or 0) * LANES * s.times for s in weighed if s.is_global)),
        round(sum((s.shown.sectors or 0) * s.times for s in weighed if s.shown.space != "shared")),
        round(sum((passes(s) or 0) * s.times for s in weighed if s.shown.space == "shared")),
    )
