"""What one request of a full warp touches: lane offsets, sectors, lines, banks.

Unless the shape of the block is known, the 32 lanes lie in one row of the block, as they do
wherever `ntid.x` is a multiple of 32. Lane 0's address is taken to be aligned to a 128-byte line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from ptxsw.emulator.affine import Affine, constant
from ptxsw.emulator.evaluate import evaluate
from ptxsw.emulator.node import Term, Variance, walk

WARP = 32
SECTOR = 32  # bytes
LINE = 128  # bytes
_BANKS = 32  # of 4 bytes
_LARGEST = 2000  # nodes of a term that is evaluated
_COMPUTED = ("%tid.x", "%laneid")

Offsets = tuple[int, ...]
"""Bytes from lane 0's address, for each of 32 lanes."""

Block = tuple[int, int, int]


def offsets(affine: Affine, address: Term, block: Block | None) -> Offsets | None:
    """Where the lanes of a warp point, relative to lane 0; None where that depends on more than
    the lane."""
    if block is None or block[0] % WARP == 0:
        step = affine.lane_step(address)
        stride = None if step is None else constant(step)
        if stride is not None:
            return tuple(lane * stride for lane in range(WARP))
    return _evaluated(address, block)


def stride(found: Offsets) -> int | None:
    """The bytes from every lane to the next, where that is one number."""
    steps = {b - a for a, b in pairwise(found)}
    return steps.pop() if len(steps) == 1 else None


def sectors(found: Offsets, size: int) -> int:
    """32-byte sectors that the lanes touch, `size` bytes each."""
    return len({at // SECTOR for at in _bytes(found, size)})


def lines(found: Offsets, size: int) -> int:
    """128-byte lines that the lanes touch, `size` bytes each."""
    return len({at // LINE for at in _bytes(found, size)})


def used(found: Offsets, size: int) -> int:
    """Different bytes that the lanes ask for."""
    return len(set(_bytes(found, size)))


def bank_ways(found: Offsets, size: int) -> int:
    """How often shared memory must be asked: 1 where no two lanes want different words of one
    bank. Accesses of 8 and 16 bytes are served by half and quarter warps."""
    together = WARP * 4 // max(4, size)
    worst = 1
    for first in range(0, WARP, together):
        words = {at // 4 for at in _bytes(found[first : first + together], size)}
        banks = [word % _BANKS for word in words]
        worst = max(worst, *(banks.count(bank) for bank in set(banks)))
    return worst


def _bytes(found: Offsets, size: int) -> Iterator[int]:
    for at in found:
        yield from range(at, at + size)


def _evaluated(address: Term, block: Block | None) -> Offsets | None:
    """Offsets of an address that is no sum of multiples of the lane: computed with several
    values for all else, and kept where these make no difference."""
    if address.size > _LARGEST:
        return None
    leaves = [t for t in walk(address) if t.kind in ("atom", "apply", "float")]
    known = {*_COMPUTED, "%tid.y", "%tid.z"} if block else {*_COMPUTED}
    if any(t.variance == Variance.LANE and t.value not in known for t in leaves):
        return None
    seen: Offsets | None = None
    for seed, bits in enumerate((3, 7, 10)):
        random = Random(seed)
        fixed = {t: random.randint(1, 1 << bits) for t in leaves}
        at = [evaluate(address, fixed | _places(leaves, lane, seed, block)) for lane in range(WARP)]
        half, full = 1 << (address.width - 1), 1 << address.width
        here = tuple((a - at[0] + half) % full - half for a in at)
        if seen not in (None, here):
            return None
        seen = here
    return seen


def _places(leaves: list[Term], lane: int, warp: int, block: Block | None) -> dict[Term, int]:
    """The values of the special registers that tell threads apart."""
    if block is None:
        width = WARP * (warp + 1)
        at = {"%laneid": lane, "%tid.x": warp * WARP + lane, "%ntid.x": width}
    else:
        x, y, z = block
        warps = -(-x * y * z // WARP)
        thread = warp % warps * WARP + lane
        at = {
            "%laneid": lane, "%tid.x": thread % x, "%tid.y": thread // x % y,
            "%tid.z": thread // (x * y), "%ntid.x": x, "%ntid.y": y, "%ntid.z": z,
        }  # fmt: skip
    return {t: at[t.value] for t in leaves if t.kind == "atom" and t.value in at}
