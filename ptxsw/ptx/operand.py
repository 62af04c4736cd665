"""Operands of an instruction, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from msgspec import Struct


class Reg(NamedTuple):
    """A declared register: `%r1`. `scope` tells shadowing declarations apart (0: outermost).

    A component of a vector register is a register, too: `%v.x`, under this name where the text
    has `%v.r`. The whole vector is the `Vec` of them.
    """

    name: str
    scope: int = 0


class Special(Struct, frozen=True):
    """A predefined, read-only special register: `%tid.x`, `%laneid`."""

    name: str


class Symbol(NamedTuple):
    """A variable, parameter, function or label, plus a byte offset: `arr`, `arr+4`."""

    name: str
    offset: int = 0
    scope: int = 0


class Int(Struct, frozen=True):
    """An integer literal, as a Python integer of any sign."""

    value: int


class Float(Struct, frozen=True):
    """A floating-point literal as the bits it stands for: `width` is 32 (`0f…`) or 64 bits."""

    bits: int
    width: int


class Mem(NamedTuple):
    """An address operand `[base+offset]`, offset in bytes; `extra` holds what follows a comma,
    as in `[tex, {%f1,%f2}]` or the coordinates of a bulk tensor copy."""

    base: Operand
    offset: int = 0
    extra: tuple[Operand, ...] = ()


class Vec(Struct, frozen=True):
    """`{a, b, …}`: the elements of a vector access, or the parts of a packing `mov`."""

    elements: tuple[Operand, ...]


class Pair(Struct, frozen=True):
    """`d|p`: two destinations."""

    first: Operand
    second: Operand


class Not(Struct, frozen=True):
    """`!p`: a negated predicate source."""

    operand: Operand


class Sink(Struct, frozen=True):
    """`_`: a destination nobody wants."""


class RegisterPart(Struct, frozen=True):
    """One part of a scalar register: `%r1.b0`, `%r1.h1` (video instructions)."""

    base: Operand
    selector: str


class Sum(Struct, frozen=True):
    """`%r1+4` outside an address: a register plus a constant, as ptxas accepts it."""

    base: Operand
    offset: int


class Args(Struct, frozen=True):
    """`(a, b)`: the argument or result list of a call."""

    elements: tuple[Operand, ...]


Operand: TypeAlias = (
    Reg | Special | Symbol | Int | Float | Mem | Vec | Pair | Not | Sink | RegisterPart | Sum | Args
)


def components(name: str, count: int) -> tuple[str, ...]:
    """The registers that a vector register of `count` elements consists of (manual 6.4.3)."""
    return tuple(f"{name}.{letter}" for letter in "xyzw"[:count])


def flatten(operands: Iterable[Operand]) -> Iterator[Operand]:
    """Operands with vectors, pairs and lists taken apart."""
    for operand in operands:
        if type(operand) is Reg:  # nearly always
            yield operand
            continue
        match operand:
            case Vec(elements) | Args(elements):
                yield from flatten(elements)
            case Pair(first, second):
                yield from flatten((first, second))
            case _:
                yield operand


def leaves(operands: Iterable[Operand]) -> Iterator[Operand]:
    """The registers, symbols and literals that operands are made of, in their order: those of
    vectors, pairs and lists, and the bases of addresses, sums and components."""
    for operand in flatten(operands):
        if type(operand) is Reg:  # nearly always
            yield operand
            continue
        match operand:
            case Mem(base, _, extra):
                yield from leaves((base, *extra))
            case Not(inner) | RegisterPart(inner, _) | Sum(inner, _):
                yield from leaves((inner,))
            case _:
                yield operand


def mapped(operand: Operand, leaf: Callable[[Operand], Operand]) -> Operand:
    """An operand with something else for each of its leaves."""
    match operand:
        case Vec(elements):
            return Vec(tuple(mapped(o, leaf) for o in elements))
        case Args(elements):
            return Args(tuple(mapped(o, leaf) for o in elements))
        case Pair(first, second):
            return Pair(mapped(first, leaf), mapped(second, leaf))
        case Mem(base, offset, extra):
            return Mem(mapped(base, leaf), offset, tuple(mapped(o, leaf) for o in extra))
        case Not(inner):
            return Not(mapped(inner, leaf))
        case RegisterPart(base, selector):
            return RegisterPart(mapped(base, leaf), selector)
        case Sum(base, offset):
            return Sum(mapped(base, leaf), offset)
    return leaf(operand)
