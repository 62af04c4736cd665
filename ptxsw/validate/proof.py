"""Two kernels proved equal, cut by cut.

Control of the two texts is followed in step from the entry. Where it comes to a place where a
block of the first text begins, and to that place's image in the second, the comparison ends, and
is begun anew from what is always known there. So each pair of places is looked at once, and loops
are proved by induction.
"""

from __future__ import annotations

from ptxsw.emulator.budget import Budget
from ptxsw.validate.identical import prove_identical
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.segment_proof import SegmentProof


class Validation:
    """A proof in the making. Raises Differ, GiveUp and OutOfTime out of `run`."""

    def __init__(self, context: ProofContext, budget: Budget) -> None:
        self.context, self._budget = context, budget
        self._segments = SegmentProof(context)

    def run(self) -> None:
        """Prove all pairs of places that control comes to. A segment's proof takes for true what
        is known of its first pair, and shows the same of the pairs at its ends: all together are
        an induction over the segments that a thread runs. Where an end knows less than its pair
        was proved with, that pair is open again."""
        context, worklist = self.context, self.context.worklist
        context.barrier_pairs.check_questions()
        self._begin()
        while worklist:
            self._budget.check()
            pair = worklist.take()
            if context.waiting_lanes.waits(pair):
                self._segments.wait(pair)
            elif not prove_identical(context, pair):
                self._segments.prove(pair)
        context.waiting_lanes.check(worklist.proved)
        context.barrier_pairs.check()

    @property
    def may_tell_more(self) -> bool:
        """Might a thorough proof say what a register of the second text alone holds, where this
        one could not?"""
        return self.context.relation.extra.carried.lost and not self.context.lanes.looks

    def _begin(self) -> None:
        """Begin at the entry of both texts. If the second text has code before the image of the
        first block, that is run first while the first text stands still."""
        context = self.context
        if context.relation.needs_proof((0, 0)):
            raise GiveUp("a claim stands where the kernel begins")
        if context.images.begin_together():
            context.worklist.come_to((0, 0))
        else:
            self._segments.begin()
