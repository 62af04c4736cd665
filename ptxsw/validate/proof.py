"""Two kernels proved equal, cut by cut.

Control of the two texts is followed in step from the entry. Where it comes to a place where a
block of the first text begins, and to that place's image in the second, the comparison ends, and
is begun anew from what is always known there. So each pair of places is looked at once, and loops
are proved by induction. A segment is both texts from one pair of places to the next ones.

A block that is the same in both texts is not run: equal registers and equal memory make equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product

from ptxsw.analysis.instruction_kinds import Kind, kind, meets
from ptxsw.changes.assumptions import CONTRACTION, PARAMETERS_ARE_GLOBAL
from ptxsw.emulator.budget import Budget
from ptxsw.flow.dataflow import defs
from ptxsw.ptx.ir import Instruction
from ptxsw.validate.basis import Lost
from ptxsw.validate.contraction import may_fuse
from ptxsw.validate.cut_point_map import CutPointMap
from ptxsw.validate.cuts import Cut
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.outcome import Differ, Forgets, GiveUp
from ptxsw.validate.path_pairs import PathPairs, no_steps
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.relation import Trust
from ptxsw.validate.spaces import Windows
from ptxsw.validate.text import Text


def prove_identical(context: ProofContext, pair: Pair) -> bool:
    """Are both texts the same to the end of the block, and do they go to places that correspond?
    Then equal registers and equal memory make equal registers and memory."""
    (p, q), old, new = pair, context.basis.old, context.basis.new
    relation, run = context.relation, _rest(context.basis.old, p)
    if pair in context.basis.lost:
        return False  # not all registers are equal
    if not _same_code(old, new, p, q, len(run)):
        return False
    # A comparison would end in the middle of the block, where something may be claimed.
    if any(q < stop < q + len(run) for stop in context.images.stops):
        return False
    if context.layout is not None and any(map(context.layout.touches, run)):
        return False
    ends = _successors(old, new, context.images, p, q)
    if relation.claims.puts_off(p) or ends is None:
        return False
    # A claim that speaks only where a predicate is true says nothing where a branch has found it
    # false, unless the block sets the predicate anew.
    false = relation.claims.false_at(q)
    if false:
        false = false.difference(r.name for i in run for r in defs(i))
    # What registers of the second text alone hold there has to be said anew.
    if any(relation.needs_proof(end, false) or relation.extra.at(end) for end in ends):
        return False
    for at, instruction in enumerate(run):
        if meets(instruction):
            context.barrier_pairs.meet(p + at, q + at, whole=False)
    for end in ends:
        context.worklist.come_to(end)
    return True


def _rest(text: Text, position: int) -> Sequence[Instruction]:
    """A block's instructions from a position on; none of an empty block at the very end."""
    if position >= len(text.cfg.instructions):
        return ()
    block = text.cfg.blocks[text.cfg.block_of[position]]
    return text.cfg.instructions[position : block.end]


def _same_code(old: Text, new: Text, p: int, q: int, count: int) -> bool:
    """Do some instructions of the first text, from `p` on, stand at `q` of the second, word for
    word?"""
    first = old.cfg.instructions[p : p + count]
    second = new.cfg.instructions[q : q + count]
    if not count or len(second) != count or not all(map(_is_same, first, second)):
        return False
    parts = (*old.cfg.read[p : p + count], *old.cfg.written[p : p + count])
    registers = frozenset(reg for part in parts for reg in part)
    return all(old.evaluator.width(r) == new.evaluator.width(r) for r in registers)


def _is_same(a: Instruction, b: Instruction) -> bool:
    """Word for word, but for where a branch goes?"""
    if a[:4] == b[:4]:  # all but where it stands
        return True
    named = a.opcode == b.opcode == "bra"
    return named and a.modifiers == b.modifiers and a.guard == b.guard


def _successors(old: Text, new: Text, images: CutPointMap, p: int, q: int) -> list[Pair] | None:
    """The pairs of places that equal blocks go to; None where they do not correspond."""
    block = old.cfg.blocks[old.cfg.block_of[p]]
    last = q + block.end - p - 1
    if kind(old.cfg.instructions[block.end - 1]) is Kind.CONTROL:
        other = new.cfg.blocks[new.cfg.block_of[last]]
        olds = [old.cfg.blocks[n].start for n in (*block.successors, *block.table)]
        news = [new.cfg.blocks[n].start for n in (*other.successors, *other.table)]
    else:
        olds = [old.cfg.blocks[n].start for n in block.successors]
        news = [last + 1]
    if len(olds) != len(news):
        return None
    pairs = list(zip(olds, news, strict=True))
    return pairs if all(n in images.of(o) for o, n in pairs) else None


