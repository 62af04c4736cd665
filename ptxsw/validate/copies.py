"""Code of the first text that stands in the second once more, word for word.

    ld.global.f32 %f1, [%rd4];           @%sw_misaligned1 bra $sw_slow1;
    ld.global.f32 %f2, [%rd4+4];         ld.global.v2.f32 {%f1, %f2}, [%rd4];
    add.f32 %f3, %f1, %f2;        =>     bra.uni $sw_done1;
    bra $L__BB0_2;                       $sw_slow1:
                                         ld.global.f32 %f1, [%rd4];
                                         ...

Where a test fails, control comes to such a copy in the middle of a block of the first text. If
registers and memory are equal there, they are at the end of the block: nothing has to be run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ptxsw.analysis.instruction_kinds import meets
from ptxsw.flow.cfg import ends_block
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.identical import ends_alike
from ptxsw.validate.proof_context import ProofContext

_LONG = 64  # instructions: fewer are compared as fast as what leads to them


class Copies:
    """The copies in the second text of how blocks of the first end."""

    def __init__(self, context: ProofContext) -> None:
        self._context = context

    def within(self, position: int) -> Mapping[int, int]:
        """The copies of how the block ends that begins at a position of the first text: where each
        begins in it, by the place of the copy. They are in the order of the first text."""
        # What is said of other lanes of a warp rests on how they have come to a place.
        if self._context.lanes.looks:
            return {}
        end = self._context.old.cfg.blocks[self._context.old.block(position)].end
        return {copy: place for place, copy in self._pairs if position < place < end}

    @cached_property
    def _pairs(self) -> tuple[Pair, ...]:
        """Places in the middle of blocks of the first text, and such of the second from which it
        goes on as the first does, to the end of the block."""
        old, new = self._context.old.cfg, self._context.new.cfg
        begun = (b.start for b in new.blocks if b.start not in self._context.images.stops)
        lengths = ((copy, self._length(copy)) for copy in begun)
        ends = (
            (block.end - length, copy)
            for copy, length in lengths
            for block in old.blocks
            if _LONG <= length < block.end - block.start
        )
        return tuple(sorted(pair for pair in ends if self._is_copied(*pair)))

    def _length(self, copy: int) -> int:
        """How many instructions of the second text are run from a place to the next one where a
        comparison ends, or control goes elsewhere."""
        cfg, stops = self._context.new.cfg, self._context.images.stops
        end = min((at for at in stops if at > copy), default=len(cfg.instructions))
        for block in cfg.blocks[cfg.block_of[copy] :] if copy < len(cfg.instructions) else ():
            if block.end >= end or ends_block(cfg.instructions[block.end - 1]):
                return min(block.end, end) - copy
        return 0

    def _is_copied(self, place: int, copy: int) -> bool:
        """Does the first text's block go on from a place as the second does from another one? Code
        at which threads meet may not stand twice."""
        old = self._context.old.cfg
        run = old.instructions[place : old.blocks[old.block_of[place]].end]
        return not any(map(meets, run)) and ends_alike(self._context, (place, copy)) is not None
