"""Loads that may get their value from an earlier load of a lane nearby.

Loads are grouped by the class of their address: its polynomial without the constant. Within a
class the offset and the lane stride give N. Nothing is proved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ptxsw import isa
from ptxsw.emulator.affine import Affine, Monomial, is_lane_atom
from ptxsw.emulator.trace import Access, Trace

Class = frozenset[tuple[Monomial, int]]

_SOURCES_TRIED = 4
"""Of several earlier loads at one address the newest few are tried."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access lies in its class: `offset` and `stride` in bytes; stride 0 where the
    address does not grow with the lane."""

    key: Class
    offset: int
    stride: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """`dest` in lane i may equal `source` in lane i + `delta`."""

    dest: Access
    source: Access
    delta: int


def global_loads(trace: Trace) -> tuple[Access, ...]:
    """Loads that may touch global memory, generic ones included."""
    return tuple(
        a for a in trace.accesses if a.kind == "load" and a.space in ("global", "generic")
    )


def place(affine: Affine, access: Access) -> Place | None:
    """The place of an access, the same on every path; None where paths differ in more than the
    class, or the stride is no constant."""
    places = set()
    keys = set()
    for variant in access.variants:
        polynomial = affine.polynomial(variant.address)
        stride = 0
        for monomial, coefficient in polynomial.items():
            lanes = sum(map(is_lane_atom, monomial))
            if lanes and len(monomial) > 1:
                return None
            stride += coefficient * lanes
        keys.add(frozenset(item for item in polynomial.items() if item[0]))
        places.add((polynomial.get((), 0), stride))
    if len(places) != 1:
        return None
    offset, stride = places.pop()
    # Two loads that see several classes are comparable where they see the same ones.
    key = next(iter(keys)) if len(keys) == 1 else frozenset(((), hash(k)) for k in keys)
    return Place(key, offset, stride)


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
