"""Vector clocks: how much each thread of a chunk knows of what the others have done.

Each thread counts the moments at which others may have learned what it did until then. A thread
knows what another did up to some count. Threads that have met know the same, so they share a row
of a table: a count for each thread of their block. What is known of other blocks, which only a
release tells, is kept beside it, by row.

Besides what it knows, a thread has what its last fence covers, within its block and beyond: that is
what a strong write behind the fence tells. A barrier hands on both.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from ptxsw.simt.state import Array, Index

Known = Mapping[int, Array]
"""By the number of a block the counts of its threads up to which what they did is known."""
LASTING = np.int32(2**31 - 1)
"""The count of an access that has not ended: nobody knows of it."""


def joined(one: Known, other: Known) -> Known:
    """What either knows."""
    if not one or not other:
        return one or other
    out = dict(one)
    for block, counts in other.items():
        out[block] = np.maximum(out[block], counts) if block in out else counts
    return out


class Observed(Struct, frozen=True):
    """What a thread has read of releases, and will learn by a fence: by block, and beyond."""

    within: Known = field(default_factory=dict)
    beyond: Known = field(default_factory=dict)

    def __or__(self, other: Observed) -> Observed:
        return Observed(joined(self.within, other.within), joined(self.beyond, other.beyond))


class KnownRows(Struct, eq=False):
    """For each thread a row of the table, and its own count (0: nothing)."""

    row: Array
    count: Array


class Told(Struct, eq=False):
    """What those who have come to a barrier know, together: for each view a row for each block,
    and by block what they know of others, and what they have observed."""

    counts: list[Array]
    foreign: list[dict[int, Known]] = field(default_factory=lambda: [{}, {}, {}])
    observed: dict[int, Observed] = field(default_factory=dict)

    def forget(self, blocks: Index) -> None:
        for counts, foreign in zip(self.counts, self.foreign, strict=True):
            counts[blocks] = 0
            for block in blocks.tolist():
                foreign.pop(block, None)
                self.observed.pop(block, None)


class Clocks:
    """Those of a chunk of blocks of `padded` threads, the first of which has the number `first`."""

    def __init__(self, blocks: int, padded: int, first: int) -> None:
        self.blocks, self.padded, self.first = blocks, padded, first
        count, row = np.ones(blocks * padded, np.int32), np.zeros(blocks * padded, np.int32)
        self.known = KnownRows(row, count)
        self.within, self.beyond = (
            KnownRows(row.copy(), row.copy()),
            KnownRows(row.copy(), row.copy()),
        )
        self.fenced = False  # has there been a fence?
        self.table = np.zeros((64, padded), np.int32)  # row 0: nothing is known
        self.least = np.zeros((64, padded >> 5), np.int32)  # of each warp
        self.used = 1
        self.foreign: dict[int, Known] = {}  # by row

    @property
    def views(self) -> list[KnownRows]:
        return [self.known, self.within, self.beyond] if self.fenced else [self.known]

    # ------------------------------------------------------------ asking

    def unknown(self, row: Array, block: Array, warp: Array, lanes: Array, count: Array) -> Array:
        """Some `lanes` (bits) of warps (numbered in the whole grid) did something at a count.
        Of which of them does a thread not know it, which has a row and is of a block?"""
        of_block, warp = warp // (self.padded >> 5), warp % (self.padded >> 5)
        same = of_block == block
        out: Array = np.where(same & (self.least[row, warp] >= count), np.uint32(0), lanes)
        rest = np.flatnonzero(same & (out != 0))
        if len(rest):
            at = (warp[rest] << 5)[:, None] + np.arange(32)
            out[rest] &= _bits(self.table[row[rest][:, None], at] < count[rest][:, None])
        if self.foreign:
            for one in np.flatnonzero(~same).tolist():
                counts = self.foreign.get(int(row[one]), {}).get(int(of_block[one]))
                if counts is not None:
                    low = int(warp[one]) << 5
                    out[one] &= _bits(counts[None, low : low + 32] < count[one])[0]
        return out

    def of_thread(self, view: KnownRows, thread: int) -> Known:
        """What one thread knows, itself included, or what its fence covers."""
        row, block = int(view.row[thread]), thread // self.padded
        if not row and not view.count[thread]:
            return {}
        counts = self.table[row].copy()
        counts[thread % self.padded] = view.count[thread]
        return joined({self.first + block: counts}, self.foreign.get(row, {}))

    # ------------------------------------------------------------ telling

    def fence(self, idx: Index, wide: bool) -> None:
        """A fence that releases what its threads know."""
        self.fenced = True
        for view in (self.within, self.beyond) if wide else (self.within,):
            view.row[idx], view.count[idx] = self.known.row[idx], self.known.count[idx]
        self.known.count[idx] += 1

    def learn(self, thread: int, known: Known) -> None:
        """One thread comes to know more."""
        block = self.first + thread // self.padded
        row = int(self.known.row[thread])
        own = self.table[row]
        new = self._append(np.maximum(own, known[block])[None] if block in known else own[None])
        others = {b: counts for b, counts in known.items() if b != block}
        self._set(new, joined(self.foreign.get(int(self.known.row[thread]), {}), others))
        self.known.row[thread] = new

    def meet(self, idx: Index, group: Index) -> None:
        """Threads, in order, of groups of one block each come to know what any of a group does."""
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        number = np.cumsum(np.diff(group, prepend=-1) != 0) - 1
        for view in self.views:
            counts, foreign = self._together(view, idx, starts, number)
            self._teach(view, idx, number, counts, foreign)
        self.known.count[idx] += 1

    def tell(self, told: Told | None, idx: Index) -> Told:
        """Threads come to a barrier."""
        if told is None:
            told = Told([np.zeros((self.blocks, self.padded), np.int32) for _ in range(3)])
        block = idx // self.padded
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        number = np.cumsum(np.diff(block, prepend=-1) != 0) - 1
        for at, view in enumerate(self.views):
            counts, foreign = self._together(view, idx, starts, number)
            of = block[starts]
            told.counts[at][of] = np.maximum(told.counts[at][of], counts)
            for one, more in foreign.items():
                have = told.foreign[at]
                have[int(of[one])] = joined(have.get(int(of[one]), {}), more)
        self.known.count[idx] += 1
        return told

    def hear(self, told: Told, idx: Index) -> None:
        """Threads go on behind a barrier."""
        block = idx // self.padded
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        number = np.cumsum(np.diff(block, prepend=-1) != 0) - 1
        of = block[starts]
        for at, view in enumerate(self.views):
            foreign = {n: told.foreign[at][b] for n, b in enumerate(of.tolist())
                       if b in told.foreign[at]}  # fmt: skip
            self._teach(view, idx, number, told.counts[at][of], foreign)

    # ------------------------------------------------------------ rows

    def _together(
        self, view: KnownRows, idx: Index, starts: Index, number: Index
    ) -> tuple[Array, dict[int, Known]]:
        """What the threads of each group know, and what they know of other blocks."""
        row = view.row[idx]
        change = np.diff(row, prepend=-1) != 0
        change[starts] = True
        at = np.flatnonzero(change)
        if len(at) > 8 * len(starts):  # rows alternate: each once
            key = np.unique(number << 32 | row)
            rows, group = key & 0xFFFFFFFF, key >> 32
        else:
            rows, group = row[at], number[at]
        begins = np.flatnonzero(np.diff(group, prepend=-1))
        counts = np.maximum.reduceat(self.table[rows], begins, axis=0)
        counts[number, idx % self.padded] = view.count[idx]
        foreign: dict[int, Known] = {}
        if self.foreign:
            for one, of in zip(rows.tolist(), group.tolist(), strict=True):
                if one in self.foreign:
                    foreign[of] = joined(foreign.get(of, {}), self.foreign[one])
        return counts, foreign

    def _teach(
        self,
        view: KnownRows,
        idx: Index,
        number: Index,
        counts: Array,
        foreign: Mapping[int, Known],
    ) -> None:
        if view is not self.known and not counts.any() and not foreign:
            return
        first = self._append(counts)
        for one, known in foreign.items():
            self._set(first + one, known)
        view.row[idx] = first + number

    def _set(self, row: int, foreign: Known) -> None:
        if foreign:
            self.foreign[row] = foreign

    def _append(self, counts: Array) -> int:
        """New rows; the number of the first."""
        if self.used + len(counts) > len(self.table):
            self._make_room(len(counts))
        first, self.used = self.used, self.used + len(counts)
        self.table[first : self.used] = counts
        self.least[first : self.used] = counts.reshape(len(counts), -1, 32).min(axis=2)
        return first

    def _make_room(self, more: int) -> None:
        """Drops the rows that no thread has."""
        views = [self.known, self.within, self.beyond]
        rows = np.unique(np.concatenate([np.zeros(1, np.int32), *(view.row for view in views)]))
        for view in views:
            view.row = np.searchsorted(rows, view.row).astype(np.int32)
        self.foreign = {
            at: self.foreign[row] for at, row in enumerate(rows.tolist()) if row in self.foreign
        }
        size = max(64, 2 * (len(rows) + more))
        old, self.used = self.table, len(rows)
        self.table = np.zeros((size, self.padded), np.int32)
        self.table[: self.used] = old[rows]
        old, self.least = self.least, np.zeros((size, self.padded >> 5), np.int32)
        self.least[: self.used] = old[rows]


def _bits(which: Array) -> Array:
    """A word for each row of 32 marks."""
    bits: Array = np.packbits(which, axis=1, bitorder="little").view("<u4")[:, 0]
    return bits
