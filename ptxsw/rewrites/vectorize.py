"""Vectorize (NVCUDA, 3.3): accesses of one thread to adjacent addresses become one vector access.

    ld.global.f32 %f1, [%rd4];             ld.global.v2.f32 {%f1, %f2}, [%rd4];
    add.f32 %f3, %f1, %f9;          =>     add.f32 %f3, %f1, %f9;
    ld.global.f32 %f2, [%rd4+4];

A vector has to be aligned to its size. That is proved from what is declared (`.align`,
`.ptr .align`), constants and strides; or tested once where the kernel begins, on pointers and
strides among the parameters. Then the stretch from the first to the last of these accesses stands
twice, with the vectors and as it was, and the whole grid takes the same way:

    @%sw_misaligned1 bra $sw_slow1;
    ld.global.v2.f32 {%f1, %f2}, [%rd4];
    bra.uni $sw_done1;
    $sw_slow1:
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd4+4];
    $sw_done1:

An innermost loop around such vectors stands twice as a whole, so that no iteration has to branch.
Two ways that are short ptxas makes one after the other, under predicates. Before loads from a
pointer that comes from memory each thread asks for itself, and makes both ways so. A vector covers
exactly the bytes of its elements: no byte is read or written that was not before. Only under the
assumption `no-fault-in-struct` a load may cover some that nobody reads.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from operator import itemgetter
from typing import ClassVar

from ptxsw.analysis.coalescing import LANES, lane_stride, touched
from ptxsw.analysis.instruction_kinds import asked_anywhere
from ptxsw.analysis.loop_weight import times_in_loops
from ptxsw.changes.assumptions import NO_FAULT_IN_STRUCT
from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_vectorize import WideAccess, lower
from ptxsw.codegen.splice import Edit
from ptxsw.codegen.versioning import LoopPlace
from ptxsw.emulator.trace import Access
from ptxsw.facts.alignment import Alignment, Test
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Reg
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.adjacent_accesses import (
    AdjacentAccess,
    adjacent_accesses,
    by_offset,
    cache_policy,
)
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.rewrites.loop_place import loop_place, obstacle_to_loop_copy
from ptxsw.rewrites.own_variables import alignable
from ptxsw.rewrites.straight_stretches import straight_stretches
from ptxsw.rewrites.vector_cover import CandidateVector, Cost, best_cover
from ptxsw.terms import op
from ptxsw.terms.node import split

_ORDERS = Effect.FENCE | Effect.BARRIER | Effect.ASYNC | Effect.ATOMIC | Effect.CALL
_LINE = 128  # bytes

# Where alignment is tested, a warp that makes the vector may have to pass the single accesses, too:
# of two ways that are short ptxas makes no branch. Each thread that asks for itself takes three
# instructions more.
_QUESTION = 3

# An SM issues four instructions in the time of a wavefront. As with bank conflicts, one that is
# saved outweighs two of them.
_FOR_A_WAVEFRONT = 2

_LONGEST_LOOP = 256
"""Instructions of a loop that is not worth writing twice."""


class Vectorize:
    """See above."""

    name: ClassVar[str] = "vectorize"
    summary: ClassVar[str] = "Accesses of one thread to adjacent addresses become one of a vector."

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Vectors that are aligned, or may be tested to be."""
        groups = list(adjacent_accesses(kernel))
        if not groups:
            return
        search = _Search(kernel)
        for number, group in enumerate(groups):
            yield from search.cover(number, group)

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "no accesses of a thread to adjacent addresses make up an aligned vector"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, kernel.text, changes)
        return builder.edits()


# ---------------------------------------------------------------- which vectors


