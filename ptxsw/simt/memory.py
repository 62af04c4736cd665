"""Memory as named buffers at made-up addresses.

Generic addresses: the shared window of a block begins at 16 MiB, the local window of a thread at
32 MiB, code at 48 MiB (functions are not memory), and all buffers lie in one arena high above
with gaps between them. An address is the same number in its own space and in the generic one.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ptxsw.ptx.errors import InvalidRequest

Array = NDArray[Any]
Index = NDArray[np.int64]

SHARED, LOCAL, CODE = 0x1000000, 0x2000000, 0x3000000
WINDOW = 0x1000000  # bytes of each window
FIRST = 0x4000000  # where buffers may begin
ARENA = 0x700000000  # where they begin unless they are told
GAP = 0x10000  # bytes between buffers that belong to nobody: a stray row ends up there
GARBAGE = 0xA5  # what memory holds that nobody wrote


class MemoryRegion:
    """Bytes with views as larger words. `marks` are bytes that are not 0 where nobody has defined
    what is there; None: everywhere somebody has."""

    def __init__(self, data: Array, marks: MemoryRegion | None = None) -> None:
        self.data, self.marks = data, marks
        self._views: dict[int, Array] = {1: data}
        self.watched = False
        self.changed = False  # while it is watched: a store of what is there changes nothing

    def view(self, size: int) -> Array:
        """As words of `size` bytes."""
        view = self._views.get(size)
        if view is None:
            view = self._views[size] = self.data.view(f"u{size}")
        return view

    def load(self, offsets: Index, size: int) -> Array:
        words: Array = self.view(size)[offsets >> _SHIFT[size]]
        return words

    def store(self, offsets: Index, size: int, values: Array) -> None:
        view, at = self.view(size), offsets >> _SHIFT[size]
        if self.watched and not self.changed:
            self.changed = bool((view[at] != values).any())
        view[at] = values
        if self.marks is not None:
            self.marks.store(offsets, size, _DEFINED)

    def undefined(self, offsets: Index, size: int, used: int = -1) -> Array | None:
        """Which loads find a byte that nobody defined, of those that are `used` (a bit each); None:
        none does."""
        if self.marks is None:
            return None
        mask = sum(0xFF << 8 * byte for byte in range(size) if used >> byte & 1)
        found = self.marks.load(offsets, size) & np.array(mask, f"u{size}") != 0
        return found if found.any() else None

    def leave_undefined(self, offsets: Index, size: int, which: Array) -> None:
        """Words of which nobody has defined those that are marked, one for each offset."""
        if self.marks is None:
            self.marks = MemoryRegion(np.zeros_like(self.data))
        if which.any():
            at = np.broadcast_to(offsets, which.shape)[which]
            self.marks.store(at, size, np.array([-1]).astype(f"u{size}"))


_DEFINED = np.zeros(1, np.uint8)
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3}


class AccessedBytes(Struct, frozen=True):
    """Bytes of one region that some threads of a fragment access: an offset for each thread, or
    one for all."""

    region: MemoryRegion
    offsets: Index
    which: Array | None  # positions within the fragment; None: all of it
    arena: bool


class Buffer(Struct, frozen=True):
    """`size` bytes at an address, kept from offset `start` of the arena on."""

    name: str
    address: int
    start: int
    size: int
    writable: bool

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


class Arena:
    """All named buffers of a launch, at addresses far apart, in one array."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []  # by address once built
        self.region = MemoryRegion(np.zeros(0, np.uint8))
        self._next = ARENA
        self._size = 0
        self._addresses: list[int] = []
        self._table: tuple[Array, ...] = ()

    def add(
        self,
        name: str,
        size: int,
        align: int = 256,
        writable: bool = True,
        address: int | None = None,
    ) -> Buffer:
        """Reserves a buffer, where it likes or at a given address; all are added before
        `build`."""
        if address is None:
            align = max(align, 16)
            address = -(-self._next // align) * align
            self._next = address + size + GAP
        # Words lie as they do in memory, and so do sectors.
        start = self._size + (address - self._size) % 256
        buffer = Buffer(name, address, start, size, writable)
        self.buffers.append(buffer)
        self._size = start + size
        return buffer

    def build(self) -> None:
        """Makes the memory, all zeros. Raises ValueError where buffers overlap."""
        self.region = MemoryRegion(np.zeros(-(-self._size // 256) * 256 + 256, np.uint8))
        self.buffers.sort(key=lambda buffer: buffer.address)
        for one, two in pairwise(self.buffers):
            if two.address < one.end:
                raise InvalidRequest(f"buffers {one.name!r} and {two.name!r} overlap")
        for buffer in self.buffers:
            if not FIRST <= buffer.address <= buffer.end <= 1 << 64:
                raise InvalidRequest(f"no buffer can be at {buffer.address:#x}")
        self._addresses = [b.address for b in self.buffers]
        self._table = (
            np.array(self._addresses, np.uint64),
            np.array([b.size for b in self.buffers], np.uint64),
            np.array([b.start for b in self.buffers], np.uint64),
            np.array([b.writable for b in self.buffers], np.bool_),
        )

    def bytes_of(self, buffer: Buffer) -> Array:
        return self.region.data[buffer.start : buffer.start + buffer.size]

    def offsets(self, addresses: Array, size: int, write: bool) -> tuple[Index, Array | None]:
        """Where accesses of `size` bytes are in the arena, and which of them no buffer holds or
        allows (None: all are fine)."""
        low, high = int(addresses.min()), int(addresses.max())
        at = bisect_right(self._addresses, low) - 1
        if at >= 0:
            buffer = self.buffers[at]
            if high + size <= buffer.end and (buffer.writable or not write):
                delta = (buffer.start - buffer.address) % (1 << 64)
                return (addresses + np.uint64(delta)).view(np.int64), None
        first, length, start, writable = self._table
        owner = np.searchsorted(first, addresses, side="right") - 1
        owned = owner >= 0
        owner = np.where(owned, owner, 0)
        within = addresses - first[owner]
        bad = ~owned | (length[owner] < size) | (within > length[owner] - np.uint64(size))
        if write:
            bad |= ~writable[owner]
        return (within + start[owner]).view(np.int64), bad if bad.any() else None

    def address(self, offset: int) -> int:
        """The address of a byte of the arena that some buffer holds."""
        buffer = next(b for b in self.buffers if b.start <= offset < b.start + b.size)
        return buffer.address + offset - buffer.start

    def near(self, address: int) -> Buffer | None:
        """The buffer that holds an address, or that it is next to."""
        at = bisect_right(self._addresses, address) - 1
        beside = [b for b in self.buffers[max(at, 0) : at + 2] if b.address - GAP < address]
        return min(
            (b for b in beside if address < b.end + GAP),
            key=lambda b: max(b.address - address, address - b.end, -1), default=None,
        )  # fmt: skip

    def data_at(self, address: int) -> Array | None:
        """The bytes of a buffer from an address on."""
        at = bisect_right(self._addresses, address) - 1
        if at < 0 or address >= self.buffers[at].end:
            return None
        return self.bytes_of(self.buffers[at])[address - self.buffers[at].address :]

    def named(self, address: int) -> str:
        """An address, and the buffer that holds it."""
        at = bisect_right(self._addresses, address) - 1
        if at < 0 or address >= self.buffers[at].end:
            return f"{address:#x}"
        return f"byte {address - self.buffers[at].address} of buffer {self.buffers[at].name!r}"

    def describe(self, address: int, size: int, write: bool) -> str:
        """What is wrong with an address, in terms of the nearest buffer."""
        at = bisect_right(self._addresses, address) - 1
        before = self.buffers[at] if at >= 0 else None
        after = self.buffers[at + 1] if at + 1 < len(self.buffers) else None
        past = address + size - before.end if before is not None else FIRST
        short = after.address - address if after is not None else FIRST
        if before is not None and past <= 0:
            return f"buffer {before.name!r} is read-only"
        if after is not None and short < min(past, GAP):
            return f"{short} bytes before buffer {after.name!r}"
        if before is not None and past < GAP:
            return f"{past} bytes past the end of buffer {before.name!r} ({before.size} bytes)"
        return "no buffer is near this address"
