"""Scalar video instructions on whole words: PTX ISA 9.0, section 9.7.19.1. Operands that name a
byte or half of a register, which the manual calls selectors, are not known here.

GCC writes `vadd.u32.u32.u32.add` for a sum of three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import clamp, extend
from ptxsw.semantics.registry import Meaning, Modifiers, Type, V, semantics

_WORDS = ("u32", "s32")
_WIDE = 64  # bits: no sum, difference or second sum of words wraps in it


def _add(g: Algebra[V], a: V, b: V) -> V:
    return g.add(a, b)


def _sub(g: Algebra[V], a: V, b: V) -> V:
    return g.sub(a, b)


def _min(g: Algebra[V], a: V, b: V) -> V:
    return g.ite(g.slt(a, b), a, b)


def _max(g: Algebra[V], a: V, b: V) -> V:
    return g.ite(g.slt(a, b), b, a)


def _abs_diff(g: Algebra[V], a: V, b: V) -> V:
    return g.sub(_max(g, a, b), _min(g, a, b))


def _meaning(m: Modifiers, operation: Callable[..., Any]) -> Meaning:
    """d = a op b of numbers as wide as they need to be; kept within the type of d with `.sat`,
    with `.add` plus c. The secondary `.min` and `.max` are not known here."""
    to, *types = (m.type(*_WORDS) for _ in range(3))
    saturate, more = m.flag("sat"), m.flag("add")

    def compute(g: Algebra[V], a: V, b: V, *c: V) -> V:
        wide = operation(g, *_numbers(g, types, a, b))
        if saturate:
            wide = clamp(g, wide, *_range(to))
        found = g.extract(wide, 0, to.width)
        return g.add(found, *c) if c else found

    return Meaning((to.width,) * (3 if more else 2), (to.width,), compute)


def _numbers(g: Algebra[V], types: list[Type], *sources: V) -> list[V]:
    return [extend(g, s, _WIDE, t.signed) for s, t in zip(sources, types, strict=True)]


def _range(type_: Type) -> tuple[int, int]:
    half = 1 << type_.width - 1
    return (-half, half - 1) if type_.signed else (0, 2 * half - 1)


@semantics("vadd", "9.7.19.1.1")
def vadd(m: Modifiers) -> Meaning:
    """d = a + b."""
    return _meaning(m, _add)


@semantics("vsub", "9.7.19.1.1")
def vsub(m: Modifiers) -> Meaning:
    """d = a - b."""
    return _meaning(m, _sub)


@semantics("vabsdiff", "9.7.19.1.1")
def vabsdiff(m: Modifiers) -> Meaning:
    """d = |a - b|."""
    return _meaning(m, _abs_diff)


@semantics("vmin", "9.7.19.1.1")
def vmin(m: Modifiers) -> Meaning:
    """d = the smaller of a and b."""
    return _meaning(m, _min)


@semantics("vmax", "9.7.19.1.1")
def vmax(m: Modifiers) -> Meaning:
    """d = the greater of a and b."""
    return _meaning(m, _max)
