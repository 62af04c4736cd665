"""What a loop of one block computes with: sums of registers as they are when a turn begins.

The block is run once over an atom for each register that comes into it. What is set before the
loop, once and by sums, is written out: `i + n - 1` and `i + n` are then seen to be 1 apart.
Whatever is no sum of registers, or of indices that are extended to 64 bits, is an atom of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from ptxsw import isa
from ptxsw.emulator.node import Term, Variance, split
from ptxsw.emulator.state import State, SymbolicMachine
from ptxsw.emulator.terms import Terms
from ptxsw.flow.cfg import Cfg, Loop
from ptxsw.flow.dataflow import CARRY, defs, read_first, uses
from ptxsw.ir import Function, Instruction, Mem, Module, Reg

_SUMS = frozenset({"add", "cvt", "mad", "mov", "mul", "neg", "or", "shl", "sub"})
_MAX_DEPTH = 24
_MAX_ITEMS = 12


class Place(Struct, frozen=True):
    """A load or store of the loop, and its address."""

    index: int
    operand: Mem
    address: Term


class LoopSums:
    """One turn of a loop. `registers` names the register that an atom is as a turn begins; atoms
    that are not in it are computed in the loop."""

    def __init__(self, module: Module, function: Function, cfg: Cfg, loop: Loop) -> None:
        self.terms = Terms()
        self.registers: dict[Term, Reg] = {}
        self.places: list[Place] = []
        self._cfg, self._loop = cfg, loop
        self._block = cfg.blocks[loop.header]
        self._machine = SymbolicMachine(module, function, self.terms)
        self._set_inside = {r for i in self._instructions for r in defs(i)}
        self._known: dict[Reg, Term] = {}
        self._state = State({})
        self._run()

    @property
    def _instructions(self) -> tuple[Instruction, ...]:
        return self._cfg.instructions[self._block.start : self._block.end]

    def at_end(self, reg: Reg) -> Term:
        """What a register holds when a turn ends."""
        found = self._state.env.get(reg)
        return self._entering(reg) if found is None else found

    def changes(self, atom: Term) -> bool:
        """May an atom be another value in another turn?"""
        return self.registers.get(atom) is None or self.registers[atom] in self._set_inside

    def step(self, term: Term) -> Term | None:
        """What a sum of registers grows by in a turn, if that is the same in all turns."""
        total = self.terms.const(0, term.width)
        for atom, factor in split(term)[1]:
            if not self.changes(atom):
                continue
            if atom not in self.registers:
                return None
            grown = self.terms.sub(self.at_end(self.registers[atom]), atom)
            if not self.stays(grown):
                return None
            total = self.terms.add(total, self.terms.scale(grown, factor))
        return total

    def stays(self, term: Term) -> bool:
        """Is it a sum of registers that no turn changes?"""
        return all(atom in self.registers and not self.changes(atom) for atom, _ in split(term)[1])

    # ------------------------------------------------------------ running

    def _run(self) -> None:
        for reg in read_first(self._instructions):
            self._state.env[reg] = self._entering(reg)
        everything = frozenset(self._state.env) | self._set_inside
        for index in range(self._block.start, self._block.end):
            instruction = self._cfg.instructions[index]
            memory = next((o for o in instruction.operands if isinstance(o, Mem)), None)
            if memory is not None:
                address = self._machine.address(self._state, memory)
                self.places.append(Place(index, memory, address))
            self._step(instruction, index, self._state, everything)

    def _step(
        self, instruction: Instruction, index: int, state: State, tracked: frozenset[Reg]
    ) -> None:
        """Run what computes; of what else is written nothing is known."""
        written = [r for r in defs(instruction) if r is not CARRY]
        pure = not isa.effects(instruction.opcode, instruction.modifiers)
        if pure and isa.space(instruction) is None and isa.known(instruction):
            step = self._machine.prepare(instruction, tracked)
            if step is not None:
                self._machine.run(step, state, index)
        else:
            for reg in written:
                state.env.pop(reg, None)
        for reg in written:
            value = state.env.get(reg)
            if value is None or not (value.width == 1 or self._is_sum(value)):
                name = f"{reg.name} at {index}"
                width = self._machine.width(reg)
                state.env[reg] = self.terms.atom(name, width, Variance.LANE)

    def _is_sum(self, term: Term) -> bool:
        items = split(term)[1]
        return len(items) <= _MAX_ITEMS and all(
            part.kind == "atom" or (part.kind in ("zext", "sext") and self._is_index(part.args[0]))
            for part, _ in items
        )

    def _is_index(self, term: Term) -> bool:
        return term.width == 32 and all(part.kind == "atom" for part, _ in split(term)[1])

    # ------------------------------------------------------------ before the loop

    def _entering(self, reg: Reg, depth: int = 0) -> Term:
        """What a register holds as a turn begins: an atom, or what it was set to before."""
        found = self._known.get(reg)
        if found is None:
            found = None if reg in self._set_inside else self._written_out(reg, depth)
            if found is None:
                name = f"{reg.name}@{reg.scope}" if reg.scope else reg.name
                found = self.terms.atom(name, self._machine.width(reg), Variance.LANE)
                self.registers[found] = reg
            self._known[reg] = found
        return found

    def _written_out(self, reg: Reg, depth: int) -> Term | None:
        """The sum that a register was set to, once and for all, of others that are set once."""
        index = self._only_set.get(reg)
        if index is None or depth > _MAX_DEPTH:
            return None
        instruction = self._cfg.instructions[index]
        if instruction.opcode not in _SUMS or len(defs(instruction)) != 1:
            return None
        if not all(read in self._only_set for read in uses(instruction)):
            return None
        state = State({read: self._entering(read, depth + 1) for read in uses(instruction)})
        step = self._machine.prepare(instruction, frozenset({reg}))
        if step is None:
            return None
        self._machine.run(step, state, index)
        value = state.env[reg]
        known = value.width in (32, 64) and self._is_sum(value) and not _is_number(value)
        return value if known and all(a in self.registers for a in _atoms(value)) else None

    @cached_property
    def _only_set(self) -> Mapping[Reg, int]:
        """Registers that one unguarded instruction sets, which every way to the loop passes."""
        found: dict[Reg, int] = {}
        for index, instruction in enumerate(self._cfg.instructions):
            for reg in defs(instruction):
                found[reg] = -1 if reg in found or instruction.guard is not None else index
        blocks, header = self._cfg.block_of, self._loop.header
        reached = self._cfg.rank
        return {
            reg: at
            for reg, at in found.items()
            if at >= 0 and blocks[at] in reached and blocks[at] != header
            and self._cfg.dominates(blocks[at], header)
        }  # fmt: skip


def _is_number(term: Term) -> bool:
    return term.kind == "const"


def _atoms(term: Term) -> Iterator[Term]:
    """The atoms of a sum, those of extended indices, too."""
    for part, _ in split(term)[1]:
        yield from _atoms(part.args[0]) if part.kind in ("zext", "sext") else (part,)
