"""How long an asynchronous copy lasts: until its thread has waited for it.

cp.async.ca.shared.global [%r1], [%rd1], 4;
cp.async.commit_group;
bar.sync 0;                         passed while it lasts: nothing orders it with what others do
ld.shared.f32 %f1, [%r2];           behind this barrier
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.correctness.may_happen_in_parallel import (
    AHEAD,
    HERE,
    MOST_ROUNDS,
    SECOND,
    Intervals,
    IterationFact,
    Reached,
)
from ptxsw.correctness.segments import BARRIER
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Instruction, Int

_MOST_GROUPS = 9  # behind a copy's own that are told apart; no pipeline has more stages

_Entered = tuple[tuple[int, int | None], ...]
"""By the headers of loops how often these were gone round; None: too often to count."""


class Pending(Struct, frozen=True):
    """Where a thread is while a copy of its lasts. `rounds`: how often the innermost loop around
    the copy has gone round since; None where that is not known, or another has gone round.
    `entered` are the loops that the thread has come into since."""

    index: int
    block: int
    groups: int = 0
    rounds: int | None = 0
    entered: _Entered = ()

    def facts(self, cfg: Cfg, copy: int) -> tuple[IterationFact, ...]:
        """What is known of the counts of loops, of who is there and of the copy."""
        block, rounds = cfg.block_of[copy], self.rounds
        inner = cfg.loop_of.get(block)
        around = cfg.loops_around(block) if rounds is not None else ()
        return (
            *((AHEAD, h, rounds if h == inner and rounds is not None else 0) for h in around),
            *((SECOND, h, count) for h, count in self.entered if count is not None),
        )


def while_pending(cfg: Cfg, copy: int) -> Iterator[Pending]:
    """What the thread executes before a wait that covers a copy."""
    block = cfg.block_of[copy]
    work = [Pending(copy + 1, block)]
    seen: set[Pending] = set()
    told: set[Pending] = set()
    while work:
        at = work.pop()
        if at in seen:
            continue
        seen.add(at)
        if at.index >= cfg.blocks[at.block].end:
            work += (_onward(cfg, block, at, after) for after in cfg.blocks[at.block].successors)
            continue
        instruction = cfg.instructions[at.index]
        if _covers(instruction, at.groups):
            continue
        plain = replace(at, groups=0)
        if plain not in told:
            told.add(plain)
            yield plain
        groups = at.groups
        if "commit_group" in instruction.modifiers and instruction.guard is None:
            groups = min(groups + 1, _MOST_GROUPS)
        work.append(replace(at, index=at.index + 1, groups=groups))


def _onward(cfg: Cfg, copied: int, at: Pending, after: int) -> Pending:
    """A thread that goes on to another block; that of the copy is `copied`."""
    own, entered = cfg.loops_around(copied), dict(at.entered)
    inside = cfg.loops_around(after)
    rounds = at.rounds
    for header in inside:
        if header not in own and header not in cfg.loops_around(at.block):
            entered[header] = 0
    if (at.block, after) in cfg.retreating:
        if after in own:
            again = rounds is not None and after == cfg.loop_of.get(copied)
            rounds = _more(rounds) if again else None
        elif after in entered:
            entered[after] = _more(entered[after])
    kept = tuple(sorted((h, count) for h, count in entered.items() if h in inside))
    return Pending(cfg.blocks[after].start, after, at.groups, rounds, kept)


def _more(count: int | None) -> int | None:
    return None if count is None or count >= MOST_ROUNDS else count + 1


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
) -> Iterator[tuple[int, tuple[IterationFact, ...]]]:
    """The instructions that other threads may execute behind a barrier which the thread of a copy
    passes while that lasts, up to the next barrier; each with what is known of the counts of loops
    then, and at the copy."""
    cfg, segments = intervals.cfg, intervals.segments
    told: set[tuple[int, tuple[IterationFact, ...]]] = set()
    for at in while_pending(cfg, copy):
        segment = segments.all[segments.of[at.index]]
        behind = [
            e.to for e in segment.edges if e.event == (BARRIER, at.index) and e.to is not None
        ]
        for place in (p for to in behind for p in intervals.from_barrier(segment.block, to)):
            facts = tuple(_there(intervals, at.facts(cfg, copy), place))
            reached = segments.all[place.segment]
            for other in range(reached.start, reached.end):
                key = other, facts
                if other in wanted and key not in told:
                    told.add(key)
                    yield key


def _there(
    intervals: Intervals, facts: tuple[IterationFact, ...], place: Reached
) -> Iterator[IterationFact]:
    """What is known at a place behind a barrier, where some facts hold at that."""
    at_barrier: Mapping[int, tuple[str, int]] = {header: (kind, n) for kind, header, n in facts}
    for header, count in zip(intervals.loops, place.counts, strict=True):
        if count is None:
            continue
        if count.since != HERE:
            yield SECOND, header, count.rounds
        elif header in at_barrier:
            kind, number = at_barrier[header]
            yield kind, header, number + count.rounds
