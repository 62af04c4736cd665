"""Who runs next, for how long, and who waits for whom without having to.

`Converging` is the hardware programmers expect: threads that part meet again at the immediate
post-dominator. `Fuzzing` is what independent thread scheduling allows: any group may split at
any instruction, warps take turns at random, groups at the same place in the same iteration may
or may not become one again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from msgspec import Struct

from ptxsw.simt.state import Fragment, Index, union


class Queue(Protocol):
    """The fragments of a chunk that can run, and those that wait at joins."""

    runnable: list[Fragment]

    def let_others_by(self) -> None:
        """Makes those that wait at joins runnable."""
        ...


class Schedule(Protocol):
    """Decisions the hardware is free to make."""

    tracking: bool  # fragments know the iterations they are in

    def begin(self, fragment: Fragment) -> list[Fragment]:
        """The fragments the threads of a chunk start in."""
        ...

    def pick(self, runnable: list[Fragment]) -> Fragment:
        """Takes the next fragment off the list."""
        ...

    def turn(self) -> int:
        """How many instructions it may run."""
        ...

    def waits(self) -> bool:
        """Does a fragment at a join wait for the others?"""
        ...

    def pause(self, queue: Queue, fragment: Fragment) -> None:
        """A fragment's turn is over; it goes back among the runnable."""
        ...

    def order(self, count: int) -> Index | None:
        """In which order the threads of one atomic instruction come; None: by number."""
        ...


class Converging(Struct):
    """Last parted, first run; reconvergence at immediate post-dominators."""

    patience: int = 100_000
    tracking: bool = False

    def begin(self, fragment: Fragment) -> list[Fragment]:
        return [fragment]

    def pick(self, runnable: list[Fragment]) -> Fragment:
        return runnable.pop()

    def turn(self) -> int:
        return self.patience

    def waits(self) -> bool:
        return True

    def pause(self, queue: Queue, fragment: Fragment) -> None:
        """It may spin for others: all others get their turn, those at joins too."""
        if not queue.runnable:
            queue.let_others_by()
        queue.runnable.insert(0, fragment)

    def order(self, count: int) -> Index | None:
        return None


@dataclass
class Fuzzing:
    """Seeded mischief. `merge_iterations` lets groups in different iterations of a loop become
    one where they meet at the same instruction, and sees to it that they do: part of a group
    runs ahead until it comes by where the rest still is."""

    seed: int
    merge_iterations: bool = False
    split: float = 0.3
    merge: float = 0.5
    lockstep: bool = False  # as before sm_70: groups part at branches only, and meet again
    tracking: bool = True
    random: random.Random = field(init=False)
    chase: tuple[Index, Index] | None = None  # threads that run ahead, threads that stay
    chased: int = 0  # instructions since

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.wait = self.random.choice((1.0, 0.7, 0.3, 0.0))
        self.longest = self.random.choice((1, 3, 12, 60))
        self.split *= self.random.choice((0.0, 0.3, 1.0))
        if self.lockstep:
            self.wait, self.split = 1.0, 0.0

    def begin(self, fragment: Fragment) -> list[Fragment]:
        """Every warp on its own."""
        cuts = np.flatnonzero(np.diff(fragment.idx >> 5)) + 1
        return [fragment.part(piece) for piece in np.split(fragment.idx, cuts)]

    def pick(self, runnable: list[Fragment]) -> Fragment:
        at = self.random.randrange(len(runnable))
        if self.chase is not None:
            ahead = [n for n, f in enumerate(runnable) if f.idx is self.chase[0]]
            at = ahead[0] if ahead else at
            self.chase = self.chase if ahead else None
        runnable[at], runnable[-1] = runnable[-1], runnable[at]
        return runnable.pop()

    def turn(self) -> int:
        return 1 if self.chase is not None else self.random.randint(1, self.longest)

    def waits(self) -> bool:
        return self.random.random() < self.wait

    def pause(self, queue: Queue, fragment: Fragment) -> None:
        if self.chase is not None and fragment.idx is self.chase[0]:
            queue.runnable.append(self._caught_up(queue.runnable, fragment, self.chase[1]))
            return
        if fragment.count > 1 and self.random.random() < self.split:
            pieces = self._split(fragment)
            queue.runnable += pieces
            if self.merge_iterations and len(pieces) == 2 and self.random.random() < 0.5:
                self.chase, self.chased = (pieces[0].idx, pieces[1].idx), 0
            return
        if self.random.random() < self.merge:
            fragment = self._merged(queue.runnable, fragment)
        queue.runnable.append(fragment)

    def _caught_up(self, runnable: list[Fragment], fragment: Fragment, others: Index) -> Fragment:
        """The fragment that runs ahead, together with those it left if it is where they are."""
        self.chased += 1
        if self.chased > 1000:
            self.chase = None
        for at, other in enumerate(runnable):
            same = other.pc == fragment.pc and other.frame is fragment.frame
            if other.idx is others and same and other.join is fragment.join:
                self.chase = None
                del runnable[at]
                idx = union([fragment.idx, others])
                return Fragment(fragment.frame, fragment.pc, idx, fragment.join, fragment.tag)
        return fragment

    def _split(self, fragment: Fragment) -> list[Fragment]:
        """In two: a random half, one thread and the rest, or at a random place."""
        idx = fragment.idx
        kind = self.random.randrange(3)
        if kind == 0:
            bits = self.random.getrandbits(len(idx))
            mask = np.array([bits >> i & 1 for i in range(len(idx))], np.bool_)
        elif kind == 1:
            mask = np.zeros(len(idx), np.bool_)
            mask[self.random.randrange(len(idx))] = True
        else:
            mask = np.arange(len(idx)) < self.random.randint(1, len(idx) - 1)
        if mask.all() or not mask.any():
            return [fragment]
        return [fragment.part(idx[mask]), fragment.part(idx[~mask])]

    def _merged(self, runnable: list[Fragment], fragment: Fragment) -> Fragment:
        """With another fragment at the same place that has the same things ahead of it."""
        for at, other in enumerate(runnable):
            same = other.pc == fragment.pc and other.frame is fragment.frame
            same = same and other.join is fragment.join
            if not same or other.idx[0] >> 5 != fragment.idx[0] >> 5:
                continue
            if other.tag != fragment.tag and not self.merge_iterations:
                continue
            del runnable[at]
            idx = union([fragment.idx, other.idx])
            return Fragment(fragment.frame, fragment.pc, idx, fragment.join, fragment.tag)
        return fragment

    def order(self, count: int) -> Index | None:
        order = list(range(count))
        self.random.shuffle(order)
        return np.array(order, np.int64)
