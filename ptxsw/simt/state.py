"""What a running program consists of: threads in fragments, joins where they meet, frames.

All threads of a chunk of blocks are numbered warp by warp; the last warp of a block may have
lanes without a thread. A fragment is a set of threads of any number of warps that are at the same
place: seen from one warp, a converged group of lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ptxsw.ptx.errors import PtxError
from ptxsw.ptx.ir import Operand
from ptxsw.simt.code import Code

Array = NDArray[Any]
Index = NDArray[np.int64]
Poison = Array | bool | None
"""Which elements hold nothing defined: an array, all of them (True), or none (None)."""


Triple = tuple[int, int, int]


class ThreadPlace(Struct, frozen=True):
    """A thread, by its indices and those of its block, at an instruction of a function."""

    function: str
    index: int
    thread: Triple
    block: Triple


class RunError(PtxError):
    """The program does what no machine defines; the message names kernel and thread."""

    place: ThreadPlace | None = None


class MemoryFault(RunError):
    """An access out of bounds, misaligned, or to read-only memory.

    `address` is the generic one of its first byte. `space` is "shared" or "local" where the address
    is said, or found, to lie there; else it is in a buffer, or nowhere.
    """

    address = 0
    bytes = 0
    space = ""


class Misaligned(MemoryFault):
    """`ways`: how many bytes the accesses of all threads that make it are off."""

    ways: frozenset[int] = frozenset()


class PastDynamicShared(MemoryFault):
    """An access behind the shared memory of a kernel that has as much as the launch gives it."""


class Poisoned(RunError):
    """A value that was never defined reaches an address, a branch or memory. `absent`: where
    the thread has read by a shuffle from a lane that was not there."""

    absent: ThreadPlace | None = None


class Deadlock(RunError):
    """Threads wait for threads that will never come. `waiting` are the first of those at each
    line; `lanes`: some of them wait for lanes of their warp."""

    waiting: tuple[ThreadPlace, ...] = ()
    lanes = False


class Undefined(RunError):
    """Lanes of a warp do together what PTX leaves undefined."""


class PartialBarrier(Undefined):
    """Only some lanes of a warp come to an aligned barrier."""


class LaneOutsideMask(Undefined):
    """A lane executes an instruction of a warp whose mask leaves it out."""


class Trap(RunError):
    """The program stopped itself: `trap`, or a failed assertion."""


class Runaway(RunError):
    """More instructions than the limit of the launch."""


class Livelock(Deadlock, Runaway):
    """Threads go round in loops for ever: nobody changes what they wait for."""


class Race(RunError):
    """Two threads touch the same byte without order, and one of them writes."""


class Frame(Struct, eq=False, dict=True):
    """One activation of a function by a set of threads: their registers."""

    code: Code
    threads: int  # elements of each register
    live: int  # threads in it that have neither returned nor exited
    base: int  # of its variables, in each thread's local window
    caller: Frame | None = None
    values: list[Array | None] = field(default_factory=list)
    poison: list[Poison] = field(default_factory=list)
    results: tuple[Operand, ...] = ()  # where the call wants its results

    def __post_init__(self) -> None:
        self.values = [None] * len(self.code.widths)
        self.poison = [True] * len(self.code.widths)

    def write(
        self, slot: int, fragment: Fragment, array: Array, poison: Poison, exact: bool = False
    ) -> None:
        """Sets a register in the threads of a fragment; `array` and `poison` have an element
        (or one for all) for each thread of `fragment.sel`, or with `exact` of the fragment."""
        sel = fragment.exact if exact else fragment.sel
        target = self.values[slot]
        if target is None:
            target = self.values[slot] = np.zeros(self.threads, self.code.dtypes[slot])
        target[sel] = array
        old = self.poison[slot]
        if poison is None and (old is None or fragment.whole):
            self.poison[slot] = None
            return
        if not isinstance(old, np.ndarray):
            old = self.poison[slot] = np.full(self.threads, old is True)
        old[sel] = False if poison is None else poison

    def write_all(
        self,
        slots: Sequence[int | None],
        fragment: Fragment,
        arrays: Sequence[Array],
        poisons: Sequence[Poison],
        exact: bool = False,
    ) -> None:
        """Sets the registers that one instruction writes, as `write` does each; None is a sink.
        What is read of a register is a view of it, so all values are taken before one is set."""
        if len(slots) > 1:
            arrays = [_taken(array) for array in arrays]
            poisons = [_taken(p) if isinstance(p, np.ndarray) else p for p in poisons]
        for slot, array, poison in zip(slots, arrays, poisons, strict=True):
            if slot is not None:
                self.write(slot, fragment, array, poison, exact)


def _taken(array: Array) -> Array:
    """The elements as they are now: a copy of a view."""
    return array if array.base is None else array.copy()


class Join(Struct, eq=False):
    """Where threads that parted wait for each other; `pending` of them have not come yet."""

    pc: int
    frame: Frame
    pending: int
    parent: Join | None
    arrived: list[Index] = field(default_factory=list)
    passed: list[Index] = field(default_factory=list)  # went on while others had not come
    tag: tuple[tuple[int, int], ...] = ()


class Fragment:
    """Threads at the same place. `sel` may cover more than the fragment: threads that no longer
    run, where an operation on everything is cheaper than on a selection."""

    __slots__ = ("count", "exact", "frame", "idx", "join", "pc", "sel", "tag", "warps_", "whole")

    def __init__(
        self,
        frame: Frame,
        pc: int,
        idx: Index,
        join: Join | None,
        tag: tuple[tuple[int, int], ...] = (),
    ) -> None:
        self.frame, self.pc, self.join, self.tag = frame, pc, join, tag
        self.idx = idx
        self.count = count = len(idx)
        low, high = int(idx[0]), int(idx[-1]) + 1
        self.exact: slice | Index = slice(low, high) if high - low == count else idx
        self.whole = count == frame.live and 4 * count >= frame.threads
        self.sel: slice | Index = slice(0, frame.threads) if self.whole else self.exact
        self.warps_: Index | None = None

    @property
    def warps(self) -> Index:
        """The warps it has threads in."""
        if self.warps_ is None:
            numbers = self.idx >> 5
            first = np.empty(len(numbers), np.bool_)
            first[0] = True
            np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
            self.warps_ = numbers[first]
        return self.warps_

    def part(self, idx: Index) -> Fragment:
        """Some of its threads, at the same place."""
        return Fragment(self.frame, self.pc, idx, self.join, self.tag)


class AsyncCopy(Struct, frozen=True):
    """What some threads have copied but not yet written, and the group it belongs to."""

    idx: Index
    offsets: Array  # in shared memory
    columns: list[Array]  # words
    group: Array

    def split(self, chosen: Array) -> AsyncCopy:
        return AsyncCopy(
            self.idx[chosen],
            self.offsets[chosen],
            [column[chosen] for column in self.columns],
            self.group[chosen],
        )


def union(pieces: list[Index]) -> Index:
    """Threads of disjoint sets in order."""
    return pieces[0] if len(pieces) == 1 else np.sort(np.concatenate(pieces))


def any_poison(a: Poison, b: Poison) -> Poison:
    """What is undefined if either is."""
    if a is None:
        return b
    if b is None or a is True:
        return a
    if b is True:
        return True
    assert isinstance(a, np.ndarray)
    return a | b
