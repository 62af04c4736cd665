"""Scalar accesses of one thread to adjacent addresses: the candidates for a vector access."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.codegen.lower_vectorize import moved_width
from ptxsw.emulator.trace import Access
from ptxsw.flow.segments import ends_of_segments
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Float, Instruction, Int, Mem, Operand, Reg, Symbol
from ptxsw.rewrites.base import Kernel
from ptxsw.terms.node import split

SPACES = frozenset({"global", "shared", "local"})

_LONGEST = 32  # bytes of a vector
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
