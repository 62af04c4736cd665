"""Finds races: two threads, the same byte, one of them writes, not both atomically, no order.

What orders two threads: a barrier of their block that both have passed in between, or for lanes
of one warp `bar.warp.sync`. A barrier of some warps of a block counts for those warps, but two
different ones are not told apart. Threads of different blocks are never in order.

Memory that is loaded by `.nc` may not be written while the kernel runs, by anybody in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxsw.simt.accessors import Accessors, ByteAccesses
from ptxsw.simt.chunk import Chunk
from ptxsw.simt.memory import AccessedBytes, MemoryRegion
from ptxsw.simt.state import Array, Fragment, Index, Race


class _Shadow:
    """Who has read, written, and atomically changed each byte of a region."""

    def __init__(self, region: MemoryRegion, padded: int) -> None:
        self.region = region
        self.reads, self.writes, self.atomics = (
            Accessors(len(region.data), padded) for _ in range(3)
        )


class Races:
    """The shadow of all memory of a launch."""

    def __init__(self) -> None:
        self.shadows: dict[int, _Shadow] = {}
        self.fixed: Array = np.zeros(0, np.bool_)  # bytes of the arena loaded by `.nc`
        self.epoch: Array = np.zeros(0, np.int64)
        self.warp_epoch: Array = np.zeros(0, np.int64)

    def begin(self, chunk: Chunk) -> None:
        """A new chunk of blocks; what its threads do is not ordered with earlier chunks."""
        self.epoch = np.zeros(chunk.threads, np.int64)
        self.warp_epoch = np.zeros(chunk.threads, np.int64)
        arena = id(chunk.program.arena.region)
        self.shadows = {key: value for key, value in self.shadows.items() if key == arena}

    def blocks_met(self, chunk: Chunk, idx: Index) -> None:
        """Threads have passed a barrier of their block."""
        self.epoch[idx] += 1
        # Those that took part in fewer barriers catch up: they are in order from now on.
        blocks = chunk.block_of(idx)
        highest = np.zeros(chunk.blocks, np.int64)
        np.maximum.at(highest, blocks, self.epoch[idx])
        self.epoch[idx] = highest[blocks]

    def warps_met(self, chunk: Chunk, idx: Index) -> None:
        """Lanes have passed a barrier of their warp."""
        highest = np.zeros(chunk.threads >> 5, np.int64)
        np.maximum.at(highest, idx >> 5, self.warp_epoch[idx] + 1)
        self.warp_epoch[idx] = highest[idx >> 5]

    def record(
        self,
        chunk: Chunk,
        fragment: Fragment,
        place: AccessedBytes,
        size: int,
        write: bool,
        atomic: bool,
        values: Sequence[Array] = (),
    ) -> None:
        """An access of `size` bytes by each thread of a place. Threads of one instruction that
        write the same `values` to the same bytes do not race. Raises Race."""
        if place.region is chunk.local:
            return
        shadow = self.shadows.get(id(place.region))
        if shadow is None:
            shadow = _Shadow(place.region, chunk.padded)
            self.shadows[id(place.region)] = shadow
        reads, writes, atomics = shadow.reads, shadow.writes, shadow.atomics
        against = [writes, reads] if atomic else [writes, atomics, reads][: 2 + write]
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        offsets = np.broadcast_to(place.offsets, len(idx))
        if write and not atomic:
            self._together(chunk, fragment, idx, offsets, size, values)
        thread = 1 + chunk.first * chunk.padded + idx
        time = self.epoch[idx] << 32 | self.warp_epoch[idx]
        line = chunk.program.module.source.line(chunk.instruction(fragment).span.start)
        lines = np.full(len(idx), line)
        for byte in range(size):
            new = ByteAccesses(offsets + byte, thread, time, lines)
            for kept in against:
                self._check(chunk, fragment, idx, kept.racing(new))
            (atomics if atomic else writes if write else reads).add(new)

    def constant(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, constant: bool
    ) -> None:
        """A load; by `.nc` it is one of memory that nobody may write. Raises Race."""
        if not constant:
            return
        shadow = self.shadows[id(place.region)]
        if not len(self.fixed):
            self.fixed = np.zeros(len(place.region.data), np.bool_)
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        for byte in range(size):
            self.fixed[place.offsets + byte] = True
            at = np.broadcast_to(place.offsets + byte, len(idx))
            written = shadow.writes.any_at(at) | shadow.atomics.any_at(at)
            if written.any():
                thread = int(idx[np.argmax(written)])
                what = "a load by .nc of what this kernel has written"
                raise chunk.error(Race, fragment, thread, what)

    def changed(self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int) -> None:
        """A write, which may not be to memory that was loaded by `.nc`. Raises Race."""
        if not place.arena or not len(self.fixed):
            return
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        for byte in range(size):
            fixed = np.broadcast_to(self.fixed[place.offsets + byte], len(idx))
            if fixed.any():
                thread = int(idx[np.argmax(fixed)])
                what = "a write to memory that this kernel has loaded by .nc"
                raise chunk.error(Race, fragment, thread, what)

    def _check(
        self, chunk: Chunk, fragment: Fragment, idx: Index, found: tuple[int, int, int] | None
    ) -> None:
        """Raises Race where two accesses are not in order."""
        if found is not None:
            first, other, line = found
            name = chunk.thread_name(other - 1 - chunk.first * chunk.padded)
            what = f"a race with {name}, line {line}"
            raise chunk.error(Race, fragment, int(idx[first]), what)

    def _together(
        self, chunk: Chunk, fragment: Fragment, idx: Index, offsets: Index, size: int,
        values: Sequence[Array],
    ) -> None:  # fmt: skip
        """Two threads of one instruction write the same bytes, and not the same to all of them."""
        order = np.argsort(offsets, kind="stable")
        gaps = np.diff(offsets[order])
        agree = gaps == 0 if values else np.zeros(len(gaps), np.bool_)
        for value in values:
            written = np.broadcast_to(value, len(idx))[order]
            agree &= written[1:] == written[:-1]
        close = np.flatnonzero((gaps < size) & ~agree)
        if len(close):
            one, two = int(idx[order[close[0]]]), int(idx[order[close[0] + 1]])
            what = f"a race with {chunk.thread_name(one)}, the same instruction"
            raise chunk.error(Race, fragment, two, what)
