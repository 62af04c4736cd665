"""Threads that part at branches and meet again where their paths join."""

from __future__ import annotations

import numpy as np

from ptxsw.ptx.ir import Symbol
from ptxsw.simt.chunk import Chunk, Geometry
from ptxsw.simt.code import Code
from ptxsw.simt.counters import Counters, Recorder
from ptxsw.simt.program import Program
from ptxsw.simt.races import Races
from ptxsw.simt.schedule import Schedule
from ptxsw.simt.spinning import Spinning
from ptxsw.simt.state import Array, AsyncCopy, Fragment, Frame, Index, Join, union


class Threads(Chunk):
    """The threads of a chunk that have not ended, in fragments; and who watches them."""

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        first: int,
        blocks: int,
        schedule: Schedule,
        counters: Counters | None,
        races: Races | None,
    ) -> None:
        super().__init__(program, geometry, first, blocks)
        self.schedule, self.counters, self.races = schedule, counters, races
        self.recorder: Recorder | None = None
        self.spinning = Spinning()
        self.alive = self.within < geometry.threads
        self.alive_bits = self._alive_bits()
        self.runnable: list[Fragment] = []
        self.joins: dict[Join, None] = {}  # with threads that have arrived
        self.printed: list[str] = []
        self.copies: list[AsyncCopy] = []

    def go(self, fragment: Fragment, idx: Index, pc: int) -> None:
        """Some threads of a fragment go on at another place."""
        tag = fragment.tag
        if self.schedule.tracking and tag:
            tag = code_tag(fragment.frame.code, tag, fragment.pc, pc)
        elif self.schedule.tracking:
            tag = code_tag(fragment.frame.code, (), fragment.pc, pc)
        onward = Fragment(fragment.frame, pc, idx, fragment.join, tag)
        if pc <= fragment.pc and self.steps >= self.spinning.due:
            self.spinning.jumped(self, self.steps, onward, pc)
        self.runnable.append(onward)

    def part_at(self, fragment: Fragment, meet: int | None) -> None:
        """The fragment's threads are about to part; those that part meet again at `meet`."""
        if meet is None:
            return
        join = fragment.join
        if join is not None and join.frame is fragment.frame and join.pc == meet:
            return  # all of them wait there anyway
        fragment.join = Join(meet, fragment.frame, fragment.count, join)

    def arrive(self, fragment: Fragment) -> None:
        """A fragment has come to where it meets the others it parted from."""
        join = fragment.join
        assert join is not None
        join.pending -= fragment.count
        join.tag = fragment.tag
        if join.pending and not self.schedule.waits():
            join.passed.append(fragment.idx)
            self.runnable.append(
                Fragment(join.frame, join.pc, fragment.idx, join.parent, fragment.tag)
            )
            return
        join.arrived.append(fragment.idx)
        self.joins[join] = None
        if not join.pending:
            self.release(join)

    def release(self, join: Join) -> None:
        """Those that have arrived go on; those that have not will come alone."""
        self.joins.pop(join, None)
        if join.arrived:
            idx = union(join.arrived)
            join.arrived = []
            if join.pending:
                join.passed.append(idx)
            self.runnable.append(Fragment(join.frame, join.pc, idx, join.parent, join.tag))

    def gone_past(self, fragment: Fragment) -> tuple[Index, int, Join] | None:
        """Lanes that parted from a fragment, have come to where they were to meet it, and went on
        without it; a thread of the fragment whose warp they are of, and the place. Lanes that
        only end there have returned early: nobody waits for those."""
        join = fragment.join
        while join is not None:
            if join.passed and not _ends(join.frame, join.pc):
                passed = union(join.passed)
                lanes = passed[np.isin(passed >> 5, fragment.warps)]
                if len(lanes):
                    beside = fragment.idx >> 5 == lanes[0] >> 5
                    return lanes, int(fragment.idx[np.argmax(beside)]), join
            join = join.parent
        return None

    def forget(self, join: Join | None, count: int, until: Join | None) -> None:
        """So many threads will not come to the joins from `join` to before `until`."""
        while join is not None and join is not until:
            join.pending -= count
            if not join.pending:
                self.release(join)
            join = join.parent

    def let_others_by(self) -> None:
        """A fragment has run for long while others wait at joins: they need not wait."""
        for join in list(self.joins):
            self.release(join)

    def _alive_bits(self) -> Array:
        """The lanes of each warp that have not ended."""
        weights = np.uint32(1) << np.arange(32, dtype=np.uint32)
        bits: Array = self.alive.reshape(-1, 32) @ weights
        return bits.astype(np.uint32)


def _ends(frame: Frame, pc: int) -> bool:
    """Does a kernel do nothing more from a place on?"""
    code, seen = frame.code, 0
    while frame.caller is None and pc < len(code.instructions) and seen < 8:
        instruction = code.instructions[pc]
        if instruction.opcode != "bra" or instruction.guard is not None:
            return instruction.opcode in ("ret", "exit") and instruction.guard is None
        (target,) = (o for o in instruction.operands if isinstance(o, Symbol))
        pc, seen = code.labels[target.name, target.scope], seen + 1
    return frame.caller is None and pc >= len(code.instructions)


def code_tag(
    code: Code, tag: tuple[tuple[int, int], ...], pc: int, target: int
) -> tuple[tuple[int, int], ...]:
    """How often each loop around `target` has been entered anew: the iterations a thread is in."""
    if target >= len(code.instructions):
        return ()
    cfg = code.cfg
    source, block = cfg.block_of[pc], cfg.block_of[target]
    attributes = dict(tag)
    counts = []
    for header in reversed(cfg.loops_around(block)):
        count = attributes.get(header, 0)
        if (
            header == block
            and target == cfg.blocks[block].start
            and source in cfg.loops[header].blocks
        ):
            count += 1
        counts.append((header, count))
    return tuple(counts)
