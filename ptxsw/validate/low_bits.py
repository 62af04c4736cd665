"""The low bits of registers where blocks begin: they show that a pointer stays aligned in a loop.

    add.s64 %rd4, %rd1, %rd3;       %rd3 is a multiple of 32
    LOOP:                           here the low bits of %rd4 are those of %rd1
    add.s64 %rd4, %rd4, 64;

A forward data-flow analysis over terms of up to five bits, made of nothing but what lasts:
parameters and special registers. Low bits of sums and products depend on low bits alone, so that
here a step of 64 bytes is none at all. Where paths meet, the bits are known that they agree in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.facts.loads import CONSTANT
from ptxsw.flow.dataflow import ForwardAnalysis, defs, slice_registers
from ptxsw.ptx.ir import Instruction, Mem, Reg, Symbol, type_width
from ptxsw.ptx.isa import access_type, space
from ptxsw.terms.node import Term, Variance, ones, split
from ptxsw.validate.memory import Memory
from ptxsw.validate.memory_ssa import Bytes
from ptxsw.validate.text import Text

BITS = 5  # of multiples of 32 bytes, the widest vector

_Low = dict[Reg, Term]

Multiples = tuple[tuple[Term, int], ...]
"""Parameters of which some low bits are known to be zero, and how many."""


class LowBits:
    """The analysis of one text; `lasts` tells whether a term means the same at all times."""

    def __init__(self, text: Text, memory: Memory, lasts: Callable[[Term], bool]) -> None:
        self._text, self._memory, self._lasts = text, memory, lasts
        self._terms = text.evaluator.terms
        self._entries: dict[Multiples, Mapping[int, _Low]] = {}
        self._lasting_bits: dict[Term, Term | None] = {}  # of values, what of them lasts
        self._multiples: Mapping[Term, int] = {}

    def at(self, position: int, multiples: Multiples = ()) -> Mapping[Reg, Term]:
        """The low bits of registers at the start of a block, as many as are known, if some
        parameters are multiples of powers of two."""
        if multiples not in self._entries:
            self._entries[multiples] = self._solved(multiples)
        return self._entries[multiples].get(self._text.block(position), {})

    @cached_property
    def parameters(self) -> tuple[Term, ...]:
        """The values of the kernel's parameters that the text loads whole."""
        atoms: dict[Term, None] = {}
        for instruction in self._text.cfg.instructions:
            if kind(instruction) is Kind.LOAD and space(instruction) == "param":
                atoms.update((value, None) for _, value in self._parameter(instruction))
        return tuple(atoms)

    def _solved(self, multiples: Multiples) -> Mapping[int, _Low]:
        """The low bits at the start of each block."""
        self._multiples = dict(multiples)
        cfg = self._text.cfg

        def through(number: int, entering: _Low) -> Iterator[tuple[int, _Low]]:
            state, block = dict(entering), cfg.blocks[number]
            for at in range(block.start, block.end):
                if at in self._of_addresses:
                    self._run(cfg.instructions[at], state)
            return ((successor, state) for successor in block.successors)

        nothing: _Low = {}
        return ForwardAnalysis(cfg, nothing, through, self._common).everywhere()

    @cached_property
    def _of_addresses(self) -> frozenset[int]:
        """Instructions that write registers on which addresses depend; no others are asked for."""
        cfg = self._text.cfg
        needed = slice_registers(cfg, _bases)
        return frozenset(
            at for at, registers in enumerate(cfg.written) if not needed.isdisjoint(registers)
        )

    def _run(self, instruction: Instruction, state: _Low) -> None:
        """What an instruction does to the low bits."""
        bits: _Low = {}
        for reg, value in self._written(instruction, state):
            low = self._lasting(value)
            if low is not None:
                bits[reg] = low
        # A guarded write may not happen: only what the old and the new value agree in is known.
        if instruction.guard is not None:
            bits = self._common(bits, state)
        for reg in defs(instruction):
            state.pop(reg, None)
        state.update(bits)

    def _lasting(self, value: Term) -> Term | None:
        """As many low bits of a value as mean the same at all times."""
        if value not in self._lasting_bits:
            width = BITS if value.width > BITS else 0
            lows = (self._low(value, bits) for bits in range(width, 0, -1))
            self._lasting_bits[value] = next(filter(self._lasts, lows), None)
        return self._lasting_bits[value]

    def _low(self, value: Term, bits: int) -> Term:
        """The low bits of a value, without summands that are nothing in them."""
        constant, items = split(self._terms.extract(value, 0, bits))
        low = self._terms.const(constant, bits)
        for term, factor in items:
            part = self._terms.scale(term, factor)
            if ones(part):
                low = self._terms.add(low, part)
        return low

    def _common(self, one: _Low, other: _Low) -> _Low:
        """What two states agree in."""
        common: _Low = {}
        for reg, low in one.items():
            if other.get(reg) is low:
                common[reg] = low
            elif reg in other:
                for bits in range(min(low.width, other[reg].width), 0, -1):
                    same = self._low(low, bits)
                    if same is self._low(other[reg], bits):
                        common[reg] = same
                        break
        return common

    def _written(self, instruction: Instruction, state: _Low) -> list[tuple[Reg, Term]]:
        evaluator, terms = self._text.evaluator, self._terms

        def get(reg: Reg) -> Term:
            low, width = state.get(reg), evaluator.width(reg)
            name = f"unknown {reg.name}@{reg.scope}"
            if low is None:
                return terms.atom(name, width, Variance.LANE)
            # The upper bits are unknown. They never reach the low bits of a sum or product.
            return terms.concat(terms.atom(name, width - low.width, Variance.LANE), low)

        match kind(instruction):
            case Kind.COMPUTE:
                return evaluator.compute(instruction, get)
            case Kind.LOAD if space(instruction) == "param":
                return [(r, self._rounded(v)) for r, v in self._parameter(instruction)]
        return []

    def _rounded(self, value: Term) -> Term:
        """A parameter's value, with the low bits that are known to be zero."""
        bits = self._multiples.get(value, 0)
        if not bits:
            return value
        high = self._terms.extract(value, bits, value.width - bits)
        return self._terms.concat(high, self._terms.const(0, bits))

    def _parameter(self, instruction: Instruction) -> list[tuple[Reg, Term]]:
        """A parameter of the kernel that a scalar load reads whole."""
        dest, address = instruction.operands[:2]
        size = type_width(access_type(instruction) or "") // 8
        if not isinstance(dest, Reg) or not isinstance(address, Mem):
            return []
        evaluator = self._text.evaluator
        if not isinstance(address.base, Symbol) or evaluator.width(dest) != 8 * size:
            return []
        place = evaluator.address(address, lambda _: self._terms.const(0, 64))
        if not self._memory.is_parameter(place):
            return []
        return [(dest, self._memory.load((), CONSTANT, Bytes("param", place, size), ()))]


def _bases(instruction: Instruction) -> tuple[Reg, ...]:
    """The registers that addresses among the operands begin with."""
    bases = (o.base for o in instruction.operands if isinstance(o, Mem))
    return tuple(base for base in bases if isinstance(base, Reg))
