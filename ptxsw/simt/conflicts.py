"""What two accesses are to each other, and how that is said."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ptxsw.simt.releases import Ordering
from ptxsw.simt.state import Array, RunError, ThreadPlace

RACE, SAME, STRONG = "race", "same value", "strong"


class Conflict(Struct, frozen=True):
    """Two accesses of a byte that nothing orders, the later one first: their lines, and two
    threads that make them. `kind` is "race", "same value" (both write it, and nobody reads it
    without order), or "strong" (no race, but the result may depend on who comes first)."""

    kind: str
    shared: bool  # in shared memory, else in global memory
    line: int
    other_line: int
    thread: str
    other: str
    error: RunError  # a Race: the same in words, with the place
    places: tuple[ThreadPlace, ThreadPlace]
    writes: tuple[bool, bool]
    byte: int  # the first that both touch, by its generic address
    lasting: bool  # the other one is a copy that its thread has not waited for


class AccessSite(Struct, frozen=True):
    """Accesses of one size by one instruction of a function."""

    line: int
    function: str
    index: int
    size: int
    write: bool
    ordering: Ordering


def kinds(here: AccessSite, other: AccessSite, same_block: Array, same: Array) -> Array:
    """The kind of conflict of each of some pairs; "" for none."""
    if not here.write and not other.write:
        return np.full(len(same_block), "")
    if here.ordering.strong and other.ordering.strong:
        inclusive = same_block | (here.ordering.wide and other.ordering.wide)
        inclusive &= here.size == other.size
        atomic = here.ordering.atomic and other.ordering.atomic
        return np.where(inclusive, "" if atomic else STRONG, RACE)
    if here.write and other.write and not (here.ordering.strong or other.ordering.strong):
        return np.where(same, SAME, RACE)
    return np.full(len(same_block), RACE)


def two_of(warp: int, lanes: int, other_warp: int, others: int) -> tuple[int, int]:
    """Two threads of these lanes, different ones where there are."""
    mine = [32 * int(warp) + lane for lane in range(32) if int(lanes) >> lane & 1]
    theirs = [32 * int(other_warp) + lane for lane in range(32) if int(others) >> lane & 1]
    for one in mine:
        for other in reversed(theirs):
            if one != other:
                return one, other
    return mine[0], theirs[0]


def in_words(
    kind: str, here: AccessSite, there: AccessSite, name: str, same_site: bool, lasting: bool
) -> str:
    where = "the same instruction" if same_site else f"line {there.line}"
    if here.ordering.constant:
        return f"a load by .nc of what this kernel has written ({name}, {where})"
    if there.ordering.constant:
        return f"a write to memory that this kernel has loaded by .nc ({name}, {where})"
    if lasting:
        return f"a race with a copy that {name} has not waited for, {where}"
    lead = {RACE: "a race with", SAME: "writes the same value as", STRONG: "no order with"}
    return f"{lead[kind]} {name}, {where}"
