"""Scalar video instructions on whole words: PTX ISA 9.0, section 9.7.19.1. Operands that name a
byte or half of a register, which the manual calls selectors, are not known here.

GCC writes `vadd.u32.u32.u32.add` for a sum of three.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import clamp, extend
from ptxsw.semantics.registry import Meaning, Modifiers, Type, V, semantics

_Operation = Callable[..., Any]

_WORDS = ("u32", "s32")
_WIDE = 64  # bits: no sum, difference or second sum of words wraps in it


def _meaning(m: Modifiers, operation: _Operation) -> Meaning:
    """d = a op b of numbers as wide as they need to be; kept within the type of d with `.sat`,
    with `.add` plus c. The secondary `.min` and `.max` are not known here."""
    to, *types = (m.type(*_WORDS) for _ in range(3))
    saturate, more = m.flag("sat"), m.flag("add")

    def compute(g: Algebra[V], a: V, b: V, *c: V) -> V:
        wide = operation(g, *_numbers(g, types, a, b))
        if saturate:
            wide = clamp(g, wide, *_range(to))
        # `.sat` applies to the first operation; the second one wraps.
        word = g.extract(wide, 0, to.width)
        return g.add(word, *c) if c else word

    return Meaning((to.width,) * (3 if more else 2), (to.width,), compute)


def _numbers(g: Algebra[V], types: list[Type], *sources: V) -> list[V]:
    return [extend(g, s, _WIDE, t.signed) for s, t in zip(sources, types, strict=True)]


def _range(type_: Type) -> tuple[int, int]:
    half = 1 << type_.width - 1
    return (-half, half - 1) if type_.signed else (0, 2 * half - 1)


def _words(opcode: str) -> Callable[[_Operation], _Operation]:
    """Registers what an opcode does with two numbers that are wide enough."""

    def register(operation: _Operation) -> _Operation:
        semantics(opcode, "9.7.19.1.1")(partial(_meaning, operation=operation))
        return operation

    return register


@_words("vadd")
def vadd(g: Algebra[V], a: V, b: V) -> V:
    """d = a + b."""
    return g.add(a, b)


@_words("vsub")
def vsub(g: Algebra[V], a: V, b: V) -> V:
    """d = a - b."""
    return g.sub(a, b)


@_words("vmin")
def vmin(g: Algebra[V], a: V, b: V) -> V:
    """d = the smaller of a and b."""
    return g.ite(g.slt(a, b), a, b)


@_words("vmax")
def vmax(g: Algebra[V], a: V, b: V) -> V:
    """d = the greater of a and b."""
    return g.ite(g.slt(a, b), b, a)


@_words("vabsdiff")
def vabsdiff(g: Algebra[V], a: V, b: V) -> V:
    """d = |a - b|."""
    return g.sub(vmax(g, a, b), vmin(g, a, b))
