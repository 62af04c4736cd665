"""What is true of registers at a place in the text, whatever path led there.

An instruction `r = f(a, b)` makes the equation `r == f(a, b)`, which holds until r, a or b is
written. A guarded branch makes the equation `p` or `not p` on its edges, which holds until p is
written. A store to [a] of r makes one that says where r was stored, until r or a is written: what
memory holds by then it does not tell. Equations that hold on all paths to a place are found as
available expressions are: a forward must-analysis over bit sets. What two paths compute alike, as
the copies of code that stands twice do, is one equation, and holds where they meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import and_

from ptxsw.analysis.instruction_kinds import Kind, is_equation, kinds
from ptxsw.flow.cfg import Cfg, ends_block
from ptxsw.flow.dataflow import ForwardAnalysis
from ptxsw.ptx.ir import Reg


class Equations:
    """The equations of one body. They are numbered: that of instruction i is the first place with
    the same instruction; those of the branch i on its taken and fallen edge are n + 2i and
    n + 2i + 1. Blocks are looked at when it is asked what holds behind them."""

    def __init__(self, cfg: Cfg) -> None:
        self._cfg = cfg
        self._count = len(cfg.instructions)
        self._blocks = _Blocks(cfg)
        self._entry = ForwardAnalysis(cfg, 0, self._blocks.behind, and_)

    def at(self, position: int) -> int:
        """The set of equations that hold before the instruction at a position."""
        if position >= self._count:
            block = next((b for b in self._cfg.blocks if b.start == position), None)
            return self._begins_with(block.number) if block is not None else 0
        number = self._cfg.block_of[position]
        held = self._begins_with(number)
        if position == self._cfg.blocks[number].start:
            return held
        self._blocks.number([number])
        left, added = self._blocks.through(number, position)
        return held & left | added

    def _begins_with(self, number: int) -> int:
        """The equations at the start of a block, if it is reached. What comes from one block may
        end in another, so all that control may come from are numbered first."""
        before = self._cfg.predecessors[number]
        self._blocks.number(self._cfg.reaching(before, barred=self._blocks.numbered))
        return self._entry.at(number) or 0

    def writer(self, held: int, reg: Reg) -> int | None:
        """The instruction whose equation in the set `held` tells a register's value, or the first
        of several that are the same."""
        writers = self._blocks.writers.get(reg, ())
        if len(writers) == 1:  # mostly
            return writers[0] if held >> writers[0] & 1 else None
        return min((i for i in writers if held >> i & 1), default=None)

    def stored(self, held: int, reg: Reg) -> int | None:
        """The last store of a register among those in the set `held`."""
        return max((i for i in self._blocks.stores.get(reg, ()) if held >> i & 1), default=None)

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
        return (i for i in sorted(self._blocks.conversions) if held >> i & 1)


class _Blocks:
    """What blocks do to the sets of equations that control brings: those that are `numbered`, with
    all that they come from. `writers`, `stores` and `conversions` are the first of several that are
    the same."""

    def __init__(self, cfg: Cfg) -> None:
        self._cfg = cfg
        self._count, self._kinds = len(cfg.instructions), kinds(cfg)
        self._wholes: dict[int, tuple[int, int]] = {}
        self.numbered: set[int] = set()
        self.writers: dict[Reg, list[int]] = {}
        self.conversions: list[int] = []
        self.stores: dict[Reg, list[int]] = {}  # by the register that is stored
        self._first: dict[tuple[object, ...], int] = {}
        self._equation: dict[int, int] = {}  # that each instruction makes, if it makes one
        self._occurrences: dict[Reg, list[int]] = {}  # equations in which a register occurs

    def number(self, blocks: Iterable[int]) -> None:
        """Number the equations of some blocks."""
        for number in sorted(set(blocks) - self.numbered):
            self.numbered.add(number)
            block = self._cfg.blocks[number]
            for index in range(block.start, block.end):
                self._number_instruction(index)

    def _number_instruction(self, index: int) -> None:
        ins, written = self._cfg.instructions[index], self._cfg.written[index]
        read, occurrences = self._cfg.read[index], self._occurrences
        stored = self._stored(index)
        if stored is not None or is_equation(ins, self._kinds[index], written, read):
            name = ins.opcode, ins.modifiers, ins.operands
            equation = self._equation[index] = self._first.setdefault(name, index)
            if equation != index:
                return
            for reg in {*written, *read}:
                occurrences.setdefault(reg, []).append(index)
            for reg in written:
                self.writers.setdefault(reg, []).append(index)
            if stored is not None:
                self.stores.setdefault(stored, []).append(index)
            if ins.opcode == "cvta" and "to" in ins.modifiers:
                self.conversions.append(index)
        elif ins.guard is not None and ends_block(ins):
            taken = self._count + 2 * index
            occurrences.setdefault(ins.guard.reg, []).extend((taken, taken + 1))

    def _stored(self, index: int) -> Reg | None:
        """The register that a plain store surely puts into memory."""
        ins = self._cfg.instructions[index]
        if self._kinds[index] is not Kind.STORE or ins.guard is not None:
            return None
        value = ins.operands[-1]
        return value if isinstance(value, Reg) else None

    def through(self, number: int, end: int) -> tuple[int, int]:
        """From the start of a block to a position in it: the equations that are left, and those
        that are made. Sets of single instructions would take the square of a long block."""
        cfg, size = self._cfg, 3 * self._count // 8 + 1
        left, added = bytearray(b"\xff" * size), bytearray(size)
        later: set[Reg] = set()  # written behind
        for index in range(end - 1, cfg.blocks[number].start - 1, -1):
            written, equation = cfg.written[index], self._equation.get(index)
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
            self._wholes[number] = self.through(number, self._cfg.blocks[number].end)
        return self._wholes[number]

    def behind(self, number: int, held: int) -> Iterator[tuple[int, int]]:
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
