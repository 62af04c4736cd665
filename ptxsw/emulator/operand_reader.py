"""What operands hold: the one reader of all who run a function over terms.

The symbolic run and the proofs of `validate` read operands alike, but for four things that each
decides for itself: what a special register holds, how much the address of a variable varies, where
a window of the generic space begins, and what is made of an operand that no value has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from ptxsw.flow.dataflow import CARRY
from ptxsw.ptx.ir import (
    Float,
    Function,
    Int,
    Mem,
    Module,
    Not,
    Operand,
    Reg,
    Special,
    Sum,
    Symbol,
)
from ptxsw.terms.node import Term
from ptxsw.terms.terms import Terms

Get = Callable[[Reg], Term]
"""The value of a register at a place."""

WINDOWS: Final = ("shared", "local", "const")
"""Spaces that are windows of the generic one. Global memory and parameters are where they are."""


class OperandReader(ABC):
    """Reads the operands of one function, as terms."""

    def __init__(self, terms: Terms, module: Module, function: Function) -> None:
        self.terms = terms
        self.function = function
        self._body = function.body
        self._address_size = module.address_size
        self._widths: dict[Reg, int] = {CARRY: 1}

    @abstractmethod
    def special(self, name: str) -> Term:
        """The value of a special register (manual chapter 10)."""

    @abstractmethod
    def symbol(self, name: str, scope: int = 0, offset: int = 0) -> Term:
        """The address of a variable or parameter, or one some bytes behind it. Those of nested
        scopes may share a name."""

    @abstractmethod
    def window(self, space: str, width: int) -> Term:
        """Where one of `WINDOWS` begins among generic addresses."""

    @abstractmethod
    def unreadable(self, operand: Operand) -> Term:
        """What stands for an operand that is none of a value."""

    def width(self, reg: Reg) -> int:
        """Width of a register in bits; an undeclared one counts as 32 bits wide."""
        width = self._widths.get(reg)
        if width is None:
            width = self._widths[reg] = self._body.width(reg) or 32
        return width

    def read(self, operand: Operand, get: Get) -> Term | int:
        """The value of a source; an integer for a literal, whose width the reader knows."""
        match operand:
            case Reg():
                return get(operand)
            case Int(value):
                return value
            case Float(bits, _):
                return bits
            case Special(name):
                return self.special(name)
            case Symbol(name, offset, scope):
                return self.symbol(name, scope, offset)
            case Not(inner):
                held = self.read(inner, get)
                return 1 - held if isinstance(held, int) else self.terms.not_(held)
            case Sum(base, offset):
                held = self.read(base, get)
                if isinstance(held, int):
                    return held + offset
                return self.terms.add(held, self.terms.const(offset, held.width))
        return self.unreadable(operand)

    def address(self, operand: Mem, get: Get) -> Term:
        """The address that an access names."""
        register = operand.base
        base = get(register) if type(register) is Reg else self.read(register, get)
        if isinstance(base, int):
            base = self.terms.const(base, self._address_size)
        if not operand.offset:
            return base
        return self.terms.add(base, self.terms.const(operand.offset, base.width))

    def value(self, operand: Operand, get: Get, width: int) -> Term:
        """A source cut or filled to a width in bits."""
        return self.cut(self.read(operand, get), width)

    def cut(self, source: Term | int, width: int) -> Term:
        """A value cut or filled to a width in bits."""
        if isinstance(source, int):
            return self.terms.const(source, width)
        return self.terms.extract(self.terms.zext(source, max(width, source.width)), 0, width)

    def converted(self, modifiers: tuple[str, ...], source: Operand, get: Get, width: int) -> Term:
        """What `cvta` gives (manual 9.7.9.20)."""
        value, space = self.value(source, get, width), converted_space(modifiers)
        if space not in WINDOWS:
            return value
        window = self.window(space, width)
        return (self.terms.sub if "to" in modifiers else self.terms.add)(value, window)


def converted_space(modifiers: tuple[str, ...]) -> str:
    """The space that a `cvta` names."""
    names = (modifier.partition("::")[0] for modifier in modifiers)
    return next((name for name in names if name in (*WINDOWS, "global", "param")), "")
