"""Memory as named buffers at made-up addresses.

Generic addresses: the shared window of a block begins at 16 MiB, the local window of a thread at
32 MiB, code at 48 MiB (functions are not memory), and all buffers lie in one arena high above
with gaps between them. An address is the same number in its own space and in the generic one.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Index = NDArray[np.int64]

SHARED, LOCAL, CODE = 0x1000000, 0x2000000, 0x3000000
WINDOW = 0x1000000  # bytes of each window
ARENA = 0x700000000
GAP = 0x10000  # bytes between buffers that belong to nobody: a stray row ends up there
GARBAGE = 0xA5  # what memory holds that nobody wrote


class Region:
    """Bytes with views as larger words."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self._views: dict[int, Array] = {1: data}

    def view(self, size: int) -> Array:
        """As words of `size` bytes."""
        found = self._views.get(size)
        if found is None:
            found = self._views[size] = self.data.view(f"u{size}")
        return found

    def load(self, offsets: Index, size: int) -> Array:
        words: Array = self.view(size)[offsets >> _SHIFT[size]]
        return words

    def store(self, offsets: Index, size: int, values: Array) -> None:
        self.view(size)[offsets >> _SHIFT[size]] = values


_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}


@dataclass(frozen=True)
class Place:
    """Bytes of one region that some threads of a fragment access: an offset for each thread, or
    one for all."""

    region: Region
    offsets: Index
    which: Array | None  # positions within the fragment; None: all of it
    arena: bool


@dataclass(frozen=True)
class Buffer:
    """`size` bytes at offset `start` of the arena."""

    name: str
    start: int
    size: int
    writable: bool

    @property
    def address(self) -> int:
        return ARENA + self.start


@dataclass
class Arena:
    """All named buffers of a launch."""

    buffers: list[Buffer] = field(default_factory=list)
    end: int = GAP

    def __post_init__(self) -> None:
        self.region = Region(np.zeros(0, np.uint8))
        self.starts: list[int] = []
        self._starts = np.zeros(0, np.int64)
        self._ends = np.zeros(0, np.int64)

    def add(self, name: str, size: int, align: int = 256, writable: bool = True) -> Buffer:
        """Reserves a buffer; all are added before `build`."""
        align = max(align, 16)
        start = -(-self.end // align) * align
        buffer = Buffer(name, start, size, writable)
        self.buffers.append(buffer)
        self.end = start + size + GAP
        return buffer

    def build(self) -> None:
        """Makes the memory, all zeros."""
        self.region = Region(np.zeros(-(-self.end // 256) * 256, np.uint8))
        self.starts = [b.start for b in self.buffers]
        self._starts = np.array(self.starts, np.int64)
        self._ends = np.array([b.start + b.size for b in self.buffers], np.int64)

    def bytes_of(self, buffer: Buffer) -> Array:
        return self.region.data[buffer.start : buffer.start + buffer.size]

    def outside(self, offsets: Index, size: int, write: bool) -> Index | None:
        """Positions of accesses that no buffer holds (or allows); None if there are none."""
        low, high = int(offsets.min()), int(offsets.max())
        at = bisect_right(self.starts, low) - 1
        if at >= 0:
            buffer = self.buffers[at]
            if high + size <= buffer.start + buffer.size and (buffer.writable or not write):
                return None
        if not self.buffers:
            return np.arange(len(offsets))
        owner = np.searchsorted(self._starts, offsets, side="right") - 1
        inside = (owner >= 0) & (offsets + size <= self._ends[owner])
        if write:
            inside &= np.array([b.writable for b in self.buffers])[owner]
        return None if inside.all() else np.flatnonzero(~inside)

    def describe(self, address: int, size: int, write: bool) -> str:
        """What is wrong with an address, in terms of the nearest buffer."""
        offset = address - ARENA
        if not self.buffers or not 0 <= offset < self.end:
            return "no buffer is near this address"
        at = max(bisect_right(self.starts, offset) - 1, 0)
        buffer = self.buffers[at]
        after = offset + size - (buffer.start + buffer.size)
        if offset < buffer.start:
            return f"{buffer.start - offset} bytes before buffer {buffer.name!r}"
        if after <= 0 and write and not buffer.writable:
            return f"buffer {buffer.name!r} is read-only"
        if at + 1 < len(self.buffers) and self.buffers[at + 1].start - offset < after:
            following = self.buffers[at + 1]
            return f"{following.start - offset} bytes before buffer {following.name!r}"
        return f"{after} bytes past the end of buffer {buffer.name!r} ({buffer.size} bytes)"
