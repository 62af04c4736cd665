"""All accesses of one kind to each word of a region, as far as they matter to who comes later.

An entry is some lanes of one warp that accessed some bytes of a word by one instruction at one
count. Of one instruction and thread the latest access is enough: what is not in order with an
earlier one is not in order with it, either. Entries of a word form a list, the latest first; a word
that nobody has accessed costs a number.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from ptxsw.simt.clocks import LASTING
from ptxsw.simt.state import Array, Index


class Accesses(Struct, frozen=True):
    """Accesses by one instruction, an element each for the lanes of a warp that do the same:
    bytes of one word (bits), the warp in the whole grid, its lanes (bits), their counts and rows
    of what they know, and what they write."""

    word: Index
    bytes: Array
    warp: Array
    lanes: Array
    count: Array
    row: Array
    value: Array | None

    def chosen(self, which: Array) -> Accesses:
        value = None if self.value is None else self.value[which]
        return Accesses(
            self.word[which], self.bytes[which], self.warp[which], self.lanes[which],
            self.count[which], self.row[which], value,
        )  # fmt: skip


_LONG = 64
_AT_ONCE = 1 << 12  # pairs
_FEW = 2  # words whose entries are followed one by one

_COLUMNS = {
    "next": np.int32, "word": np.int32, "site": np.int32, "warp": np.int32, "lanes": np.uint32,
    "count": np.int32, "bytes": np.uint8, "value": np.uint32,
}  # fmt: skip


class Accessors:
    """The entries of a region of so many bytes."""

    def __init__(self, size: int) -> None:
        self.head = np.full(-(-size // 4), -1, np.int32)
        self.columns = {name: np.zeros(256, dtype) for name, dtype in _COLUMNS.items()}
        self.used = 0
        self.full = 1 << 16  # entries from which on doubles are looked for
        self.long, self.seen = _LONG, 0  # entries of a word from which on they are; seen of one

    def met(self, new: Accesses) -> Iterator[tuple[Array, Array]]:
        """Pairs of entries and new accesses (their numbers) that have a byte in common, many at a
        time: a word that all threads wait for has an entry for each."""
        if not self.used:
            return
        entries, numbers, count = [], [], 0
        for entry, at in self._walked(new):
            entries.append(entry)
            numbers.append(at)
            count += len(entry)
            if count > _AT_ONCE:
                yield from self._common(new, entries, numbers)
                entries, numbers, count = [], [], 0
        yield from self._common(new, entries, numbers)

    def _common(
        self, new: Accesses, entries: list[Array], numbers: list[Array]
    ) -> Iterator[tuple[Array, Array]]:
        if entries:
            entry = entries[0] if len(entries) == 1 else np.concatenate(entries)
            at = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
            common = self.columns["bytes"][entry] & new.bytes[at] != 0
            if common.all():
                yield entry, at
            elif common.any():
                yield entry[common], at[common]

    def _walked(self, new: Accesses) -> Iterator[tuple[Array, Array]]:
        """Pairs of entries and new accesses of one word."""
        entry = self.head[new.word]
        at = np.flatnonzero(entry >= 0)
        entry, following = entry[at], self.columns["next"]
        steps = 0
        while len(entry) > _FEW:
            steps += 1
            yield entry, at
            entry = following[entry]
            more = entry >= 0
            if not more.all():
                entry, at = entry[more], at[more]
        for one, number in zip(entry.tolist(), at.tolist(), strict=True):
            chain = []
            while one >= 0:
                chain.append(one)
                one = following.item(one)
            steps = max(steps, len(chain))
            yield np.array(chain, np.int32), np.full(len(chain), number)
        self.seen = max(self.seen, steps)

    def add(self, site: int, new: Accesses) -> None:
        """Remembers accesses, which are later than all that are kept."""
        head, columns = self.head[new.word], self.columns
        known = (head >= 0) & (columns["site"][head] == site) & (columns["warp"][head] == new.warp)
        known &= (columns["lanes"][head] == new.lanes) & (columns["bytes"][head] == new.bytes)
        if known.any():
            self._renew(head[known], new.chosen(known))
            if known.all():
                return
            new = new.chosen(~known)
        self._append(site, new)

    def _renew(self, entry: Index, new: Accesses) -> None:
        self.columns["count"][entry] = new.count
        if new.value is not None:
            self.columns["value"][entry] = new.value

    def _append(self, site: int, new: Accesses) -> None:
        number, columns = len(new.word), self.columns
        if self.used + number > self.full or self.seen > self.long:
            self._drop_doubles()
        while self.used + number > len(columns["next"]):
            for name, full in columns.items():
                columns[name] = np.concatenate([full, np.zeros_like(full)])
        order = np.argsort(new.word, kind="stable")
        word = new.word[order]
        fresh = slice(self.used, self.used + number)
        entry = np.arange(fresh.start, fresh.stop, dtype=np.int32)
        before = np.empty(number, np.int32)
        before[1:] = entry[:-1]
        begins = np.diff(word, prepend=-1) != 0
        before[begins] = self.head[word[begins]]
        self.head[word] = entry  # of several to one word the last one stays
        columns["next"][fresh], columns["word"][fresh], columns["site"][fresh] = before, word, site
        for name, column in (("warp", new.warp), ("lanes", new.lanes), ("bytes", new.bytes),
                             ("count", new.count), ("value", new.value)):  # fmt: skip
            if column is not None:
                columns[name][fresh] = column[order]
        self.used += number

    def _drop_doubles(self) -> None:
        """Of the same lanes by the same instruction the latest entry is enough."""
        columns = {name: column[: self.used] for name, column in self.columns.items()}
        keys = [columns[name] for name in ("bytes", "lanes", "warp", "site", "word")]
        keys.insert(0, columns["count"])
        order = np.lexsort(keys)
        same = np.ones(len(order) - 1, np.bool_)
        for key in keys[1:]:
            same &= key[order][1:] == key[order][:-1]
        kept = np.sort(order[np.append(~same, True)])
        self.head[:] = -1
        self.used = 0
        self.full = max(self.full, 4 * len(kept))
        columns = {name: column[kept] for name, column in columns.items()}
        order = np.argsort(columns["word"], kind="stable")
        word = columns["word"][order]
        entry = np.arange(len(kept), dtype=np.int32)
        before = np.concatenate([[np.int32(-1)], entry[:-1]])
        before[np.diff(word, prepend=-1) != 0] = -1
        self.head[word] = entry
        begins = np.flatnonzero(before < 0)
        self.long = max(_LONG, 2 * int(np.diff(begins, append=len(kept)).max()))
        self.seen = 0
        for name, kept_ones in columns.items():
            self.columns[name][: len(kept)] = before if name == "next" else kept_ones[order]
        self.used = len(kept)

    def end(self, site: int, word: Index, warp: Array, lane: Array, count: Array) -> None:
        """Lasting accesses of single lanes have ended."""
        entry, at, columns = self.head[word], np.arange(len(word)), self.columns
        while len(entry):
            there = entry >= 0
            entry, at = entry[there], at[there]
            mine = (columns["site"][entry] == site) & (columns["warp"][entry] == warp[at])
            mine &= (columns["lanes"][entry] == lane[at]) & (columns["count"][entry] == LASTING)
            columns["count"][entry[mine]] = count[at[mine]]
            entry = columns["next"][entry]
