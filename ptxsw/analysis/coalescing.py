"""How the lanes of a warp spread over memory in one access: strides, sectors, lines.

A stride is what the address grows by from lane to lane in a row of the block, as long as no index
overflows; nothing is rewritten on its word. `offsets` are the bytes at which the lanes point,
`size` the bytes of each access.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ptxsw.emulator.trace import Access
from ptxsw.terms.node import Variance
from ptxsw.terms.readings import UnwrappedReading

LANES = 32
SECTOR = 32  # bytes
LINE = 128  # bytes
Offsets = tuple[int, ...]
"""For each lane of a warp that takes part the byte at which it points, from some place on."""


def lane_stride(unwrapped: UnwrappedReading, access: Access) -> int | None:
    """Bytes from lane to lane; None where that is no constant, or not the same on all paths."""
    # Lanes may come by different paths, and then two neighbours have addresses of two kinds.
    if len({v.address for v in access.variants}) > 1 and access.ways is not Variance.UNIFORM:
        return None
    strides = set()
    for variant in access.variants:
        step = unwrapped.lane_step(variant.address)
        strides.add(None if step is None else step.number)
    return strides.pop() if len(strides) == 1 else None


def is_uniform(access: Access) -> bool:
    """One address for the whole warp: it varies on no path, and where paths have different ones
    all lanes take the same path."""
    if any(v.address.variance is not Variance.UNIFORM for v in access.variants):
        return False
    return len({v.address for v in access.variants}) == 1 or access.ways is Variance.UNIFORM


def touched(addresses: Iterable[int], size: int, unit: int) -> set[int]:
    """The numbers of the units of memory, of `unit` bytes, in which `size` bytes at each address
    lie."""
    places: set[int] = set()
    for at in addresses:
        places.update(range(at // unit, (at + size - 1) // unit + 1))
    return places


def common_step(offsets: Offsets) -> int | None:
    """The bytes from every lane to the next, where that is one number."""
    steps = {b - a for a, b in pairwise(offsets)}
    return steps.pop() if len(steps) == 1 else None


def sectors(offsets: Offsets, size: int) -> int:
    """Sectors that the lanes touch."""
    return len(touched(offsets, size, SECTOR))


def used(offsets: Offsets, size: int) -> int:
    """Different bytes that the lanes ask for."""
    return len(touched(offsets, size, 1))


def local_sectors(offsets: Offsets, size: int) -> int:
    """Sectors of local memory. The hardware interleaves it: the words that the lanes have at one
    local address lie side by side, so equal offsets are coalesced."""
    places: set[tuple[int, int]] = set()
    for lane, at in enumerate(offsets):
        places.update((word, lane * 4 // SECTOR) for word in touched((at,), size, 4))
    return len(places)
