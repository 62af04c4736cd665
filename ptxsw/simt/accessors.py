"""Who has accessed each byte of a region, as far as it matters to who comes later.

All accessors of a byte would be many: a broadcast has a whole grid of them. Four are enough to know
whether a later thread races with any of them: the latest one by its epochs, and the latest of those
for whom it cannot speak, which are another lane of its warp, another warp of its block, and another
block (which is never in order). Who is not in order with some other access of that kind is not in
order with the latest one.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ptxsw.simt.state import Array, Index

_LOW = (1 << 32) - 1


class ByteAccesses(Struct, frozen=True):
    """Accesses of one byte each: where, by which threads (from 1 on, of the whole grid), when (the
    epoch of the block, and below it that of the warp), and the line."""

    at: Index
    thread: Array
    time: Array
    line: Array

    def chosen(self, which: Array) -> ByteAccesses:
        return ByteAccesses(self.at[which], self.thread[which], self.time[which], self.line[which])


class Accessors:
    """The four that are kept for each byte. Memory that nobody accesses costs nothing."""

    def __init__(self, size: int, padded: int) -> None:
        self.padded = padded  # threads of a block
        self.thread = [np.zeros(size, np.int64) for _ in range(4)]  # 0: none
        self.time = [np.zeros(size, np.int64) for _ in range(4)]
        self.line = [np.zeros(size, np.int32) for _ in range(4)]
        self.used = 1  # of the four: the others are empty everywhere

    def any_at(self, at: Index) -> Array:
        """Which bytes have been accessed."""
        accessed: Array = self.thread[0][at] != 0
        return accessed

    def racing(self, new: ByteAccesses) -> tuple[int, int, int] | None:
        """The first access that is not in order with one that is kept: its number, the thread it
        races with, and that one's line."""
        for each in range(self.used):
            other, time = self.thread[each][new.at], self.time[each][new.at]
            apart = (other != 0) & (other != new.thread)
            if not apart.any():
                continue
            block = self._block(other) == self._block(new.thread)
            apart &= ~(block & (new.time >> 32 > time >> 32))
            warp = (other - 1) >> 5 == (new.thread - 1) >> 5
            apart &= ~(warp & (new.time & _LOW > time & _LOW))
            if apart.any():
                first = int(np.argmax(apart))
                return first, int(other[first]), int(self.line[each][new.at[first]])
        return None

    def add(self, new: ByteAccesses) -> None:
        """Remembers accesses, which are later than all that are kept."""
        held = self.thread[0][new.at]
        if ((held == 0) | (held == new.thread)).all():
            self.thread[0][new.at] = new.thread
            if (self.thread[0][new.at] == new.thread).all():  # each byte by one thread only
                self.time[0][new.at], self.line[0][new.at] = new.time, new.line
                return
            self.thread[0][new.at] = held
        self._merge(new)

    def _merge(self, new: ByteAccesses) -> None:
        known = [*(self._kept(each, new.at) for each in range(self.used)), new]
        everyone = ByteAccesses(
            np.concatenate([one.at for one in known]),
            np.concatenate([one.thread for one in known]),
            np.concatenate([one.time for one in known]),
            np.concatenate([one.line for one in known]),
        )
        everyone = everyone.chosen(np.lexsort((everyone.time, everyone.at)))
        begins = np.diff(everyone.at, prepend=-1) != 0
        places, group = everyone.at[begins], np.cumsum(begins) - 1
        thread = everyone.thread
        first = thread[_last(group, np.ones(len(group), np.bool_), len(places))][group]
        same_block = self._block(thread) == self._block(first)
        same_warp = (thread - 1) >> 5 == (first - 1) >> 5
        self._keep(0, places, everyone, _last(group, thread == first, len(places)))
        self._keep(1, places, everyone, _last(group, same_warp & (thread != first), len(places)))
        self._keep(2, places, everyone, _last(group, same_block & ~same_warp, len(places)))
        self._keep(3, places, everyone, _last(group, ~same_block, len(places)))

    def _kept(self, each: int, places: Index) -> ByteAccesses:
        at = places[self.thread[each][places] != 0]
        return ByteAccesses(at, self.thread[each][at], self.time[each][at], self.line[each][at])

    def _keep(self, each: int, places: Index, known: ByteAccesses, which: Index) -> None:
        """One of the four: for each place the access of that number, or with -1 none."""
        some = which >= 0
        if some.any():
            self.used = max(self.used, each + 1)
        if each < self.used:
            if not some.all():
                self.thread[each][places[~some]] = 0
            of = known.chosen(which[some])
            self.thread[each][of.at] = of.thread
            self.time[each][of.at], self.line[each][of.at] = of.time, of.line

    def _block(self, thread: Array) -> Array:
        blocks: Array = (thread - 1) // self.padded
        return blocks


def _last(group: Index, which: Array, groups: int) -> Index:
    """The number of the last chosen element of each group, -1 where there is none."""
    last = np.full(groups, -1, np.int64)
    chosen = np.flatnonzero(which)
    last[group[chosen]] = chosen
    return last
