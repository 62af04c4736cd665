"""Frozen nodes made quickly.

A frozen dataclass spends most of its making in `object.__setattr__`: 0.2 µs a field. So each
kind of node has a class with the same slots and no ban on assignment: an object is filled as such
and then becomes the node.
"""

from __future__ import annotations

from sys import intern
from typing import Any

from ptxsw.ir import (
    Close,
    Float,
    Guard,
    Instruction,
    Int,
    Label,
    Loc,
    Mem,
    Open,
    Reg,
    Symbol,
    Variable,
    Vec,
)
from ptxsw.ir import Operand as Operand
from ptxsw.source import Span


def opened(node: type) -> Any:
    """A class with the slots of a node class, whose objects can be filled and then become it."""
    return type(f"Open{node.__name__}", (), {"__slots__": tuple(node.__slots__)})  # type: ignore[attr-defined]


_Reg, _Int, _Mem, _Vec = opened(Reg), opened(Int), opened(Mem), opened(Vec)
_Float, _Symbol = opened(Float), opened(Symbol)
_Guard, _Label, _Loc = opened(Guard), opened(Label), opened(Loc)
_Open, _Close, _Variable = opened(Open), opened(Close), opened(Variable)
_new = tuple.__new__


def make_span(start: int, end: int) -> Span:
    return _new(Span, (start, end))


def make_reg(name: str, scope: int) -> Reg:
    made = _Reg()
    made.name = name
    made.scope = scope
    made.__class__ = Reg
    return made  # type: ignore[no-any-return]


def make_family(stem: str, start: int, stop: int) -> list[tuple[str, Reg]]:
    """Names and registers `stem` + start to `stem` + (stop - 1) of an outermost scope."""
    found: list[tuple[str, Reg]] = []
    append = found.append
    for index in range(start, stop):
        made = _Reg()
        made.name = name = f"{stem}{index}"
        made.scope = 0
        made.__class__ = Reg
        append((name, made))
    return found


def make_int(value: int) -> Int:
    made = _Int()
    made.value = value
    made.__class__ = Int
    return made  # type: ignore[no-any-return]


def make_float(bits: int, width: int) -> Float:
    made = _Float()
    made.bits = bits
    made.width = width
    made.__class__ = Float
    return made  # type: ignore[no-any-return]


def make_symbol(name: str, scope: int) -> Symbol:
    made = _Symbol()
    made.name = name
    made.offset = 0
    made.scope = scope
    made.__class__ = Symbol
    return made  # type: ignore[no-any-return]


def make_mem(base: Operand, offset: int) -> Mem:
    made = _Mem()
    made.base = base
    made.offset = offset
    made.extra = ()
    made.__class__ = Mem
    return made  # type: ignore[no-any-return]


def make_vec(elements: tuple[Operand, ...]) -> Vec:
    made = _Vec()
    made.elements = elements
    made.__class__ = Vec
    return made  # type: ignore[no-any-return]


def make_guard(reg: Reg, negated: bool) -> Guard:
    made = _Guard()
    made.reg = reg
    made.negated = negated
    made.__class__ = Guard
    return made  # type: ignore[no-any-return]


def make_instruction(
    opcode: str,
    modifiers: tuple[str, ...],
    operands: tuple[Operand, ...],
    guard: Guard | None,
    span: Span,
) -> Instruction:
    return _new(Instruction, (opcode, modifiers, operands, guard, span))


def make_label(name: str, span: Span, scope: int) -> Label:
    made = _Label()
    made.name = name
    made.span = span
    made.scope = scope
    made.__class__ = Label
    return made  # type: ignore[no-any-return]


def make_loc(file: int, line: int, column: int, span: Span) -> Loc:
    made = _Loc()
    made.file = file
    made.line = line
    made.column = column
    made.span = span
    made.__class__ = Loc
    return made  # type: ignore[no-any-return]


def make_open(scope: int, span: Span) -> Open:
    made = _Open()
    made.scope = scope
    made.span = span
    made.__class__ = Open
    return made  # type: ignore[no-any-return]


def make_close(scope: int, span: Span) -> Close:
    made = _Close()
    made.scope = scope
    made.span = span
    made.__class__ = Close
    return made  # type: ignore[no-any-return]


def make_variable(
    space: str,
    kind: str,
    name: str,
    span: Span,
    count: int | None,
    dims: tuple[int | None, ...],
    vector: int,
    align: int | None,
    linkage: tuple[str, ...],
    attributes: tuple[str, ...],
    initialised: bool,
    scope: int,
) -> Variable:
    made = _Variable()
    made.space = space
    made.type = kind
    made.name = name
    made.span = span
    made.count = count
    made.dims = dims
    made.vector = vector
    made.align = align
    made.linkage = linkage
    made.attributes = attributes
    made.initialised = initialised
    made.scope = scope
    made.__class__ = Variable
    return made  # type: ignore[no-any-return]


def plain_variable(space: str, kind: str, name: str, span: Span, scope: int) -> Variable:
    """The variable of `.space .kind name`."""
    return make_variable(
        intern(space), intern(kind), name, span, None, (), 1, None, (), (), False, scope
    )
