"""Two kernels proved equal, cut by cut.

Control of the two texts is followed in step from the entry. Where it comes to a place where a
block of the first text begins, and to that place's image in the second, the comparison ends, and
is begun anew from what is always known there. So each pair of places is looked at once, and loops
are proved by induction. A segment is both texts from one pair of places to the next ones.
"""

from __future__ import annotations

from itertools import product

from ptxsw.changes.assumptions import PARAMETERS_ARE_GLOBAL
from ptxsw.emulator.budget import Budget
from ptxsw.validate.cuts import Cut
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.identical import prove_identical
from ptxsw.validate.outcome import Differ, GiveUp
from ptxsw.validate.path_pairs import PathPairs, no_steps
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.spaces import Windows


class SegmentProof:
    """Proves segments, one at a time. Raises Differ and GiveUp."""

    def __init__(self, context: ProofContext) -> None:
        self._context = context
        self._old, self._images = context.basis.old, context.images
        self._relation, self._lanes = context.relation, context.lanes
        self._pairs = PathPairs(context)
        self._windows: Windows | None = None  # of the last attempt, once it has begun

    def prove(self, pair: Pair) -> None:
        """Compare the texts from one pair of places to the next ones."""
        first: Differ | None = None
        claimed = self._relation.claims.speaks_of_memory(pair[0])
        # With the `whole` symbolic run of the first kernel or without it, each strictly first. For
        # claims about memory, which mostly take the run, that comes first.
        for whole, lenient in product((claimed, not claimed), (False, True)):
            if lenient and not self._may_end_otherwise():
                continue
            try:
                cut = self._attempt(pair, lenient, whole)
            except Differ as differ:
                first = first or differ
                continue
            basis = self._context.basis
            if cut.old.runner.windows.assumed:
                basis.rest_on(PARAMETERS_ARE_GLOBAL)
            basis.assumptions.update(cut.view.assumptions if cut.view is not None else {})
            return
        assert first is not None
        raise first

    def _may_end_otherwise(self) -> bool:
        """May the last attempt end otherwise where parameters point to global memory?"""
        if PARAMETERS_ARE_GLOBAL not in self._context.basis.allowed:
            return False
        return self._windows is None or self._windows.met_generic

    def _attempt(self, pair: Pair, lenient: bool, whole: bool) -> Cut:
        """Compare all paths."""
        self._windows = None
        self._pairs.whole = whole
        self._pairs.compare_by_bounds(None)
        cut = self._relation.cut(pair, lenient=lenient, whole=whole)
        self._windows = cut.old.runner.windows
        cut.view = self._lanes.view(pair)
        if cut.view is not None:
            cut.view.given = cut.conditions
        start = cut.start(cut.old_position, cut.conditions)
        olds = cut.old.runner.paths(start, self._images.places)
        try:
            for new in self._pairs.second_paths(cut, olds, cut.conditions):
                self._pairs.compare_all(cut, olds, new)
        except Differ:
            # The second text may have no code for this block at all: then it stands still, and
            # both must be at places that correspond where the first text's paths end.
            ends = [o.end for o in olds if o.end is not None]
            empty = all(
                e.kind == "cut" and e.position > pair[0] and pair[1] in self._images.of(e.position)
                for e in ends
            )
            if empty:
                self._pairs.compare_all(cut, olds, no_steps(cut, pair[1]))
            elif not self._comes_to_itself(cut):
                raise
        return cut

    def _comes_to_itself(self, cut: Cut) -> bool:
        """Does the second text only go on to another image of the place, further down, while the
        first stands still? Behind a loop that stands twice it does."""
        images = self._images.of(cut.old_position)
        if not any(place > cut.new_position for place in images):
            return False
        news = self._pairs.second_paths(cut, (), cut.conditions)
        for new in news:
            end = new.end
            assert end is not None
            if end.kind != "cut" or end.position not in images or end.position <= cut.new_position:
                return False
        for new in news:
            self._pairs.compare_all(cut, [no_steps(cut)], new)
        return True

    def begin(self) -> None:
        """The entry, where the second text runs something before the image of the first block: the
        first text stands still for it."""
        cut = self._relation.cut((0, 0))
        old = no_steps(cut)
        for new in self._pairs.second_paths(cut, (), cut.conditions, lambda _, __: False):
            self._pairs.compare_all(cut, [old], new)

    def wait(self, pair: Pair) -> None:
        """The second text runs on where the first stands still: nothing that lasts is done. Where
        the first only has to jump to where the second is, the waiting is over."""
        cut = self._relation.cut(pair)
        cut.view = self._lanes.view(pair, lane_waits=True)
        self._context.waiting_lanes.begin(pair, cut)
        if self._jumps_to(pair[0], pair[1]):
            (old,) = cut.old.runner.paths(cut.start(pair[0], cut.conditions), self._images.places)
            self._pairs.compare(cut, old, no_steps(cut, pair[1]))
            return
        for new in self._pairs.second_paths(cut, (), cut.conditions):
            self._pairs.compare(cut, no_steps(cut), new)

    def _jumps_to(self, place: int, image: int) -> bool:
        """Do nothing but jumps lead from a place of the first text to one with this image?"""
        cfg, seen = self._old.cfg, set[int]()
        while place not in seen and self._old.begins(place):
            seen.add(place)
            block = cfg.blocks[self._old.block(place)]
            jump = cfg.instructions[place]
            if block.end != place + 1 or jump.opcode != "bra" or jump.guard is not None:
                return False
            place = cfg.blocks[block.successors[0]].start
            if image in self._images.of(place):
                return True
        return False


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
