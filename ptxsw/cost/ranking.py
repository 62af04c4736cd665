"""Which variant of a rewrite is best, by what is counted in the text alone.

Each of these is a number of cycles that a multiprocessor is busy for one warp, on a GPU of
`gpus/*.toml` in the middle of its ranges:

issue     warp instructions over those issued in a cycle
l1        lanes and sectors of global accesses in the first-level cache
lsu       loads, stores and shuffles in the load-store units
memory    bytes that have to come from memory at least once
latency   cycles in which a warp waits, over the warps that can be resident

A variant takes at least as long as the busiest of them and at most their sum (`estimate`); variants
are compared by the geometric mean of these two. That puts them in order. Whether one of them pays
is decided by what ptxas makes of it (`decide`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, field

from ptxsw.cost.gpu import Gpu, UnknownGpu, of_target
from ptxsw.cost.occupancy import UnknownTarget, limits

WARP = 32  # lanes
_SECTOR = 32  # bytes
_WORD = 4  # bytes
_VOLTA = 70  # before it a warp is always together
_UNSURE = 12  # ptxas 13.0.88 makes 12.8 for sm_75 to sm_89 and 10 for sm_90 of gaussblur in a loop
# whose trip count varies by lane

Bounds = tuple[float, float, float, float]
"""Cycles for one warp of the issue slots, the cache, the load-store units, memory."""


class CacheRequest(Struct, frozen=True):
    """A global memory access as the cache sees it: `size` bytes for each of `lanes` lanes, which
    lie in so many 32-byte sectors and 128-byte lines."""

    size: int
    lanes: int
    sectors: int
    lines: int


class Wait(Struct, frozen=True):
    """How often a warp waits for loads and for shuffles on its way through a stretch of code,
    where all that stands side by side is waited for once."""

    loads: int = 0
    shuffles: int = 0

    def __or__(self, other: Wait) -> Wait:
        return Wait(max(self.loads, other.loads), max(self.shuffles, other.shuffles))


class Figures(Struct, frozen=True):
    """What one warp does in a kernel, or how much more a rewrite makes it do: executed counts,
    each loop taken a fixed number of times. `waits` is by stretch, with how often it is run."""

    issued: float = 0.0  # warp instructions
    shuffles: float = 0.0  # of these: shuffles of one word
    unsure: float = 0.0  # of these: where ptxas does not know that the warp is together
    requests: Mapping[CacheRequest, float] = field(default_factory=dict)
    waits: Mapping[int, tuple[float, Wait]] = field(default_factory=dict)
    memory: float = 0.0  # bytes that memory has to give or take

    def plus(self, *others: Figures) -> Figures:
        """The sum; waits of one stretch happen together."""
        requests, waits = dict(self.requests), dict(self.waits)
        for other in others:
            for request, times in other.requests.items():
                requests[request] = requests.get(request, 0.0) + times
            for stretch, (times, wait) in other.waits.items():
                waits[stretch] = (times, wait | waits.get(stretch, (0.0, Wait()))[1])
        everyone = (self, *others)
        return Figures(
            sum(f.issued for f in everyone),
            sum(f.shuffles for f in everyone),
            sum(f.unsure for f in everyone),
            requests,
            waits,
            sum(f.memory for f in everyone),
        )


class Scale(Struct, frozen=True):
    """What a multiprocessor does in a cycle, and the cycles until a result is there."""

    name: str  # of the GPU
    issue: float  # warp instructions
    unsure: float  # instructions more for a shuffle where the warp may not be together
    l1_lanes: float
    l1_bytes: float
    lsu: float  # lanes
    memory: float  # bytes
    load_latency: float
    shuffle_latency: float
    warps: int  # that can be resident

    def passes(self, request: CacheRequest) -> float:
        """Cycles that a request takes of the cache."""
        words = request.lanes * max(1.0, request.size / _WORD)
        return max(words / self.l1_lanes, request.sectors * _SECTOR / self.l1_bytes)

    def bounds(self, figures: Figures) -> Bounds:
        """Cycles of each unit but for waiting: of a sum of figures the sums of theirs."""
        l1 = sum(self.passes(request) * times for request, times in figures.requests.items())
        used = sum(figures.requests.values()) + figures.shuffles
        issued = (figures.issued + figures.unsure * self.unsure) / self.issue
        return issued, l1, used * WARP / self.lsu, figures.memory / self.memory

    def waiting(self, times: float, wait: Wait) -> float:
        """Cycles that a warp alone would wait."""
        return times * (wait.loads * self.load_latency + wait.shuffles * self.shuffle_latency)

    def total(self, bounds: Bounds, waiting: float) -> float:
        """Cycles for one warp from all bounds."""
        every = [max(value, 0.0) for value in (*bounds, waiting / self.warps)]
        return float((max(every) * sum(every)) ** 0.5)

    def cycles(self, figures: Figures) -> float:
        """Cycles for one warp."""
        waiting = sum(self.waiting(times, wait) for times, wait in figures.waits.values())
        return self.total(self.bounds(figures), waiting)


def scale(gpu: Gpu) -> Scale:
    """That of a GPU."""

    def middle(name: str) -> float:
        return gpu.of(name).middle

    bytes_a_cycle = middle("dram_copy") * 1e3 / middle("clock") / middle("sms")
    unsure = _UNSURE if int(gpu.arch.removeprefix("sm_")) >= _VOLTA else 0
    return Scale(
        gpu.name, middle("issue"), unsure, middle("l1_lanes"), middle("l1_bytes"), middle("lsu"),
        bytes_a_cycle, middle("l1_latency"), middle("shared_latency"), limits(gpu.arch).warps,
    )  # fmt: skip


@lru_cache(maxsize=8)
def of_arch(arch: str | None) -> Scale | None:
    """That of the GPU that stands for an architecture; None where none does, or where its limits
    are not known, as of sm_30. Raises BadGpu."""
    try:
        return scale(of_target(arch))
    except (UnknownGpu, UnknownTarget):
        return None
