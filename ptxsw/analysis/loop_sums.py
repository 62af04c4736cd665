"""What an innermost loop computes with: sums of registers as they are when an iteration begins.

Its blocks are run once, with an atom for each register that enters an iteration. A register that is
set before the loop, once and by sums, is written out: `i + n - 1` and `i + n` are then seen to be 1
apart. A value that is no sum of registers, of indices extended to 64 bits, or of products of two of
these becomes an atom of its own, and so does one that depends on the path through the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property

from msgspec import Struct

from ptxsw.emulator.state import State, Step
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import CARRY, Facts, closure, in_order
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, factors, split
from ptxsw.terms.terms import Terms

_SUMS = frozenset({"add", "cvt", "mad", "mov", "mul", "neg", "or", "shl", "sub"})
_MAX_DEPTH = 24
_MAX_ITEMS = 12


class LoopAccess(Struct, frozen=True):
    """A load or store of the loop, and its address."""

    index: int
    operand: Mem
    address: Term


class LoopSums:
    """One iteration of an innermost loop. `registers` names the register that an atom is as an
    iteration begins; atoms that are not in it are computed in the loop. Only what addresses and
    branches depend on is run."""

    def __init__(self, trace: Trace, loop: Loop) -> None:
        cfg = trace.cfg
        self.terms = Terms()
        self.registers: dict[Term, Reg] = {}
        self.places: list[LoopAccess] = []
        self.values: dict[int, Term] = {}  # what one of these leaves in its only register
        self._cfg, self._loop, self._trace = cfg, loop, trace
        # In reverse postorder every block but the header comes behind its predecessors: the loop
        # is innermost, so only its own back edges go the other way.
        self._blocks = cfg.in_order(loop.blocks)
        self._machine = SymbolicMachine(trace.module, trace.function, self.terms)
        inside = cfg.indices(self._blocks)
        self._set_inside = {reg for at in inside for reg in cfg.written[at]}
        memory = {at: found for at in inside if (found := _addresses(cfg.instructions[at]))}
        self._needed = closure(cfg, self._roots(memory), inside)
        self._steps: dict[int, list[tuple[int, Mem | None]]] = {n: [] for n in self._blocks}
        for at in inside:
            if at in memory or not self._needed.isdisjoint(cfg.written[at]):
                address = memory[at][0] if at in memory else None
                self._steps[cfg.block_of[at]].append((at, address))
        self._memo: dict[Reg, Term] = {}
        self._ends: dict[int, State] = {}
        for number in self._blocks:
            self._run(number)
        latches = [self._ends[number] for number in loop.latches]
        self._state = self._joined("the end", latches)

    def at_end(self, reg: Reg) -> Term:
        """What a register holds when an iteration ends."""
        value = self._state.env.get(reg)
        return self._entering(reg) if value is None else value

    def at_end_of(self, number: int, reg: Reg) -> Term:
        """What a register holds when one block ends."""
        value = self._ends[number].env.get(reg)
        return self._entering(reg) if value is None else value

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
            if part not in self.registers:
                return None
            grown = self.terms.sub(self.at_end(self.registers[part]), part)
            if not self.stays(grown):
                return None
            total = self.terms.add(total, self.terms.scale(grown, factor))
        return total

    def stays(self, term: Term) -> bool:
        """Is it a sum of registers that no iteration changes, of such that are extended, or of
        products of these?"""
        return all(not self.changes(atom) for atom in _atoms(term))

    # ------------------------------------------------------------ running

    def _roots(self, memory: Mapping[int, Sequence[Mem]]) -> Iterator[Reg]:
        """The registers that addresses begin with, and that branches ask."""
        for addresses in memory.values():
            yield from (address.base for address in addresses if isinstance(address.base, Reg))
        for number in self._blocks:
            block = self._cfg.blocks[number]
            last = self._cfg.instructions[block.end - 1] if block.end > block.start else None
            if last is not None and last.guard is not None and last.opcode in ("bra", "brx"):
                yield last.guard.reg

    def _run(self, number: int) -> None:
        """One block, behind those that come before it."""
        state = State({})
        if number != self._loop.header:
            before = [self._ends[n] for n in self._cfg.predecessors[number]]
            state = self._joined(self._cfg.name(number), before)
        for reg in in_order(self._read_first(number)):
            if reg not in state.env:
                state.env[reg] = self._entering(reg)
        for index, memory in self._steps[number]:
            if memory is not None:
                address = self._machine.address(state, memory)
                self.places.append(LoopAccess(index, memory, address))
            self._step(self._cfg.instructions[index], index, state)
        self._ends[number] = state

    def _read_first(self, number: int) -> set[Reg]:
        """The needed registers that a block may read before it has set them."""
        cfg, needed = self._cfg, self._needed
        registers: set[Reg] = set()
        overwritten: set[Reg] = set()
        for at in cfg.indices([number]):
            registers.update([r for r in cfg.read[at] if r in needed and r not in overwritten])
            overwritten.update(cfg.surely_written[at])
        return registers

    def _joined(self, where: str, states: Sequence[State]) -> State:
        """What is known where control comes from several blocks."""
        if len(states) == 1:
            return State(dict(states[0].env))
        env: dict[Reg, Term] = {}
        for reg in dict.fromkeys(reg for state in states for reg in state.env):
            values = {state.env.get(reg) or self._entering(reg) for state in states}
            width = self._machine.width(reg)
            unknown = self.terms.atom(f"{reg.name} before {where}", width, Variance.LANE)
            env[reg] = values.pop() if len(values) == 1 else unknown
        return State(env)

    def _step(self, instruction: Instruction, index: int, state: State) -> None:
        """Run what computes; of what else is written nothing is known."""
        if self._needed.isdisjoint(self._cfg.written[index]):
            return
        written = [r for r in self._cfg.written[index] if r is not CARRY]
        if _computes(instruction.opcode, instruction.modifiers):
            step = self._prepared(index, self._needed)
            if step is not None:
                self._machine.run(step, state, index)
        else:
            for reg in written:
                state.env.pop(reg, None)
        for reg in written:
            value = state.env.get(reg)
            # Terms stay sums of few atoms; the rest becomes an atom of this instruction.
            if value is None or not (value.width == 1 or self._is_sum(value)):
                name = f"{reg.name} at {index}"
                width = self._machine.width(reg)
                state.env[reg] = self.terms.atom(name, width, Variance.LANE)
        if len(written) == 1:
            self.values[index] = state.env[written[0]]

    def _prepared(self, index: int, needed: Facts) -> Step | None:
        """The step of an instruction, which the symbolic run of the kernel has made, as a rule."""
        step = self._trace.steps[index]
        if step is not None and step.dests:
            return step
        return self._machine.prepare(self._cfg.instructions[index], needed)

    def _is_sum(self, term: Term) -> bool:
        if term.kind is op.ATOM:
            return True
        items = split(term)[1]
        return len(items) <= _MAX_ITEMS and all(
            all(self._is_plain(one) for one in factors(part))
            and (part.kind is not op.MUL or term.width == 64)
            for part, _ in items
        )

    def _is_plain(self, part: Term) -> bool:
        """Is it a register, or an index that is extended?"""
        extended = part.kind in op.EXTENSIONS
        return part.kind is op.ATOM or (extended and self._is_index(part.args[0]))

    def _is_index(self, term: Term) -> bool:
        return term.width == 32 and all(part.kind is op.ATOM for part, _ in split(term)[1])

    # ------------------------------------------------------------ before the loop

    def _entering(self, reg: Reg, depth: int = 0) -> Term:
        """What a register holds as an iteration begins: an atom, or what it was set to before."""
        value = self._memo.get(reg)
        if value is None:
            value = None if reg in self._set_inside else self._written_out(reg, depth)
            if value is None:
                name = f"{reg.name}@{reg.scope}" if reg.scope else reg.name
                value = self.terms.atom(name, self._machine.width(reg), Variance.LANE)
                self.registers[value] = reg
            self._memo[reg] = value
        return value

    def _written_out(self, reg: Reg, depth: int) -> Term | None:
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
        step = self._prepared(index, frozenset({reg}))
        if step is None:
            return None
        self._machine.run(step, state, index)
        value = state.env[reg]
        is_sum = value.width in (32, 64) and self._is_sum(value) and not _is_number(value)
        is_sum = is_sum and all(part.kind is not op.MUL for part, _ in split(value)[1])
        return value if is_sum and all(a in self.registers for a in _atoms(value)) else None

    def _only_writer(self, reg: Reg) -> int | None:
        """The one unguarded instruction that sets a register, if every way to the loop passes it.
        Others may set it where control never comes to the loop, as in a copy of the kernel."""
        cfg, header = self._cfg, self._loop.header
        ats = cfg.writers.get(reg, ())
        if len(ats) > 1:
            ats = [at for at in ats if cfg.block_of[at] in self._before]
        if len(ats) != 1:
            return None
        number = cfg.block_of[ats[0]]
        passed = number != header and number in cfg.rank and cfg.dominates(number, header)
        return ats[0] if passed and cfg.instructions[ats[0]].guard is None else None

    @cached_property
    def _before(self) -> Set[int]:
        """The blocks from which control may come to the loop."""
        return self._cfg.reaching([self._loop.header]) & self._cfg.rank.keys()


def _addresses(instruction: Instruction) -> list[Mem]:
    """The addresses that an instruction names."""
    return [operand for operand in instruction.operands if type(operand) is Mem]


@isa.by_name
def _computes(opcode: str, modifiers: tuple[str, ...]) -> bool:
    """Does it compute, and nothing else?"""
    pure = isa.row(opcode, modifiers) is not None and not isa.effects(opcode, modifiers)
    return pure and isa.space_named(opcode, modifiers) is None


def _is_number(term: Term) -> bool:
    return term.kind is op.CONST


def _atoms(term: Term) -> Iterator[Term]:
    """The atoms of a sum, those of extended indices, too."""
    for part, _ in split(term)[1]:
        for one in factors(part):
            yield from _atoms(one.args[0]) if one.kind in op.EXTENSIONS else (one,)
