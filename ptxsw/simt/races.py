"""Finds races: two threads, the same byte, one of them writes, nothing orders them.

What orders two threads is in `clocks` (barriers) and `releases` (fences and strong accesses). Two
strong accesses of exactly the same bytes do not race if the scope of each includes the other
thread; the result may depend on who comes first all the same. Nor do two writes of one value,
unless somebody reads the byte without order. A copy by `cp.async` lasts until its thread waits for
it, and until then is in order with nobody. What is loaded by `.nc` may not be written while the
kernel runs, by anybody in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct, structs

from ptxsw.simt.accessors import Accesses, Accessors
from ptxsw.simt.chunk import Chunk
from ptxsw.simt.clocks import LASTING, Clocks, Told
from ptxsw.simt.conflicts import RACE, SAME, STRONG, AccessSite, Conflict, in_words, kinds, two_of
from ptxsw.simt.memory import SHARED, AccessedBytes, MemoryRegion
from ptxsw.simt.program import Program
from ptxsw.simt.releases import Ordering, Releases
from ptxsw.simt.state import Array, Fragment, Index, Race, ThreadPlace


class _Lasting(Struct, frozen=True):
    """Parts of copies: whose, in which group, and the entries that stand for them."""

    kept: Accessors
    site: int
    idx: Index
    word: Index
    group: Array

    def chosen(self, which: Array) -> _Lasting:
        return _Lasting(self.kept, self.site, self.idx[which], self.word[which], self.group[which])


_Key = tuple[str, bool, int, int]
"""Kind, whether in shared memory, and both lines."""


class _Shadow:
    """Who has accessed each byte of a region: weakly to read, weakly to write, or strongly."""

    def __init__(self, region: MemoryRegion) -> None:
        size = len(region.data)
        self.region = region
        self.reads, self.writes = Accessors(size), Accessors(size)
        self.polls, self.strong = Accessors(size), Accessors(size)  # strong reads, strong writes
        self.plain_atomics: int | None = 0  # the size of all strong accesses, if they are atomic
        self.constant = False  # is any of it loaded by `.nc`?
        self.torn = np.zeros(-(-size // 4), np.bool_)  # words that are read without order
        self.same: dict[_Key, Array] = {}  # words that are written with one value


class Races:
    """The shadow of all memory of a launch. `conflicts` are told for each two lines, kind and
    memory once. The first of a kind in `stop` ends the run with Race."""

    def __init__(self, stop: Collection[str] = ()) -> None:
        self.stop = stop
        self.program: Program | None = None  # that was run
        self.shadows: dict[int, _Shadow] = {}
        self.sites: list[AccessSite] = []
        self.numbers: dict[AccessSite, int] = {}
        self.clocks = Clocks(1, 32, 0)
        self.releases = Releases()
        self.lasting: list[_Lasting] = []
        self.found: dict[_Key, Conflict] = {}

    @property
    def conflicts(self) -> list[Conflict]:
        """What was found until now, by kind and lines."""
        for shadow in self.shadows.values():
            self._judge(shadow)
        return sorted(self.found.values(), key=lambda c: (c.kind, c.line, c.other_line))

    def begin(self, chunk: Chunk) -> None:
        """A new chunk of blocks: earlier ones are known by what they released only."""
        self.program = chunk.program
        arena = id(chunk.program.arena.region)
        for key in [key for key in self.shadows if key != arena]:
            self._judge(self.shadows.pop(key))
            self.releases.messages.pop(key, None)
        self.clocks = Clocks(chunk.blocks, chunk.padded, chunk.first)
        self.lasting, self.releases.observed = [], {}

    # ------------------------------------------------------------ what orders threads

    def blocks_met(self, chunk: Chunk, idx: Index) -> None:
        """All threads of some blocks pass a barrier together."""
        self._met(idx, chunk.block_of(idx))

    def warps_met(self, idx: Index) -> None:
        """Lanes pass a barrier of their warp."""
        self._met(idx, idx >> 5)

    def _met(self, idx: Index, group: Index) -> None:
        self.clocks.meet(idx, group)
        if self.releases.observed:
            self.releases.met(idx, group)

    def fence(self, idx: Index, ordering: Ordering) -> None:
        self.releases.fence(self.clocks, idx, ordering)

    def come(self, told: Told | None, idx: Index) -> Told:
        """Threads come to a barrier of their blocks; what they and others there know."""
        told = self.clocks.tell(told, idx)
        if self.releases.observed:
            self.releases.came(told, idx, idx // self.clocks.padded)
        return told

    def go_on(self, told: Told, waiting: Index, blocks: Index) -> None:
        """The barrier opens in some blocks for who waits there."""
        if len(waiting):
            self.clocks.hear(told, waiting)
        if told.observed:
            self.releases.went_on(told, waiting, waiting // self.clocks.padded)
        told.forget(blocks)

    def waited(self, chunk: Chunk, waits: Array, left: int) -> None:
        """All but the last `left` groups of copies of some threads have ended."""
        still: list[_Lasting] = []
        for part in self.lasting:
            done = waits[part.idx] & (part.group < chunk.committed[part.idx] - left)
            idx = part.idx[done]
            if len(idx):
                warp, lane = self._warp(idx), _lane(idx)
                part.kept.end(part.site, part.word[done], warp, lane, self.clocks.known.count[idx])
            if not done.all():
                still.append(part.chosen(~done))
        self.lasting = still

    # ------------------------------------------------------------ accesses

    def record(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, count: int,
        write: bool, ordering: Ordering, values: Sequence[Array] = (), order: Index | None = None,
    ) -> None:  # fmt: skip
        """An access of `count` elements of `size` bytes by each thread of a place, in the `order`
        in which they come. Raises Race."""
        if place.region is chunk.local:
            return
        shadow = self.shadows.get(id(place.region))
        if shadow is None:
            shadow = self.shadows[id(place.region)] = _Shadow(place.region)
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        offsets = np.broadcast_to(place.offsets, len(idx))
        source = chunk.program.module.source
        line = source.line(chunk.instruction(fragment).span.start)
        name = fragment.frame.code.function.name
        site = self._number(AccessSite(line, name, fragment.pc, size, write, ordering))
        shadow.constant |= ordering.constant
        seen = _Seen(chunk, fragment, place.arena, shadow, site)
        moment = self.clocks.known.count[idx]
        region = id(place.region)
        if ordering.strong:  # what it acquires comes before it
            come = np.arange(len(idx)) if order is None else order
            for step in range(0, count * size, size):
                self.releases.strong(
                    self.clocks, region, idx[come], offsets[come] + step, size, write, ordering
                )
        elif write:
            self.releases.overwritten(region, offsets, size * count)
        for element in range(count):
            value = values[element] if element < len(values) else None
            for part in range(-(-size // 4)):
                at = offsets + (element * size + 4 * part)
                self._word(seen, idx, at, moment, _piece(value, part, len(idx)))

    def _number(self, site: AccessSite) -> int:
        number = self.numbers.setdefault(site, len(self.sites))
        if number == len(self.sites):
            self.sites.append(site)
        return number

    def _warp(self, idx: Index) -> Array:
        """Its number in the whole grid."""
        return (idx >> 5) + self.clocks.first * (self.clocks.padded >> 5)

    def _word(self, seen: _Seen, idx: Index, at: Index, moment: Array, value: Array | None) -> None:
        """An access of (a part of) one word by each thread."""
        shadow, site = seen.shadow, self.sites[seen.site]
        ordering, size = site.ordering, site.size
        bytes_ = np.full(len(idx), 15, np.uint8)
        if size < 4:
            bytes_ = (((1 << size) - 1) << (at & 3)).astype(np.uint8)
        count = np.full(len(idx), LASTING) if ordering.lasting else moment
        row = self.clocks.known.row[idx]
        new = Accesses(at >> 2, bytes_, self._warp(idx), _lane(idx), count, row, value)
        if ordering.lasting:
            group = seen.chunk.committed[idx].copy()
            kept = shadow.writes if site.write else shadow.reads
            self.lasting.append(_Lasting(kept, seen.site, idx, new.word, group))
        else:
            new = _alike(new)
        against = [shadow.writes, *([shadow.reads] if site.write else [])]
        if not ordering.strong or self._loosen(shadow, site):
            against += [shadow.strong, *([shadow.polls] if site.write else [])]
        kept = shadow.writes if site.write else shadow.reads
        if ordering.strong:
            kept = shadow.strong if site.write else shadow.polls
        for each in against:
            for entry, number in each.met(new):
                self._compare(seen, each, entry, new, number)
        if site.write and not (ordering.atomic and ordering.wide):
            self._together(seen, new)
        kept.add(seen.site, new)

    def _loosen(self, shadow: _Shadow, site: AccessSite) -> bool:
        """Are there strong accesses that are not atomic, or of several sizes or narrow scopes?
        Else they do not conflict with each other."""
        plain = site.ordering.atomic and site.ordering.wide
        if not plain or shadow.plain_atomics not in (0, site.size):
            shadow.plain_atomics = None
        elif shadow.plain_atomics == 0:
            shadow.plain_atomics = site.size
        return shadow.plain_atomics is None

    # ------------------------------------------------------------ conflicts

    def _compare(
        self, seen: _Seen, kept: Accessors, entry: Index, new: Accesses, number: Index
    ) -> None:
        """Pairs of entries and new accesses of a byte."""
        columns, here = kept.columns, self.sites[seen.site]
        lanes, warp, count = (columns[name][entry] for name in ("lanes", "warp", "count"))
        own = (warp == new.warp[number]) & (count != LASTING) & _single(new.lanes[number])
        if not here.ordering.constant and not seen.shadow.constant:
            apart = ~(own & (lanes == new.lanes[number]))
            if not apart.all():
                entry, number, own = entry[apart], number[apart], own[apart]
                lanes, warp, count = lanes[apart], warp[apart], count[apart]
            if not len(entry):
                return
        per_block = self.clocks.padded >> 5
        block = new.warp[number] // per_block
        late = self.clocks.unknown(new.row[number], block, warp, lanes, count)
        late[own] &= ~new.lanes[number[own]]
        if seen.shadow.constant or here.ordering.constant:
            fixed = np.array([site.ordering.constant for site in self.sites], np.bool_)
            fixed = fixed[columns["site"][entry]] | here.ordering.constant
            late[fixed] = lanes[fixed]
        bad = np.flatnonzero(late)
        if not len(bad):
            return
        sites = columns["site"][entry[bad]]
        for other in np.unique(sites).tolist():
            chosen = bad[sites == other]
            same_block = warp[chosen] // per_block == block[chosen]
            same = (
                new.value is not None
                and columns["value"][entry[chosen]] == new.value[number[chosen]]
            )
            same &= columns["bytes"][entry[chosen]] == new.bytes[number[chosen]]
            same &= not self.sites[other].ordering.lasting  # what a copy writes nobody keeps
            kinds_ = kinds(here, self.sites[other], same_block, same)
            for kind in (RACE, SAME, STRONG):
                of_kind = chosen[kinds_ == kind]
                if len(of_kind):
                    at = of_kind[0]
                    pair = two_of(new.warp[number[at]], new.lanes[number[at]], warp[at], late[at])
                    words = new.word[number[of_kind]]
                    common = int(new.bytes[number[at]] & columns["bytes"][entry[at]])
                    lasting = int(count[at]) == LASTING
                    self._found(seen, kind, other, pair, words, common, lasting)

    def _together(self, seen: _Seen, new: Accesses) -> None:
        """Threads of one instruction write the same bytes."""
        here = self.sites[seen.site]
        many = np.flatnonzero(~_single(new.lanes))
        one, two = many, many
        if len(new.word) > 1 and not (np.diff(new.word) > 0).all():
            order = np.lexsort((new.bytes, new.word))
            same = (np.diff(new.word[order]) == 0) & (np.diff(new.bytes[order]) == 0)
            one = np.concatenate([many, order[:-1][same]])
            two = np.concatenate([many, order[1:][same]])
        if not len(one):
            return
        per_block = self.clocks.padded >> 5
        same_block = new.warp[one] // per_block == new.warp[two] // per_block
        alike = np.zeros(len(one), np.bool_)
        if new.value is not None:
            alike = new.value[one] == new.value[two]
        kinds_ = kinds(here, here, same_block, alike)
        for kind in (RACE, SAME, STRONG):
            which = np.flatnonzero(kinds_ == kind)
            if len(which):
                at, to = two[which[0]], one[which[0]]
                pair = two_of(new.warp[at], new.lanes[at], new.warp[to], new.lanes[to])
                common = int(new.bytes[at] & new.bytes[to])
                self._found(seen, kind, seen.site, pair, new.word[one[which]], common)

    def _found(
        self, seen: _Seen, kind: str, other: int, pair: tuple[int, int], words: Index,
        common: int, lasting: bool = False,
    ) -> None:  # fmt: skip
        """A conflict, the first pair of which has some bytes of the first word in common (bits).
        Raises Race for the first race where that is wanted."""
        here, there = self.sites[seen.site], self.sites[other]
        low, high = sorted((here.line, there.line))
        key = kind, not seen.arena, low, high
        if kind == SAME:
            marks = seen.shadow.same.setdefault(key, np.zeros(len(seen.shadow.torn), np.bool_))
            marks[words] = True
        elif kind == RACE and not (here.write and there.write):
            seen.shadow.torn[words] = True
        if key in self.found:
            return
        chunk, first = seen.chunk, self.clocks.first * self.clocks.padded
        thread, name = pair[0] - first, chunk.thread_name(pair[1] - first)
        what = in_words(kind, here, there, name, seen.site == other, lasting)
        error = chunk.error(Race, seen.fragment, thread, what)
        places = (
            chunk.place(seen.fragment, thread),
            ThreadPlace(there.function, there.index, *chunk.indices(pair[1] - first)),
        )
        byte = 4 * int(words[0]) + (common & -common).bit_length() - 1
        byte = chunk.program.arena.address(byte) if seen.arena else (
            SHARED + byte % max(chunk.program.shared_size, 1)
        )  # fmt: skip
        self.found[key] = Conflict(
            kind, not seen.arena, here.line, there.line, chunk.thread_name(thread), name, error,
            places, (here.write, there.write), byte, lasting,
        )  # fmt: skip
        if kind in self.stop:
            raise error

    def _judge(self, shadow: _Shadow) -> None:
        """Same values are a race if somebody reads the byte without order."""
        for key, words in shadow.same.items():
            race = (RACE, *key[1:])
            if (words & shadow.torn).any() and key in self.found:
                told = self.found.pop(key)
                self.found.setdefault(race, structs.replace(told, kind=RACE))


class _Seen(Struct, frozen=True):
    """An instruction of a fragment that accesses a region."""

    chunk: Chunk
    fragment: Fragment
    arena: bool
    shadow: _Shadow
    site: int


def _lane(idx: Index) -> Array:
    return np.uint32(1) << (idx & 31).astype(np.uint32)


def _single(lanes: Array) -> Array:
    out: Array = lanes & (lanes - np.uint32(1)) == 0
    return out


def _piece(value: Array | None, part: int, count: int) -> Array | None:
    """Some 32 bits of values, one for each thread."""
    if value is None:
        return None
    bits = np.broadcast_to(value, count).astype(np.uint64) >> np.uint64(32 * part)
    return (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _alike(new: Accesses) -> Accesses:
    """Neighbours of one warp that do the same become one."""
    change = new.word[1:] != new.word[:-1]
    if change.all():
        return new
    for column in (new.bytes, new.warp, new.count, new.row, new.value):
        if column is not None:
            change = change | (column[1:] != column[:-1])
    begins = np.flatnonzero(np.concatenate([[True], change]))
    out = new.chosen(begins)
    return structs.replace(out, lanes=np.bitwise_or.reduceat(new.lanes, begins))
