"""How the lanes of a warp spread over memory in one access.

A stride is what the address grows by from lane to lane in a row of the block, as long as no index
overflows; nothing is rewritten on its word.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxsw.emulator.trace import Access
from ptxsw.terms.affine import Affine, constant
from ptxsw.terms.node import Variance

LANES = 32
SECTOR = 32  # bytes


def lane_stride(affine: Affine, access: Access) -> int | None:
    """Bytes from lane to lane; None where that is no constant, or not the same on all paths."""
    # Lanes may come by different paths, and then two neighbours have addresses of two kinds.
    if len({v.address for v in access.variants}) > 1 and access.ways is not Variance.UNIFORM:
        return None
    strides = set()
    for variant in access.variants:
        step = affine.lane_step(variant.address)
        strides.add(None if step is None else constant(step))
    return strides.pop() if len(strides) == 1 else None


def is_uniform(access: Access) -> bool:
    """One address for the whole warp: it varies on no path, and where paths have different ones
    all lanes take the same path."""
    if any(v.address.variance is not Variance.UNIFORM for v in access.variants):
        return False
    return len({v.address for v in access.variants}) == 1 or access.ways is Variance.UNIFORM


def sectors(access: Access, stride: int | None) -> int | None:
    """32-byte sectors that a full warp touches where lane 0's address is aligned to one; None
    where the stride is not known or the space has no sectors."""
    if stride is None or not access.bytes or access.space not in ("global", "generic", "local"):
        return None
    return len(touched([lane * stride for lane in range(LANES)], access.bytes, SECTOR))


def touched(addresses: Iterable[int], size: int, unit: int) -> set[int]:
    """The numbers of the units of memory, of `unit` bytes, in which `size` bytes at each address
    lie."""
    places: set[int] = set()
    for at in addresses:
        places.update(range(at // unit, (at + size - 1) // unit + 1))
    return places
