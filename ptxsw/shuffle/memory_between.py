"""Does memory hold for the load what it held for the source (rules 3 and 4)?

Rule 3: nothing between the two loads may write their bytes or order memory. Rule 4: this thread
has not stored to them before the source, since the other lane need not have seen that store.
A generic load through a pointer that was loaded may read shared memory: for it stores to shared
memory count as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from ptxsw.analysis.pointers import pointers, unrelated
from ptxsw.analysis.reaching_stores import ORDER, ReachingStores
from ptxsw.changes.assumptions import NO_RACE
from ptxsw.changes.claim import Obligation
from ptxsw.changes.plan import Refused
from ptxsw.emulator.trace import Access, Trace
from ptxsw.facts.lane_equality import prove_disjoint
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.isa import Effect
from ptxsw.shuffle.plain_loads import surely_global
from ptxsw.terms.solver import Solver

# Effects that order memory between threads or may write anything.
_ORDERS = Effect.BARRIER | Effect.FENCE | Effect.ATOMIC | Effect.ASYNC | Effect.CALL
_STORES_COMPARED = 64
"""More between two loads are not held against them one by one."""


class MemoryBetween:
    """The stores of one trace, and what orders its memory."""

    def __init__(self, trace: Trace, solver: Solver, assume: frozenset[str]) -> None:
        self._trace, self._cfg, self._terms = trace, trace.cfg, trace.terms
        self._solver, self._assume = solver, assume
        self._apart: dict[tuple[int, int], tuple[Obligation, ...]] = {}

    @cached_property
    def _access_at(self) -> dict[int, Access]:
        return {access.index: access for access in self._trace.accesses}

    @cached_property
    def _orders(self) -> list[int]:
        return [i for i, ins in enumerate(self._cfg.instructions) if _orders(ins)]

    @cached_property
    def _stores(self) -> list[int]:
        return [i for i, ins in enumerate(self._cfg.instructions) if _stores(ins)]

    @cached_property
    def _shared_stores(self) -> list[int]:
        return [i for i, ins in enumerate(self._cfg.instructions) if _may_write_shared(ins)]

    @cached_property
    def _earlier(self) -> ReachingStores:
        return ReachingStores(self._trace, isa.may_write_global, _orders)

    @cached_property
    def _earlier_or_shared(self) -> ReachingStores:
        return ReachingStores(self._trace, _may_write_either, _orders)

    def _may_be_shared(self, *loads: Access) -> bool:
        """May one of the loads read shared memory, and is any written?"""
        return bool(self._shared_stores) and any(
            load.space == "generic" and not surely_global(self._trace, load) for load in loads
        )

    def _shared_store(self, span: range, *loads: Access) -> int | None:
        """A store to shared memory in a stretch, if one of the loads may read there. How far such
        a store is from a generic address is not known."""
        if not self._may_be_shared(*loads):
            return None
        return next(iter(within(self._shared_stores, span)), None)

    def can_hoist(self, load: Access, at: int) -> Refused | None:
        """May memory hold something else before instruction `at` of a load's segment?"""
        span = range(at, load.index)
        for index in within(self._orders, span):
            return Refused(f"{self._named(index)} prevents moving the load")
        if not read_only(load):
            shared = self._shared_store(span, load)
            if shared is not None:
                return Refused(f"{self._named(shared)} may change what the moved load reads")
            stores = within(self._stores, span)
            if len(stores) > _STORES_COMPARED:
                return Refused("too many stores would have to be compared to move the load")
            for index in stores:
                if not self._store_apart(index, load):
                    return Refused(f"{self._named(index)} may change what the moved load reads")
        return None

    def nothing_between(
        self, source: Access, dest: Access, at: int, spans: Iterable[range]
    ) -> Refused | None:
        # `.nc` says that nobody writes these bytes while the kernel runs.
        if read_only(source) and read_only(dest):
            return None
        for span in spans:
            for index in within(self._orders, span):
                return Refused(f"{self._named(index)} is between the two loads")
            shared = self._shared_store(span, source, dest)
            if shared is not None:
                return Refused(f"{self._named(shared)} between the two loads may change it")
            stores = within(self._stores, span)
            if len(stores) > _STORES_COMPARED:
                return Refused("there are too many stores between the two loads")
            for index in stores:
                # Both, although they load the same bytes: in `ld u[t]; st u[t]; ld u[t+1]` this
                # thread's store misses its second load, but hits the first one of its neighbour.
                if not self._store_apart(index, dest) or not self._store_apart(index, source):
                    return Refused(f"{self._named(index)} between the two loads may change it")
        return None

    def distances(
        self, source: Access, dest: Access, at: int, spans: Iterable[range]
    ) -> Iterator[Obligation]:
        """What was proved of the stores between two loads."""
        if read_only(source) and read_only(dest):
            return
        between = [*spans, range(at, source.index)]
        for index in dict.fromkeys(i for span in between for i in within(self._stores, span)):
            for load in (source, dest):
                yield from self._apart.get((index, load.index), ())

    def _store_apart(self, index: int, load: Access) -> tuple[Obligation, ...]:
        """The proofs that a store by any thread misses the load's bytes; none if it may not."""
        obligations = self._apart.get((index, load.index))
        if obligations is None:
            store = self._access_at.get(index)
            # A store that the emulation never reached has no address to compare.
            proofs: list[Obligation | None] = [None]
            if store is not None:
                proofs = [
                    prove_disjoint(
                        self._terms, self._solver, variant, store.bytes, other, load.bytes
                    )
                    for variant in store.variants
                    for other in load.variants
                ]
            proved = [p for p in proofs if p is not None]
            obligations = tuple(proved) if len(proved) == len(proofs) else ()
            self._apart[index, load.index] = obligations
        return obligations

    def _named(self, index: int) -> str:
        instruction = self._cfg.instructions[index]
        line = self._trace.module.source.line(instruction.span.start)
        return f"{instruction.name} (line {line})"

    def no_earlier_store(self, source: Access, dest: Access, at: int) -> list[str] | Refused:
        """A store by this thread before the source, which lane j need not have seen: refused
        where it may be to the same array, assumed harmless for unrelated pointers. What orders
        memory, such as an acquire, may have shown this lane a store that came after lane j's load,
        if that load raced with it: assumed not to be."""
        if read_only(source) and read_only(dest):
            return []
        assumed: list[str] = []
        sources = pointers(source)
        either = self._may_be_shared(source, dest)
        for others, index in (self._earlier_or_shared if either else self._earlier).reaching(at):
            named = self._named(index)
            if others == ORDER:
                if NO_RACE not in self._assume:
                    return Refused(f"{named} before the source may let lanes see different memory")
                assumed = [NO_RACE]
                continue
            assert not isinstance(others, str)
            if not unrelated(sources, others):
                return Refused(f"{named} before the source may write the same array")
            if NO_RACE not in self._assume:
                return Refused(f"{named} before the source may write what is loaded")
            assumed = [NO_RACE]
        return assumed


