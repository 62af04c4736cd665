"""Loads that may get their value from an earlier load of a lane nearby.

Loads are grouped by the class of their address: its polynomial without the constant. Within a
class the offset and the lane stride give N. Nothing is proved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ptxsw import isa
from ptxsw.emulator.affine import Affine, Monomial, is_lane_atom, without_constant
from ptxsw.emulator.trace import Access, Trace

Key = frozenset[tuple[Monomial, int]]
Class = frozenset[tuple[Key, int]]

_SOURCES_TRIED = 4
"""Of several earlier loads at one address the newest few are tried."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access lies in its class of addresses: `offset` and `stride` in bytes; stride 0
    where the address does not grow with the lane."""

    key: Class
    offset: int
    stride: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """Element `dest_element` of `dest` in lane i may equal element `element` of `source` in lane
    i + `delta`, or `delta` - i where `mirror` is set, read `displacement` bytes further on.

    The claim about addresses: source (other lane) + `displacement` == dest (lane i). A
    displacement belongs to a load that is made for others, as the halo of a row is: it stands
    where the source stands, at the source's own address and that many bytes.
    """

    dest: Access
    source: Access
    delta: int
    element: int = 0
    dest_element: int = 0
    mirror: bool = False
    displacement: int = 0


def global_loads(trace: Trace) -> tuple[Access, ...]:
    """Loads that may touch global memory, generic ones included."""
    return tuple(a for a in trace.accesses if a.kind == "load" and a.space in ("global", "generic"))


def place(affine: Affine, access: Access) -> Place | None:
    """The place of an access; None where the stride is no constant, or not the same on every
    path. Where paths see different addresses, the class holds them all, each by its distance
    from the lowest."""
    views: set[tuple[Key, int]] = set()
    strides = set()
    for variant in access.variants:
        polynomial = affine.polynomial(variant.address)
        stride = 0
        for monomial, coefficient in polynomial.items():
            lanes = sum(map(is_lane_atom, monomial))
            if lanes and len(monomial) > 1:
                return None
            stride += coefficient * lanes
        strides.add(stride)
        views.add((without_constant(polynomial), polynomial.get((), 0)))
    if len(strides) != 1:
        return None
    lowest = min(offset for _, offset in views)
    return Place(frozenset((k, o - lowest) for k, o in views), lowest, strides.pop())


def candidates(trace: Trace, max_delta: int) -> Iterator[tuple[Access, list[Candidate]]]:
    """For each global load, in program order, where its value may come from: nearest lanes
    first, newest sources first. Linear in the number of loads for a fixed `max_delta`."""
    affine = Affine()
    earlier: dict[tuple[Class, int, int], list[Access]] = {}
    for access in global_loads(trace):
        where = place(affine, access)
        if where is None:
            yield access, []
            continue
        found: list[Candidate] = []
        for delta in _nearest_first(max_delta if where.stride else 0):
            wanted = where.offset - delta * where.stride
            for source in reversed(earlier.get((where.key, where.stride, wanted), [])):
                found.append(Candidate(access, source, delta))
        yield access, found
        known = earlier.setdefault((where.key, where.stride, where.offset), [])
        known.append(access)
        del known[:-_SOURCES_TRIED]


def _nearest_first(most: int) -> Iterable[int]:
    yield 0
    for distance in range(1, most + 1):
        yield -distance
        yield distance


def is_plain(access: Access) -> bool:
    """Is it an ordinary load: weak, not volatile, not ordered?"""
    instruction = access.instruction
    return not isa.effects(instruction.opcode, instruction.modifiers) & ~isa.Effect.READ
