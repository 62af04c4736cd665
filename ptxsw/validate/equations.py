"""What is true of registers at a place in the text, whatever path led there.

An instruction `r = f(a, b)` makes the equation `r == f(a, b)`, which holds until r, a or b is
written. A guarded branch makes the equation `p` or `not p` on its edges, which holds until p is
written. Equations that hold on all paths to a place are found as available expressions are: a
forward must-analysis over bit sets. What two paths compute alike, as the copies of code that stands
twice do, is one equation, and holds where they meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import and_

from ptxsw.analysis.instruction_kinds import is_equation
from ptxsw.flow.cfg import Cfg, ends_block
from ptxsw.flow.dataflow import forward, writers
from ptxsw.ir import Reg


class Equations:
    """The equations of one body. They are numbered: that of instruction i is the first place with
    the same instruction; those of the branch i on its taken and fallen edge are n + 2i and
    n + 2i + 1."""

    def __init__(self, cfg: Cfg) -> None:
        self._cfg = cfg
        self._count = len(cfg.instructions)
        self._all = (1 << 3 * self._count) - 1  # one bit for each instruction, two for each branch
        self._wholes: dict[int, tuple[int, int]] = {}

    def at(self, position: int) -> int:
        """The set of equations that hold before the instruction at a position."""
        if position >= self._count:
            block = next((b for b in self._cfg.blocks if b.start == position), None)
            return self._entry.get(block.number, 0) if block is not None else 0
        number = self._cfg.block_of[position]
        return self._through(number, self._entry.get(number, 0), position)

    def writer(self, held: int, reg: Reg) -> int | None:
        """The instruction whose equation in the set `held` tells a register's value, or the first
        of several that are the same."""
        return next((i for i in self._writers.get(reg, ()) if held >> i & 1), None)

    def branches(self, held: int) -> Iterator[tuple[Reg, bool]]:
        """Predicates whose value is known from branches, each with that value."""
        held >>= self._count
        while held:
            bit = (held & -held).bit_length() - 1
            held &= held - 1
            guard = self._cfg.instructions[bit >> 1].guard
            assert guard is not None
            yield guard.reg, (bit & 1 == 0) != guard.negated

    def conversions(self, held: int) -> Iterator[int]:
        """The instructions `cvta.to` whose equations hold."""
        return (i for i in self._conversions if held >> i & 1)

    @cached_property
    def _conversions(self) -> tuple[int, ...]:
        return tuple(
            i
            for i, ins in enumerate(self._cfg.instructions)
            if ins.opcode == "cvta" and "to" in ins.modifiers and self._equation[i] == i
        )

    @cached_property
    def _writers(self) -> Mapping[Reg, list[int]]:
        firsts = (index for index, number in enumerate(self._equation) if number == index)
        return writers(self._cfg.written, firsts)

    @cached_property
    def _kills(self) -> Mapping[Reg, int]:
        """The equations in which a register occurs."""
        bits: defaultdict[Reg, int] = defaultdict(int)
        for index, instruction in enumerate(self._cfg.instructions):
            if self._equation[index] == index:
                for reg in {*self._cfg.written[index], *self._cfg.read[index]}:
                    bits[reg] |= 1 << index
            elif ends_block(instruction) and instruction.guard is not None:
                bits[instruction.guard.reg] |= 3 << (self._count + 2 * index)
        return bits

    @cached_property
    def _equation(self) -> Sequence[int | None]:
        """The number of the equation that each instruction makes. None: it makes none."""
        first: dict[tuple[object, ...], int] = {}
        cfg = self._cfg
        each = zip(cfg.instructions, cfg.written, cfg.read, strict=True)
        return [
            first.setdefault((ins.opcode, ins.modifiers, ins.operands), index)
            if is_equation(ins, written, read)
            else None
            for index, (ins, written, read) in enumerate(each)
        ]

    @cached_property
    def _steps(self) -> Sequence[tuple[int, int]]:
        """For each instruction the equations that it leaves, and the one that it makes."""
        kills = self._kills
        steps = []
        for index, written in enumerate(self._cfg.written):
            ended = 0
            for reg in written:
                ended |= kills.get(reg, 0)
            number = self._equation[index]
            steps.append((~ended, 0 if number is None else 1 << number))
        return steps

    def _through(self, number: int, held: int, end: int) -> int:
        """The equations that hold at a position in a block, from those at its start."""
        for left, added in self._steps[self._cfg.blocks[number].start : end]:
            held = held & left | added
        return held

    def _whole(self, number: int) -> tuple[int, int]:
        """For a block the equations that it leaves, and those that it makes."""
        # Run from nothing a block shows what it makes, run from everything what it leaves: then
        # `held & left | added` is its effect on any set.
        if number not in self._wholes:
            added = self._through(number, 0, self._cfg.blocks[number].end)
            self._wholes[number] = (
                self._through(number, self._all, self._cfg.blocks[number].end),
                added,
            )
        return self._wholes[number]

    @cached_property
    def _entry(self) -> Mapping[int, int]:
        """The equations at the start of each block that is reached."""
        return forward(self._cfg, 0, self._behind, and_)

    def _behind(self, number: int, held: int) -> Iterator[tuple[int, int]]:
        """The equations that hold on the edges behind a block, from those at its start."""
        block = self._cfg.blocks[number]
        left, added = self._whole(number)
        held = held & left | added
        return ((after, held | self._decided(number, after)) for after in block.successors)

    def _decided(self, number: int, successor: int) -> int:
        """The equation that a branch at the end of a block makes on one of its edges."""
        block = self._cfg.blocks[number]
        if block.end == block.start:
            return 0
        last = self._cfg.instructions[block.end - 1]
        if last.guard is None or last.opcode == "brx" or not ends_block(last):
            return 0
        fallen = 1
        if last.opcode == "bra":
            # A branch to the next instruction decides nothing: both edges are one.
            if len(block.successors) != 2:
                return 0
            fallen = block.successors.index(successor)
        return 1 << (self._count + 2 * (block.end - 1) + fallen)
