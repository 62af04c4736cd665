"""What an access costs beside the others of its file: the order of "worst first".

`ptxsw.findings` weighs the accesses of a report. Where that was not done, the measure is the
sectors that a warp moves, times 16 for each loop around the access.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from ptxsw.analysis.trip_count import times_in_loops
from ptxsw.report.model import Access, Contents, Kernel

_SECTORS_OF_WAVEFRONT = 4  # both caches and shared memory move 128 bytes in a pass
_WORST = 32  # sectors, where the data decides
_WITH_SECTORS = ("global", "generic", "local")


def times(access: Access) -> int:
    """How often a warp is taken to make an access."""
    return int(times_in_loops(access.loop_depth or 0))


def moved_sectors(access: Access) -> int:
    """Sectors that a warp moves in one access; 32 where the data decides."""
    if access.space not in _WITH_SECTORS or not access.bytes:
        return 0
    return _WORST if access.sectors is None else access.sectors


def wavefronts(access: Access) -> int:
    """Passes that a warp takes through the banks of shared memory in one access; 1 where the data
    decides."""
    if access.space != "shared":
        return 0
    return max(access.bank_conflicts or 1, access.contention or 1)


def weight(access: Access) -> float:
    """The cost of an access, in sectors; a wavefront of shared memory counts as four."""
    if access.weight is not None:
        return access.weight
    once = moved_sectors(access) + _SECTORS_OF_WAVEFRONT * wavefronts(access)
    return once * times(access)


def waste(access: Access) -> float:
    """The part of `weight` that the access would not have without gaps and conflicts."""
    if access.space == "shared":
        return float(_SECTORS_OF_WAVEFRONT * (wavefronts(access) - 1) * times(access))
    moved = moved_sectors(access)
    if moved <= 1:
        return 0.0
    unused = 1.0 if access.efficiency is None else 1 - access.efficiency
    return unused * moved * times(access)


Some = TypeVar("Some", bound=Contents)


def worst_first(report: Contents) -> list[tuple[Kernel, Access]]:
    """All accesses of a report, the most expensive first; of equals the one that wastes more."""
    return sorted(_accesses(report), key=lambda pair: _order(pair[1]))


def ordered(report: Some) -> Some:
    """The report with the most expensive access of each kernel first, and first the kernel that
    has the most expensive access of all."""
    kernels = [
        replace(kernel, accesses=tuple(sorted(kernel.accesses, key=_order)))
        if kernel.accesses
        else kernel
        for kernel in report.kernels
    ]
    kernels.sort(key=lambda kernel: -weight(kernel.accesses[0]) if kernel.accesses else 0)
    return replace(report, kernels=tuple(kernels))


def _accesses(report: Contents) -> Iterator[tuple[Kernel, Access]]:
    for kernel in report.kernels:
        for access in kernel.accesses or ():
            yield kernel, access


def _order(access: Access) -> tuple[float, float, int]:
    return -weight(access), -waste(access), access.line
