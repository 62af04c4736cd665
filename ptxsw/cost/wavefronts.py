"""Wavefronts of the accesses of a kernel: passes of the memory pipe of a multiprocessor.

    ld.shared.f32 %f1, [%r2];       lanes 32 bytes apart: 8 words of a warp lie in each of four
                                    banks, so the load takes 8 wavefronts

Of shared memory a wavefront serves each bank once. Of global and local memory it serves a line of
128 bytes, and no more bytes than that. An access whose addresses are not known asks for a line with
each lane in global memory; in shared memory it counts as one without conflicts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ptxsw.analysis.bank_passes import Addresses, wavefronts
from ptxsw.analysis.coalescing import LANES, is_uniform, lane_stride, touched
from ptxsw.analysis.shared_arrays import block_shapes, places, shared_arrays
from ptxsw.analysis.shared_banks import bank_traffic
from ptxsw.analysis.warp_columns import Block
from ptxsw.emulator.affine import Affine
from ptxsw.emulator.state import reach
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.permutation import Permutation

_LINE: Final = 128  # bytes
_SIZE: Final = "%dynamic_smem_size"  # what a permutation may ask for
_WHOLE_ROWS: Final = 48 << 10  # bytes
_COUNTED: Final = frozenset({"global", "generic", "local"})


class Wavefronts(Struct, frozen=True):
    """Of the accesses of one kernel, by the position of their instructions. `requests` are the
    addresses of some warps in shared memory, `strides` the bytes from lane to lane elsewhere."""

    requests: Mapping[int, tuple[Addresses, ...]]
    strides: Mapping[int, int | None]

    def of(self, index: int, width: int) -> float:
        """Those of one access that ptxas made `width` bytes wide; 0 for what has a cache of its
        own."""
        if index in self.requests:
            asked = self.requests[index]
            if not asked:
                return float(max(1, LANES * width // _LINE))
            return _of_banks(asked, width)
        if index not in self.strides:
            return 0.0
        stride = self.strides[index]
        if stride is None:
            return float(LANES)
        return _of_lines(stride, width)


@lru_cache(maxsize=1 << 10)
def _of_banks(asked: tuple[Addresses, ...], width: int) -> float:
    wide = (tuple([at // width * width for at in one]) for one in asked)
    return sum(wavefronts(one, width) for one in wide) / len(asked)


@lru_cache(maxsize=1 << 10)
def _of_lines(stride: int, width: int) -> float:
    lines = touched((lane * stride for lane in range(LANES)), width, _LINE)
    return float(max(len(lines), LANES * width // _LINE if stride else 1))


def wavefronts_of(trace: Trace, block: Block | None) -> Wavefronts:
    """Of a kernel in blocks of a shape, or of usual ones where it is not known."""
    for other, shape, before in _LAST:
        if other is trace.accesses and shape == block:
            return before
    at, end = places(shared_arrays(trace))
    if _SIZE in trace.module.source.text:
        at |= {_SIZE: _WHOLE_ROWS}
    shared = bank_traffic(trace, block_shapes(trace, block), at, end)
    affine = trace.affine
    strides = {a.index: _stride(affine, a) for a in trace.accesses if a.space in _COUNTED}
    wavefronts = Wavefronts({t.access.index: t.requests for t in shared}, strides)
    _LAST.append((trace.accesses, block, wavefronts))
    return wavefronts


def permuted(
    known: Wavefronts, before: Cfg, after: Cfg, permutation: Permutation
) -> Wavefronts | None:
    """Of a text that differs from one that is known in its permutation of shared memory alone: what
    a symbolic run of it would tell. None where their accesses are not the same."""
    old, new = _accesses(before), _accesses(after)
    names = [before.instructions[at].name for at in old]
    if names != [after.instructions[at].name for at in new]:
        return None
    number = dict(zip(old, new, strict=True))
    moved: dict[Addresses, Addresses] = {}
    for asked in known.requests.values():
        for one in asked:
            moved[one] = moved.get(one) or tuple(map(permutation.of, one))
    return Wavefronts(
        {number[at]: tuple([moved[one] for one in asked]) for at, asked in known.requests.items()},
        {number[at]: stride for at, stride in known.strides.items()},
    )


def _accesses(cfg: Cfg) -> Sequence[int]:
    """The numbers of the instructions that touch memory."""
    instructions = enumerate(cfg.instructions)
    return [at for at, one in instructions if reach(one.opcode, one.modifiers).touches]


_LAST: deque[tuple[object, Block | None, Wavefronts]] = deque(maxlen=2)
"""What was last asked for: the text before and behind a rewrite, which are asked about again for
other targets."""


def _stride(affine: Affine, access: Access) -> int | None:
    """Bytes from lane to lane. In local memory the words of one address lie side by side."""
    if is_uniform(access):
        return access.bytes if access.space == "local" else 0
    return lane_stride(affine, access)
