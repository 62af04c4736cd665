"""Tiles of lanes that a mask names: 8 of a warp, as `tiled_partition<8>` of CUDA makes them.

and.b32 %r2, %laneid, -8;  shl.b32 %r3, 255, %r2;  bar.warp.sync %r3;       its own eight lanes
bar.warp.sync -1;                                                           all 32
"""

from __future__ import annotations

from ptxsw.analysis.coalescing import LANES
from ptxsw.correctness.barriers import EVERY_LANE
from ptxsw.correctness.subject import Subject
from ptxsw.facts.thread_columns import BlockColumns
from ptxsw.facts.thread_views import Dimensions, ThreadViews
from ptxsw.flow.convergence import waits_for
from ptxsw.ptx.ir import Int
from ptxsw.terms.node import Term

WARP_BITS = 5


def tile_bits(subject: Subject, index: int) -> int | None:
    """How many bits number the lanes for which an instruction waits, where its mask names, for each
    lane, the aligned tile that the lane is in; None where it does not, or where that is unknown."""
    known = vars(subject).setdefault("tiles", {})
    if index not in known:
        known[index] = _tile_bits(subject, index)
    bits: int | None = known[index]
    return bits


def _tile_bits(subject: Subject, index: int) -> int | None:
    mask = subject.cfg.literal(waits_for(subject.cfg.instructions[index]))
    if mask is not None:
        return WARP_BITS if mask & EVERY_LANE == EVERY_LANE else None
    trace = subject.masks
    read = {one.values[-1] for one in trace.operands.get(index, ()) if one.values}
    value = read.pop() if len(read) == 1 else None
    dimensions = Dimensions(trace, subject.shape)
    columns = BlockColumns.of(trace.terms, dimensions)
    if not isinstance(value, Term) or columns is None:
        return None
    seen = ThreadViews(trace, dimensions, lambda _: False).own(value)
    if not columns.is_told(seen):
        return None
    masks = columns.of_each(seen)
    bits = (masks[0].bit_count()).bit_length() - 1
    return bits if bits > 0 and all(m == _tile(n, bits) for n, m in enumerate(masks)) else None


def _tile(thread: int, bits: int) -> int:
    """The mask of the tile of a thread."""
    return ((1 << (1 << bits)) - 1) << (thread % LANES >> bits << bits)


def stays_inside(subject: Subject, index: int, bits: int) -> bool:
    """Does a shuffle read lanes of its tile alone, whatever it is asked for?"""
    segments = subject.cfg.instructions[index].operands[-2]
    if not isinstance(segments, Int):
        literal = subject.cfg.literal(segments)
        if literal is None:
            return bits == WARP_BITS
        segments = Int(literal)
    kept = segments.value >> 8 & (LANES - 1)
    return kept >> bits == (LANES - 1) >> bits
