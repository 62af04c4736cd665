"""Scalar accesses of one thread to adjacent addresses: the candidates for a vector access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ptxsw import isa
from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.bits import wrapped
from ptxsw.codegen.lower_vectorize import moved_width
from ptxsw.emulator.node import split
from ptxsw.emulator.trace import Access
from ptxsw.flow.segments import segments
from ptxsw.ir import Float, Instruction, Int, Mem, Operand, Reg, Symbol
from ptxsw.rewrites.base import Kernel

SPACES = frozenset({"global", "shared", "local"})

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
    groups: dict[_Key, list[AdjacentAccess]] = {}
    for access, constant, items, segment in _beside_another(kernel):
        if not _is_plain(access):
            continue
        offset = wrapped(constant, access.variants[0].address.width)
        ins = access.instruction
        key = (
            segment, ins.opcode, ins.modifiers, ins.guard, cache_policy(ins),
            moved_width(kernel.function.body.width, ins), items, offset % access.bytes,
        )  # fmt: skip
        groups.setdefault(key, []).append(AdjacentAccess(access, offset))
    yield from (group for group in groups.values() if len(group) > 1)


def _beside_another(kernel: Kernel) -> list[tuple[Access, int, object, int]]:
    """The accesses in whose segment another one has the same address but for a constant: with the
    constant, the rest and the segment. Most accesses stand alone: of these no more is asked."""
    cfg = kernel.trace.cfg
    several = [
        (access, *split(access.variants[0].address))
        for access in kernel.trace.accesses
        if len(access.variants) == 1
    ]
    counts = Counter((cfg.block_of[access.index], items) for access, _, items in several)
    near = [each for each in several if counts[cfg.block_of[each[0].index], each[2]] > 1]
    number = segments(cfg) if near else ()
    return [(access, constant, items, number[access.index]) for access, constant, items in near]


def _is_plain(access: Access) -> bool:
    """Is it a weak scalar access of one known address and with a named space?"""
    ins = access.instruction
    return (
        kind(ins) in (Kind.LOAD, Kind.STORE)
        and isa.space(ins) in SPACES
        and access.elements == 1
        and access.bits in (8, 16, 32, 64)
        and len(access.variants) == 1
        and all(isinstance(o, Reg | Int | Float | Mem) for o in ins.operands)
        and isinstance(isa.address(ins).base, Reg | Symbol)
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
