"""What accesses cost, so that findings of all kinds can be ranked.

The unit is a quarter of a cycle of a multiprocessor. In that time it issues one warp instruction
(it has four schedulers), passes one sector of 32 bytes through its L1 cache or a quarter of a
wavefront through the banks of shared memory (128 bytes a cycle), and gets half a sector from the L2
cache (64 bytes a cycle). Source: NVIDIA, "NVIDIA A100 Tensor Core GPU Architecture", 2020, and the
CUDA C++ Programming Guide, "Compute Capabilities"; the same for Volta to Hopper.

It is a yardstick, no prediction: latencies are hidden or not, caches hit or miss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import LANES, SECTOR, touched
from ptxsw.cost.gpu import PIPES, Gpu, UnknownGpu, of_target
from ptxsw.cost.instructions import of_ptx
from ptxsw.findings.base import Scene, Site
from ptxsw.report import model
from ptxsw.report.reuse import Stable, over_iterations
from ptxsw.terms.polynomial import Polynomial

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


# ---------------------------------------------------------------- accesses of the same sectors


class Group(Struct, frozen=True, dict=True):
    """Accesses of global memory that go over the same sectors, since their addresses differ by
    constants: fields of a struct, neighbours of a stencil, copies of an unrolled loop. The first
    fetches the sectors, the others find them in the L1 cache.

    The accesses are in program order, `offsets` the bytes of each behind the first, `stride` bytes
    from lane to lane, `growth` bytes from one iteration of the innermost loop to the next. Each is
    None where it is no constant. `step` is the stride as text, where it is a symbolic value."""

    sites: tuple[Site, ...]
    offsets: tuple[int, ...]
    stride: int | None
    step: str | None
    growth: int | None

    @property
    def sectors(self) -> int:
        """Sectors of all accesses, each by itself."""
        return sum(site.shown.sectors or 0 for site in self.sites)

    @property
    def dense(self) -> int:
        """The same if the lanes asked for adjacent elements."""
        return sum(dense(site.shown.bytes or 0) for site in self.sites)

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
        return self._new(min(len(sectors), self.sectors))  # lanes may be left out

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
    for site in (*scene.sites, *scene.copies):
        if not site.is_global or site.shown.sectors is None or not site.shown.bytes:
            continue
        polynomial = scene.polynomial(site.access)
        if polynomial is None:
            by_row["alone", site.index] = [(site, 0)]
            continue
        loop = scene.trace.cfg.loop_of.get(scene.trace.cfg.block_of[site.index])
        key = (loop, site.shown.space, polynomial.varying)
        by_row.setdefault(key, []).append((site, polynomial.offset))
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
    return None if parts is None else parts[1].number


# ---------------------------------------------------------------- weights


Busy = Mapping[str, float]
"""Quarters of a cycle in which a warp that runs once through a kernel keeps a resource busy."""


def lost(group: Group) -> Busy:
    """What a warp loses to a group of accesses beside one whose lanes ask for adjacent
    elements."""
    far = FETCH * max(0.0, group.fetched - group.used)
    return {
        "l1": (group.sectors - group.dense) * group.times,
        "l2": far * group.times,
        "dram": far * group.times,
    }


@lru_cache(maxsize=1)
def busy(scene: Scene) -> Busy:
    """What a kernel asks of each resource: issue slots, pipelines (of the GPU that stands for the
    target), L1 and L2 cache, and the banks of shared memory. Empty where tensor cores work: then
    no bound is known."""
    instructions = scene.trace.cfg.instructions
    if scene.has_tensor_work:
        return {}
    total = defaultdict[str, float](float, issue=scene.executed)
    total["atomics"] = sum(WAVEFRONT * meeting(scene, s) * s.times for s in _atomics(scene))
    for resource, amount in _moved(scene):
        total[resource] += amount
    try:
        gpu = of_target(scene.arch)
    except UnknownGpu:
        return total
    total["dram"] = total["l2"]
    mix = of_ptx(instructions, [scene.times(index) for index in range(len(instructions))])
    for pipe in PIPES:
        if pipe in mix.pipes:
            total[pipe] = mix.pipes[pipe].low * pipe_time(gpu, pipe)
    return total


def pipe_time(gpu: Gpu, pipe: str) -> float:
    """Of a warp instruction, in quarters of a cycle."""
    return WAVEFRONT * LANES / gpu.lanes(pipe).high


def _moved(scene: Scene) -> Iterator[tuple[str, float]]:
    for site in scene.sites:
        if site.shown.space == "shared":
            yield "shared", WAVEFRONT * (passes(site) or 1) * site.times
        elif site.shown.space == "const":
            yield "constants", WAVEFRONT * places(scene, site) * site.times
        elif site.shown.space == "local" and site.shown.sectors is not None:
            yield "l1", site.shown.sectors * site.times
    for group in groups(scene):
        yield "l1", group.sectors * group.times
        yield "l2", FETCH * group.fetched * group.times


def _atomics(scene: Scene) -> Iterator[Site]:
    return (site for site in scene.sites if site.shown.kind == "atomic")


def meeting(scene: Scene, site: Site) -> int:
    """The lanes of a warp whose atomic operations go to one address."""
    if site.shown.contention is not None:
        return min(site.shown.contention, scene.lanes(site))
    one = site.shown.uniform or site.shown.lane_stride == 0
    return scene.lanes(site) if one else 1


def places(scene: Scene, site: Site) -> int:
    """How many addresses the lanes of a warp may read; as many as lanes where a loaded index
    tells."""
    shown = site.shown
    if shown.uniform or shown.lane_stride == 0:
        return 1
    if shown.lanes is not None:
        return min(len(set(shown.lanes)), scene.lanes(site))
    return scene.lanes(site)


def gain(scene: Scene, total: Busy, saves: Busy) -> tuple[float, float] | None:
    """The shares by which a kernel's bound falls, the time of its busiest resource, if it asks for
    so much less: where its data lie in the L2 cache, and where they come from memory. None where
    that is not known."""
    if not total or not saves:
        return None
    cases = [_fall(total, saves, factor) for factor in (0.0, _beside_l2(scene))]
    return min(cases), max(cases)


def _fall(total: Busy, saves: Busy, dram: float) -> float:
    scale = {"dram": dram}
    before = max(amount * scale.get(name, 1.0) for name, amount in total.items())
    after = max(
        max(0.0, amount - saves.get(name, 0.0)) * scale.get(name, 1.0)
        for name, amount in total.items()
    )
    return 1 - after / before


def _beside_l2(scene: Scene) -> float:
    """How much longer memory takes for a sector than the L2 cache."""
    try:
        gpu = of_target(scene.arch)
    except UnknownGpu:
        return 1.0
    per_cycle = gpu.of("dram_copy").high * 1e3 / (gpu.of("clock").high * gpu.of("sms").high)
    return WAVEFRONT * SECTOR / per_cycle / FETCH


def weigh(scene: Scene) -> tuple[tuple[model.Access, ...], model.Totals]:
    """The accesses with their weights, and what they move altogether."""
    weights = defaultdict[int, float](float)
    for index, amount in _weights(scene):  # a copy from global to shared memory has two
        weights[index] += amount
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
    shared = [site for site in weighed if site.shown.space == "shared"]
    return model.Totals(
        round(sum((s.shown.bytes or 0) * LANES * s.times for s in weighed if s.is_global)),
        round(sum((s.shown.sectors or 0) * s.times for s in weighed if s.shown.space != "shared")),
        round(sum((s.shown.wavefronts or 0) * s.times for s in shared)),
    )
