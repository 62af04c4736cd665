"""Nodes that are tuples, made without the checks of their constructors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat
from sys import intern
from typing import Any

from ptxsw.ptx.ir import (
    Directive,
    Guard,
    Instruction,
    Label,
    Loc,
    Mem,
    Reg,
    Statement,
    Symbol,
    Variable,
    Vec,
    components,
)
from ptxsw.ptx.ir import Operand as Operand
from ptxsw.ptx.source import Span

_new = tuple.__new__
_each: Any = tuple.__new__  # for `map`
_DECIMALS: list[str] = []  # "0", "1", ... as far as a family has needed them


def make_span(start: int, end: int) -> Span:
    return _new(Span, (start, end))


def make_reg(name: str, scope: int) -> Reg:
    return _new(Reg, (name, scope))


def make_vector(name: str, count: int, scope: int) -> Vec:
    """A vector register: the vector of its components."""
    return Vec(tuple(make_reg(each, scope) for each in components(name, count)))


def make_family(stem: str, start: int, stop: int, scope: int) -> Iterator[tuple[str, Reg]]:
    """Names and registers `stem` + start to `stem` + (stop - 1) of a scope."""
    while len(_DECIMALS) < stop:
        _DECIMALS.extend(map(str, range(len(_DECIMALS), max(2 * len(_DECIMALS), 64))))
    names = [stem + digits for digits in islice(_DECIMALS, start, stop)]
    registers = map(_each, repeat(Reg), zip(names, repeat(scope), strict=False))
    return zip(names, registers, strict=False)


def make_symbol(name: str, scope: int) -> Symbol:
    return _new(Symbol, (name, 0, scope))


def make_mem(base: Operand, offset: int) -> Mem:
    return _new(Mem, (base, offset, ()))


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


def usual_variable(
    space: str, kind: str, name: str, span: Span, count: int | None, scope: int
) -> Variable:
    """The variable of `.space .kind name`, or the variables of `.space .kind name<count>`."""
    fields = (intern(space), intern(kind), name, span, count, (), 1, None, (), (), False, scope)
    return _new(Variable, fields)


def plain_variable(space: str, kind: str, name: str, start: int, end: int) -> Variable:
    """The variable of `.space .kind name` in the outermost scope of a body, of interned words."""
    span = _new(Span, (start, end))
    return _new(Variable, (space, kind, name, span, None, (), 1, None, (), (), False, 0))


def with_masks(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements, with what pragmas tell of the next instruction in that instruction: which
    bytes of a load are used (manual 12.2)."""
    if not any(type(s) is Directive and s.used_bytes is not None for s in statements):
        return statements
    told: list[Statement] = []
    mask: int | None = None
    for statement in statements:
        if type(statement) is Directive:
            mask = mask if statement.used_bytes is None else statement.used_bytes
        elif type(statement) is Instruction:
            if mask is not None:
                statement = statement.with_used_bytes(mask)
            mask = None
        told.append(statement)
    return tuple(told)