class _Search:
    """The vectors of one kernel, group by group. `moved` tells where the accesses will be made
    that earlier groups have joined."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.instructions = kernel.trace.cfg.instructions
        self.alignment = Alignment(kernel.module, kernel.function)
        self.aligned: dict[tuple[object, int], tuple[tuple[Test, ...] | None, bool]] = {}
        self.affine = kernel.trace.affine
        self.strides: dict[object, int | None] = {}  # by the sum in an address
        self.moved: dict[int, int] = {}
        self.arrivals: list[tuple[int, int, int]] = []  # place, number and index of what was moved
        self.loops: dict[int, LoopPlace | None] = {}  # by header, if they may stand twice
        self.holes = NO_FAULT_IN_STRUCT in kernel.options.assume

    @cached_property
    def accesses(self) -> dict[int, Access]:
        return {access.index: access for access in self.kernel.trace.accesses}

    @cached_property
    def stretches(self) -> list[int]:
        return straight_stretches(self.kernel)

    def _loop_around(self, at: int) -> LoopPlace | None:
        """The innermost loop around an instruction, if it may stand twice."""
        cfg = self.kernel.trace.cfg
        for header in cfg.loops_around(cfg.block_of[at])[:1]:
            if header not in self.loops:
                self.loops[header] = self._copied_loop(header)
            return self.loops[header]
        return None

    def _copied_loop(self, header: int) -> LoopPlace | None:
        cfg = self.kernel.trace.cfg
        if header not in cfg.innermost_loops or header in cfg.irreducible:
            return None
        place = loop_place(cfg, cfg.loops[header])
        if isinstance(place, str) or place.end - place.start >= _LONGEST_LOOP:
            return None
        return place if obstacle_to_loop_copy(self.kernel, place) is None else None

    def cover(self, number: int, group: Sequence[AdjacentAccess]) -> Iterator[Outcome]:
        """The best vectors for the accesses of a group, and why others stay as they are."""
        at = by_offset(group)
        lead = group[0].access
        refused: list[tuple[list[AdjacentAccess], Refusal]] = []

        def candidates(place: int) -> Iterator[CandidateVector[Change]]:
            for start, count in ranges[place]:
                members = [at.get(start + lead.bytes * n) for n in range(count)]
                vector = self._vector(number, start, members)
                if isinstance(vector, Refusal):
                    refused.append(([m for m in members if m is not None], vector))
                elif vector is not None:
                    end = start + lead.bytes * count
                    yield CandidateVector(start, end, self._cost(lead, count, vector), vector)

        ranges = {place: list(self._ranges(lead, at, place)) for place in at}
        if not any(ranges.values()):
            return
        vectors = {place: list(candidates(place)) for place in reversed(at)}
        chosen: list[Change] = []
        if any(vectors.values()):
            single = (float(self._wavefronts(lead, lead.bytes)), 1.0)
            chosen = [c.what for c in best_cover(list(at), single, vectors.__getitem__)]
        for change in chosen:
            self._move(change)
            yield change
        told = {index for change in chosen for index in change.replaces}
        for members, refusal in sorted(refused, key=lambda each: -len(each[0])):
            if told.isdisjoint(m.index for m in members):
                told.update(m.index for m in members)
                yield refusal

    def _move(self, change: Change) -> None:
        """Note where what a vector stands for will be done."""
        for index in change.replaces:
            insort(self.arrivals, (change.at, len(self.moved), index))
            self.moved[index] = change.at

    def _moved_between(self, first: int, last: int) -> list[int]:
        """What was moved to a place behind the first and before the last, by when it was found."""
        places = itemgetter(0)
        start = bisect_right(self.arrivals, first, key=places)
        end = bisect_left(self.arrivals, last, key=places)
        return [index for _, _, index in sorted(self.arrivals[start:end], key=itemgetter(1))]

    def _ranges(
        self, lead: Access, at: dict[int, AdjacentAccess], place: int
    ) -> Iterator[tuple[int, int]]:
        """Where vectors may begin of which a place is the first that is accessed, and how many
        elements they have. Alignment is proved or tested for the common part of the addresses:
        where that is a multiple of the vector's size, the offset has to be one, too."""
        size, longest = lead.bytes, self._longest(lead)
        holes = self.holes and lead.kind == "load" and isa.space(lead.instruction) == "global"
        for count in (2, 4, 8):
            if count * size > longest or (count == 8 and size != 4):
                continue
            for start in range(place - size * (count - 1) if holes else place, place + 1, size):
                if start % (count * size):
                    continue
                inside = [start + size * n for n in range(count) if start + size * n in at]
                whole = len(inside) == count
                if inside[0] == place and (whole or (holes and len(inside) > 1)):
                    yield start, count

    def _longest(self, lead: Access) -> int:
        """The most bytes of a vector (manual 9.7.9.8)."""
        return 32 if self.wide and isa.space(lead.instruction) == "global" else 16

    @cached_property
    def wide(self) -> bool:
        """Are there vectors of 32 bytes?"""
        module = self.kernel.module
        return module.sm >= 100 and module.version >= (8, 8)

    def _vector(
        self, number: int, start: int, members: Sequence[AdjacentAccess | None]
    ) -> Change | Refusal | None:
        """The members as one vector that begins at an offset; None where it would not be
        aligned."""
        present = [m for m in members if m is not None]
        first = present[0]
        size = first.access.bytes * len(members)
        # Loads move up to the first, so that every value is there for its readers; stores move
        # down to the last, when all values to be stored have been computed.
        order = sorted(m.index for m in present)
        at = order[0] if first.access.kind == "load" else order[-1]
        tests, divergent = self._tests(first, start, size)
        address = first.access.variants[0].address
        raised = alignable(self.kernel, address, size) if divergent else None
        divergent = divergent and raised is None
        if raised is None:
            left = self._left_alone(first, size, tests, divergent)
            if left is not None:  # most accesses are, so only who asks is told
                return Refusal("vectorize", at, left) if self.kernel.explains else None
        assert tests is not None
        loop = self._loop_around(at) if tests else None
        reason = self._obstacle(present, at)
        if reason is None and tests and loop is None:
            reason = self._never_twice(present)
        if reason is not None:
            return Refusal("vectorize", at, reason)
        worth = self._worth(
            present, size, _added(len(present), bool(tests) and loop is None, divergent)
        )
        auto = self.kernel.options.mode == "auto"
        if auto and worth.instructions > -worth.wavefronts * _FOR_A_WAVEFRONT:
            return Refusal(
                "vectorize", at, "the added instructions would outweigh the wavefronts saved"
            )
        lead = next(m for m in present if m.index == at)
        detail = WideAccess(
            tuple(None if m is None else m.index for m in members), at, start - lead.offset, size,
            tuple((t.parameters, t.width, t.size) for t in tests),
            self.stretches[at], number if divergent else None,
            loop, raised,
        )  # fmt: skip
        told = (f"the address is a multiple of {size}",) if divergent else tuple(map(str, tests))
        assumptions = (NO_FAULT_IN_STRUCT,) if None in members else ()
        proof = Proof(tests=told, assumptions=assumptions)
        return Change("vectorize", at, frozenset(order), proof, detail, worth=worth)

    def _left_alone(
        self, first: AdjacentAccess, size: int, tests: tuple[Test, ...] | None, divergent: bool
    ) -> str | None:
        """Why alignment decides against a vector."""
        if tests is None:
            return f"its address may be no multiple of {size}, and no test of parameters would tell"
        ins = first.access.instruction
        if not tests and not divergent and isa.space(ins) == "shared":
            return "ptxas itself joins accesses to shared memory that it knows to be aligned"
        if divergent and (ins.guard is not None or first.access.kind == "store"):
            return f"each thread would have to ask whether its address is a multiple of {size}"
        return None

    def _tests(
        self, first: AdjacentAccess, start: int, size: int
    ) -> tuple[tuple[Test, ...] | None, bool]:
        """What is to be tested on parameters, and whether each thread has to ask for itself;
        None where neither would tell."""
        terms = self.kernel.trace.terms
        address = first.access.variants[0].address
        key = split(address)[1], size
        if key not in self.aligned:
            begin = terms.add(address, terms.const(start - first.offset, address.width))
            tests = self.alignment.tests(begin, size)
            asks = tests is None and self.alignment.unknown_pointer(begin, size)
            self.aligned[key] = ((), True) if asks else (tests, False)
        return self.aligned[key]

    # ------------------------------------------------------------ may they be joined?

    def _never_twice(self, members: Sequence[AdjacentAccess]) -> str | None:
        """Why the code from the first member to the last may not stand twice under a branch."""
        if asked_anywhere(self.kernel.trace.cfg):
            return "it would need a branch, and the kernel asks which lanes are active"
        if len({self.stretches[m.index] for m in members}) > 1:
            return "the code in between cannot be duplicated"
        return None

    def _obstacle(self, members: Sequence[AdjacentAccess], at: int) -> str | None:
        """Why an access cannot be made together with the others."""
        first, last = min(m.index for m in members), max(m.index for m in members)
        # The vector is made once, under one guard and policy: these must mean the same at all
        # members. The address may change: it is compared as a term.
        held = {r for r in (*cache_policy(self.instructions[at]),) if isinstance(r, Reg)}
        guard = self.instructions[at].guard
        held |= {guard.reg} if guard is not None else set()
        for index in self._between(self.ordering, first, last) if not held else range(first, last):
            ins = self.instructions[index]
            if index > first and isa.effects(ins.opcode, ins.modifiers) & _ORDERS:
                return f"{self._named(index)} orders memory in between"
            changed = held.intersection(isa.defs(ins))
            if changed:
                return f"{self._named(index)} changes {changed.pop().name} in between"
        crossed = self._between(self.accessing, first + 1, last)
        for index in dict.fromkeys((*crossed, *self._moved_between(first, last))):
            reason = self._in_the_way(index, members, at)
            if reason is not None:
                return reason
        return None

    @cached_property
    def ordering(self) -> list[int]:
        """The instructions that order memory."""
        return self._with_effects(_ORDERS)

    @cached_property
    def accessing(self) -> list[int]:
        """The instructions that read or write memory."""
        return self._with_effects(Effect.READ | Effect.WRITE)

    def _with_effects(self, some: Effect) -> list[int]:
        names = {(ins.opcode, ins.modifiers) for ins in self.instructions}
        having = {name for name in names if isa.effects(*name) & some}
        return [
            index
            for index, ins in enumerate(self.instructions)
            if (ins.opcode, ins.modifiers) in having
        ]

    def _between(self, indices: Sequence[int], start: int, end: int) -> Sequence[int]:
        """Those of some instructions, in their order, from one to before another."""
        return indices[bisect_left(indices, start) : bisect_left(indices, end)]

    def _in_the_way(self, index: int, members: Sequence[AdjacentAccess], at: int) -> str | None:
        """Why the members cannot change places with another access, where they would."""
        ins = self.instructions[index]
        effects = isa.effects(ins.opcode, ins.modifiers)
        reads = bool(effects & Effect.READ) and members[0].access.kind == "store"
        if any(m.index == index for m in members) or not (effects & Effect.WRITE or reads):
            return None
        # Earlier groups may have moved the other access already. Only members that end up on its
        # other side have changed places with it.
        there = self.moved.get(index, index)
        passed = [m for m in members if (index < m.index) != (there < at)]
        other = self.accesses.get(index)
        if not passed or (other is not None and all(self._apart(m.access, other) for m in passed)):
            return None
        does = "write" if effects & Effect.WRITE else "read"
        return f"{self._named(index)} may {does} these bytes"

    def _named(self, index: int) -> str:
        return f"{self.instructions[index].name} (line {self.kernel.line(index)})"

    def _apart(self, one: Access, other: Access) -> bool:
        """Do two accesses of one thread certainly touch different bytes?"""
        spaces = isa.space(one.instruction), isa.space(other.instruction)
        if spaces[0] != spaces[1]:
            return "generic" not in spaces
        if any("nc" in each.instruction.modifiers for each in (one, other)):
            return True  # nobody writes what is read so
        terms = self.kernel.trace.terms
        address = one.variants[0].address
        for variant in other.variants:
            if variant.address.width != address.width:
                return False
            distance = terms.sub(variant.address, address)
            if distance.kind is not op.CONST:
                return False
            if -other.bytes < wrapped(distance.value, distance.width) < one.bytes:
                return False
        return True

    # ------------------------------------------------------------ worth

    def _worth(self, members: Sequence[AdjacentAccess], size: int, more: int) -> Worth:
        """What joining adds for a warp: loops around it are taken 16 times."""
        cfg = self.kernel.trace.cfg
        times = times_in_loops(len(cfg.loops_around(cfg.block_of[members[0].index])))
        single = sum(self._wavefronts(m.access, m.access.bytes) for m in members)
        joined = self._wavefronts(members[0].access, size)
        return Worth((1 + more - len(members)) * times, (joined - single) * times)

    def _cost(self, lead: Access, count: int, change: Change) -> Cost:
        """What a vector takes."""
        detail = change.detail
        assert isinstance(detail, WideAccess)
        elements = sum(member is not None for member in detail.members)
        branches = bool(detail.tests) and detail.loop is None
        more = _added(elements, branches, detail.group is not None)
        return float(self._wavefronts(lead, lead.bytes * count)), 1.0 + more

    def _wavefronts(self, access: Access, size: int) -> int:
        """The lines of 128 bytes that a warp touches, and no fewer than its bytes fill."""
        # A constant in the address changes nothing: members of a group have one stride.
        key = split(access.variants[0].address)[1]
        if key not in self.strides:
            self.strides[key] = lane_stride(self.affine, access)
        stride = self.strides[key]
        if stride is None:
            return LANES
        return _wavefronts(stride, size)


@cache
def _wavefronts(stride: int, size: int) -> int:
    lines = touched((lane * stride for lane in range(LANES)), size, _LINE)
    return max(len(lines), LANES * size // _LINE if stride else 1)


def _added(elements: int, tested: bool, divergent: bool) -> int:
    """The number of instructions that a vector adds besides itself."""
    return _QUESTION + elements if divergent else elements if tested else 0
