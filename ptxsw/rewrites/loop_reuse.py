"""What one innermost loop can keep in registers: loads that take what a register holds, stores that
are made behind the loop; `scalar_replacement` has the lines before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeGuard

from msgspec.structs import replace

from ptxsw.analysis.loop_sums import LoopSums
from ptxsw.changes.assumptions import FINITE_LOOPS, NO_RACE
from ptxsw.changes.change import Refusal
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import elements, fresh_prefix
from ptxsw.codegen.loop_guard import GuardedLoop
from ptxsw.codegen.loop_registers import Carried, DeferredStores, Repeated, obstacle
from ptxsw.codegen.versioning import LoopPlace, loop_place
from ptxsw.emulator.trace import Access
from ptxsw.flow.dataflow import defs
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Reg, type_width
from ptxsw.rewrites.entry_guard import obstacle_to_loop_copy
from ptxsw.rewrites.hoist_obstacles import hazard, is_plain
from ptxsw.rewrites.loop_counter import UncountedLoop
from ptxsw.rewrites.loop_ranges import LoopRanges
from ptxsw.rewrites.loop_streams import LoopStreams, Stream
from ptxsw.terms.node import walk

NAME = "scalar-replacement"
_MOST_ACCESSES = 256  # of one loop
_THESE = "these bytes"
_LONGEST_CHAIN = 4  # of pointers, each loaded through the one before

Kept = tuple[Carried | Repeated | DeferredStores, Proof]
"""What stays in a register, and what that rests on."""


class LoopReuse(LoopStreams):
    """Decides about one innermost loop."""

    @cached_property
    def outcome(self) -> tuple[list[Kept], list[Refusal]]:
        """What can stay in registers, and why other reuse is left alone."""
        return self._search()

    @cached_property
    def is_settled(self) -> bool:
        """Is it seen without proofs that nothing can be kept? Not looked at if the report has to
        give the reasons."""
        if not 0 < len(self.accesses) <= _MOST_ACCESSES:
            return True
        return not self.kernel.explains and (not self.meeting or self._obstacle is not None)

    def tested(self) -> tuple[list[Kept], list[Refusal]]:
        """The same behind a test before the loop, if that serves more than what was found without;
        else why it does not. First with the pointers that the loop loads taken for invariant: the
        test is then about them, too, so that no store of an iteration changes them for the next."""
        details, refusals = self.outcome
        if self.is_settled or not (refusals or self._loaded_values):
            return details, refusals
        place = loop_place(self.cfg, self.loop)
        if isinstance(place, LoopPlace):
            reason = obstacle_to_loop_copy(self.kernel, place)
        else:
            reason = place
        if isinstance(place, LoopPlace) and reason is None:
            search = self._supposing_invariant()
            more, left = search.outcome
            ranges = search.ranges
            assert ranges is not None
            reason = ranges.reason
            if count(more) > count(details):
                asked = frozenset(at for detail, _ in more for at in _asked_for(detail))
                try:
                    conditions = ranges.conditions(asked)
                except UncountedLoop as unfit:
                    reason = str(unfit)
                else:
                    test = GuardedLoop(place, conditions) if conditions else None
                    details, refusals = [(replace(d, test=test), proof) for d, proof in more], left
        return details, [_with_guard_reason(refusal, reason) for refusal in refusals]

    def _supposing_invariant(self) -> LoopReuse:
        """A search behind a test. What it supposes of loads is true: each of them is made before
        the loop, and the test is about their bytes, too."""
        supposed = self._loaded_values
        for _ in range(_LONGEST_CHAIN if supposed else 0):
            further = self._again(supposed)._loaded_values
            if len(further) == len(supposed):
                break
            supposed = further
        while True:
            search = self._again(supposed)
            search.ranges = LoopRanges(self.trace, self.loop, supposed)
            made = {detail.at: detail for detail, _ in search.outcome[0] if _is_load(detail)}
            lost = {
                register for at, register in supposed.items()
                if not _is_invariant(made.get(at), made)
            }  # fmt: skip
            if not lost:
                return search
            # What was found apart may rest on these, so it is asked again without them.
            supposed = {at: reg for at, reg in supposed.items() if reg not in lost}

    def _again(self, invariant: dict[int, Reg]) -> LoopReuse:
        return LoopReuse(
            self.kernel, self.header, self.accesses, earlier=self, invariant=invariant
        )  # fmt: skip

    @cached_property
    def _loaded_values(self) -> dict[int, Reg]:
        """The loads, always of the same bytes, that addresses or the number of iterations depend
        on, with the registers that are to hold them: one for those of the same bytes."""
        groups: dict[object, list[Stream]] = {}
        for stream in self._in_order():
            operands = elements(stream.access.instruction)
            if stream.stays and len(operands) == 1 and self._has_registers(stream):
                groups.setdefault((stream.shape, stream.place), []).append(stream)
        groups = {key: g for key, g in groups.items() if all(s.access.kind == "load" for s in g)}
        if not groups:
            return {}
        sums = LoopSums(self.trace, self.loop)
        wholes = [place.address for place in sums.places]
        used = {node for whole in (*wholes, *filter(None, [sums.again])) for node in walk(whole)}
        prefix = fresh_prefix(self.kernel.text)
        return {
            stream.index: Reg(f"{prefix}fixed{group[0].index}")
            for group in groups.values()
            if any(sums.values.get(stream.index) in used for stream in group)
            for stream in group
        }

    def _search(self) -> tuple[list[Kept], list[Refusal]]:
        details: list[Kept] = []
        refusals: list[Refusal] = []
        if self.is_settled:
            return details, refusals
        # Stores first: a load of the same address is served by the register of the store.
        put_off = list(self._put_off())
        taken = {
            at for detail in put_off for at in (*detail.loads, *detail.stores, *detail.compared)
        }
        reused = list(self._reused(taken))
        reason = self._obstacle if put_off or reused or self.reasons else None
        for detail in (*put_off, *reused):
            stores = isinstance(detail, DeferredStores)
            if reason is not None:
                at = detail.stores[-1] if isinstance(detail, DeferredStores) else detail.at
                refusals.append(Refusal(NAME, at, reason))
            else:
                assumed = (FINITE_LOOPS, NO_RACE) if stores else ()
                details.append((detail, Proof(assumptions=assumed)))
        refusals += (Refusal(NAME, at, reason or told) for at, told in self.reasons.items())
        return details, refusals

    @cached_property
    def _obstacle(self) -> str | None:
        """Why nothing is carried over the iterations of this loop."""
        if len(self.loop.latches) != 1:
            return "the loop has several back edges"
        accessing = {access.index for access in self.accesses}
        for index in self.cfg.indices(self.loop.blocks):
            reason = hazard(self.cfg.instructions[index], index in accessing)
            if reason is not None:
                named = self.cfg.instructions[index].name
                return f"{named} (line {self.kernel.line(index)}) {reason}"
        return obstacle(self.kernel.function, self.cfg, self.loop)

    def _refuse(self, stream: Stream, writer: Access) -> None:
        name, line = writer.instruction.name, self.kernel.line(writer.index)
        self.reasons[stream.index] = f"{name} at line {line} may write {_THESE}"

    # ------------------------------------------------------------ loads

    def _reused(self, taken: set[int]) -> Iterator[Carried | Repeated]:
        """Loads that take what is in a register."""
        streams = [s for s in self._in_order() if s.index not in taken and self._has_registers(s)]
        by_place: dict[object, list[tuple[int, Stream]]] = {}
        for at, stream in enumerate(streams):
            by_place.setdefault((stream.shape, stream.place), []).append((at, stream))
        for at, load in enumerate(streams):
            if load.access.kind != "load":
                continue
            # `ahead`: accesses that go in this iteration where the load goes in the next one.
            here = by_place[load.shape, load.place]
            ahead = by_place.get((load.shape, load.place + load.growth), ())
            earlier = _latest([o for when, o in here if when < at and self._fits(o, load)])
            before = _latest([o for _, o in ahead if self._fits(o, load)])
            if earlier is not None and self._keeps(earlier, load):
                yield Repeated(self.header, load.index, earlier.index)
            elif load.stays and self._free(load, self.writer(load)):
                register = self.invariant.get(load.index)
                name = "" if register is None else register.name
                yield Carried(self.header, load.index, load.computed, None, register=name)
            elif before is not None and not load.stays and self._rotates(before, load):
                yield Carried(self.header, load.index, load.computed, before.index)

    def _in_order(self) -> list[Stream]:
        """By the place in an iteration."""
        rank = self.cfg.rank
        return sorted(self.streams.values(), key=lambda s: (rank[self.block(s.access)], s.index))

    def _has_registers(self, stream: Stream) -> bool:
        return all(isinstance(o, Reg) and not o.scope for o in elements(stream.access.instruction))

    def _fits(self, source: Stream, load: Stream) -> bool:
        """Do the registers of an access hold what a load's would?"""
        width = self.kernel.function.body.width
        one, other = (
            [width(o) for o in elements(s.access.instruction) if isinstance(o, Reg)]
            for s in (source, load)
        )
        kind = type_width(isa.access_type(source.access.instruction) or "")
        return one == other and (source.access.kind == "load" or set(one) == {kind})

    def _keeps(self, source: Stream, load: Stream) -> bool:
        """Does no store touch the bytes from one access of an iteration up to a load?"""
        return self._free(load, self.writer(load, behind=source, before=load))

    def _rotates(self, source: Stream, load: Stream) -> bool:
        """Does no store touch the bytes from an access of an iteration up to a load of the next
        one?"""
        writer = self.writer(source, behind=source) or self.writer(load, before=load)
        return self._free(load, writer)

    def _free(self, load: Stream, writer: Access | None) -> bool:
        """Is there no store that may write what a load takes? Notes the one that may."""
        if writer is not None:
            self._refuse(load, writer)
        return writer is None

    # ------------------------------------------------------------ stores

    def _put_off(self) -> Iterator[DeferredStores]:
        """Stores to one address that stays, which are made behind the loop."""
        for group in self._store_groups():
            if not {FINITE_LOOPS, NO_RACE} <= self.kernel.options.assume:
                missing = sorted({FINITE_LOOPS, NO_RACE} - self.kernel.options.assume)
                self.reasons[group[0].index] = f"{missing[0]} is not assumed"
                continue
            detail = self._group(group)
            if detail is not None:
                yield detail

    def _store_groups(self) -> Iterator[list[Stream]]:
        groups: dict[object, list[Stream]] = {}
        for stream in self._in_order():
            if stream.access.kind == "store" and stream.stays:
                groups.setdefault((stream.access.space, stream.place), []).append(stream)
        yield from groups.values()

    def _group(self, stores: Sequence[Stream]) -> DeferredStores | None:
        last = stores[-1]
        loads = [
            s for s in self._in_order()
            if s.access.kind == "load" and s.place == last.place
            and s.access.space == last.access.space and "nc" not in s.access.instruction.modifiers
        ]  # fmt: skip
        members = [*stores, *loads]
        if len({(isa.access_type(s.access.instruction), s.access.elements) for s in members}) > 1:
            self.reasons[last.index] = "it is accessed with several types"
            return None
        reason = self._widths(stores, loads, seen=bool(loads)) or self._leaving(last)
        own, compared = {s.index for s in members}, list[int]()
        for other in () if reason else self.accesses:
            reads_constant = "nc" in other.instruction.modifiers
            if other.index in own or reads_constant or self.apart(last, other):
                continue
            if len(compared) < 2 * len(members) and self._is_comparable(last.access, other):
                compared.append(other.index)
            else:
                name, line = other.instruction.name, self.kernel.line(other.index)
                does = "read" if other.kind == "load" else "write"
                reason = f"{name} at line {line} may {does} {_THESE}"
                break
        reason = reason or (self._widths(stores, loads, seen=True) if compared else None)
        if reason is not None:
            self.reasons[last.index] = reason
            return None
        for stream in members:
            self.reasons.pop(stream.index, None)
        order = [s.index for s in self._in_order() if s.index in own]
        # If a load comes first, it reads what memory held before the loop, so the register has to
        # be loaded in front of the loop: from that load's address, which is computed again there.
        # The store behind the loop uses the operand of the last store.
        first = loads[0] if loads and order[0] == loads[0].index else last
        return DeferredStores(
            self.header, tuple(s.index for s in stores), tuple(s.index for s in loads),
            first.index, first.computed, first is not last or bool(compared), tuple(compared),
        )  # fmt: skip

    def _is_comparable(self, store: Access, load: Access) -> bool:
        """Can a load that may be of stored bytes ask whether it is? Not before it is known that no
        test can tell: each iteration has to ask."""
        width = self.kernel.function.body.width
        operands = [o for access in (store, load) for o in elements(access.instruction)]
        return (
            self.ranges is not None
            and load.kind == "load"
            and store.space == load.space == "global"
            and is_plain(load.instruction)
            and store.bits == load.bits
            and len(operands) == 2
            and all(isinstance(o, Reg) and not o.scope and width(o) == store.bits for o in operands)
            and isinstance(isa.address(load.instruction).base, Reg)
        )

    def _widths(
        self, stores: Sequence[Stream], loads: Sequence[Stream], *, seen: bool
    ) -> str | None:
        """Why one register cannot hold what all of these store and load. Only the last store counts
        where no value is `seen` in the loop."""
        width = self.kernel.function.body.width
        kind = type_width(isa.access_type(stores[0].access.instruction) or "")
        widths: set[int] = set()
        for stream in chain(stores if seen else stores[-1:], loads):
            for operand in elements(stream.access.instruction):
                if isinstance(operand, Reg):
                    widths.add(width(operand) or 0)
                    if operand.scope:
                        return "it is accessed through a register of an inner scope"
                elif stream.access.kind == "load":
                    return "a part of it is not loaded"
        if len(widths) > 1 or (seen and widths != {kind}):
            return "it is accessed through registers of several widths"
        return None

    def _leaving(self, store: Stream) -> str | None:
        """Why a store cannot be made where the loop is left."""
        base = isa.address(store.access.instruction).base
        instructions = self.cfg.instructions
        inside = self.cfg.indices(self.loop.blocks)
        # Behind the loop the register must still hold what it held at the store. Its address
        # stays, so one writer, run in every iteration, always writes the same.
        if isinstance(base, Reg):
            writers = [i for i in inside if base in defs(instructions[i])]
            if len(writers) > 1 or any(self.cfg.block_of[i] not in self.always for i in writers):
                return "its address register is written more than once"
        for source, _ in self.loop.exits:
            end = instructions[self.cfg.blocks[source].end - 1]
            if end.opcode != "bra" or end.guard is None:
                return "the loop has an exit that is not a branch"
        return None


