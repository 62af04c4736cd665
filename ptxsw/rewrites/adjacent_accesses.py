"""Scalar accesses of one thread to adjacent addresses: which there are, and whether several of them
may be made as one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

from msgspec import Struct

from ptxsw.analysis.instruction_kinds import Kind, asked_anywhere, kind, meets
from ptxsw.codegen.lower_vectorize import moved_width
from ptxsw.emulator.trace import Access
from ptxsw.flow.convergence import ends_of_segments, segments
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Float, Instruction, Int, Mem, Operand, Reg, Symbol
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.base import Kernel
from ptxsw.terms import op
from ptxsw.terms.node import split

SPACES = frozenset({"global", "shared", "local"})

_LONGEST = 32  # bytes of a vector
_ORDERS = Effect.FENCE | Effect.BARRIER | Effect.ASYNC | Effect.ATOMIC | Effect.CALL
_OPERANDS = frozenset({Reg, Int, Float, Mem})
_BASES = (Reg, Symbol)

_Key = tuple[object, ...]


class AdjacentAccess(Struct, frozen=True):
    """A scalar access, and its bytes from the common part of its group's addresses."""

    access: Access
    offset: int

    @property
    def index(self) -> int:
        return self.access.index


def adjacent_accesses(kernel: Kernel) -> Iterator[list[AdjacentAccess]]:
    """Accesses of one segment that differ in a constant of their addresses alone."""
    cfg, width = kernel.trace.cfg, kernel.function.body.width
    groups: dict[_Key, list[AdjacentAccess]] = {}
    ends: dict[int, list[int]] = {}  # of segments, by block
    for block, items, member in _near_another(kernel):
        access, ins = member.access, member.access.instruction
        if not _is_plain(access):
            continue
        if block not in ends:
            ends[block] = ends_of_segments(cfg, block)
        key = (
            block, bisect_left(ends[block], access.index), ins.opcode, ins.modifiers, ins.guard,
            cache_policy(ins), moved_width(width, ins), items, member.offset % access.bytes,
        )  # fmt: skip
        groups.setdefault(key, []).append(member)
    yield from (group for group in groups.values() if len(group) > 1)


def _near_another(kernel: Kernel) -> list[tuple[int, object, AdjacentAccess]]:
    """The accesses near which, in their block, another one goes whose address differs in a constant
    alone: with the block and the rest. Most accesses stand alone: of these no more is asked."""
    block_of = kernel.trace.cfg.block_of
    places: dict[tuple[int, object], list[AdjacentAccess]] = {}
    for access in kernel.trace.accesses:
        if len(access.variants) == 1:
            address = access.variants[0].address
            constant, items = split(address)
            member = AdjacentAccess(access, wrapped(constant, address.width))
            places.setdefault((block_of[access.index], items), []).append(member)
    near = [
        (*place, member)
        for place, members in places.items()
        if _some_are_near(members)
        for member in members
    ]
    return sorted(near, key=lambda each: each[2].index)


def _some_are_near(members: Sequence[AdjacentAccess]) -> bool:
    """May one vector hold two of them?"""
    offsets = sorted({member.offset for member in members})
    return any(high - low < _LONGEST for low, high in pairwise(offsets))


def _is_plain(access: Access) -> bool:
    """Is it a weak scalar access of one known address and with a named space?"""
    ins = access.instruction
    return (
        kind(ins) in (Kind.LOAD, Kind.STORE)
        and ins.used_bytes is None
        and isa.space(ins) in SPACES
        and access.elements == 1
        and access.bits in (8, 16, 32, 64)
        and len(access.variants) == 1
        and _OPERANDS.issuperset(map(type, ins.operands))
        and type(isa.address(ins).base) in _BASES
    )


def cache_policy(instruction: Instruction) -> tuple[Operand, ...]:
    """What `.L2::cache_hint` names."""
    return instruction.operands[2:]


def by_offset(group: Sequence[AdjacentAccess]) -> dict[int, AdjacentAccess]:
    """The members by their offsets. Of loads at one address the first is taken, of stores none."""
    at: dict[int, list[AdjacentAccess]] = {}
    for member in group:
        at.setdefault(member.offset, []).append(member)
    stores = group[0].access.kind == "store"
    return {o: same[0] for o, same in sorted(at.items()) if len(same) == 1 or not stores}


