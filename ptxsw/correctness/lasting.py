"""How long an asynchronous copy lasts: until its thread has waited for it.

cp.async.ca.shared.global [%r1], [%rd1], 4;
cp.async.commit_group;
bar.sync 0;                         passed while it lasts: nothing orders it with what others do
ld.shared.f32 %f1, [%r2];           behind this barrier
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ptxsw.correctness.intervals import HERE, MOST_ROUNDS, Intervals
from ptxsw.correctness.segments import BARRIER
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Int

_MOST_GROUPS = 9  # behind a copy's own that are told apart; no pipeline has more stages


def while_pending(cfg: Cfg, copy: int) -> Iterator[tuple[int, int | None]]:
    """What the thread executes before a wait that covers a copy: the instruction, and how many
    times the innermost loop around the copy has gone round since; None where that is not known, or
    another has gone round."""
    header = cfg.loop_of.get(cfg.block_of[copy])
    work: list[tuple[int, int, int, int | None]] = [(copy + 1, cfg.block_of[copy], 0, 0)]
    seen: set[tuple[int, int, int, int | None]] = set()
    told: set[tuple[int, int | None]] = set()
    while work:
        index, number, groups, rounds = work.pop()
        if (index, number, groups, rounds) in seen:
            continue
        seen.add((index, number, groups, rounds))
        if index >= cfg.blocks[number].end:
            for after in cfg.blocks[number].successors:
                work.append((cfg.blocks[after].start, after, groups, rounds))
                if (number, after) in cfg.retreating:
                    more = rounds is not None and after == header and rounds < MOST_ROUNDS
                    onward = (rounds or 0) + 1 if more else None
                    work[-1] = (cfg.blocks[after].start, after, groups, onward)
            continue
        instruction = cfg.instructions[index]
        if _covers(instruction, groups):
            continue
        if (index, rounds) not in told:
            told.add((index, rounds))
            yield index, rounds
        if "commit_group" in instruction.modifiers and instruction.guard is None:
            groups = min(groups + 1, _MOST_GROUPS)
        work.append((index + 1, number, groups, rounds))


def _covers(instruction: Instruction, groups: int) -> bool:
    """Does it wait for a copy, since which so many groups were committed?"""
    if (
        instruction.opcode != "cp"
        or instruction.guard is not None
        or "bulk" in instruction.modifiers
    ):
        return False
    if "wait_all" in instruction.modifiers:
        return True
    if "wait_group" not in instruction.modifiers or not instruction.operands:
        return False
    left = instruction.operands[0]
    return isinstance(left, Int) and groups > left.value


def beyond(
    intervals: Intervals, copy: int, wanted: Container[int]
) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """The instructions that other threads may execute behind a barrier which the thread of a copy
    passes while that lasts, up to the next barrier; each with how much higher the counts of loops,
    by header, are then than they were at the copy."""
    cfg, segments = intervals.cfg, intervals.segments
    own = cfg.loops_around(cfg.block_of[copy])
    told: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
    for index, rounds in while_pending(cfg, copy):
        segment = segments.all[segments.of[index]]
        behind = [e.to for e in segment.edges if e.event == (BARRIER, index) and e.to is not None]
        for place in (p for to in behind for p in intervals.from_barrier(segment.block, to)):
            counters = []
            for at, header in enumerate(intervals.loops):
                count = place.counts[at]
                if rounds is None or header not in own or count is None or count.since != HERE:
                    continue
                inner = rounds if header == cfg.loop_of[cfg.block_of[copy]] else 0
                counters.append((header, inner + count.rounds))
            reached = segments.all[place.segment]
            for other in range(reached.start, reached.end):
                key = other, tuple(counters)
                if other in wanted and key not in told:
                    told.add(key)
                    yield key
