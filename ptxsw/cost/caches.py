"""Which accesses of blocks that run side by side hit in the caches.

The blocks of a sample stand for all that are resident. A cache that evicts what was used least
recently keeps what it holds for a time that is about the same for all (H. Che, Y. Tung, Z. Wang,
"Hierarchical Web Caching Systems", IEEE JSAC 2002): the time in which so much new data comes in as
fits. An access hits if the sector was used less than that ago. The stack distance of an access,
which decides in an exact simulation, is the data that came in meanwhile; here it is taken from the
rate at which sectors come in.

How far blocks are apart decides whether one finds what another has loaded. They begin together
and nothing keeps them together. Two bounds: in lock step, or each step of a block as long as
chance has it (exponentially distributed, as where many customers queue for one server), so that
after n steps blocks are apart by the root of n.

Sectors have 32 bytes. Stores go through the first-level cache and stay in the second until they
are evicted.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

Array = NDArray[Any]
SECTOR: Final = 32  # bytes
_WARM: Final = 0.25  # of the sampled time, in which caches fill and nothing is counted
_DRAWS: Final = 8  # of how far blocks have come


class Touches(Struct, frozen=True):
    """Sectors that blocks touch, in no order: columns of equal length.

    `block` counts from 0 in the sample; `time` is in steps of a block, such as iterations of its
    innermost loop; `cached` is whether the first-level cache may keep it; `number` is that of the
    instruction.
    """

    block: Array
    time: Array
    sector: Array
    write: Array
    cached: Array
    number: Array
    blocks: int
    steps: float  # that were sampled

    def of(self, which: Array) -> Touches:
        """Some of them."""
        return replace(
            self, block=self.block[which], time=self.time[which], sector=self.sector[which],
            write=self.write[which], cached=self.cached[which], number=self.number[which],
        )  # fmt: skip


class CacheTraffic(Struct, frozen=True):
    """Sectors for each block and step: those that pass between the caches, and between the second
    and memory. By instruction: the share of its sectors that come from L2 or memory, and from
    memory."""

    l2: float
    dram: float
    beyond_l1: dict[int, float]
    beyond_l2: dict[int, float]


class Setting(Struct, frozen=True, kw_only=True):
    """The caches, in bytes, and the blocks that share them."""

    l1_bytes: float
    l2_bytes: float
    on_sm: float  # blocks of one multiprocessor
    resident: float  # of all together
    drift: float  # how far blocks are apart: the standard deviation of one, in steps


def traffic(touches: Touches, setting: Setting) -> CacheTraffic:
    """What blocks of such a sample cause, each in one step."""
    if len(touches.sector) == 0:
        return CacheTraffic(0.0, 0.0, {}, {})
    missed = _missed_l1(touches, setting)
    behind = touches.of(missed)
    counted = behind.time >= _WARM * touches.steps
    span = (1 - _WARM) * touches.steps
    l2 = float(counted.sum()) / (span * touches.blocks)
    draws = 1 if setting.drift == 0 else _DRAWS
    random = np.random.default_rng(0)
    dram, at_random = 0.0, np.zeros(len(behind.sector))
    for _ in range(draws):
        offsets = random.normal(0.0, 1.0, touches.blocks) * setting.drift
        fetched, misses = _dram(behind, offsets, setting, span)
        dram += fetched / draws
        at_random += misses / draws
    return CacheTraffic(
        l2, dram,
        _shares(touches, touches.number, missed.astype(float)),
        _shares(touches, behind.number, at_random),
    )  # fmt: skip


def _missed_l1(touches: Touches, setting: Setting) -> Array:
    """Which touches the first-level cache passes on: all stores, all that it may not keep, and
    loads of what it no longer holds. Each block of a multiprocessor has its own data."""
    passed = touches.write | ~touches.cached
    cached = np.flatnonzero(~passed)
    if len(cached) == 0:
        return passed
    part = touches.of(cached)
    key = part.sector * touches.blocks + part.block
    gaps = _gaps(key, part.time)
    rate = setting.on_sm * SECTOR / (touches.blocks * touches.steps)
    holds = _characteristic_time(gaps, rate, setting.l1_bytes)
    passed[cached] = gaps > holds
    return passed


def _dram(behind: Touches, offsets: Array, setting: Setting, span: float) -> tuple[float, Array]:
    """Sectors to and from memory for each block and step, and which touches miss. A sample has
    fewer neighbours than the whole, so what one block more costs is taken from two samples."""
    misses = _misses_l2(behind, offsets, setting)
    counted = behind.time >= _WARM * behind.steps
    whole = float((misses & counted).sum())
    half = behind.blocks // 2
    if half == 0:
        return whole / span, misses
    part = replace(behind.of(behind.block < half), blocks=half)
    fewer = _misses_l2(part, offsets[:half], setting)
    less = float((fewer & (part.time >= _WARM * part.steps)).sum())
    return max(whole - less, 0.0) / (span * (behind.blocks - half)), misses


def _misses_l2(behind: Touches, offsets: Array, setting: Setting) -> Array:
    """Which touches go to memory: loads of what is not there, and the first store to what is not;
    it is written back once."""
    if len(behind.sector) == 0:
        return np.zeros(0, np.bool_)
    time = behind.time + offsets[behind.block]
    key = behind.sector * 2 + behind.write
    gaps = _gaps(key, time)
    rate = setting.resident * SECTOR / (behind.blocks * behind.steps)
    misses: Array = gaps > _characteristic_time(gaps, rate, setting.l2_bytes)
    return misses


def _gaps(key: Array, time: Array) -> Array:
    """The time since the same key was touched last; infinite for the first time."""
    order = np.lexsort((time, key))
    gaps = np.full(len(key), np.inf)
    same = key[order[1:]] == key[order[:-1]]
    gaps[order[1:]] = np.where(same, time[order[1:]] - time[order[:-1]], np.inf)
    return gaps


def _characteristic_time(gaps: Array, rate: float, capacity: float) -> float:
    """How long a cache of `capacity` bytes keeps what it holds: the longest time in which no more
    comes in than fits. `rate` are bytes a step for each touch that misses."""
    times, counts = np.unique(gaps[np.isfinite(gaps)], return_counts=True)
    # Kept for the time of a gap, what was touched after longer ones comes in anew.
    misses = len(gaps) - np.cumsum(counts)
    fits = np.append(0.0, times)
    # What is touched for the first time misses in any case, so something always comes in.
    lasting = capacity / (rate * np.append(len(gaps), misses))
    last = int(np.flatnonzero(lasting >= fits)[-1])
    following = fits[last + 1] if last + 1 < len(fits) else np.inf
    return float(min(lasting[last], np.nextafter(following, 0.0)))


def _shares(touches: Touches, numbers: Array, misses: Array) -> dict[int, float]:
    """By instruction, the share of its touches that miss; `misses` has those of some `numbers`."""
    most = int(touches.number.max()) + 1
    counts = np.bincount(touches.number, minlength=most)
    lost = np.bincount(numbers, weights=misses, minlength=most)
    return {int(n): float(lost[n] / counts[n]) for n in np.flatnonzero(counts)}
