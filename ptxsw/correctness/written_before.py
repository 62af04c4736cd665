"""Which bytes of an array have surely been written before a thread reads there.

    s[tid] = x; barrier; y = s[tid + d]       by the threads of the block, before the barrier
    for (i = 0; i < 8; i++) a[i] = 0; a[k]    by the thread itself, in a loop of known length

The stores that count are computed for each thread of a block of a known shape. A barrier at which
all threads meet orders them before what follows; threads that may have ended by then, or a store
that depends on more than the place of a thread, do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES
from ptxsw.correctness.arrays import Arrays, InArray
from ptxsw.correctness.barriers import meets_all, meets_warp
from ptxsw.correctness.block_roles import roles_of
from ptxsw.correctness.block_values import BlockValues
from ptxsw.correctness.kernel_values import KernelValues
from ptxsw.correctness.loop_iterations import LoopRounds
from ptxsw.correctness.offset_enumeration import offsets
from ptxsw.correctness.path_conditions import Ways
from ptxsw.correctness.subject import Subject
from ptxsw.emulator.trace import Access
from ptxsw.facts.memory_objects import touched_bytes
from ptxsw.facts.thread_columns import BlockColumns, threads_of
from ptxsw.ptx.ir import Instruction
from ptxsw.terms import op
from ptxsw.terms.evaluate import Column
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.origin import OF_LOOPS, Origin

_MOST_ITERATIONS = 1024


class ArrayStore(Struct, frozen=True):
    """A store of one way, `bytes` at an offset in an array of `size` bytes, if that is known."""

    index: int
    name: str
    offset: Term
    bytes: int
    guard: Term
    size: int | None


Bytes = frozenset[int]


class WrittenBefore:
    """The stores of one kernel with blocks of a known shape."""

    def __init__(self, subject: Subject, values: KernelValues) -> None:
        self._subject, self._values = subject, values
        self._trace, self._cfg = subject.trace, subject.cfg
        self._arrays, self._ways = Arrays(subject), Ways(subject)
        self._taking: Sequence[tuple[int, int, int]] | None = None  # instead of the whole block
        self._rounds = LoopRounds(values)
        self._by_store: dict[tuple[int, int], Bytes] = {}

    # ------------------------------------------------------------ asked

    def by_thread(self, access: Access, place: InArray, size: int) -> bool:
        """Has the thread itself written all bytes that it reads?"""
        left: set[int] | None = self._read(place, size, alone=True)
        for store in self._stores.get(place.name, ()):
            before = self._ways.passed(store.index, access.index)
            if before is None or not self._hold((*before, store.guard), place):
                continue
            around = {*self._cfg.loops_around(self._cfg.block_of[access.index])}
            same = around >= {*self._cfg.loops_around(self._cfg.block_of[store.index])}
            if same and store.offset is place.offset and store.bytes >= size:
                return True
            if left is not None:
                left -= self._alone(store, access.index)
                if not left:
                    return True
        return False

    def by_block(self, access: Access, place: InArray, size: int) -> bool:
        """Have the threads of the block written all bytes that the thread reads, before a barrier
        that it has passed?"""
        for barrier in self._barriers:
            if self._ways.passed(barrier, access.index) == ():
                written: set[int] = set()
                for store in self._stores.get(place.name, ()):
                    written |= self._together(store, barrier, place)
                if written and self._is_within(place, size, written):
                    return True
        return any(
            self._by_warps(barrier, place, size)
            for barrier in self._warp_barriers
            if self._ways.passed(barrier, access.index) == ()
        )

    def _by_warps(self, barrier: int, place: InArray, size: int) -> bool:
        """Have the lanes of each warp written what its threads read?"""
        threads = self._threads
        for first in range(0, len(threads), LANES):
            self._taking = threads[first : first + LANES]
            try:
                read = self._read(place, size, alone=False)
                if read is None:
                    return False
                for store in self._stores.get(place.name, ()):
                    read -= self._of_block(store, barrier, place)
                if read:
                    return False
            finally:
                self._taking = None
        return True

    def fits(self, names: Iterable[str]) -> bool:
        """Do the stores of some arrays stay inside with this block, as far as that is seen?"""
        for store in (one for name in names for one in self._stores.get(name, ())):
            if store.size is None:
                continue
            given = (store.guard,)
            found = offsets(self._values, self._rounds, store.offset, given, self._threads)
            if max(found or (), default=0) + store.bytes > store.size:
                return False
        return True

    # ------------------------------------------------------------ what is read

    def _is_within(self, place: InArray, size: int, written: set[int]) -> bool:
        low, high = self._values.bounds(place.given).signed(place.offset)
        if high - low <= 1 << 18 and written.issuperset(range(low, high + size)):
            return True
        read = self._read(place, size, alone=False)
        return read is not None and read <= written

    def _read(self, place: InArray, size: int, *, alone: bool) -> set[int] | None:
        """The bytes that a thread may read, or any thread; None where they are too many."""
        if alone:
            low, high = self._values.bounds(place.given).signed(place.offset)
            return set(range(low, high + size)) if high - low <= 1 << 12 else None
        threads = self._taking or self._threads
        starts = offsets(self._values, self._rounds, place.offset, place.given, threads)
        if starts is None:
            return None
        return {at for start in {*starts} for at in range(start, start + size)}

    # ------------------------------------------------------------ what is written

    @cached_property
    def _stores(self) -> dict[str, list[ArrayStore]]:
        """By the name of the array."""
        found: dict[str, list[ArrayStore]] = {}
        for access in self._trace.accesses:
            size = touched_bytes(access)
            if access.kind != "store" and not _sets_memory(access.instruction):
                continue
            if len(access.variants) != 1 or not size:
                continue  # no telling which thread took which way
            (view,) = access.variants
            places = list(self._arrays.places(view.address, ()))
            if len(places) == 1 and places[0] is not None:
                one = places[0]
                store = ArrayStore(access.index, one.name, one.offset, size, view.guard, one.size)
                found.setdefault(one.name, []).append(store)
        return found

    def _alone(self, store: ArrayStore, reader: int) -> Bytes:
        """The bytes that a store of the thread itself writes before another instruction, whatever
        the thread is."""
        if store.offset.kind is op.CONST:
            return frozenset(range(store.offset.value, store.offset.value + store.bytes))
        found: set[int] = set()
        counts = {*unknowns(store.offset)}
        for columns in self._repeated(store, reader, counts):
            (value,) = {*columns.values(store.offset)}
            found.update(range(value, value + store.bytes))
        return frozenset(found)

    def _together(self, store: ArrayStore, barrier: int, place: InArray) -> Bytes:
        """The bytes that the threads of a block have written before they meet at a barrier."""
        key = store.index, barrier
        known = self._by_store.get(key)
        if known is None:
            known = self._by_store[key] = self._of_block(store, barrier, place)
        return known

    def _of_block(self, store: ArrayStore, barrier: int, place: InArray) -> Bytes:
        before = self._ways.passed(store.index, barrier)
        reached = self._ways.reached(barrier)
        if before is None or reached is None:
            return frozenset()
        counters = dict.fromkeys(self._cfg.loops_around(self._cfg.block_of[barrier]), 0)
        kept = [p for p in reached if not self._same.same(p, counters)]
        # What all threads share and the reader is known to have met is met by all.
        kept += [p for p in (*before, store.guard) if not self._is_met(p, place, counters)]
        if self._ways.may_leave(counters):
            return frozenset()
        found: set[int] = set()
        for columns in self._repeated(store, barrier, set()):
            if not all(map(columns.is_told, (store.offset, *kept))):
                break
            takes = columns.taking(kept)
            for value, taken in zip(columns.of_each(store.offset), takes, strict=True):
                if taken:
                    found.update(range(value, value + store.bytes))
        return frozenset(found)

    def _is_met(self, condition: Term, place: InArray, counters: dict[int, int]) -> bool:
        """Has the reader met a condition that all threads share, in whatever iteration?"""
        counted = any(a.origin in OF_LOOPS for a in unknowns(condition))
        return not counted and condition in place.given and self._same.same(condition, counters)

    def _repeated(self, store: ArrayStore, before: int, alone: set[Term]) -> Iterator[BlockColumns]:
        """The threads that make a store, in each iteration of a loop that ends before another
        instruction; of other loops in the first one. `alone`: it may depend on these counts and on
        nothing else."""
        counts = [a for a in unknowns(store.offset) if a.origin is Origin.ITERATION]
        if not counts and not alone:
            yield self._columns({})
        if len(counts) != 1 or (alone and alone != {*counts}):
            return
        (count,) = counts
        columns = self._columns({count: (0,)})
        yield columns
        again = self._goes_on(count, before)
        for number in range(1, _MOST_ITERATIONS):
            if again is None or (alone and {*unknowns(again)} != alone):
                return
            columns = self._columns({count: (number,)}, columns.threads)
            if not columns.is_told(again):
                return
            takes = columns.taking([again])
            pairs = zip(columns.threads, takes, strict=True)
            columns = self._columns({count: (number,)}, [t for t, taken in pairs if taken])
            if not columns.threads:
                return
            yield columns

    def _goes_on(self, count: Term, before: int) -> Term | None:
        """The condition that leads to the next iteration of a loop that ends before an instruction,
        if nothing else ends it."""
        header = next((h for h, f in self._trace.loop_facts.items() if f.label == count.of[0]), -1)
        loop, entries = self._cfg.loops.get(header), self._trace.entries.get(count, ())
        if loop is None or len({source for source, _ in loop.exits}) != 1 or len(entries) != 1:
            return None
        if self._cfg.block_of[before] in loop.blocks:
            return None
        if self._ways.may_leave([header]) or entries[0].again.kind is op.CONST:
            return None
        return entries[0].again

    # ------------------------------------------------------------ threads

    @cached_property
    def _threads(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(threads_of(self._subject.shape or (1, 1, 1)))

    def _columns(
        self, chosen: dict[Term, Column], threads: Sequence[tuple[int, int, int]] | None = None
    ) -> BlockColumns:
        terms, shape = self._values.terms, self._subject.shape or (1, 1, 1)
        sizes = {
            terms.special(f"%ntid.{axis}"): (size,) for axis, size in zip("xyz", shape, strict=True)
        }
        taking = threads if threads is not None else self._taking or self._threads
        return BlockColumns(terms, taking, {**sizes, **chosen})

    @cached_property
    def _same(self) -> BlockValues:
        return BlockValues(self._trace, self._values.most_threads)

    @cached_property
    def _barriers(self) -> tuple[int, ...]:
        code, roles = self._cfg.instructions, roles_of(self._subject)
        return tuple(
            at for at in self._cfg.indices(self._cfg.order) if code[at].guard is None
            and meets_all(code[at], self._subject.shape)
            and (roles is None or at in roles.for_all)
        )  # fmt: skip

    @cached_property
    def _warp_barriers(self) -> tuple[int, ...]:
        """Those of all lanes of a warp."""
        every = self._cfg.indices(self._cfg.order)
        return tuple(at for at in every if meets_warp(self._cfg.instructions[at]))

    def _hold(self, conditions: Iterable[Term], place: InArray) -> bool:
        bounds = self._values.bounds(place.given)
        return all(c in place.given or bounds.truth(c) for c in conditions)


def _sets_memory(instruction: Instruction) -> bool:
    """Does it write what nobody has to have written before, though it is no store?"""
    if instruction.opcode == "mbarrier":
        return "init" in instruction.modifiers
    return instruction.opcode == "cp" and "bulk" not in instruction.modifiers
