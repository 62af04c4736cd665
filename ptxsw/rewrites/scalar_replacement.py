"""Scalar replacement (NVCUDA, 3.4): values that a loop carries from turn to turn stay in registers.

    LOOP:                                      ld.global.nc.f32 %sw_held1, [%rd4];
      ld.global.nc.f32 %f1, [%rd4];      =>  LOOP:
      ld.global.nc.f32 %f2, [%rd4+4];          mov.b32 %f1, %sw_held1;
      ...                                      ld.global.nc.f32 %f2, [%rd4+4];
      add.s64 %rd4, %rd4, 4;                   ...
      @%p1 bra LOOP;                           mov.b32 %sw_held1, %f2;
                                               @%p1 bra LOOP;

A load whose address stays, or that reads what another load has read a turn before, takes a
register; what the first turn needs is loaded in front of the loop. Stores to an address that stays
are made once, behind the loop:

    LOOP:                                    LOOP:
      ...                                      ...
      st.global.f32 [%rd4], %f3;         =>    mov.b32 %sw_held1, %f3;
      @%p1 bra LOOP;                           @%p1 bra LOOP;
                                               st.global.f32 [%rd4], %sw_held1;

No store of the loop may touch what is carried: loads by `.nc` are safe, others where addresses are
known to differ. That the values are those of memory is claimed at the loop's begin, and checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import ClassVar

from msgspec.structs import replace

from ptxsw import isa
from ptxsw.analysis.lane_reuse import candidates
from ptxsw.change import Change, Refusal
from ptxsw.codegen.accesses import elements
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.entry_test import EntryTest
from ptxsw.codegen.lower_scalar_replacement import (
    Carried,
    DeferredStores,
    Repeated,
    claims,
    lower,
    obstacle,
)
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.trace import Access
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs
from ptxsw.ir import Reg, type_width
from ptxsw.options import FINITE_LOOPS
from ptxsw.plan import Proof
from ptxsw.rewrites.base import Found, Kernel
from ptxsw.rewrites.entry_test import LIMITS, obstacle_to_versions
from ptxsw.rewrites.hazards import hazard
from ptxsw.rewrites.jointly_planned import FOR_SHUFFLES, SHUFFLE, RefusedSource
from ptxsw.rewrites.loop_streams import LoopStreams, Stream
from ptxsw.rewrites.supposed import Supposed
from ptxsw.shuffle.assumptions import NO_RACE

_MOST_ACCESSES = 256  # of one loop
_TOLD = "what the loops store lies apart from what they keep in registers"
_ROTATED = "is rotated: no shuffle is made from a register that a loop carries"
_Proved = tuple[Carried | Repeated | DeferredStores, Proof]


class ScalarReplacement:
    """See above."""

    name: ClassVar[str] = "scalar-replacement"
    summary: ClassVar[str] = (
        "What a loop loads or stores again in every iteration stays in registers."
    )
    follows: ClassVar[frozenset[str]] = frozenset()

    def find(self, kernel: Kernel) -> Iterator[Found]:
        """Loads and stores of innermost loops whose values stay in registers."""
        if kernel.trace.statistics.timed_out:
            return
        details, refusals = _in_loops(kernel)
        test: EntryTest | None = None
        if refusals and self._may_test(kernel):
            details, refusals, test = _tested(kernel, details, refusals)
        yield from refusals
        yield from _without_source(kernel, [detail for detail, _ in details])
        yield from self._changes(kernel, [(replace(d, test=test), proof) for d, proof in details])

    def _may_test(self, kernel: Kernel) -> bool:
        """May the kernel stand twice, and does it not yet?"""
        cfg = kernel.trace.cfg
        twice = any(_is_copy(cfg, header) for header in cfg.loops)
        return not twice and obstacle_to_versions(kernel) is None

    def _changes(self, kernel: Kernel, details: Sequence[_Proved]) -> Iterator[Change]:
        function, cfg = kernel.function, kernel.trace.cfg
        told = claims(
            kernel.text, function, cfg, self._builder(kernel), [detail for detail, _ in details]
        )
        for detail, proof in details:
            at = detail.stores[-1] if isinstance(detail, DeferredStores) else detail.at
            source = None if isinstance(detail, DeferredStores) else detail.source
            kept = frozenset() if source is None else frozenset({source})
            tests = () if detail.test is None else (_TOLD,)
            yield Change(
                self.name, at, _served(detail), replace(proof, tests=tests), detail, kept, source,
                claims=told.get(detail, ()),
            )  # fmt: skip

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = self._builder(kernel)
        lower(builder, kernel.text, kernel.function, kernel.trace.cfg, changes)
        return builder.edits()

    def _builder(self, kernel: Kernel) -> Builder:
        return Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)


def _in_loops(
    kernel: Kernel, supposed: Supposed | None = None
) -> tuple[list[_Proved], list[Refusal]]:
    """What can stay in registers in the innermost loops, and why other reuse is left alone."""
    cfg = kernel.trace.cfg
    details: list[_Proved] = []
    refusals: list[Refusal] = []
    for header, loop in cfg.loops.items():
        innermost = not any(n in cfg.loops for n in loop.blocks if n != header)
        if innermost and header not in cfg.irreducible and not _is_copy(cfg, header):
            for proved in _InLoop(kernel, header, loop, supposed).find():
                if isinstance(proved, Refusal):
                    refusals.append(proved)
                else:
                    details.append(proved)
    return details, refusals


def _tested(
    kernel: Kernel, details: list[_Proved], refusals: list[Refusal]
) -> tuple[list[_Proved], list[Refusal], EntryTest | None]:
    """What can stay in registers behind a test at entry, the rest, and the test: none, where it
    would serve no more than what is known without. The narrowest one supposes the most: where that
    tells nothing the wider ones do not either."""
    most, _ = _in_loops(kernel, Supposed(kernel, LIMITS[-1]))
    for bits in LIMITS if _count(most) > _count(details) else ():
        supposed = Supposed(kernel, bits)
        more, left = _in_loops(kernel, supposed)
        if _count(more) > _count(details):
            test = supposed.test()
            if isinstance(test, EntryTest):
                return more, left, test
    return details, refusals, None


def _without_source(
    kernel: Kernel, details: Sequence[Carried | Repeated | DeferredStores]
) -> Iterator[Refusal]:
    """The loads that find no lane to take their value from, because the load of that lane is
    rotated. A shuffle from the register would save no load: a lane at the end of the warp makes
    it still, and rotation saves one for fewer instructions."""
    asked = SHUFFLE in kernel.considered and kernel.options.scheme != "keep"
    if not asked or FOR_SHUFFLES.missing(kernel.module) is not None:
        return
    rotated = {d.at: d for d in details if isinstance(d, Carried) and d.source is not None}
    served = frozenset().union(*(_served(detail) for detail in details))
    cfg = kernel.trace.cfg
    for load, parts in candidates(kernel.trace, kernel.options.max_delta) if rotated else ():
        crossing = [c for several in parts for c in several if c.crosses]
        sources = {c.source.index for c in crossing}
        if not crossing or load.index in served or not sources <= rotated.keys():
            continue
        nearest = crossing[0]
        at = nearest.source.index
        if cfg.block_of[load.index] in cfg.loops[rotated[at].header].blocks:
            source = RefusedSource(at, nearest.delta)
            reason = f"its source, the load at line {kernel.line(at)}, {_ROTATED}"
            yield Refusal(SHUFFLE, load.index, reason, source, because_of=at)


def _count(details: Sequence[_Proved]) -> int:
    return sum(len(_served(detail)) for detail, _ in details)


def _served(detail: Carried | Repeated | DeferredStores) -> frozenset[int]:
    """The accesses that give way."""
    if isinstance(detail, DeferredStores):
        return frozenset((*detail.stores, *detail.loads))
    return frozenset({detail.at})


class _InLoop(LoopStreams):
    """Decides about one innermost loop."""

    def find(self) -> Iterator[_Proved | Refusal]:
        """What can stay in registers, and why other reuse is left alone."""
        if not self.accesses or len(self.accesses) > _MOST_ACCESSES:
            return
        if not self.kernel.explains and (not self.meeting or self._obstacle() is not None):
            return
        put_off = list(self._put_off())
        taken = {at for detail in put_off for at in (*detail.loads, *detail.stores)}
        reused = list(self._reused(taken))
        reason = self._obstacle() if put_off or reused or self.reasons else None
        for detail in (*put_off, *reused):
            if reason is not None:
                at = detail.stores[-1] if isinstance(detail, DeferredStores) else detail.at
                yield Refusal(ScalarReplacement.name, at, reason)
            elif isinstance(detail, DeferredStores):
                yield detail, Proof(assumptions=(FINITE_LOOPS, NO_RACE))
            else:
                yield detail, Proof()
        for at, told in self.reasons.items():
            yield Refusal(ScalarReplacement.name, at, reason or told)

    def _obstacle(self) -> str | None:
        """Why nothing is carried over the turns of this loop."""
        if len(self.loop.latches) != 1:
            return "the loop has several back edges"
        known = {access.index for access in self.accesses}
        for number in self.loop.blocks:
            block = self.cfg.blocks[number]
            for index in range(block.start, block.end):
                reason = hazard(self.cfg.instructions[index], index in known)
                if reason is not None:
                    named = self.cfg.instructions[index].name
                    return f"{named} (line {self.kernel.line(index)}) {reason}"
        return obstacle(self.kernel.function, self.cfg, self.loop)

    def _refuse(self, stream: Stream, writer: Access) -> None:
        name, line = writer.instruction.name, self.kernel.line(writer.index)
        self.reasons[stream.index] = f"{name} at line {line} may write these bytes"

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
            here = by_place[load.shape, load.place]
            ahead = by_place.get((load.shape, load.place + load.growth), ())
            earlier = _latest([o for when, o in here if when < at and self._fits(o, load)])
            before = _latest([o for _, o in ahead if self._fits(o, load)])
            if earlier is not None and self._keeps(earlier, load):
                yield Repeated(self.header, load.index, earlier.index)
            elif load.stays and self._free(load, self.writer(load)):
                yield Carried(self.header, load.index, load.computed, None)
            elif before is not None and not load.stays and self._rotates(before, load):
                yield Carried(self.header, load.index, load.computed, before.index)

    def _in_order(self) -> list[Stream]:
        """By the place in a turn."""
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
        """Does no store touch the bytes from one access of a turn up to a load?"""
        return self._free(load, self.writer(load, behind=source, before=load))

    def _rotates(self, source: Stream, load: Stream) -> bool:
        """Does no store touch the bytes from an access of a turn up to a load of the next one?"""
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
        reason = self._widths(stores, loads) or self._leaving(last)
        own = {s.index for s in members}
        for other in () if reason else self.accesses:
            reads_constant = "nc" in other.instruction.modifiers
            if other.index not in own and not reads_constant and not self.apart(last, other):
                name, line = other.instruction.name, self.kernel.line(other.index)
                does = "read" if other.kind == "load" else "write"
                reason = f"{name} at line {line} may {does} these bytes"
                break
        if reason is not None:
            self.reasons[last.index] = reason
            return None
        for stream in members:
            self.reasons.pop(stream.index, None)
        order = [s.index for s in self._in_order() if s.index in own]
        loaded = bool(loads) and order[0] == loads[0].index
        computed = last.computed
        if loaded and loads[0].computed != last.computed:
            computed = loads[0].computed
            if isa.address(loads[0].access.instruction) != isa.address(last.access.instruction):
                self.reasons[last.index] = "its address is computed in several ways"
                return None
        return DeferredStores(
            self.header, tuple(s.index for s in stores), tuple(s.index for s in loads),
            computed, loaded,
        )  # fmt: skip

    def _widths(self, stores: Sequence[Stream], loads: Sequence[Stream]) -> str | None:
        """Why one register cannot hold what all of these store and load."""
        width = self.kernel.function.body.width
        kind = type_width(isa.access_type(stores[0].access.instruction) or "")
        widths: set[int] = set()
        for stream in chain(stores if loads else stores[-1:], loads):
            for operand in elements(stream.access.instruction):
                if isinstance(operand, Reg):
                    widths.add(width(operand) or 0)
                    if operand.scope:
                        return "it is accessed through a register of an inner scope"
                elif stream.access.kind == "load":
                    return "a part of it is not loaded"
        if len(widths) > 1 or (loads and widths != {kind}):
            return "it is accessed through registers of several widths"
        return None

    def _leaving(self, store: Stream) -> str | None:
        """Why a store cannot be made where the loop is left."""
        base = isa.address(store.access.instruction).base
        instructions = self.cfg.instructions
        blocks = [self.cfg.blocks[n] for n in self.loop.blocks]
        inside = [i for b in blocks for i in range(b.start, b.end)]
        if isinstance(base, Reg):
            writers = [i for i in inside if base in defs(instructions[i])]
            if len(writers) > 1 or any(self.cfg.block_of[i] not in self.always for i in writers):
                return "its address register is written more than once"
        for source, _ in self.loop.exits:
            end = instructions[self.cfg.blocks[source].end - 1]
            if end.opcode != "bra" or end.guard is None:
                return "the loop has an exit that is not a branch"
        return None


def _latest(streams: Sequence[Stream]) -> Stream | None:
    """Of accesses to the same bytes, in order, the one that tells what they hold behind all."""
    stores = [s for s in streams if s.access.kind == "store"]
    return stores[-1] if stores else next(iter(streams), None)


def _is_copy(cfg: Cfg, header: int) -> bool:
    """Does a loop stand there once more, as it was: where arrays overlap?"""
    labels = cfg.blocks[header].labels
    return any(label in block.labels for block in cfg.blocks[:header] for label in labels)
