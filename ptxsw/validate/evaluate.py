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
    Args,
    Float,
    Function,
    Instruction,
    Int,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    RegisterPart,
    Special,
    Sum,
    Symbol,
    Vec,
    flatten,
    type_width,
)
from ptxsw.semantics import Meaning, meaning
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, bottom_up
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS
from ptxsw.terms.terms import Terms
from ptxsw.validate.outcome import GiveUp

Get = Callable[[Reg], Term]
"""The value of a register at a place."""

# Terms of more nodes are not taken apart any more: what is computed of them is uninterpreted.
_MAX_SIZE = 2000

_SIMPLE = frozenset({Reg, Int, Float})

_ARITHMETIC = frozenset({"add", "sub", "mul", "fma", "mad", "div", "neg", "abs", "min", "max"})

_IN_SPACES = frozenset({"cvta", "isspacep"})
_WINDOWS = ("shared", "local", "const")

BY_ZERO = "by zero"
"""The name of what a division by zero gives."""
IN_SPACE = "isspacep"
"""The name of whether a generic address lies in a space."""


class _Kind(NamedTuple):
    """What an opcode and its modifiers tell of an instruction that computes. `plain`: it sets one
    register, without a carry, and divides nothing."""

    sense: Meaning | None
    stays_small: bool
    divides: bool
    plain: bool


class _Form(Struct, frozen=True):
    """What an instruction that computes is, whatever its sources hold. `registers`: how many it
    writes; `widths` are those of its destinations, 0 for a sink. `plain`: it sets one register from
    registers and numbers."""

    instruction: Instruction
    sense: Meaning | None
    dests: tuple[Operand, ...]
    widths: tuple[int, ...]
    registers: int
    sources: tuple[Operand, ...]
    stays_small: bool
    divides: bool
    plain: bool


Computed = dict[tuple[object, ...], tuple[Meaning, "Term | None"]]
"""Results by the identity of an instruction's meaning, the width of its destination, and the values
that it reads; None where the meaning does not fit them. The meaning is kept beside, so that its
identity is not given to another one."""


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
                variance, ones = SPECIALS[name]
                return terms.atom(name, 32, variance, ones)
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
        if form.plain:  # nearly always
            return self._plain(form, get)
        if instruction.opcode == "cvta":
            return self._converted(instruction, get)
        if instruction.opcode == "isspacep":
            return self._located(instruction, get)
        sense = form.sense
        if sense is None:
            return self._uninterpreted(instruction, get)
        sources = [self.read(o, get) for o in form.sources]
        # Both texts compute the same function of equal values, so that is still enough to prove
        # them equal, unless one of them computes it in another way.
        if not form.stays_small and any(map(self._is_large, sources)):
            return self._uninterpreted(instruction, get)
        carry = get(CARRY) if sense.reads_carry else None
        try:
            values = sense.run(self.terms, sources, form.widths, carry)
        except ValueError:
            return self._uninterpreted(instruction, get)
        written = [
            (dest, value)
            for dest, width, value in zip(form.dests, form.widths, values, strict=False)
            if isinstance(dest, Reg) and value.width == width
        ]
        if len(written) != form.registers:
            return self._uninterpreted(instruction, get)
        if form.divides:
            return self._divided(instruction, written, sources)
        return [*written, (CARRY, values[-1])] if sense.writes_carry else written

    def _plain(self, form: _Form, get: Get) -> list[tuple[Reg, Term]]:
        """What an instruction writes that sets one register from registers and numbers."""
        dest, sense, (width,) = form.dests[0], form.sense, form.widths
        assert type(dest) is Reg and sense is not None
        sources = [get(o) if type(o) is Reg else self.read(o, get) for o in form.sources]
        if not form.stays_small and any(map(self._is_large, sources)):
            return self._uninterpreted(form.instruction, get)
        key = (id(sense), width, *sources)  # hashing a meaning is slow
        known = self._computed.get(key)
        if known is None:
            try:
                (result,) = sense.run(self.terms, sources, (width,))
            except ValueError:
                fits = None
            else:
                fits = result if result.width == width else None
            known = self._computed[key] = sense, fits
        value = known[1]
        return self._uninterpreted(form.instruction, get) if value is None else [(dest, value)]

    def _form_of(self, instruction: Instruction) -> _Form:
        sense, stays_small, divides, plain = _kind_of(instruction.opcode, instruction.modifiers)
        operands = instruction.operands
        simple = _SIMPLE.issuperset(map(type, operands))
        if plain and simple and operands and type(operands[0]) is Reg:  # nearly always
            width = (self.width(operands[0]),)
            return _Form(
                instruction, sense, operands[:1], width, 1, operands[1:], stays_small, False, True
            )  # fmt: skip
        count = isa.destinations(instruction)
        dests, sources = operands[:count], operands[count:]
        if not simple:  # seldom
            dests, sources = tuple(flatten(dests)), tuple(flatten(sources))
            if any(isinstance(o, RegisterPart) for o in (*dests, *sources)):
                sense = None
        widths = tuple([self.width(d) if isinstance(d, Reg) else 0 for d in dests])
        registers = len(dests) - widths.count(0)
        return _Form(
            instruction, sense, dests, widths, registers, sources, stays_small, divides, False
        )  # fmt: skip

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
        for node in bottom_up(sizes, _taken_apart, value):
            sizes[node] = 1 + sum(sizes[part] for part in _taken_apart(node))
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


def shape(operand: Operand) -> Any:
    """An operand without its registers: everything about it that is not a value."""
    match operand:
        case Reg():
            return "register"
        case Vec(elements) | Args(elements):
            return type(operand).__name__, *map(shape, elements)
        case Pair(first, second):
            return "pair", shape(first), shape(second)
        case Mem(base, offset, extra):
            return "address", shape(base), offset, *map(shape, extra)
        case Not(inner):
            return "not", shape(inner)
        case RegisterPart(base, selector):
            return "part", shape(base), selector
        case Sum(base, offset):
            return "sum", shape(base), offset
    return operand


@isa.by_name
def _kind_of(opcode: str, modifiers: tuple[str, ...]) -> _Kind:
    named, row = Instruction(opcode, modifiers, (), None, 0, 0), isa.row(opcode, modifiers)
    sense, divides = meaning(opcode, modifiers), is_integer_division(named)
    one = sense is not None and len(sense.results) == 1 and not sense.reads_carry
    plain = one and row is not None and row.defs == 1 and not divides
    plain = plain and not (sense is not None and sense.writes_carry) and opcode not in _IN_SPACES
    return _Kind(sense, _stays_small(named), divides, plain)


def _stays_small(instruction: Instruction) -> bool:
    """Is the result no deeper than its operands and one node: a copy, or floating-point
    arithmetic, which is not taken apart?"""
    type_name = isa.access_type(instruction) or ""
    return instruction.opcode == "mov" or (
        instruction.opcode in _ARITHMETIC and type_name.startswith(("f", "bf"))
    )


def _taken_apart(node: Term) -> tuple[Term, ...]:
    return () if node.kind in op.OPAQUE else node.args