def read_only(access: Access) -> bool:
    return "nc" in access.instruction.modifiers


def _orders(instruction: Instruction) -> bool:
    return _orders_memory(instruction.opcode, instruction.modifiers)


@isa.by_name
def _orders_memory(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return bool(isa.effects(opcode, modifiers) & _ORDERS)


def _stores(instruction: Instruction) -> bool:
    """An unordered write that may be to global memory."""
    return isa.may_write_global(instruction) and not _orders(instruction)


@isa.by_name
def _writes_shared(opcode: str, modifiers: tuple[str, ...]) -> bool:
    written = isa.effects(opcode, modifiers) & Effect.WRITE
    return bool(written) and isa.space_named(opcode, modifiers) == "shared"


def _may_write_shared(instruction: Instruction) -> bool:
    """An unordered write to shared memory by name. One to a generic address may be to global
    memory, too."""
    return _writes_shared(instruction.opcode, instruction.modifiers) and not _orders(instruction)


def _may_write_either(instruction: Instruction) -> bool:
    return isa.may_write_global(instruction) or _may_write_shared(instruction)


def within(ordered: list[int], span: range) -> list[int]:
    """The members of a sorted list that lie in a range."""
    return ordered[bisect_right(ordered, span.start - 1) : bisect_right(ordered, span.stop - 1)]
