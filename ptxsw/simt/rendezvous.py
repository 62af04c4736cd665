"""Threads that wait for other threads: of their warp (meetings) or of their block (barriers)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from msgspec import Struct

from ptxsw.simt.chunk import Chunk
from ptxsw.simt.clocks import Told
from ptxsw.simt.state import Array, Fragment, Index, LaneOutsideMask, PartialBarrier, union
from ptxsw.simt.threads import Threads

Stuck = tuple[Fragment, Index, str]


class WarpCollective(Protocol):
    """What lanes do once they have met: `shfl.sync`, `vote.sync`, …"""

    @property
    def name(self) -> str:
        """The instruction in full: lanes meet at the same one."""
        ...

    def read(self, machine: Threads, fragment: Fragment) -> list[Array]:
        """What each thread of a fragment brings; the first array is its membermask."""
        ...

    def perform(self, machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
        """The results of all threads that have met."""
        ...

    def write(self, machine: Threads, fragment: Fragment, results: list[Array]) -> None:
        """Sets the destinations of a fragment."""
        ...


class Arrival(Struct, eq=False):
    """Part of a fragment, of one warp and with one mask, that waits for the rest of the mask."""

    fragment: Fragment
    rite: WarpCollective
    brought: list[Array]


def lane_bits(machine: Chunk, idx: Index) -> Array:
    """For each warp of the chunk, which of its lanes are in `idx`."""
    weights = np.float64(1) * (np.int64(1) << (idx & 31))
    bits = np.bincount(idx >> 5, weights=weights, minlength=machine.threads >> 5)
    return bits.astype(np.uint32)


class WarpRendezvous:
    """Instructions that wait for all living lanes of a mask."""

    def __init__(self, machine: Threads) -> None:
        self.machine = machine
        self.tables: dict[tuple[int, str, int], list[Arrival]] = {}

    def hold(self, fragment: Fragment, part: Fragment, rite: WarpCollective) -> bool:
        """`part` of a fragment executes a rite. True if all are there and it has been
        performed; else the fragment has been taken apart."""
        machine = self.machine
        brought = rite.read(machine, part)
        mask = brought[0]
        warps = part.idx >> 5
        outside = (mask >> (part.idx & 31).astype(np.uint32)) & np.uint32(1) == 0
        if outside.any():
            at = int(np.argmax(outside))
            what = f"{rite.name} with mask {int(mask[at]):#010x}, which leaves this lane out"
            raise machine.error(LaneOutsideMask, part, int(part.idx[at]), what)
        present = lane_bits(machine, part.idx)[warps]
        missing = mask & machine.alive_bits[warps] & ~present
        uniform = len(warps) == 1 or bool(
            np.all((mask[1:] == mask[:-1]) | (warps[1:] != warps[:-1]))
        )
        if uniform and not missing.any():
            rite.write(machine, part, rite.perform(machine, part.idx, brought))
            return True
        self._take_apart(fragment, part, rite, brought)
        return False

    def _take_apart(
        self, fragment: Fragment, part: Fragment, rite: WarpCollective, brought: list[Array]
    ) -> None:
        """Those without a part in it go on; the others wait by warp and mask."""
        if part.count < fragment.count:
            rest = np.setdiff1d(fragment.idx, part.idx, assume_unique=True)
            self.machine.go(fragment, rest, fragment.pc + 1)
        keys = (part.idx >> 5) << 32 | brought[0].astype(np.int64)
        for key in np.unique(keys):
            chosen = keys == key
            guest = Arrival(part.part(part.idx[chosen]), rite, [b[chosen] for b in brought])
            table = int(key) >> 32, rite.name, int(key) & 0xFFFFFFFF
            self.tables.setdefault(table, []).append(guest)
            self._try(table)

    def _try(self, key: tuple[int, str, int]) -> None:
        """Performs the rite if everybody has come."""
        guests = self.tables[key]
        warp, _, mask = key
        here = 0
        for guest in guests:
            for thread in guest.fragment.idx:
                here |= 1 << (int(thread) & 31)
        if int(self.machine.alive_bits[warp]) & mask & ~here:
            return
        del self.tables[key]
        self._perform(guests)

    def _perform(self, guests: list[Arrival]) -> None:
        machine = self.machine
        idx = np.concatenate([guest.fragment.idx for guest in guests])
        order = np.argsort(idx)
        brought = [
            np.concatenate([guest.brought[at] for guest in guests])[order]
            for at in range(len(guests[0].brought))
        ]
        results = guests[0].rite.perform(machine, idx[order], brought)
        onward: dict[tuple[int, int, int], list[Fragment]] = {}
        for guest in guests:
            at = np.searchsorted(idx[order], guest.fragment.idx)
            guest.rite.write(machine, guest.fragment, [result[at] for result in results])
            fragment = guest.fragment
            key = id(fragment.frame), fragment.pc, id(fragment.join)
            onward.setdefault(key, []).append(fragment)
        for pieces in onward.values():  # those at the same place leave together
            machine.go(pieces[0], union([piece.idx for piece in pieces]), pieces[0].pc + 1)

    def recheck(self) -> None:
        """Lanes have ended: nobody waits for them any more."""
        for key in list(self.tables):
            self._try(key)

    def stuck(self) -> list[Stuck]:
        out: list[Stuck] = []
        for (warp, name, mask), guests in self.tables.items():
            here = sum(1 << (int(t) & 31) for guest in guests for t in guest.fragment.idx)
            missing = int(self.machine.alive_bits[warp]) & mask & ~here
            lanes = ", ".join(str(lane) for lane in range(32) if missing >> lane & 1)
            for guest in guests:
                what = f"{name} with mask {mask:#010x} waits for lanes {lanes}"
                out.append((guest.fragment, guest.fragment.idx, what))
        return out


Write = Callable[[Fragment, Array, Array], None]
"""Gives a fragment the result of `bar.red`: how many said yes, among how many, per thread."""


class _Waiter(Struct, eq=False):
    """Threads at a barrier, and for each the round of its block that it waits for."""

    fragment: Fragment
    number: int
    rounds: Array
    write: Write | None
    aligned: bool

    def part(self, chosen: Array) -> _Waiter:
        part = self.fragment.part(self.fragment.idx[chosen])
        return _Waiter(part, self.number, self.rounds[chosen], self.write, self.aligned)


class _Barrier:
    """One of the sixteen barriers, of every block of the chunk."""

    def __init__(self, blocks: int, warps: int) -> None:
        self.arrived = np.zeros(warps, np.uint32)  # lanes, by warp
        self.waiting = np.zeros(warps, np.uint32)  # those of them that wait
        self.told: Told | None = None  # for who looks for races
        self.lines = np.zeros(warps, np.int64)  # of the aligned instruction they came by; 0: none
        self.round, self.expected, self.yes, self.voters, self.last_yes, self.last_voters = (
            np.zeros(blocks, np.int64) for _ in range(6)
        )


class Barriers:
    """`bar`, `barrier`: arrivals are counted in whole warps."""

    def __init__(self, machine: Threads) -> None:
        self.machine = machine
        self.barriers: dict[int, _Barrier] = {}
        self.waiters: list[_Waiter] = []

    def open_for(self, fragment: Fragment, expected: int | None) -> bool:
        """All living threads of the chunk are in the fragment and nobody has come before: the
        barrier opens at once."""
        if self.waiters or fragment.count != int(np.count_nonzero(self.machine.alive)):
            return False
        if any(barrier.arrived.any() for barrier in self.barriers.values()):
            return False
        return expected is None or expected == self.machine.padded

    def arrive(
        self,
        fragment: Fragment,
        number: int,
        expected: int,
        wait: bool,
        votes: Array,
        write: Write | None,
        aligned: bool,
    ) -> None:
        """A fragment comes to a barrier (of `expected` threads, 0: all); if it waits it is
        runnable again when that opens. Lanes of a warp come to an `aligned` one together."""
        machine = self.machine
        machine.disturbed = True
        barrier = self.barriers.get(number)
        if barrier is None:
            barrier = self.barriers[number] = _Barrier(machine.blocks, machine.threads >> 5)
        if aligned:
            self._require_aligned(barrier, fragment)
        lanes = lane_bits(machine, fragment.idx)
        barrier.arrived |= lanes
        if wait:
            barrier.waiting |= lanes
        if machine.races is not None:
            barrier.told = machine.races.come(barrier.told, fragment.idx)
        blocks = machine.block_of(fragment.idx)
        barrier.expected[blocks] = expected
        barrier.yes += np.bincount(blocks, votes, machine.blocks).astype(np.int64)
        barrier.voters += np.bincount(blocks, minlength=machine.blocks)
        if wait:
            rounds = barrier.round[blocks]
            self.waiters.append(_Waiter(fragment, number, rounds, write, aligned))
        self._open(barrier)

    def _require_aligned(self, barrier: _Barrier, fragment: Fragment) -> None:
        """Raises PartialBarrier where other lanes of a warp have come by another instruction."""
        machine, warps = self.machine, fragment.idx >> 5
        source = machine.program.module.source
        line = source.line(machine.instruction(fragment).span.start)
        waiting = (barrier.arrived[warps] != 0) & ~np.isin(barrier.lines[warps], (0, line))
        if waiting.any():
            at = int(np.argmax(waiting))
            name = machine.instruction(fragment).name
            other = int(barrier.lines[warps[at]])
            what = f"{name} by part of a warp, whose other lanes wait for it at line {other}"
            raise machine.error(PartialBarrier, fragment, int(fragment.idx[at]), what)
        barrier.lines[warps] = line

    def require_whole(self, fragment: Fragment) -> None:
        """Raises PartialBarrier where lanes of a warp have left out the barrier that the others
        came to, and have gone on, which a barrier that counts warps does not notice."""
        machine = self.machine
        past = machine.gone_past(fragment)
        if past is None:
            return
        lanes, beside, join = past
        code = join.frame.code
        line = code.source.line(code.instructions[join.pc].span.start)
        more = f" and {len(lanes) - 1} more" if len(lanes) > 1 else ""
        what = (
            f"{machine.instruction(fragment).name} by part of a warp: "
            f"{machine.thread_name(int(lanes[0]))}{more} went on to line {line} without it"
        )
        raise machine.error(PartialBarrier, fragment, beside, what)

    def _open(self, barrier: _Barrier) -> None:
        """Opens a barrier in the blocks where enough warps have come; wakes who waits there."""
        machine, alive = self.machine, self.machine.alive_bits
        per_block = machine.padded >> 5
        full = (barrier.arrived != 0) & (alive & ~barrier.arrived == 0)
        count = 32 * full.reshape(-1, per_block).sum(axis=1)
        dead = 32 * (alive == 0).reshape(-1, per_block).sum(axis=1)
        wanted = np.where(barrier.expected == 0, machine.padded - dead, barrier.expected)
        opens = (count >= wanted) & (count > 0)
        if not opens.any():
            return
        if machine.races is not None and barrier.told is not None:
            lanes = barrier.waiting[:, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
            waiting = (lanes.reshape(-1) == 1) & np.repeat(opens, machine.padded)
            blocks = np.flatnonzero(opens)
            machine.races.go_on(barrier.told, np.flatnonzero(waiting), blocks)
        barrier.round += opens
        barrier.last_yes[opens], barrier.last_voters[opens] = (
            barrier.yes[opens],
            barrier.voters[opens],
        )
        barrier.yes[opens] = barrier.voters[opens] = 0
        barrier.arrived.reshape(-1, per_block)[opens] = 0
        barrier.waiting.reshape(-1, per_block)[opens] = 0
        barrier.lines.reshape(-1, per_block)[opens] = 0
        self.wake(partly=False)

    def wake(self, partly: bool) -> None:
        """Lets go who waits for a round that is over; `partly`: those of such blocks only."""
        machine = self.machine
        still: list[_Waiter] = []
        onward: dict[tuple[int, int, int], list[Fragment]] = {}
        for waiter in self.waiters:
            barrier = self.barriers[waiter.number]
            over = barrier.round[machine.block_of(waiter.fragment.idx)] > waiter.rounds
            if not over.any() or not (partly or over.all()):
                still.append(waiter)
                continue
            if not over.all():
                still.append(waiter.part(~over))
                waiter = waiter.part(over)
            if waiter.aligned:
                self.require_whole(waiter.fragment)
            fragment = waiter.fragment
            if waiter.write is not None:
                blocks = machine.block_of(fragment.idx)
                waiter.write(fragment, barrier.last_yes[blocks], barrier.last_voters[blocks])
            key = id(fragment.frame), fragment.pc, id(fragment.join)
            onward.setdefault(key, []).append(fragment)
        self.waiters = still
        for pieces in onward.values():
            together = pieces[0].part(union([piece.idx for piece in pieces]))
            for part in machine.schedule.begin(together):  # behind a barrier warps part again
                machine.go(part, part.idx, part.pc + 1)

    def recheck(self) -> None:
        """Threads have ended: nobody waits for them any more."""
        for barrier in self.barriers.values():
            self._open(barrier)

    def release_parts(self) -> None:
        """Nobody can run: blocks whose barrier is open need not wait for other blocks."""
        self.wake(partly=True)

    def stuck(self) -> list[Stuck]:
        out: list[Stuck] = []
        for waiter in self.waiters:
            what = f"barrier {waiter.number} waits for {self._missing(waiter)}"
            out.append((waiter.fragment, waiter.fragment.idx, what))
        return out

    def _missing(self, waiter: _Waiter) -> str:
        machine, barrier = self.machine, self.barriers[waiter.number]
        block = int(machine.block_of(waiter.fragment.idx[:1])[0])
        warps = slice(block * machine.padded >> 5, (block + 1) * machine.padded >> 5)
        absent = machine.alive_bits[warps] & ~barrier.arrived[warps]
        if barrier.expected[block]:
            return f"{barrier.expected[block]} threads"
        names = ", ".join(str(warp) for warp in np.flatnonzero(absent))
        return f"threads of warps {names} of the block"