class Validation:
    """A proof in the making. Raises Differ, GiveUp and OutOfTime out of `run`."""

    def __init__(self, context: ProofContext, budget: Budget) -> None:
        self.context, self._budget = context, budget
        self._old, self._images = context.basis.old, context.images
        self._relation, self._lanes = context.relation, context.lanes
        self._pairs = PathPairs(context)
        self._windows: Windows | None = None  # of the last attempt, once it has begun

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
                self._wait(pair)
            elif not prove_identical(context, pair):
                self._prove(pair)
        context.waiting_lanes.check(worklist.proved)
        context.barrier_pairs.check()
        self._contraction()

    def _contraction(self) -> None:
        """Of products and sums that ptxas may fuse, it has to choose alike for both texts. For one
        text it always does. Raises GiveUp where that may not be assumed."""
        basis = self.context.basis
        first, second = (text.cfg.instructions for text in (basis.old, basis.new))
        if basis.old.module.targets == basis.new.module.targets and (
            len(first) == len(second) and all(map(_is_same, first, second))
        ):
            return
        open_ = any(may_fuse(text.module, text.cfg.instructions) for text in (basis.old, basis.new))
        if open_ and not basis.rest_on(CONTRACTION):
            raise GiveUp(f"{CONTRACTION} is not assumed, and ptxas may fuse products and sums")

    @property
    def may_tell_more(self) -> bool:
        """Might a thorough proof say what a register of the second text alone holds, where this
        one could not?"""
        return self.context.relation.extra.lost and not self.context.lanes.looks

    def _begin(self) -> None:
        """Begin at the entry of both texts. If the second text has code before the image of the
        first block, that is run first while the first text stands still."""
        context = self.context
        if context.relation.needs_proof((0, 0)):
            raise GiveUp("a claim is at the start of the kernel")
        if context.images.begin_together():
            context.worklist.come_to((0, 0))
        else:
            self._run_to_first()

    # ------------------------------------------------------------ one segment

    def _prove(self, pair: Pair) -> None:
        """Compare the texts from one pair of places to the next ones."""
        first: Differ | None = None
        without: Lost = {}
        claimed = self._relation.claims.speaks_of_memory(pair[0])
        self._relation.would_forget = False
        # With the `whole` symbolic run of the first kernel or without it, each strictly first. For
        # claims about memory, which mostly take the run, that comes first. What a load gave is
        # only forgotten once the run does not show either that it still holds.
        attempts = [(w, t, not (w or claimed)) for w, t in product((claimed, not claimed), Trust)]
        forgetting = ((False, trust, False) for trust in Trust if self._relation.would_forget)
        for whole, trust, keeps in chain(attempts, forgetting):
            if trust is not Trust.TERMS and not self._may_end_otherwise():
                continue
            try:
                self._relation.keeps_loads = keeps
                cut = self._attempt(pair, trust, whole)
            except Differ as differ:
                told = None if isinstance(differ, Forgets) else differ
                first, without = first or told, without or differ.without
                continue
            finally:
                self._relation.keeps_loads = False
            basis = self.context.basis
            if cut.old.runner.windows.assumed:
                basis.rest_on(PARAMETERS_ARE_GLOBAL)
            basis.assumptions.update(cut.view.assumptions if cut.view is not None else {})
            return
        assert first is not None
        first.without = without
        raise first

    def _may_end_otherwise(self) -> bool:
        """May the last attempt end otherwise where more tells the spaces of generic addresses?"""
        return self._windows is None or self._windows.met_generic

    def _attempt(self, pair: Pair, trust: Trust, whole: bool) -> Cut:
        """Compare all paths."""
        self._windows = None
        self._pairs.whole = whole
        self._pairs.compare_by_bounds(None)
        cut = self._relation.cut(pair, trust=trust, whole=whole)
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
            ends = [old.ended for old in olds]
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
            end = new.ended
            if end.kind != "cut" or end.position not in images or end.position <= cut.new_position:
                return False
        for new in news:
            self._pairs.compare_all(cut, [no_steps(cut)], new)
        return True

    def _run_to_first(self) -> None:
        """The entry, where the second text runs something before the image of the first block: the
        first text stands still for it."""
        cut = self._relation.cut((0, 0))
        old = no_steps(cut)
        for new in self._pairs.second_paths(cut, (), cut.conditions, lambda _, __: False):
            self._pairs.compare_all(cut, [old], new)

    def _wait(self, pair: Pair) -> None:
        """The second text runs on where the first stands still: nothing that lasts is done. Where
        the first only has to jump to where the second is, the waiting is over."""
        cut = self._relation.cut(pair)
        cut.view = self._lanes.view(pair, lane_waits=True)
        self.context.waiting_lanes.begin(pair, cut)
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
