"""How many lanes of a warp make an access together, judging by conditions on the thread's position.

if (threadIdx.x == 0) atomicAdd(p, x);      one lane
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.warps import Offsets, Warps
from ptxsw.emulator.evaluate import evaluate
from ptxsw.emulator.node import Term, unknowns
from ptxsw.emulator.trace import Access

_WARPS = 4  # of a block that are looked at
_LARGEST = 500  # nodes of a condition that is evaluated


def active_lanes(access: Access, warps: Warps) -> int:
    """The most lanes of any warp that may make an access. A lane is excluded only by conditions
    that depend on nothing but the thread's position in its block."""
    most = 0
    for variant in access.variants:
        conditions = [c for c in (variant.guard, *variant.conditions) if _is_known(c, warps)]
        if not conditions:
            return max(warps.counts)
        for places in warps.places[:_WARPS]:
            most = max(most, _taking(conditions, places, warps))
    # If no lane of the first warps takes part, a later warp makes it: perhaps with all lanes.
    return most or LANES


def _is_known(condition: Term, warps: Warps) -> bool:
    if condition.size > _LARGEST or condition.kind == "const":
        return False
    return all(
        leaf.kind == "atom" and (leaf.value in warps.places[0] or leaf.value in warps.sizes)
        for leaf in unknowns(condition)
    )


def _taking(conditions: Iterable[Term], places: Mapping[str, Offsets], warps: Warps) -> int:
    """The lanes of one warp that take part."""
    lanes = set(range(len(places["%laneid"])))
    for condition in conditions:
        leaves = unknowns(condition)
        for lane in tuple(lanes):
            values = {
                t: places[t.value][lane] if t.value in places else warps.sizes[t.value]
                for t in leaves
            }
            if not evaluate(condition, values):
                lanes.discard(lane)
    return len(lanes)