def count(details: Sequence[Kept]) -> int:
    """The accesses that give way."""
    return sum(len(served(detail)) for detail, _ in details)


def served(detail: Carried | Repeated | DeferredStores) -> frozenset[int]:
    """The accesses that give way."""
    if isinstance(detail, DeferredStores):
        return frozenset((*detail.stores, *detail.loads))
    return frozenset({detail.at})


def _asked_for(detail: Carried | Repeated | DeferredStores) -> frozenset[int]:
    """The accesses that no store may touch while a value is kept."""
    if isinstance(detail, DeferredStores) or detail.source is None:
        return served(detail)
    return frozenset({detail.at, detail.source})


def _is_load(detail: Carried | Repeated | DeferredStores) -> TypeGuard[Carried | Repeated]:
    return not isinstance(detail, DeferredStores)


def _is_invariant(
    detail: Carried | Repeated | None, made: Mapping[int, Carried | Repeated]
) -> bool:
    """Does a load take what is loaded once, before the loop?"""
    if isinstance(detail, Repeated):
        return _is_invariant(made.get(detail.source), made)
    return detail is not None and detail.source is None


def _with_guard_reason(refusal: Refusal, reason: str | None) -> Refusal:
    """A refusal with the reason why no test before the loop helps."""
    if reason is None or not refusal.reason.endswith(_THESE):
        return refusal
    return replace(
        refusal, reason=f"{refusal.reason}; a test before the loop cannot decide it: {reason}"
    )


def _latest(streams: Sequence[Stream]) -> Stream | None:
    """Of accesses to the same bytes, in order, the one whose register has the bytes' last value:
    the last store, or else the first load, since no load changes anything."""
    stores = [s for s in streams if s.access.kind == "store"]
    return stores[-1] if stores else next(iter(streams), None)