# ---------------------------------------------------------------- may they be joined?


class Joining:
    """Says why accesses cannot be made together at the place of one of them. It knows where those
    will be made that were joined before."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.stretches = straight_stretches(kernel)
        self._instructions = kernel.trace.cfg.instructions
        self._accesses = {access.index: access for access in kernel.trace.accesses}
        self._moved: dict[int, int] = {}
        self._touching = [
            index
            for index, ins in enumerate(self._instructions)
            if isa.effects(ins.opcode, ins.modifiers) & (_ORDERS | Effect.READ | Effect.WRITE)
        ]

    def join(self, indices: Iterable[int], at: int) -> None:
        """These will be made at a place."""
        self._moved |= dict.fromkeys(indices, at)

    def obstacle_to_branch(self, members: Sequence[AdjacentAccess]) -> str | None:
        """Why the code from the first member to the last may not stand twice under a branch."""
        if asked_anywhere(self.kernel.trace.cfg):
            return "it would need a branch, and the kernel asks which lanes are active"
        if len({self.stretches[m.index] for m in members}) > 1:
            return "the code in between cannot be duplicated"
        return None

    def obstacle(self, members: Sequence[AdjacentAccess], at: int) -> str | None:
        """Why an access cannot be made together with the others."""
        first, last = min(m.index for m in members), max(m.index for m in members)
        # The vector is made once, under one guard and policy: these must mean the same at all
        # members. The address may change: it is compared as a term.
        held = {r for r in cache_policy(self._instructions[at]) if isinstance(r, Reg)}
        guard = self._instructions[at].guard
        held |= {guard.reg} if guard is not None else set()
        between = self._touching[bisect_left(self._touching, first) :]
        for index in range(first, last) if held else takewhile(lambda i: i < last, between):
            ins = self._instructions[index]
            if index > first and isa.effects(ins.opcode, ins.modifiers) & _ORDERS:
                return f"{self._named(index)} orders memory in between"
            changed = held.intersection(isa.defs(ins))
            if changed:
                return f"{self._named(index)} changes {changed.pop().name} in between"
        crossed = takewhile(lambda i: i < last, between)
        arrived = (index for index, place in self._moved.items() if first < place < last)
        for index in dict.fromkeys((*crossed, *arrived)):
            reason = self._in_the_way(index, members, at)
            if reason is not None:
                return reason
        return None

    def _in_the_way(self, index: int, members: Sequence[AdjacentAccess], at: int) -> str | None:
        """Why the members cannot change places with another access, where they would."""
        ins = self._instructions[index]
        effects = isa.effects(ins.opcode, ins.modifiers)
        reads = bool(effects & Effect.READ) and members[0].access.kind == "store"
        if any(m.index == index for m in members) or not (effects & Effect.WRITE or reads):
            return None
        # Earlier groups may have moved the other access already. Only members that end up on its
        # other side have changed places with it.
        there = self._moved.get(index, index)
        passed = [m for m in members if (index < m.index) != (there < at)]
        other = self._accesses.get(index)
        if not passed or (other is not None and all(self._apart(m.access, other) for m in passed)):
            return None
        does = "write" if effects & Effect.WRITE else "read"
        return f"{self._named(index)} may {does} these bytes"

    def _named(self, index: int) -> str:
        return f"{self._instructions[index].name} (line {self.kernel.line(index)})"

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


def straight_stretches(kernel: Kernel) -> list[int]:
    """The number of each instruction's stretch: straight-line code that may stand twice. No
    barrier or shuffle stands in it, at which threads of both copies would have to meet, and no
    scope and no label begins in it, which would be declared twice."""
    number = segments(kernel.trace.cfg)
    lengths: list[int] = []
    current = 0
    for statement in kernel.function.body.code:
        if isinstance(statement, Instruction):
            at = len(lengths)
            alone = meets(statement) or (at > 0 and meets(kernel.trace.cfg.instructions[at - 1]))
            current += alone or (at > 0 and number[at] != number[at - 1])
            lengths.append(current)
        else:
            current += 1
    return lengths
