"""Addresses of a body as exact polynomials of registers, wherever these are set.

    mad.lo.s64 %rd3, %rd2, %rd1, %rd9;      y·n + x
    shl.b64 %rd4, %rd3, 2;                  4·y·n + 4·x
    add.s64 %rd5, %rd8, %rd4;               in + 4·y·n + 4·x

Sums and products are modulo 2^64, or 2^32, as registers are. Each version of a register
(`flow.ssa_versions`) is a value of its own. What is loaded, or guarded, or meets where paths join,
is an atom.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import closure
from ptxsw.flow.ssa_versions import Version, Versions
from ptxsw.ptx import isa
from ptxsw.ptx.bits import wrapped
from ptxsw.ptx.ir import Mem, Reg
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Polynomial
from ptxsw.terms.readings import modulo

ACCESSES = frozenset({"ld", "st", "atom", "red"})
"""What accesses memory at one address."""
_WIDTHS = (32, 64)


class StraightAccess(Struct, frozen=True):
    """An access whose address is `register`, which holds `base`, plus `offset`."""

    index: int
    register: Reg
    base: Term
    offset: int


class StraightSums:
    """What registers hold that addresses and branches depend on."""

    def __init__(self, trace: Trace) -> None:
        self.cfg, self.terms, self._trace = trace.cfg, trace.terms, trace
        self.versions = Versions(trace.cfg)
        self._machine = SymbolicMachine(trace.module, trace.function, trace.terms)
        self._values: dict[tuple[Reg, Version], Term] = {}
        self._read: dict[Term, Polynomial] = {}
        self._holders: dict[tuple[int, Polynomial], list[tuple[Reg, Version]]] = {}
        self._run()

    @cached_property
    def accesses(self) -> list[StraightAccess]:
        """Those by a register of the body, but for arguments of calls, in the order of paths."""
        found = []
        for at in self.cfg.indices(self.cfg.order):
            instruction = self.cfg.instructions[at]
            memory = [operand for operand in instruction.operands if type(operand) is Mem]
            known = instruction.opcode in ACCESSES and isa.space(instruction) != "param"
            if not known or len(memory) != 1 or memory[0].extra:
                continue
            register, offset = memory[0].base, memory[0].offset
            if isinstance(register, Reg) and not register.scope:
                base = self.value(register, at)
                if base.width in _WIDTHS:
                    found.append(StraightAccess(at, register, base, offset))
        return found

    def value(self, register: Reg, index: int) -> Term:
        """What an instruction finds in a register."""
        version = self.versions.at(register, index)
        value = self._values.get((register, version))
        if value is None:
            name = f"{register.name}@{register.scope} of {version}"
            width = self._machine.width(register)
            value = self.terms.atom(name, width, Variance.LANE, None, Origin.ENTRY)
            self._note(register, version, value)
        return value

    def left(self, index: int) -> Term:
        """What an instruction leaves in the register that it sets."""
        return self._values[self.cfg.written[index][0], index]

    def polynomial(self, term: Term) -> Polynomial:
        """A value modulo 2^width; what is extended is an atom."""
        polynomial = self._read.get(term)
        if polynomial is None:
            exact = modulo(term, self.polynomial)
            polynomial = Polynomial.atom(term) if exact is None else wrapped_at(term.width, exact)
            self._read[term] = polynomial
        return polynomial

    def holder(self, width: int, polynomial: Polynomial, index: int) -> Reg | None:
        """A register that holds a value where an instruction stands."""
        for register, version in self._holders.get((width, polynomial), ()):
            if self.versions.at(register, index) == version:
                return register
        return None

    def conditions(self, index: int) -> tuple[Term, ...]:
        """What branches on the only way to an instruction have decided."""
        cfg, found = self.cfg, list[Term]()
        number = cfg.block_of[index]
        while cfg.idom[number] != number:
            above = cfg.idom[number]
            condition = self._decided(above, number)
            if condition is not None:
                found.append(condition)
            number = above
        return tuple(reversed(found))

    def _decided(self, above: int, below: int) -> Term | None:
        """What the branch at the end of a block has decided where one that it dominates is come
        to, if that is one of its ways alone."""
        block = self.cfg.blocks[above]
        last = self.cfg.instructions[block.end - 1]
        if last.guard is None or last.opcode != "bra" or len(block.successors) != 2:
            return None
        ways = [n for n in block.successors if self.cfg.dominates(n, below)]
        if len(ways) != 1 or self.cfg.predecessors[ways[0]] != (above,):
            return None
        taken = self.value(last.guard.reg, block.end - 1)
        holds = (ways[0] == block.successors[0]) != last.guard.negated
        return taken if holds else self.terms.not_(taken)

    # ------------------------------------------------------------ running it

    def _run(self) -> None:
        """Work out the versions that matter, each behind those that it is made of."""
        wanted = closure(self.cfg, self._roots())
        for at in self.cfg.indices(self.cfg.order):
            for register in self.cfg.written[at]:
                if register in wanted:
                    self._step(at)
                    break

    def _roots(self) -> Iterator[Reg]:
        for instruction in self.cfg.instructions:
            for operand in instruction.operands:
                if isinstance(operand, Mem) and isinstance(operand.base, Reg):
                    yield operand.base
            if instruction.opcode == "bra" and instruction.guard is not None:
                yield instruction.guard.reg

    def _step(self, at: int) -> None:
        instruction, written = self.cfg.instructions[at], self.cfg.written[at]
        if not self.computes(at):
            return
        step = self._machine.prepare(instruction, frozenset(written))
        if step is None or step.opaque:
            return
        state = State({reg: self.value(reg, at) for reg in self.cfg.read[at]})
        self._machine.run(step, state, at)
        for register in written:
            if register in state.env:
                self._values[register, at] = value = state.env[register]
                self._note(register, at, value)

    def computes(self, at: int) -> bool:
        """Does an instruction set registers to what it computes of others, or to a parameter?"""
        instruction = self.cfg.instructions[at]
        if instruction.guard is not None:
            return False
        if kind(instruction) is Kind.COMPUTE:
            return True
        return instruction.opcode == "ld" and isa.space(instruction) == "param"

    def _note(self, register: Reg, version: Version, value: Term) -> None:
        self._values[register, version] = value
        if value.width in _WIDTHS and not register.scope:
            key = value.width, self.polynomial(value)
            self._holders.setdefault(key, []).append((register, version))


def wrapped_at(width: int, polynomial: Polynomial) -> Polynomial:
    """The same modulo 2^width, each coefficient read as signed."""
    return Polynomial.of((m, wrapped(factor, width)) for m, factor in polynomial)
