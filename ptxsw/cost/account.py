"""What a text costs: the one set of figures, whoever counts, of whichever part of it.

`decide` fills it from what ptxas made of a kernel, for a warp that runs through it once, each loop
taken 16 times; `iterations` from a trace, for a warp in one iteration of a loop; `launched` from
blocks that were run, for all warps of a launch. What somebody does not count is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field


class Interval(Struct, frozen=True, order=True):
    """At least `low`, at most `high`; neither is negative. What is computed of intervals holds
    whatever the truth within them is, so one that is used twice counts as two unknowns."""

    low: float
    high: float

    def __post_init__(self) -> None:
        assert 0 <= self.low <= self.high, self

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)

    def __truediv__(self, rate: Interval) -> Interval:
        """An amount by a rate: least over fastest, most over slowest."""
        return Interval(self.low / rate.high, self.high / rate.low)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    @property
    def middle(self) -> float:
        """The geometric mean of the ends: what is wrong by the same factor at most, either way."""
        return float((self.low * self.high) ** 0.5)

    @property
    def width(self) -> float:
        """The upper end over the lower; 1 for an exact number."""
        return self.high / self.low if self.low else (1.0 if self.high == 0 else float("inf"))


def exactly(value: float) -> Interval:
    return Interval(value, value)


def total(items: Iterable[Interval]) -> Interval:
    return sum(items, start=exactly(0.0))


def greatest(items: Iterable[Interval]) -> Interval:
    """Bounds of the maximum; 0 for none."""
    every = [exactly(0.0), *items]
    return Interval(max(i.low for i in every), max(i.high for i in every))


_NONE: Final = exactly(0.0)
_WAITING: Final = "waiting"


class Ends(NamedTuple):
    """Between which the time of a warp lies, in cycles of a multiprocessor. `is_open`: is `sum` not
    all that it does?"""

    busiest: float
    sum: float
    is_open: bool = False


class Case(Struct, frozen=True):
    """Cycles of a multiprocessor for one warp, by resource, and those that a warp alone would wait:
    all at one end of what is known of the GPU. `tensor`: do tensor cores work, too?"""

    cycles: Mapping[str, float]
    waits: float = 0.0
    tensor: bool = False

    @property
    def ends(self) -> Ends:
        return Ends(max(self.cycles.values()), sum(self.cycles.values()), self.tensor)

    def beside(self, warps: float) -> Mapping[str, float]:
        """With waiting as a resource of so many resident warps."""
        return {**self.cycles, _WAITING: self.waits / warps}

    def together(self, warps: float) -> float:
        """All of these one after the other."""
        return sum(self.beside(warps).values())


class Account(Struct, frozen=True, kw_only=True):
    """The figures of a text, or of a part of it."""

    registers: int = 0  # of a thread
    local: int = 0  # bytes that a thread spills to local memory, stored and loaded
    shared: int = 0  # bytes of a block in shared memory

    instructions: Interval = _NONE  # warp instructions
    pipes: Mapping[str, Interval] = field(default_factory=dict)  # the same by pipeline
    wavefronts: Interval = _NONE  # passes of the memory pipe, whatever the memory
    passes: Interval = _NONE  # through the banks of shared memory
    lanes: Interval = _NONE  # of global accesses in the first-level cache, for each 4 bytes
    sectors: Interval = _NONE  # of 32 bytes, of global accesses in the first-level cache
    l2_bytes: Interval = _NONE  # between the first-level caches and the second
    dram_bytes: Interval = _NONE  # between the second-level cache and memory
    chain: Interval = _NONE  # cycles that one warp needs if it never waits for others
    tensor: Mapping[tuple[str, str], Interval] = field(default_factory=dict)
    """Multiply-adds of tensor cores, by instruction ("wgmma") and rate ("f16_f32", `tensor`)."""
    others: Mapping[str, Interval] = field(default_factory=dict)
    """Cycles of a multiprocessor for what no figure of a GPU is about, at one a cycle: operations
    on one address of memory (`atomics`), addresses of constant memory (`constants`)."""
    unmodelled: tuple[str, ...] = ()  # work without figures: the upper end of its time is open

    occupancy: Mapping[int, float] = field(default_factory=dict)
    """The share of the warps of a multiprocessor that are resident, by the threads of a block."""
    warps: int = 0  # that a multiprocessor can hold
    blocks: float = 1.0  # of equal length, over all multiprocessors
    resident: float = 1.0  # blocks that a multiprocessor holds

    cases: tuple[Case, ...] = ()  # of the time of one warp: all ends of what is known

    def resident_warps(self, threads: int) -> float:
        """Of a multiprocessor, in blocks of so many threads."""
        return self.occupancy[threads] * self.warps

    @property
    def ends(self) -> Ends:
        """Of the time of one warp."""
        ends = [case.ends for case in self.cases]
        return Ends(
            min(end.busiest for end in ends),
            max(end.sum for end in ends),
            any(end.is_open for end in ends),
        )
