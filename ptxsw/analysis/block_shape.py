"""The shape of a block that nobody gives, read off how a kernel computes its indices.

    x = blockIdx.x * 16 + threadIdx.x;      rows of 16 threads, so a warp lies in two of them

Only rows that are shorter than a warp matter: which threads lie in one warp depends on nothing
else. A factor may also be what threads of several elements cover, or a tile without its halo; so
powers of two below 32 are read, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.coalescing import LANES
from ptxsw.emulator.trace import Trace
from ptxsw.terms.polynomial import Monomial, Polynomial

Block = tuple[int, int, int]


def assumed_block(trace: Trace) -> Block | None:
    """The shape by which a kernel computes its indices; None where rows hold whole warps, or where
    nothing tells."""
    found = {axis: set(widths(trace, axis)) for axis in "xyz"}
    across = found["x"]
    if len(across) != 1 or not _is_short(width := across.pop()):
        return None
    used = _used(trace)
    sizes = [width]
    for axis in "yz":
        told = found[axis]
        if axis not in used:
            sizes.append(1)
        elif len(told) == 1:
            sizes.append(told.pop())
        else:
            return None
    x, y, z = sizes
    return (x, y, z) if x * y * z <= 1024 else None


def rows_hold_warps(trace: Trace) -> bool:
    """Does the kernel show that rows of its blocks hold whole warps: has it one axis, is its index
    `blockIdx.x * blockDim.x + threadIdx.x`, or `blockIdx.x` times a multiple of 32?"""
    sizes = any(
        {"%ntid.x", "%ctaid.x"} <= {str(term.value) for term in monomial}
        for polynomial in _sums(trace)
        for monomial, _ in polynomial
    )
    across = set(widths(trace, "x"))
    by_number = bool(across) and all(width % LANES == 0 for width in across)
    return sizes or by_number or _used(trace) <= {"x"}


def _is_short(width: int) -> bool:
    return 1 < width < LANES and width.bit_count() == 1


def _used(trace: Trace) -> set[str]:
    """The axes of the block that the kernel reads."""
    names = {str(term.value) for p in _sums(trace) for m, _ in p for term in m}
    return {name[-1] for name in names if name.startswith("%tid.")}


def _sums(trace: Trace) -> Iterator[Polynomial]:
    for access in trace.accesses:
        if access.space in ("global", "generic"):
            for view in access.variants:
                yield trace.unwrapped.polynomial(view.address)


def widths(trace: Trace, axis: str) -> Iterator[int]:
    """How many threads lie along an axis, as far as the factors of the block's number and of the
    thread's tell: products with the same terms are compared."""
    for polynomial in _sums(trace):
        blocks: dict[Monomial, int] = {}
        threads: dict[Monomial, int] = {}
        for monomial, factor in polynomial:
            for name, found in ((f"%ctaid.{axis}", blocks), (f"%tid.{axis}", threads)):
                rest = tuple(term for term in monomial if term.value != name)
                if len(rest) == len(monomial) - 1:
                    found[rest] = factor
        for rest, factor in threads.items():
            if rest in blocks and factor and blocks[rest] % factor == 0:
                yield abs(blocks[rest] // factor)
