"""What strong accesses tell: releases that an acquire observes (PTX ISA 8.8 and 8.9).

A release, or a strong write behind a fence, leaves at its word what its thread knows (with a fence:
what that covers). A strong read of it learns that if it is an acquire, and else at the next fence
of its thread, or of one that it has met at a barrier since:

    if (t == 0) last = atomicAdd(...) == n - 1;  __syncthreads();  if (last) __threadfence();

Atomic operations hand on what they find. Both scopes have to include the other thread: what has the
scope of a block is of no use beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.simt.clocks import Clocks, Known, Observed, Told, joined
from ptxsw.simt.state import Index

_NARROW = {"cta", "cluster"}  # a cluster here is one block


class Ordering(Struct, frozen=True):
    """What an access, or a fence, is to others."""

    strong: bool = False
    wide: bool = False  # its scope goes beyond the block
    acquires: bool = False
    releases: bool = False
    atomic: bool = False
    constant: bool = False  # `.nc`: what it reads may not change while the kernel runs
    lasting: bool = False  # it ends when its thread waits for it


PLAIN = Ordering()


def ordering_of(instruction: Instruction) -> Ordering:
    """Of a load, a store, an atomic operation or a fence (with `sc` or without a word: both)."""
    names = {modifier.split("::")[0] for modifier in instruction.modifiers}
    atomic = instruction.opcode in ("atom", "red")
    fence = instruction.opcode in ("fence", "membar")
    strong = atomic or fence or bool(names & isa.STRONG)
    both = "acq_rel" in names or (fence and not names & {"acquire", "release"})
    return Ordering(
        strong, strong and not names & _NARROW, both or "acquire" in names,
        both or "release" in names, atomic, "nc" in names,
    )  # fmt: skip


class _Message(Struct, frozen=True):
    """What a word tells: to threads of a block (by its number), and to all."""

    block: int  # who wrote it last
    wide: bool
    size: int
    within: Mapping[int, Known]
    beyond: Known


class Releases:
    """The messages of a launch, by region and offset, and what the threads of a chunk observed."""

    def __init__(self) -> None:
        self.messages: dict[int, dict[int, _Message]] = {}
        self.observed: dict[int, Observed] = {}

    def fence(self, clocks: Clocks, idx: Index, ordering: Ordering) -> None:
        if ordering.acquires and self.observed:
            for thread in idx.tolist():
                seen = self.observed.get(thread)
                if seen is not None:
                    known = joined(seen.within, seen.beyond if ordering.wide else {})
                    clocks.learn(thread, known)
        if ordering.releases:
            clocks.fence(idx, ordering.wide)

    def met(self, idx: Index, group: Index) -> None:
        """Threads meet at a barrier, by groups: their fences behind it cover what any of them has
        observed."""
        seen = _together(self.observed, idx, group)
        for thread, of in zip(idx.tolist(), group.tolist(), strict=True):
            if of in seen:
                self.observed[thread] = seen[of]

    def came(self, told: Told, idx: Index, block: Index) -> None:
        """Threads come to a barrier of their blocks."""
        for of, seen in _together(self.observed, idx, block).items():
            told.observed[of] = told.observed.get(of, Observed()) | seen

    def went_on(self, told: Told, idx: Index, block: Index) -> None:
        """Threads go on behind it."""
        for thread, of in zip(idx.tolist(), block.tolist(), strict=True):
            seen = told.observed.get(of)
            if seen is not None:
                self.observed[thread] = self.observed.get(thread, Observed()) | seen

    def overwritten(self, region: int, offsets: Index, size: int) -> None:
        """Weak writes tell nothing."""
        messages = self.messages.get(region)
        if messages:
            low = set(offsets.tolist())
            for at in [at for at, m in messages.items() if _touched(at, m.size, low, size)]:
                del messages[at]

    def strong(
        self, clocks: Clocks, region: int, idx: Index, offsets: Index, size: int, write: bool,
        ordering: Ordering,
    ) -> None:  # fmt: skip
        """Strong accesses by threads, in the order in which they come."""
        messages = self.messages.setdefault(region, {})
        if not messages and not clocks.fenced and not ordering.releases:
            return
        for thread, at in zip(idx.tolist(), offsets.tolist(), strict=True):
            old = messages.get(at)
            block = clocks.first + thread // clocks.padded
            if old is not None and old.size != size:
                old = None
            if old is not None and old.block != block and not (old.wide and ordering.wide):
                old = None  # the scopes leave one of them out
            if old is not None and (ordering.atomic or not write):
                self._read(clocks, thread, block, old, ordering)
            if not write:
                continue
            new = self._written(clocks, thread, block, size, ordering)
            if old is not None and ordering.atomic:
                within = {b: joined(new.within.get(b, {}), old.within.get(b, {}))
                          for b in (*new.within, *old.within)}  # fmt: skip
                beyond = joined(new.beyond, old.beyond)
                new = _Message(block, ordering.wide, size, within, beyond)
            if new.within or new.beyond:
                messages[at] = new
            else:
                messages.pop(at, None)

    def _read(
        self, clocks: Clocks, thread: int, block: int, message: _Message, ordering: Ordering
    ) -> None:
        within = message.within.get(block, {})
        if ordering.acquires:
            clocks.learn(thread, joined(within, message.beyond if ordering.wide else {}))
        seen = self.observed.get(thread, Observed())
        self.observed[thread] = seen | Observed(within, message.beyond)

    def _written(
        self, clocks: Clocks, thread: int, block: int, size: int, ordering: Ordering
    ) -> _Message:
        within = clocks.of_thread(clocks.within, thread)
        beyond = clocks.of_thread(clocks.beyond, thread) if ordering.wide else {}
        if ordering.releases:
            within = clocks.of_thread(clocks.known, thread)
            beyond = within if ordering.wide else beyond
            clocks.known.count[thread] += 1
        return _Message(block, ordering.wide, size, {block: within} if within else {}, beyond)


def _touched(at: int, size: int, low: set[int], length: int) -> bool:
    return any(byte in low for byte in range(at - length + 1, at + size))


def _together(observed: Mapping[int, Observed], idx: Index, group: Index) -> dict[int, Observed]:
    """What the threads of each group have observed."""
    out: dict[int, Observed] = {}
    for thread, of in zip(idx.tolist(), group.tolist(), strict=True):
        seen = observed.get(thread)
        if seen is not None:
            out[of] = out.get(of, Observed()) | seen
    return out
