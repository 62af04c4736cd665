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
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import LANES, LINE, SECTOR, touched
from ptxsw.cost.account import Account, Interval, exactly, greatest
from ptxsw.cost.estimate import iteration
from ptxsw.cost.gpu import Gpu, UnknownGpu, of_target
from ptxsw.cost.instructions import of_ptx
from ptxsw.cost.resource_demand import asked
from ptxsw.cost.tensor import tensor_times
from ptxsw.findings.base import BEYOND, FETCH, WAVEFRONT, Saved, Scene, Site
from ptxsw.report import model
from ptxsw.report.reuse import Stable, over_iterations
from ptxsw.terms.polynomial import Polynomial


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
            alone = max((site.shown.sectors or 0 for site in self.sites), default=0)
            own = self._new(self._touched(SECTOR), SECTOR)
            return alone * own if self.step is not None else alone * min(1.0, own)
        phase = self.sites[0].shown.phase or 0
        starts = [phase + lane * self.stride for lane in range(LANES)]
        sectors: set[int] = set()
        for site, offset in zip(self.sites, self.offsets, strict=True):
            sectors |= touched((at + offset for at in starts), site.shown.bytes or 1, SECTOR)
        return min(self._new(sectors, SECTOR), self.sectors)  # lanes may be left out

    @cached_property
    def used(self) -> float:
        """The sectors that the same bytes would fill."""
        if self.stride is None:
            share = self._new(self._touched(SECTOR), SECTOR) / len(self._touched(SECTOR))
            return max(1.0, self.bytes * LANES / SECTOR) * share
        asked: set[int] = set()
        for site, offset in zip(self.sites, self.offsets, strict=True):
            at = [lane * self.stride + offset for lane in range(LANES)]
            asked |= touched(at, site.shown.bytes or 1, 1)
        least = 1.0 if self.growth is None else 0.0
        return max(least, self._new(asked, 1) / SECTOR)

    def _touched(self, unit: int) -> set[int]:
        """The units of memory that one lane touches."""
        sectors: set[int] = set()
        for site, offset in zip(self.sites, self.offsets, strict=True):
            sectors |= touched((offset - min(self.offsets),), site.shown.bytes or 1, unit)
        return sectors

    def _new(self, units: set[int], unit: int) -> float:
        """How many of some units of so many bytes the iteration before has not touched."""
        if self.growth is None:
            return len(units)
        if self.growth == 0:
            return len(units) / max(1.0, self.times)
        step, rest = divmod(self.growth, unit)
        if abs(self.growth) < SECTOR:
            return len(units) * abs(self.growth) / SECTOR
        return len(units - {one - step for one in units}) if not rest else len(units)


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


def lost(group: Group) -> Saved:
    """What a warp loses to a group of accesses beside one whose lanes ask for adjacent
    elements."""
    far = SECTOR * max(0.0, group.fetched - group.used) * group.times
    sectors = (group.sectors - group.dense) * group.times
    return {"sectors": sectors, "l2_bytes": far, "dram_bytes": far}


@lru_cache(maxsize=1)
def account(scene: Scene) -> Account | None:
    """What a warp asks for that runs once through a kernel; what another access has brought into
    the L1 cache comes from there. None where no GPU stands for the target."""
    gpu = gpu_of(scene)
    if gpu is None:
        return None
    times = [scene.times(index) for index in range(len(scene.trace.cfg.instructions))]
    own = asked(gpu, scene.trace, scene.figures, times)
    tensor = tensor_times(scene.trace.cfg, times)
    local = (s for s in scene.sites if s.shown.space == "local")
    own_far = sum(BEYOND * SECTOR * (site.shown.sectors or 0) * site.times for site in local)
    far = exactly(own_far + sum(SECTOR * g.fetched * g.times for g in groups(scene)))
    atomics = sum(meeting(scene, s) * s.times for s in scene.sites if s.shown.kind == "atomic")
    read = sum(places(scene, s) * s.times for s in scene.sites if s.shown.space == "const")
    return replace(
        own, l2_bytes=far, dram_bytes=far, tensor=tensor.multiply_adds,
        passes=own.passes + tensor.shared / exactly(float(LINE)),
        others={"atomics": exactly(atomics), "constants": exactly(read)},
        unmodelled=tensor.unmodelled,
    )  # fmt: skip


def of_blocks(scene: Scene, blocks: Iterable[int], share: float = 1.0) -> Saved:
    """A share of the instructions of some blocks, and of their pipelines."""
    inside = set(scene.trace.cfg.indices(blocks))
    every = range(len(scene.trace.cfg.instructions))
    times = [scene.times(index) if index in inside else 0.0 for index in every]
    mix = of_ptx(scene.trace.cfg.instructions, times)
    figures = {"instructions": mix.instructions, **mix.pipes}
    return {name: share * count.high for name, count in figures.items()}


def gpu_of(scene: Scene) -> Gpu | None:
    """The GPU that stands for the target."""
    try:
        return of_target(scene.arch)
    except UnknownGpu:
        return None


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


def gain(scene: Scene, saves: Saved) -> tuple[float, float] | None:
    """The shares by which a kernel's bound falls, the time of its busiest resource, if it asks for
    so much less: where its data lie in the L2 cache, and where they come from memory, at both ends
    of what is known of the GPU. None where the bound is not known."""
    total, gpu = account(scene), gpu_of(scene)
    if total is None or gpu is None or total.unmodelled or not saves:
        return None
    cases = [total, replace(total, dram_bytes=exactly(0.0))]
    falls = [fall for one in cases for fall in _falls(gpu, one, less(one, saves))]
    return min(falls), max(falls)


def less(total: Account, saves: Saved) -> Account:
    """The account without what is saved."""
    figures = {
        name: _without(getattr(total, name), saves[name])
        for name in ("instructions", "sectors", "lanes", "l2_bytes", "dram_bytes", "passes")
        if name in saves
    }
    pipes = {name: _without(count, saves.get(name, 0.0)) for name, count in total.pipes.items()}
    others = {name: _without(count, saves.get(name, 0.0)) for name, count in total.others.items()}
    return replace(total, pipes=pipes, others=others, **figures)


def _without(amount: Interval, saved: float) -> Interval:
    """Less of an amount: what is saved is told of its upper end, the lower one falls in
    proportion."""
    left = max(0.0, amount.high - saved)
    return amount * (left / amount.high) if amount.high else amount


def _falls(gpu: Gpu, before: Account, after: Account) -> Iterator[float]:
    old, new = (bound(gpu, one) for one in (before, after))
    for one, other in ((old.low, new.low), (old.high, new.high)):
        yield 1 - other / one if one else 0.0


def bound(gpu: Gpu, total: Account) -> Interval:
    """Cycles of a multiprocessor for one warp: the time of the busiest resource."""
    return greatest(one.time for one in iteration(gpu, total, exactly(1.0)).resources)


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
