"""Values of operands and instructions of one text, as terms of the table that both texts share.

What the semantics table knows is computed; the rest of what is a function of registers becomes an
uninterpreted function, so that the same instruction on equal values gives one term on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Float,
    Function,
    Instruction,
    Int,
    Mem,
    Module,
    Not,
    Operand,
    Reg,
    RegisterPart,
    Special,
    Sum,
    Symbol,
    flatten,
    type_width,
)
from ptxsw.ptx.operand import mapped
from ptxsw.semantics import Meaning, meaning
from ptxsw.terms.node import Term, Variance, bottom_up, visible_parts
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms
from ptxsw.validate.outcome import GiveUp

Get = Callable[[Reg], Term]
"""The value of a register at a place."""

# Terms of more nodes are not taken apart any more: what is computed of them is uninterpreted.
_MAX_SIZE = 2000

_ARITHMETIC = frozenset({"add", "sub", "mul", "fma", "mad", "div", "neg", "abs", "min", "max"})

_IN_SPACES = frozenset({"cvta", "isspacep"})
_WINDOWS = ("shared", "local", "const")

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


Computed = dict[tuple[object, ...], tuple[Meaning, "tuple[Term, ...] | None"]]
"""Results by the identity of an instruction's meaning, the widths of its destinations, and the
values that it reads; None where the meaning does not fit them. The meaning is kept beside, so that
its identity is not given to another one."""


class Evaluator:
    """Reads operands and computes results for the instructions of one function. Evaluators that
    share what they have `computed` compute equal things once."""

    def __init__(
        self, terms: Terms, module: Module, function: Function, computed: Computed | None = None
    ) -> None:
        self.terms = terms
        self._computed: Computed = {} if computed is None else computed
        self.function = function
        self._body = function.body
        self._address_size = module.address_size
        self._widths: dict[Reg, int] = {CARRY: 1}
        self._sizes: dict[Term, int] = {}
        self._forms: dict[int, _Form] = {}  # by the instruction's identity
        self._params = {p.name for p in function.params}

    def width(self, reg: Reg) -> int:
        """Width of a register in bits; an undeclared one counts as 32 bits wide."""
        width = self._widths.get(reg)
        if width is None:
            width = self._widths[reg] = self._body.width(reg) or 32
        return width

    # ------------------------------------------------------------ operands

    def read(self, operand: Operand, get: Get) -> Term | int:
        """The value of a source; an integer for a literal, whose width the reader knows."""
        terms = self.terms
        match operand:
            case Reg():
                return get(operand)
            case Int(value):
                return value
            case Float(bits, _):
                return bits
            case Special(name):
                if name not in SPECIALS:
                    raise GiveUp(f"{name} is neither declared nor a special register that is known")
                return terms.special(name)
            case Symbol(name, offset, scope):
                return self.symbol(name, scope, offset)
            case Not(inner):
                held = self.read(inner, get)
                return 1 - held if isinstance(held, int) else terms.not_(held)
            case Sum(base_operand, offset):
                held = self.read(base_operand, get)
                if isinstance(held, int):
                    return held + offset
                return terms.add(held, terms.const(offset, held.width))
        raise KeyError(operand)

    def symbol(self, name: str, scope: int = 0, offset: int = 0) -> Term:
        """The address of a variable or parameter, or one some bytes behind it."""
        shown = f"&{name}@{scope}" if scope else f"&{name}"
        base = self.terms.atom(
            shown, self._address_size, Variance.LANE, None, Origin.SYMBOL, (shown[1:],)
        )
        return self.terms.add(base, self.terms.const(offset, base.width))

    def address(self, operand: Mem, get: Get) -> Term:
        register = operand.base
        base = get(register) if type(register) is Reg else self.read(register, get)
        if isinstance(base, int):
            base = self.terms.const(base, self._address_size)
        if not operand.offset:
            return base
        return self.terms.add(base, self.terms.const(operand.offset, base.width))

    def value(self, operand: Operand, get: Get, width: int) -> Term:
        """A source cut or filled to a width in bits."""
        return self._cut(self.read(operand, get), width)

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
        return _Form(instruction, sense, dests, widths, sources, stays_small, divides)

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
        machine, which depends on the instruction and the dividend."""
        width = type_width(isa.access_type(instruction) or "")
        dividend, divisor = (self._cut(source, width) for source in sources[:2])
        (reg, value), *_ = written
        zero = self.terms.eq(divisor, self.terms.const(0, width))
        name = (BY_ZERO, instruction.opcode, instruction.modifiers)
        open_ = self.function_of(name, width, (dividend,))
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

    def _cut(self, source: Term | int, width: int) -> Term:
        if isinstance(source, int):
            return self.terms.const(source, width)
        return self.terms.extract(self.terms.zext(source, max(width, source.width)), 0, width)

    def _converted(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        """`cvta` (manual 9.7.9.20): global memory and parameters are where they are; the other
        spaces are windows of the generic one."""
        dest, source = instruction.operands[:2]
        if not isinstance(dest, Reg):
            return self._uninterpreted(instruction, get)
        width = self.width(dest)
        value = self.value(source, get, width)
        space = converted_space(instruction)
        if space in _WINDOWS:
            window = self.window(space, width)
            to_space = "to" in instruction.modifiers
            value = (self.terms.sub if to_space else self.terms.add)(value, window)
        return [(dest, value)]

    def _located(self, instruction: Instruction, get: Get) -> list[tuple[Reg, Term]]:
        """Whether a generic address lies in a space."""
        dest, source = instruction.operands
        space = ".".join(instruction.modifiers)
        if not isinstance(dest, Reg):
            return self._uninterpreted(instruction, get)
        return [(dest, lies_in(self.terms, space, self._term(source, get)))]

    def window(self, space: str, width: int) -> Term:
        """Where a space begins among generic addresses."""
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


def converted_space(instruction: Instruction) -> str:
    """The space that a `cvta` names."""
    names = (m.partition("::")[0] for m in instruction.modifiers)
    return next((n for n in names if n in (*_WINDOWS, "global", "param")), "")


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
