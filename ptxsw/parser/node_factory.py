"""Frozen nodes made quickly.

A frozen dataclass spends most of its making in `object.__setattr__`: 0.2 µs a field. So each
kind of node has a class with the same slots and no ban on assignment: an object is filled as such
and then becomes the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from sys import intern
from typing import Any

from ptxsw.ir import (
    Args,
    Body,
    Close,
    Float,
    Function,
    Guard,
    Instruction,
    Int,
    Label,
    Loc,
    Mem,
    Open,
    Reg,
    Signature,
    Symbol,
    Variable,
    Vec,
    components,
)
from ptxsw.ir import Operand as Operand
from ptxsw.source import Span


def opened(node: type) -> Any:
    """A class with the slots of a node class, whose objects can be filled and then become it."""
    return type(f"Open{node.__name__}", (), {"__slots__": tuple(node.__slots__)})  # type: ignore[attr-defined]


_Int, _Vec, _Float, _Guard = opened(Int), opened(Vec), opened(Float), opened(Guard)
_Args = opened(Args)
_Open, _Close = opened(Open), opened(Close)
_new = tuple.__new__
_each: Any = tuple.__new__  # for `map`
_DECIMALS: list[str] = []  # "0", "1", ... as far as a family has needed them


def make_span(start: int, end: int) -> Span:
    return _new(Span, (start, end))


def make_reg(name: str, scope: int) -> Reg:
    return _new(Reg, (name, scope))


def make_vector(name: str, count: int, scope: int) -> Vec:
    """A vector register: the vector of its components."""
    return make_vec(tuple(make_reg(each, scope) for each in components(name, count)))


def make_family(stem: str, start: int, stop: int, scope: int) -> Iterator[tuple[str, Reg]]:
    """Names and registers `stem` + start to `stem` + (stop - 1) of a scope."""
    while len(_DECIMALS) < stop:
        _DECIMALS.extend(map(str, range(len(_DECIMALS), max(2 * len(_DECIMALS), 64))))
    names = [stem + digits for digits in islice(_DECIMALS, start, stop)]
    registers = map(_each, repeat(Reg), zip(names, repeat(scope), strict=False))
    return zip(names, registers, strict=False)


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
    return _new(Symbol, (name, 0, scope))


def make_mem(base: Operand, offset: int) -> Mem:
    return _new(Mem, (base, offset, ()))


def make_vec(elements: tuple[Operand, ...]) -> Vec:
    made = _Vec()
    made.elements = elements
    made.__class__ = Vec
    return made  # type: ignore[no-any-return]


def make_args(elements: tuple[Operand, ...]) -> Args:
    made = _Args()
    made.elements = elements
    made.__class__ = Args
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
    start: int,
    end: int,
) -> Instruction:
    return _new(Instruction, (opcode, modifiers, operands, guard, start, end))


def make_label(name: str, span: Span, scope: int) -> Label:
    return _new(Label, (name, span, scope))


def make_loc(file: int, line: int, column: int, span: Span) -> Loc:
    return _new(Loc, (file, line, column, span))


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
    fields = (
        space,
        kind,
        name,
        span,
        count,
        dims,
        vector,
        align,
        linkage,
        attributes,
        initialised,
        scope,
    )
    return _new(Variable, fields)


def plain_variable(
    space: str, kind: str, name: str, span: Span, count: int | None, scope: int
) -> Variable:
    """The variable of `.space .kind name`, or the variables of `.space .kind name<count>`."""
    fields = (intern(space), intern(kind), name, span, count, (), 1, None, (), (), False, scope)
    return _new(Variable, fields)


def make_function(
    kind: str,
    name: str,
    linkage: tuple[str, ...],
    span: Span,
    body_span: Span | None,
    load_signature: Callable[[], Signature],
    load_body: Callable[[Function], Body],
) -> Function:
    made = object.__new__(Function)
    made.__dict__.update(
        kind=kind,
        name=name,
        linkage=linkage,
        span=span,
        body_span=body_span,
        load_signature=load_signature,
        load_body=load_body,
    )
    return made
