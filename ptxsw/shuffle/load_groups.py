"""Rows: loads of one straight-line stretch that lie whole lane strides apart."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from ptxsw.analysis.lane_reuse import Class
from ptxsw.changes.plan import HoistedLoad, Refused
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Mem, Reg
from ptxsw.shuffle.legality import Legality
from ptxsw.terms import op


class LoadGroup(Struct, frozen=True):
    """The loads of a row in program order, with their offsets and the lane stride in bytes."""

    members: tuple[Access, ...]
    offsets: dict[int, int]  # by the load's position
    stride: int

    def delta(self, source: Access, dest: Access) -> int:
        """The lane, counted from its own, that has in `source` what a lane wants in `dest`."""
        return (self.offsets[dest.index] - self.offsets[source.index]) // self.stride

    def hoist_address(
        self, trace: Trace, judge: Legality, load: Access, first: Access
    ) -> HoistedLoad | None:
        """How a load of the row can be made before the first one: through its own address
        register if that is set by then, else through that of the first load if the distance is
        known. None where it can't."""
        if isinstance(judge.can_hoist(load, first.index), Refused):
            return None
        base, offset = _address(load) or (None, 0)
        between = trace.cfg.instructions[first.index : load.index]
        if base is not None and not any(base in isa.defs(i) for i in between):
            return HoistedLoad(load.index, first.index, base, offset)
        address = _address(first)
        if address is None or len(load.variants) != 1 or len(first.variants) != 1:
            return None
        distance = trace.terms.sub(load.variants[0].address, first.variants[0].address)
        if distance.kind is not op.CONST:
            return None
        return HoistedLoad(
            load.index,
            first.index,
            address[0],
            address[1] + wrapped(distance.value, distance.width),
        )


def rows(trace: Trace, judge: Legality) -> Iterator[LoadGroup]:
    """The rows of a kernel with at least two different offsets, of loads that fill one register
    and take their address from a register."""
    where = judge.segments
    groups: dict[tuple[int, Class, int, int, int], list[tuple[Access, int]]] = {}
    for access in trace.global_loads:
        spot = judge.places.of(access)
        if spot is None or not spot.stride or access.elements != 1:
            continue
        if _address(access) is None or judge.loadable(access) is not None:
            continue
        # Loads of one residue lie whole strides apart; `a[2*t]` and `a[2*t + 1]` never meet.
        residue = spot.offset % abs(spot.stride)
        key = (where[access.index], spot.key, spot.stride, residue, access.bits)
        groups.setdefault(key, []).append((access, spot.offset))
    for (_, _, stride, _, _), loads in groups.items():
        if len({offset for _, offset in loads}) > 1:
            offsets = {access.index: offset for access, offset in loads}
            yield LoadGroup(tuple(access for access, _ in loads), offsets, stride)


def centre(row: LoadGroup, members: Sequence[Access]) -> Access:
    """The load from which the others are nearest in sum; of equals the first."""
    # Sums of distances from prefix sums: adding them up for each member would be quadratic, which
    # shows in rows of long unrolled code.
    places = {m.index: row.delta(members[0], m) for m in members}
    ordered = sorted(places.values())
    below = [0, *accumulate(ordered)]

    def distance(member: Access) -> int:
        here = places[member.index]
        at = bisect_left(ordered, here)
        return here * at - below[at] + (below[-1] - below[at]) - here * (len(ordered) - at)

    return min(members, key=distance)


def _address(access: Access) -> tuple[Reg, int] | None:
    """Base register and offset in bytes, where the load has no more operands."""
    operands = access.instruction.operands
    if len(operands) != 2:
        return None
    memory = operands[1]
    if not isinstance(memory, Mem) or not isinstance(memory.base, Reg) or memory.extra:
        return None
    return memory.base, memory.offset
