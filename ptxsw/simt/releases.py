"""What strong accesses tell: releases that an acquire observes (PTX ISA 8.8 and 8.9).

A release, or a strong write behind a fence, leaves at its word what its thread knows (with a fence:
what that covers). A strong read of it learns that if it is an acquire, and else at the next fence
of its thread. Atomic operations hand on what they find. Both scopes have to include the other
thread: what has the scope of a block is of no use beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from ptxsw.ptx.ir import Instruction
from ptxsw.simt.clocks import Clocks, Known, joined
from ptxsw.simt.state import Index

_STRONG = {"relaxed", "acquire", "release", "acq_rel", "volatile", "mmio", "sc"}
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
    strong = atomic or fence or bool(names & _STRONG)
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


class _Observed(Struct, frozen=True):
    """What a thread has read and not yet learned."""

    within: Known = field(default_factory=dict)
    beyond: Known = field(default_factory=dict)


class Releases:
    """The messages of a launch, by region and offset, and what the threads of a chunk observed."""

    def __init__(self) -> None:
        self.messages: dict[int, dict[int, _Message]] = {}
        self.observed: dict[int, _Observed] = {}

    def fence(self, clocks: Clocks, idx: Index, ordering: Ordering) -> None:
        if ordering.acquires and self.observed:
            for thread in idx.tolist():
                seen = self.observed.get(thread)
                if seen is not None:
                    known = joined(seen.within, seen.beyond if ordering.wide else {})
                    clocks.learn(thread, known)
        if ordering.releases:
            clocks.fence(idx, ordering.wide)

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
        seen = self.observed.get(thread, _Observed())
        self.observed[thread] = _Observed(
            joined(seen.within, within), joined(seen.beyond, message.beyond)
        )

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
