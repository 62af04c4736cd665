"""Finds out that nothing will ever change: every thread that can run is in a loop that has brought
it back to where it was.

A thread that comes to the same jump backwards with the same registers and the same local memory
does so for ever, however threads are scheduled, as long as nobody changes memory and it has asked
nothing whose answer depends on time or on other threads. So a stretch of the run is watched now
and then; a change of memory, a clock, lanes or warps that meet end it. Once all threads that can
run have come back within one stretch, none of them will ever change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from ptxsw.simt.state import Array, Fragment, Frame, Index, Poison

if TYPE_CHECKING:
    from ptxsw.simt.chunk import Chunk

FIRST = 1 << 10
"""Steps after which the first stretch begins; the others begin after twice as many each."""
SOON = 1 << 8
"""Steps until the next, where one has found threads that wait for others."""
SHARE = 8
"""A stretch has at most one jump backwards in so many steps of the run, as a power of two."""
LEAST = 64  # jumps of a stretch


class _Seen(Struct, eq=False):
    """Where the threads of a frame were when they first jumped backwards, and their registers."""

    frame: Frame
    at: Array  # the target of the jump; -1: none yet
    values: list[Array | None]
    poison: list[Array | None]
    suspect: int = 0  # the register that has told a difference last

    def remember(self, fragment: Fragment, target: int) -> None:
        """Threads that have not been seen before."""
        frame, idx = self.frame, fragment.idx
        self.at[idx] = target
        for slot, value in enumerate(frame.values):
            if value is None:
                continue
            kept = self.values[slot]
            if kept is None:
                kept = self.values[slot] = np.zeros_like(value)
                self.poison[slot] = np.ones(len(value), np.bool_)
            kept[idx] = value[idx]
            self.poison[slot][idx] = _marks(frame.poison[slot], idx)  # type: ignore[index]

    def same(self, fragment: Fragment) -> Array:
        """Which threads have the registers again that they had."""
        frame, idx = self.frame, fragment.idx
        same = np.ones(len(idx), np.bool_)
        count = len(frame.values)
        for number in range(self.suspect, self.suspect + count):
            slot = number % count
            value, kept, undefined = frame.values[slot], self.values[slot], self.poison[slot]
            if value is None:
                continue
            if kept is None or undefined is None:
                return np.zeros(len(idx), np.bool_)  # not written until now
            same &= kept[idx] == value[idx]
            same &= undefined[idx] == _marks(frame.poison[slot], idx)
            if not same.any():
                self.suspect = slot
                break
        return same


def _marks(poison: Poison, idx: Index) -> Any:
    return poison[idx] if isinstance(poison, np.ndarray) else poison is True


class Spinning(Struct, eq=False):
    """A stretch of the run that is watched, or the wait for the next."""

    due: int = FIRST  # steps when the next stretch begins; 0 while one is watched
    left: int = 0  # jumps until it ends
    back: Array = field(default_factory=lambda: np.zeros(0, np.bool_))  # threads that came back
    seen: dict[int, _Seen] = field(default_factory=dict)  # by frame
    local: Array | None = None  # their local memory then

    @property
    def watching(self) -> bool:
        return self.due == 0

    def jumped(self, chunk: Chunk, steps: int, fragment: Fragment, target: int) -> bool:
        """Threads jump backwards, after so many steps. True if all of them have come back to
        where they were: they may as well let others run."""
        if not self.watching:
            self._begin(chunk, steps)
        elif chunk.has_changed() or not self.left:
            self.end(chunk, steps)
            return False
        self.left -= 1
        seen = self.seen.get(id(fragment.frame))
        if seen is None:
            frame = fragment.frame
            none: list[Array | None] = [None] * len(frame.values)
            seen = _Seen(frame, np.full(frame.threads, -1), none, [*none])
            self.seen[id(frame)] = seen
        idx = fragment.idx
        new = seen.at[idx] < 0
        if new.any():
            seen.remember(fragment.part(idx[new]), target)
            self._remember_memory(chunk, idx[new])
        there = ~new & (seen.at[idx] == target)
        if there.any():
            part = fragment.part(idx[there])
            same = seen.same(part)
            if same.any():
                same &= self._same_memory(chunk, part.idx)
            self.back[part.idx[same]] = True
        return self.all_back(fragment)

    def all_back(self, fragment: Fragment) -> bool:
        """Have all threads of a fragment come back?"""
        return bool(self.back[fragment.idx].all())

    def places(self, fragment: Fragment) -> list[Fragment]:
        """The threads of a fragment, which have come back, at the heads of their loops."""
        frame: Frame | None = fragment.frame
        while frame is not None:
            seen, idx = self.seen.get(id(frame)), fragment.idx
            at = seen.at[idx] if seen is not None else np.full(len(idx), -1)
            if (at >= 0).all():
                return [Fragment(frame, int(pc), idx[at == pc], None) for pc in np.unique(at)]
            frame = frame.caller
        return [fragment]

    def end(self, chunk: Chunk, steps: int) -> None:
        """Something has changed, or the stretch was long enough."""
        self.due = steps + (SOON if self.back.any() else max(FIRST, steps))
        self.seen, self.local = {}, None
        chunk.watch_changes(False)

    def _begin(self, chunk: Chunk, steps: int) -> None:
        chunk.watch_changes(True)
        self.due, self.left = 0, max(LEAST, steps >> SHARE)
        self.back = np.zeros(chunk.threads, np.bool_)

    def _remember_memory(self, chunk: Chunk, idx: Index) -> None:
        rows = chunk.local_rows(idx)
        if self.local is None:
            self.local = np.zeros((chunk.threads, rows.shape[1]), np.uint8)
        if self.local.shape[1] == rows.shape[1]:
            self.local[idx] = rows

    def _same_memory(self, chunk: Chunk, idx: Index) -> Array:
        rows = chunk.local_rows(idx)
        assert self.local is not None
        if self.local.shape[1] != rows.shape[1]:  # there is more of it now
            return np.zeros(len(idx), np.bool_)
        same: Array = (self.local[idx] == rows).all(axis=1)
        return same
