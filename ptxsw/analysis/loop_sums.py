"""What an innermost loop computes with, as sums of registers as they are when an iteration begins.

The symbolic run has gone through one iteration, with an atom for each register that enters it. A
register that is set before the loop, once and by sums, is written out here: `i + n - 1` and `i + n`
are then seen to be 1 apart. All that can be written as code before the loop is a sum of registers,
of indices extended to 64 bits, and of products of two of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cached_property

from msgspec import Struct

from ptxsw.emulator.recurrences import LoopFacts
from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import in_order
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Mem, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, factors, split
from ptxsw.terms.origin import Origin
from ptxsw.terms.substitution import substitute

_SUMS = frozenset({"add", "cvt", "mad", "mov", "mul", "neg", "or", "shl", "sub"})
_MAX_DEPTH = 24


class LoopAccess(Struct, frozen=True):
    """A load or store of the loop, and its address."""

    index: int
    operand: Mem
    address: Term


class LoopSums:
    """One iteration of an innermost loop. `registers` names the register that an atom is as an
    iteration begins; other atoms are computed in the loop. What the loads `invariant` read is the
    same in all iterations, and stands in these registers as the first one begins."""

    def __init__(
        self, trace: Trace, loop: Loop, invariant: Mapping[int, Reg] | None = None
    ) -> None:
        self.terms = trace.terms
        self._cfg, self._loop, self._trace = trace.cfg, loop, trace
        self._facts: LoopFacts = trace.loop_facts[loop.header]
        self._set_inside = {
            r for at in self._cfg.indices(loop.blocks) for r in self._cfg.written[at]
        }
        self._machine = SymbolicMachine(trace.module, trace.function, self.terms)
        self._entered: dict[Reg, Term] = {}
        self._memo: dict[Term, Term] = {}
        self._by_atom = {atom: reg for reg, atom in self._facts.entry.items()}
        self.registers: dict[Term, Reg] = {}
        for reg in self._facts.entry:
            self._entering(reg)
        self._loaded: dict[Term, Term] = {}
        for at, reg in (invariant or {}).items():
            self._load_once(at, reg)

    @cached_property
    def places(self) -> list[LoopAccess]:
        """The accesses of an iteration, in order."""
        places = []
        for at, address in self._facts.addresses.items():
            operands = self._cfg.instructions[at].operands
            memory = next((operand for operand in operands if type(operand) is Mem), None)
            if memory is not None:
                places.append(LoopAccess(at, memory, self._read(address)))
        return places

    @cached_property
    def values(self) -> dict[int, Term]:
        """What an instruction leaves in its only register."""
        return {at: self._read(value) for at, value in self._facts.values.items()}

    @cached_property
    def again(self) -> Term | None:
        """The condition under which an iteration is followed by another, where one branch at its
        end decides."""
        return None if self._facts.again is None else self._read(self._facts.again)

    @property
    def again_by_count(self) -> Term | None:
        """The same as what held before any iteration but the first, over the count of those before
        it and values from before the loop; None where that depends on how the loop is entered."""
        entries = self._trace.entries.get(self.terms.iteration(self._facts.label), ())
        return entries[0].again if len(entries) == 1 else None

    def changes(self, atom: Term) -> bool:
        """May an atom be another value in another iteration?"""
        return self.registers.get(atom) is None or self.registers[atom] in self._set_inside

    def is_set_inside(self, register: Reg) -> bool:
        """Does an instruction of the loop set a register?"""
        return register in self._set_inside

    def step(self, term: Term) -> Term | None:
        """What a sum of registers grows by in an iteration, if that is the same in all
        iterations."""
        total = self.terms.const(0, term.width)
        for part, factor in split(term)[1]:
            if self.stays(part):
                continue
            grown = self._facts.steps.get(self.registers[part]) if part in self.registers else None
            grown = None if grown is None else self._read(grown)
            if grown is None or not self.stays(grown):
                return None
            total = self.terms.add(total, self.terms.scale(grown, factor))
        return total

    def stays(self, term: Term) -> bool:
        """Is it a sum of registers that no iteration changes, of such that are extended, or of
        products of these?"""
        return all(not self.changes(atom) for atom in _atoms(term))

    def _read(self, term: Term) -> Term:
        """A value of an iteration, its registers written out."""
        return substitute(self.terms, term, self._written_out, self._memo)

    def _load_once(self, at: int, register: Reg) -> None:
        """A register holds what a load leaves. Several of one register leave the same."""
        load = self._facts.values[at]
        atom = self._loaded[load] = self._before(register, load.width)
        self.registers[atom] = register
        self._memo.clear()

    def _before(self, register: Reg, width: int) -> Term:
        """What a register holds as an iteration begins."""
        name = f"before({self._facts.label}, {register.name}@{register.scope})"
        return self.terms.atom(name, width, Variance.LANE, None, Origin.ENTRY)

    def _written_out(self, node: Term) -> Term | None:
        if node in self._loaded:
            return self._loaded[node]
        reg = self._by_atom.get(node)
        return None if reg is None else self._entered[reg]

    # ------------------------------------------------------------ before the loop

    def _entering(self, reg: Reg, depth: int = 0) -> Term:
        """What a register holds as an iteration begins: an atom, or what it was set to before."""
        value = self._entered.get(reg)
        if value is None:
            value = None if reg in self._set_inside else self._set_before(reg, depth)
            if value is None:
                value = self._facts.entry.get(reg)
                if value is None:
                    value = self._before(reg, self._machine.width(reg))
                self.registers[value] = reg
            self._entered[reg] = value
        return value

    def _set_before(self, reg: Reg, depth: int) -> Term | None:
        """The sum that a register was set to, once and for all, of others that are set once."""
        index = self._only_writer(reg)
        if index is None or depth > _MAX_DEPTH:
            return None
        instruction = self._cfg.instructions[index]
        if instruction.opcode not in _SUMS or len(self._cfg.written[index]) != 1:
            return None
        if any(self._only_writer(read) is None for read in self._cfg.read[index]):
            return None
        read = in_order(set(self._cfg.read[index]))  # sums are in the order that atoms are made in
        state = State({reg: self._entering(reg, depth + 1) for reg in read})
        step = self._trace.steps[index]
        if step is None or not step.dests:
            step = self._machine.prepare(instruction, frozenset({reg}))
        if step is None:
            return None
        self._machine.run(step, state, index)
        value = state.env[reg]
        parts = split(value)[1]
        if value.width not in (32, 64) or any(part.kind is op.MUL for part, _ in parts):
            return None
        return value if parts and all(a in self.registers for a in _atoms(value)) else None

    def _only_writer(self, reg: Reg) -> int | None:
        """The one unguarded instruction that sets a register, if every way to the loop passes it.
        Others may set it where control never comes to the loop, as in a copy of the kernel."""
        cfg, header = self._cfg, self._loop.header
        ats = cfg.writers.get(reg, ())
        if len(ats) > 1:
            ats = [at for at in ats if cfg.block_of[at] in self._blocks_before]
        if len(ats) != 1:
            return None
        number = cfg.block_of[ats[0]]
        passed = number != header and number in cfg.rank and cfg.dominates(number, header)
        return ats[0] if passed and cfg.instructions[ats[0]].guard is None else None

    @cached_property
    def _blocks_before(self) -> Set[int]:
        """The blocks from which control may come to the loop."""
        return self._cfg.reaching([self._loop.header]) & self._cfg.rank.keys()


def _atoms(term: Term) -> Iterator[Term]:
    """What a sum is made of: registers, those of extended indices and of products of 64 bits, too,
    and whatever is none of these as a whole."""
    for part, _ in split(term)[1]:
        for one in factors(part) if term.width == 64 else (part,):
            if one.kind in op.EXTENSIONS and one.args[0].width == 32:
                yield from (inner for inner, _ in split(one.args[0])[1])
            else:
                yield one
