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
        self._wholes: dict[int, tuple[int, int]] = {}

    def at(self, position: int) -> int:
        """The set of equations that hold before the instruction at a position."""
        if position >= self._count:
            block = next((b for b in self._cfg.blocks if b.start == position), None)
            return self._entry.get(block.number, 0) if block is not None else 0
        number = self._cfg.block_of[position]
        left, added = self._through(number, position)
        return self._entry.get(number, 0) & left | added

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
    def _occurrences(self) -> Mapping[Reg, list[int]]:
        """The equations in which a register occurs."""
        cfg, numbers = self._cfg, defaultdict[Reg, list[int]](list)
        for index, instruction in enumerate(cfg.instructions):
            if self._equation[index] == index:
                for reg in {*cfg.written[index], *cfg.read[index]}:
                    numbers[reg].append(index)
            elif ends_block(instruction) and instruction.guard is not None:
                taken = self._count + 2 * index
                numbers[instruction.guard.reg] += (taken, taken + 1)
        return numbers

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

    def _through(self, number: int, end: int) -> tuple[int, int]:
        """From the start of a block to a position in it: the equations that are left, and those
        that are made. Sets of single instructions would take the square of a long block."""
        cfg, size = self._cfg, 3 * self._count // 8 + 1
        left, added = bytearray(b"\xff" * size), bytearray(size)
        later: set[Reg] = set()  # written behind
        for index in range(end - 1, cfg.blocks[number].start - 1, -1):
            written, equation = cfg.written[index], self._equation[index]
            if (
                equation is not None
                and later.isdisjoint(written)
                and later.isdisjoint(cfg.read[index])
            ):
                added[equation >> 3] |= 1 << (equation & 7)
            later.update(written)
        for reg in later:
            for equation in self._occurrences.get(reg, ()):
                left[equation >> 3] &= ~(1 << (equation & 7))
        return int.from_bytes(left, "little"), int.from_bytes(added, "little")

    def _whole(self, number: int) -> tuple[int, int]:
        """The same to the end of a block."""
        if number not in self._wholes:
            self._wholes[number] = self._through(number, self._cfg.blocks[number].end)
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
