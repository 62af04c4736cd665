"""Do all living threads of a block come to the same barriers in the same order?

    setp.ge.u32 %p1, %ctaid.x, %n;
    @%p1 bra END;                  the whole block goes one way
    bar.sync 0;
    END: ret;

If each branch that chooses between the next events (`control_dependence`) is proved to go one way
for all threads of a block, in the same iterations of the loops around it, then they are at the same
barrier in the same iterations, or have ended: by induction, from one event to the next. Who ends
early is missed by nobody: a barrier waits for those that live. But nothing orders what it did last
with what the others do later. Who goes past a barrier and on, to where the paths meet again, has
not ended early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod

from ptxsw.analysis.divergence import ends_at_once
from ptxsw.correctness.control_dependence import choosing
from ptxsw.correctness.segments import (
    END,
    EXIT,
    Event,
    Segment,
    Segments,
    cut,
    loop_events,
)
from ptxsw.emulator.trace import OperandValues, Trace
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int
from ptxsw.terms.node import Term

Same = Callable[[Term, Mapping[int, int]], bool]
"""Has a term one value in all threads of a block, in iterations that the counters relate?"""


EVERY_LANE = 0xFFFFFFFF
"""The mask of all lanes of a warp."""


def of_block(instruction: Instruction) -> bool:
    """Is it a barrier of the block, whatever it does there?"""
    return isa.has(instruction, isa.Trait.BARRIER) and not {"warp", "cluster"} & {
        *instruction.modifiers
    }


def meets_all(instruction: Instruction, shape: Sequence[int] | None) -> bool:
    """Does a barrier keep a thread until all threads of its block have come that live?"""
    if not of_block(instruction) or "arrive" in instruction.modifiers:
        return False
    operands = instruction.operands
    if "red" in instruction.modifiers:
        operands = operands[1:-1]
    if not all(type(operand) is Int for operand in operands[:2]) or not operands:
        return False
    if len(operands) == 1:
        return True
    count = operands[1]
    return shape is not None and type(count) is Int and count.value == prod(shape)


def meets_warp(instruction: Instruction) -> bool:
    """Does a barrier keep a lane until all lanes of its warp have come that live?"""
    if instruction.opcode != "bar" or "warp" not in instruction.modifiers:
        return False
    (mask,) = instruction.operands
    every = isinstance(mask, Int) and mask.value & EVERY_LANE == EVERY_LANE
    return every and instruction.guard is None


class BlockBarriers:
    """The barriers of a kernel at which all threads of a block meet, cut out of its body, and the
    branches that choose among them. `meeting` are the barriers, where they are told."""

    def __init__(
        self,
        trace: Trace,
        shape: Sequence[int] | None,
        same: Same,
        meeting: Iterable[int] | None = None,
    ) -> None:
        self.trace, self.cfg = trace, trace.cfg
        self._same, self._shape = same, shape
        code = self.cfg.instructions
        all_of_them = [at for at in self.cfg.indices(self.cfg.order) if of_block(code[at])]
        if meeting is None:
            meeting = (at for at in all_of_them if meets_all(code[at], shape))
        self.meeting = frozenset(meeting)
        self.others = tuple(at for at in all_of_them if not meets_all(code[at], shape))
        self.segments: Segments = cut(self.cfg, trace.function.body, self.meeting)
        self._asked: dict[int, bool] = {}

    def less(self, without: Iterable[int]) -> BlockBarriers:
        """The same kernel without some barriers."""
        meeting = self.meeting.difference(without)
        return BlockBarriers(self.trace, self._shape, self._same, meeting)

    def more(self, others: Iterable[int], same: Same) -> BlockBarriers:
        """The same for fewer threads, which meet at others, too, and share more values."""

        def either(term: Term, counters: Mapping[int, int]) -> bool:
            return self._same(term, counters) or same(term, counters)

        return BlockBarriers(self.trace, self._shape, either, self.meeting.union(others))

    @cached_property
    def uniform_loops(self) -> frozenset[int]:
        """Loops of which all threads of a block that enter them together make as many iterations,
        unless they end in it. Inner loops come first: outer ones depend on them."""
        found: set[int] = set()
        self._uniform = found
        for header in self.cfg.loops:
            deciding = choosing(self.segments, loop_events(self.segments, header))
            if all(self.one_way(self.segments.all[number]) for number in deciding):
                found.add(header)
        return frozenset(found)

    def counters(self, block: int) -> dict[int, int]:
        """What is known of the counts of loops where all threads of a block are at a place in
        step: those around it are at the same iteration, and uniform ones that lie behind ended
        with the same."""
        return dict.fromkeys((*self._uniform, *self.cfg.loops_around(block)), 0)

    def one_way(self, segment: Segment) -> bool:
        """Do all threads of a block that come to the end of a segment in step go one way?"""
        known = self._asked.get(segment.number)
        if known is None:
            known = self._asked[segment.number] = self._goes_one_way(segment)
        return known

    def _goes_one_way(self, segment: Segment) -> bool:
        decided = self.trace.decisions.get(segment.end - 1, ())
        counters = self.counters(segment.block)
        values = {value for decision in decided for value in decision.values}
        if not all(isinstance(v, int) or self._same(v, counters) for v in values):
            return False
        # A branch without a value lies on no path that is possible.
        return len(decided) <= 1 or _paths_are_shared(self, decided, counters)

    @cached_property
    def parting(self) -> tuple[int, ...]:
        """The branches that may send threads of one block to different barriers."""
        self.uniform_loops  # noqa: B018 (outer loops depend on inner ones)
        deciding = choosing(self.segments, self.segments.all)
        return tuple(
            s.end - 1
            for s in self.segments.all
            if (s.number in deciding or self._is_guarded(s) or self._goes_past(s))
            and not self.one_way(s)
        )

    def _goes_past(self, segment: Segment) -> bool:
        """May some threads come to a barrier while others go past it to where the paths meet again?
        Those that end before that have left early."""
        choices = zip(segment.edges, self.segments.sides(segment.number), strict=True)
        comes = [any(k != EXIT for k, _ in side) for edge, side in choices if edge.event != END]
        join = self.cfg.ipdom.get(segment.block, -1)
        return len({*comes}) > 1 and join != -1 and not ends_at_once(self.cfg, join)

    def _is_guarded(self, segment: Segment) -> bool:
        """Does it end with a barrier that some lanes of a warp may leave out?"""
        return segment.end - 1 in self.meeting and len(segment.edges) > 1

    @cached_property
    def leaving(self) -> tuple[Segment, ...]:
        """Segments at whose ends some threads may end while others go on to a barrier."""
        self.uniform_loops  # noqa: B018
        deciding = choosing(self.segments, self.segments.all, ends=True)
        return tuple(
            s
            for s in self.segments.all
            if s.number in deciding
            and _parts_with_end(self.segments.sides(s.number))
            and not self.one_way(s)
        )


def _paths_are_shared(
    barriers: BlockBarriers, decided: Sequence[OperandValues], counters: Mapping[int, int]
) -> bool:
    """Of several values on several paths: are all threads on the same path? The paths are told
    apart by conditions that all share."""
    terms, same = barriers.trace.terms, barriers._same
    shared = [frozenset(c for c in d.conditions if same(c, counters)) for d in decided]
    for at, path in enumerate(shared):
        contrary = {terms.not_(c) for c in path}
        if any(contrary.isdisjoint(other) for other in shared[at + 1 :]):
            return False
    return True


def _parts_with_end(choices: Sequence[frozenset[Event]]) -> bool:
    """May some threads end and others go on?"""
    ends = [END in side for side in choices]
    goes_on = [bool(side - {END}) for side in choices]
    return any(
        one and other and a != b for a, one in enumerate(ends) for b, other in enumerate(goes_on)
    )
