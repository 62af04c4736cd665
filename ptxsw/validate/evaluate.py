"""Values of operands and instructions of one text, as terms of the table that both texts share.

What the semantics table knows is computed; the rest of what is a function of registers becomes an
uninterpreted function, so that the same instruction on equal values gives one term on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct

from ptxsw.emulator.operand_reader import Get, OperandReader
from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Function,
    Instruction,
    Module,
    Operand,
    Reg,
    RegisterPart,
    flatten,
    type_width,
)
from ptxsw.ptx.operand import mapped
from ptxsw.semantics import Meaning, meaning
from ptxsw.terms.node import Term, Variance, bottom_up, visible_parts
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms
from ptxsw.validate.contraction import PRODUCT, is_open_sum, products
from ptxsw.validate.outcome import GiveUp

# Terms of more nodes are not taken apart any more: what is computed of them is uninterpreted.
_MAX_SIZE = 2000

_ARITHMETIC = frozenset({"add", "sub", "mul", "fma", "mad", "div", "neg", "abs", "min", "max"})

_IN_SPACES = frozenset({"cvta", "isspacep"})

_REGISTER = Reg("register")

BY_ZERO = "by zero"
"""The name of what a division by zero gives."""
IN_SPACE = "isspacep"
"""The name of whether a generic address lies in a space."""


class _Named(NamedTuple):
    """What an opcode and its modifiers tell of an instruction that computes."""

    sense: Meaning | None
    stays_small: bool
    divides: bool


class _Form(Struct, frozen=True):
    """What an instruction that computes is, whatever its sources hold. `widths` are those of its
    destinations, 0 for a sink."""

    instruction: Instruction
    sense: Meaning | None
    dests: tuple[Operand, ...]
    widths: tuple[int, ...]
    sources: tuple[Operand, ...]
    stays_small: bool
    divides: bool
    products: tuple[int, ...] = ()  # sources that ptxas may compute with it, rounding once


Computed = dict[tuple[object, ...], tuple[Meaning, "tuple[Term, ...] | None"]]
"""Results by the identity of an instruction's meaning, the widths of its destinations, and the
values that it reads; None where the meaning does not fit them. The meaning is kept beside, so that
its identity is not given to another one."""


class Evaluator(OperandReader):
    """Reads operands and computes results for the instructions of one function. Evaluators that
    share what they have `computed` compute equal things once."""

    def __init__(
        self, terms: Terms, module: Module, function: Function, computed: Computed | None = None
    ) -> None:
        super().__init__(terms, module, function)
        self._computed: Computed = {} if computed is None else computed
        self._sizes: dict[Term, int] = {}
        self._forms: dict[int, _Form] = {}  # by the instruction's identity

    # ------------------------------------------------------------ operands

    def special(self, name: str) -> Term:
        if name not in SPECIALS:
            raise GiveUp(f"{name} is neither declared nor a special register that is known")
        return self.terms.special(name)

    def unreadable(self, operand: Operand) -> Term:
        raise KeyError(operand)

    def symbol(self, name: str, scope: int = 0, offset: int = 0) -> Term:
        shown = f"&{name}@{scope}" if scope else f"&{name}"
        base = self.terms.atom(
            shown, self._address_size, Variance.LANE, None, Origin.SYMBOL, (shown[1:],)
        )
        return self.terms.add(base, self.terms.const(offset, base.width))

    # ------------------------------------------------------------ computing

    def compute(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        """What an instruction that computes writes, its guard left out of account."""
        # By identity, since hashing an instruction is slow. The comparison below guards against an
        # identity that was reused for another instruction.
        form = self._forms.get(id(instruction))
        if form is None or form.instruction is not instruction:
            form = self._forms[id(instruction)] = self._form_of(instruction)
        sense = form.sense
        if sense is None:
            return self._uncomputed(instruction, get)
        sources = [get(o) if type(o) is Reg else self.read(o, get) for o in form.sources]
        for at in form.products:
            product = sources[at]
            if not isinstance(product, int):
                sources[at] = self.function_of(PRODUCT, product.width, (product,))
        # Both texts compute the same function of equal values, so that is still enough to prove
        # them equal, unless one of them computes it in another way.
        if not form.stays_small and any(map(self._is_large, sources)):
            return self._uninterpreted(instruction, get)
        values = self._values(sense, form.widths, sources, get)
        if values is None:
            return self._uninterpreted(instruction, get)
        written = [
            (dest, value)
            for dest, value in zip(form.dests, values, strict=False)
            if type(dest) is Reg
        ]
        if form.divides:
            return self._divided(instruction, written, sources)
        return [*written, (CARRY, values[-1])] if sense.writes_carry else written

    def _values(
        self, sense: Meaning, widths: tuple[int, ...], sources: list[Term | int], get: Get
    ) -> tuple[Term, ...] | None:
        """What an instruction computes; None where its meaning does not fit its operands."""
        carry = get(CARRY) if sense.reads_carry else None
        key = (id(sense), widths, carry, *sources)  # hashing a meaning is slow
        known = self._computed.get(key)
        if known is None:
            values: tuple[Term, ...] | None
            try:
                values = sense.run(self.terms, sources, widths, carry)
            except ValueError:
                values = None
            fits = zip(values or (), widths, strict=False)
            if any(width and value.width != width for value, width in fits):
                values = None
            known = self._computed[key] = sense, values
        return known[1]

    def _form_of(self, instruction: Instruction) -> _Form:
        sense, stays_small, divides = _named(instruction.opcode, instruction.modifiers)
        count = isa.destinations(instruction)
        dests = tuple(flatten(instruction.operands[:count]))
        sources = tuple(flatten(instruction.operands[count:]))
        if any(type(o) is RegisterPart for o in (*dests, *sources)):
            sense = None
        widths = tuple([self.width(d) if type(d) is Reg else 0 for d in dests])
        fused: tuple[int, ...] = ()
        if is_open_sum(instruction):
            fused = tuple(at for at, o in enumerate(sources) if o in self._products)
        return _Form(instruction, sense, dests, widths, sources, stays_small, divides, fused)

    @cached_property
    def _products(self) -> frozenset[Reg]:
        return products(self._body.instructions)

    def _uncomputed(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        """What an instruction writes that has no meaning by the table of semantics."""
        if instruction.opcode == "cvta":
            return self._converted(instruction, get)
        if instruction.opcode == "isspacep":
            return self._located(instruction, get)
        return self._uninterpreted(instruction, get)

    def _divided(
        self, instruction: Instruction, written: list[tuple[Reg, Term]], sources: list[Term | int]
    ) -> list[tuple[Reg, Term]]:
        """PTX leaves open what a division by zero gives (manual 9.7.1.7): an unknown of the
        machine, which depends on the instruction and its operands. Two divisors that are zero are
        told apart, so that of two divisions of one value each may be read in its own way."""
        width = type_width(isa.access_type(instruction) or "")
        dividend, divisor = (self.cut(source, width) for source in sources[:2])
        (reg, value), *_ = written
        zero = self.terms.eq(divisor, self.terms.const(0, width))
        name = (BY_ZERO, instruction.opcode, instruction.modifiers)
        open_ = self.function_of(name, width, (dividend, divisor))
        filled = (
            self.terms.sext if str(instruction.modifiers[-1]).startswith("s") else (self.terms.zext)
        )
        wide = filled(open_, max(width, value.width))
        return [(reg, self.terms.ite(zero, self.terms.extract(wide, 0, value.width), value))]

    def _is_large(self, value: Term | int) -> bool:
        """Has a value more nodes than are taken apart? What is not taken apart counts as one."""
        if isinstance(value, int) or value.size <= _MAX_SIZE:
            return False
        sizes = self._sizes
        for node in bottom_up(sizes, visible_parts, value):
            sizes[node] = 1 + sum(sizes[part] for part in visible_parts(node))
        return sizes[value] > _MAX_SIZE

    def _converted(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        dest, source = instruction.operands[:2]
        if not isinstance(dest, Reg):
            return self._uninterpreted(instruction, get)
        return [(dest, self.converted(instruction.modifiers, source, get, self.width(dest)))]

    def _located(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        """Whether a generic address lies in a space."""
        dest, source = instruction.operands
        space = ".".join(instruction.modifiers)
        if not isinstance(dest, Reg):
            return self._uninterpreted(instruction, get)
        return [(dest, lies_in(self.terms, space, self._term(source, get)))]

    def window(self, space: str, width: int) -> Term:
        return self.terms.atom(
            f"window({space})", width, Variance.LANE, None, Origin.WINDOW, (space,)
        )

    def _uninterpreted(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        plain = instruction._replace(guard=None)
        arguments = [get(r) if isinstance(r, Reg) else self._term(r, get) for r in isa.uses(plain)]
        # All that an instruction says beside its registers is in the name: literals, offsets,
        # negations. Two instructions with one name compute the same function.
        name = (plain.opcode, plain.modifiers, *map(shape, plain.operands))
        written = [*dict.fromkeys(isa.defs(plain))]
        if "cc" in plain.modifiers:
            written.append(CARRY)
        if plain.opcode in ("addc", "subc", "madc"):
            arguments.append(get(CARRY))
        return [
            (reg, self.function_of((*name, at), self.width(reg), arguments))
            for at, reg in enumerate(written)
        ]

    def function_of(self, name: tuple[Any, ...], width: int, arguments: Sequence[Term]) -> Term:
        """An uninterpreted function of some values."""
        return self.terms.apply(name, width, arguments, Variance.LANE)

    def _term(self, operand: Operand, get: Get) -> Term:
        held = self.read(operand, get)
        return self.terms.const(held, 64) if isinstance(held, int) else held


def lies_in(terms: Terms, space: str, address: Term) -> Term:
    """The condition that a generic address lies in a state space: `isspacep`. The windows of spaces
    are where they are for all threads of a block."""
    return terms.apply((IN_SPACE, space), 1, (address,), Variance.LANE)


def is_integer_division(instruction: Instruction) -> bool:
    type_name = isa.access_type(instruction) or ""
    return instruction.opcode in ("div", "rem") and type_name[0:1] in ("u", "s")


def shape(operand: Operand) -> Operand:
    """An operand without its registers: everything about it that is not a value."""
    return mapped(operand, lambda leaf: _REGISTER if type(leaf) is Reg else leaf)


@isa.by_name
def _named(opcode: str, modifiers: tuple[str, ...]) -> _Named:
    named = Instruction(opcode, modifiers, (), None, 0, 0)
    sense = None if opcode in _IN_SPACES else meaning(opcode, modifiers)
    return _Named(sense, _stays_small(named), is_integer_division(named))


def _stays_small(instruction: Instruction) -> bool:
    """Is the result no deeper than its operands and one node: a copy, or floating-point
    arithmetic, which is not taken apart?"""
    type_name = isa.access_type(instruction) or ""
    return instruction.opcode == "mov" or (
        instruction.opcode in _ARITHMETIC and type_name.startswith(("f", "bf"))
    )
