"""Wavefronts of the accesses of a kernel: passes of the memory pipe of a multiprocessor.

    ld.shared.f32 %f1, [%r2];       lanes 32 bytes apart: 8 words of a warp lie in each of four
                                    banks, so the load takes 8 wavefronts

Of shared memory a wavefront serves each bank once. Of global and local memory it serves a line of
128 bytes, and no more bytes than that. An access whose addresses are not known takes at least as
many as one whose lanes lie side by side, and at most one for each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

from msgspec import Struct

from ptxsw.analysis.banks import wavefronts
from ptxsw.analysis.coalescing import (
    LANES,
    LINE,
    Offsets,
    is_uniform,
    lane_stride,
    touched,
)
from ptxsw.analysis.path_choice import with_one_path
from ptxsw.analysis.shared_banks import bank_traffic, block_shapes, places, shared_arrays
from ptxsw.analysis.traffic import Traffic, addressing_lanes, taking_part
from ptxsw.analysis.warps import Block, Warps
from ptxsw.changes.permutation import Permutation
from ptxsw.cost.account import Interval, exactly
from ptxsw.emulator.state import reach
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.cfg import Cfg

_SIZE: Final = "%dynamic_smem_size"  # what a permutation may ask for
_WHOLE_ROWS: Final = 48 << 10  # bytes
_LARGEST: Final = 2000  # nodes of an address that is evaluated
_COUNTED: Final = frozenset({"global", "generic", "local"})

Line = Callable[[int], int]
"""The line of the original text from which an instruction comes, by its position."""


class Wavefronts(Struct, frozen=True, dict=True):
    """Of the accesses of one kernel, by the position of their instructions: the addresses for which
    some warps ask the `banks` of shared memory or `lines` of other memory, none where they are not
    known."""

    banks: Mapping[int, tuple[Offsets, ...]]
    lines: Mapping[int, tuple[Offsets, ...]]

    def of(self, index: int, *, width: int) -> Interval:
        """Those of one access that ptxas made `width` bytes wide; 0 for what has a cache of its
        own."""
        if index in self.unknown:
            return Interval(float(max(1, LANES * width // LINE)), float(LANES))
        if index in self.banks:
            return exactly(_of_banks(self.banks[index], width))
        return exactly(_of_lines(self.lines[index], width) if index in self.lines else 0.0)

    @cached_property
    def unknown(self) -> frozenset[int]:
        """The accesses of which nothing is known."""
        every = (*self.banks.items(), *self.lines.items())
        return frozenset(index for index, asked in every if not asked)

    def without(self, forgotten: frozenset[int]) -> Wavefronts:
        """The same, but that nothing is known of these."""
        banks, lines = (
            {at: () if at in forgotten else asked for at, asked in known.items()}
            for known in (self.banks, self.lines)
        )
        return Wavefronts(banks, lines)


def alike(
    before: Wavefronts, line_before: Line, after: Wavefronts, line_after: Line
) -> tuple[Wavefronts, Wavefronts]:
    """What two texts of a kernel ask for, where the same access counts alike in both: what is not
    known of it in one of them is known in neither. No text gains by being easier to understand."""
    pairs = ((before, line_before), (after, line_after))
    lines = {line(at) for asked, line in pairs for at in asked.unknown}
    if not lines:
        return before, after
    first, second = (
        asked.without(frozenset(at for at in (*asked.banks, *asked.lines) if line(at) in lines))
        for asked, line in pairs
    )
    return first, second


@lru_cache(maxsize=1 << 10)
def _of_banks(asked: tuple[Offsets, ...], width: int) -> float:
    wide = (tuple([at // width * width for at in one]) for one in asked)
    return sum(wavefronts(one, width) for one in wide) / len(asked)


@lru_cache(maxsize=1 << 10)
def _of_lines(asked: tuple[Offsets, ...], width: int) -> float:
    counts = (
        max(len(touched(one, width, LINE)), len(one) * width // LINE if len({*one}) > 1 else 1)
        for one in asked
    )
    return sum(counts) / len(asked)


def wavefronts_of(trace: Trace, block: Block | None, warps: Warps | None = None) -> Wavefronts:
    """Of a kernel in blocks of a shape, or of usual ones where it is not known; `warps` are those
    of such a block, where somebody has looked at them."""
    at, end = places(shared_arrays(trace))
    if _SIZE in trace.module.source.text:
        at |= {_SIZE: _WHOLE_ROWS}
    shared = bank_traffic(trace, block_shapes(trace, block), at, end)
    warps = warps or Warps(block)
    lines = {a.index: _lanes(trace, a, warps) for a in trace.accesses if a.space in _COUNTED}
    return Wavefronts({t.access.index: _banks(t.access, t.requests) for t in shared}, lines)


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
    moved: dict[Offsets, Offsets] = {}
    for asked in known.banks.values():
        for one in asked:
            moved[one] = moved.get(one) or tuple(map(permutation.of, one))
    return Wavefronts(
        {number[at]: tuple([moved[one] for one in asked]) for at, asked in known.banks.items()},
        {number[at]: asked for at, asked in known.lines.items()},
    )


def _accesses(cfg: Cfg) -> Sequence[int]:
    """The numbers of the instructions that touch memory."""
    instructions = enumerate(cfg.instructions)
    return [at for at, one in instructions if reach(one.opcode, one.modifiers).touches]


def _lanes(trace: Trace, access: Access, warps: Warps) -> tuple[Offsets, ...]:
    """Bytes from the start of a line at which the lanes of some warps point; none where that is not
    known. In local memory the words of one address lie side by side."""
    stride = lane_stride(trace.unwrapped, access)
    if is_uniform(access):
        stride = access.bytes if access.space == "local" else 0
    if stride is not None:
        every = tuple([lane * stride for lane in range(LANES)])
        return taking_part(access, warps, every) if access.space != "local" else (every,)
    largest = max(variant.address.size for variant in access.variants)
    if access.space == "local" or not access.bytes or largest > _LARGEST:
        return ()
    alone = with_one_path(trace.terms, access)
    requests = Traffic.of(alone, trace.unwrapped, warps).requests
    asked = tuple(dict.fromkeys(warp for request in requests for warp in request.warps))
    # What only the run knows may decide how many lines are asked for: then nothing is known.
    exact = all(request.exact for request in requests)
    counts = {_of_lines(request.warps, access.bytes) for request in requests}
    return asked if exact or len(counts) == 1 else ()


def _banks(access: Access, requests: tuple[Offsets, ...]) -> tuple[Offsets, ...]:
    """The addresses of the lanes that give them."""
    if access.instruction.opcode == "mbarrier":
        return ((0,),)  # one word
    count = addressing_lanes(access)
    return requests if count == LANES else tuple([one[:count] for one in requests])
