"""Conversion: PTX ISA 9.0, sections 9.7.9.21 (`cvt`) and 9.7.9.22 (`cvt.pack`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.integer import clamp, extend
from ptxsw.semantics.registry import Meaning, Modifiers, NoForm, Type, V, semantics

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "f16x2", "bf16x2", "e4m3x2", "e5m2x2")
ROUNDING = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
FLAGS = ("ftz", "sat", "relu", "satfinite")


def limits(type_: Type) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if type_.signed:
        return -(1 << type_.width - 1), (1 << type_.width - 1) - 1
    return 0, (1 << type_.width) - 1


def _saturate(g: Algebra[V], a: V, source: Type, target: Type) -> V:
    """`a` brought into the range of `target`, one bit wider than both so that nothing is lost."""
    width = max(source.width, target.width) + 1
    return g.extract(clamp(g, extend(g, a, width, source.signed), *limits(target)), 0, target.width)


def _integers(source: Type, target: Type, saturate: bool) -> Callable[..., Any]:
    def plain(g: Algebra[V], a: V) -> V:
        if target.width > source.width:
            return extend(g, a, target.width, source.signed)
        return a if target.width == source.width else g.extract(a, 0, target.width)

    def saturated(g: Algebra[V], a: V) -> V:
        return _saturate(g, a, source, target)

    # Where every value fits, `.sat` changes nothing and the plain term is simpler to prove.
    low, high = limits(source)
    least, most = limits(target)
    fits = least <= low and high <= most
    return saturated if saturate and not fits else plain


@semantics("cvt", "9.7.9.21")
def cvt(m: Modifiers) -> Meaning:
    """d = a in another integer type: truncated, extended by the sign of its own type, or with
    `.sat` brought into the range."""
    saturate = m.flag("sat")
    target, source = m.type(*INTEGERS), m.type(*INTEGERS)
    compute = _integers(source, target, saturate)
    return Meaning((source.width,), (target.width,), compute, signed=target.signed)


def _operands(target: Type, source: Type) -> int:
    """How many sources a conversion to or from floating point has."""
    # `cvt.rn.f16x2.f32 d, a, b` packs two singles; from another packed type there is one source.
    packs = target.name.endswith("x2") and not source.name.endswith("x2")
    if packs and source.name != "f32":
        raise NoForm
    return 2 if packs else 1


@semantics("cvt", "9.7.9.21 floating point")
def cvt_floating(m: Modifiers) -> Meaning:
    """d = a rounded to another type, where either is floating point; packed types take two
    sources, the first for the upper half."""
    # The whole name goes to the algebra, so that `cvt.rn.f32.f64` and `cvt.rz.f32.f64` are two
    # functions. What is taken off below is only checked.
    name = ".".join(("cvt", *m.rest))
    m.option(ROUNDING)
    for flag in FLAGS:
        m.flag(flag)
    target, source = m.type(*INTEGERS, *FLOATS), m.type(*INTEGERS, *FLOATS)
    if "f" not in (target.kind, source.kind):
        raise NoForm

    def compute(g: Algebra[V], *operands: V) -> V:
        return g.floating(name, target.width, operands)

    inputs = (source.width,) * _operands(target, source)
    single = source.name == "f32"
    return Meaning(inputs, (target.width,), compute, signed=target.signed, single=single)


@semantics("cvt", "9.7.9.22")
def cvt_pack(m: Modifiers) -> Meaning:
    """d = a and b brought into the range of a narrower type and packed, a above b; for 8-bit
    types the low half of c goes on top."""
    if not m.flag("pack") or not m.flag("sat"):
        raise NoForm
    target, source = m.type("u8", "s8", "u16", "s16"), m.type("s32")
    narrow = target.width == 8
    if narrow:
        m.type("b32")

    def compute(g: Algebra[V], a: V, b: V, *c: V) -> V:
        pair = g.concat(_saturate(g, a, source, target), _saturate(g, b, source, target))
        return g.concat(g.extract(c[0], 0, 16), pair) if c else pair

    return Meaning((32, 32, 32) if narrow else (32, 32), (32,), compute)
