"""Comparison and selection: PTX ISA 9.0, sections 9.7.6 and 9.7.7 (half precision)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.registry import Meaning, Modifiers, NoForm, Type, V, semantics

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
BITS = ("b16", "b32", "b64")
FLOATS = ("f32", "f64", "f16", "bf16")
PACKED = ("f16x2", "bf16x2")
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
Compare = Callable[..., Any]


def _integers(operator: str, type_: Type) -> Compare:
    # Bits have no order, and `lo`, `ls`, `hi`, `hs` are names of the unsigned comparisons.
    if type_.kind == "b" and operator not in ("eq", "ne"):
        raise NoForm
    if operator in UNSIGNED and type_.signed:
        raise NoForm
    signed = type_.signed

    def less(g: Algebra[V], a: V, b: V) -> V:
        return g.slt(a, b) if signed else g.ult(a, b)

    def at_most(g: Algebra[V], a: V, b: V) -> V:
        return g.sle(a, b) if signed else g.ule(a, b)

    table: dict[str, Compare] = {
        "eq": lambda g, a, b: g.eq(a, b),
        "ne": lambda g, a, b: g.not_(g.eq(a, b)),
        "lt": less,
        "le": at_most,
        "gt": lambda g, a, b: less(g, b, a),
        "ge": lambda g, a, b: at_most(g, b, a),
    }
    return table[UNSIGNED.get(operator, operator)]


def comparison(operator: str, type_: Type, ftz: bool = False) -> Compare:
    """`a operator b` as a function to a predicate. Floating point is the algebra's."""
    if type_.kind != "f":
        if ftz or operator in UNORDERED:
            raise NoForm
        return _integers(operator, type_)
    if operator in UNSIGNED:
        raise NoForm
    name = ".".join(("setp", operator, *(("ftz",) if ftz else ()), type_.name))
    return lambda g, a, b: g.floating(name, 1, (a, b))


def combination(name: str | None) -> Compare:
    """How a comparison meets a predicate operand."""
    if name == "and":
        return lambda g, p, c: g.and_(p, c)
    if name == "or":
        return lambda g, p, c: g.or_(p, c)
    return lambda g, p, c: g.xor(p, c)


def _head(m: Modifiers) -> tuple[str, str | None, bool]:
    """Comparison, boolean operator and `.ftz`."""
    operator = m.choice(*ORDERED, *UNSIGNED, *UNORDERED)
    return operator, m.option(("and", "or", "xor")), m.flag("ftz")


@semantics("setp", "9.7.6.2")
def setp(m: Modifiers) -> Meaning:
    """p|q: t = a compared with b; p = t, q = !t, each combined with the predicate c if given."""
    operator, boolean, ftz = _head(m)
    type_ = m.type(*INTEGERS, *BITS, *FLOATS)
    test, combine = comparison(operator, type_, ftz), combination(boolean)

    def one(g: Algebra[Any], a: Any, b: Any, *c: Any) -> Any:
        t = test(g, a, b)
        return combine(g, t, c[0]) if c else t

    def both(g: Algebra[Any], a: Any, b: Any, *c: Any) -> Any:
        t = test(g, a, b)
        # q combines the complement of the comparison, not of p: with `.and` both may be false.
        p, q = t, g.not_(t)
        return (combine(g, p, c[0]), combine(g, q, c[0])) if c else (p, q)

    # Modifiers do not say whether there is a second destination: `run` picks by the operands.
    single = type_.name == "f32"
    inputs = (type_.width,) * 2 if boolean is None else (type_.width, type_.width, 1)
    pair = Meaning(inputs, (1, 1), both, single=single)
    return Meaning(inputs, (1,), one, single=single, pair=pair)


def _split(type_: Type) -> Type:
    """The type of one half of a packed type."""
    return Type(type_.name.removesuffix("x2"), "f", 16)


@semantics("setp", "9.7.7.2")
def setp_packed(m: Modifiers) -> Meaning:
    """p|q: the comparisons of the low and the high halves, each combined with c if given."""
    operator, boolean, ftz = _head(m)
    test = comparison(operator, _split(m.type(*PACKED)), ftz)
    combine = combination(boolean)

    def compute(g: Algebra[V], a: V, b: V, *c: V) -> tuple[V, V]:
        p = test(g, g.extract(a, 0, 16), g.extract(b, 0, 16))
        q = test(g, g.extract(a, 16, 16), g.extract(b, 16, 16))
        return (combine(g, p, c[0]), combine(g, q, c[0])) if c else (p, q)

    inputs = (32, 32) if boolean is None else (32, 32, 1)
    return Meaning(inputs, (1, 1), compute)


_TRUE = {
    "u16": 0xFFFF, "s16": 0xFFFF, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF,
    "f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80,
}  # fmt: skip


@semantics("set", "9.7.6.1")
def set_(m: Modifiers) -> Meaning:
    """d = all ones (1.0 for floating point) where a compared with b holds, else 0."""
    operator, boolean, ftz = _head(m)
    # In `set.lt.u32.f32` the first type is that of the result.
    to = m.type("u32", "s32", "f32", "u16", "s16", "f16", "bf16")
    type_ = m.type(*INTEGERS, *BITS, *FLOATS)
    if to.width == 16 and type_.name not in ("f16", "bf16"):
        raise NoForm
    test, combine = comparison(operator, type_, ftz), combination(boolean)
    true = _TRUE[to.name]

    def compute(g: Algebra[V], a: V, b: V, *c: V) -> V:
        p = test(g, a, b)
        if c:
            p = combine(g, p, c[0])
        return g.ite(p, g.const(true, to.width), g.const(0, to.width))

    inputs = (type_.width,) * 2 if boolean is None else (type_.width, type_.width, 1)
    return Meaning(inputs, (to.width,), compute, single=type_.name == "f32")


@semantics("set", "9.7.7.1")
def set_packed(m: Modifiers) -> Meaning:
    """The same for packed halves: each half of d tells of its own comparison."""
    operator, boolean, ftz = _head(m)
    to = m.type("f16x2", "bf16x2", "u32", "s32")
    half = _split(m.type(*PACKED))
    test, combine = comparison(operator, half, ftz), combination(boolean)
    true = _TRUE.get(to.name.removesuffix("x2"), 0) & 0xFFFF

    def compute(g: Algebra[V], a: V, b: V, *c: V) -> V:
        out = []
        for low in (16, 0):
            p = test(g, g.extract(a, low, 16), g.extract(b, low, 16))
            if c:
                p = combine(g, p, c[0])
            out.append(g.ite(p, g.const(true, 16), g.const(0, 16)))
        return g.concat(out[0], out[1])

    return Meaning((32, 32) if boolean is None else (32, 32, 1), (32,), compute)


SELECTABLE = (*BITS, *INTEGERS, "f32", "f64")


@semantics("selp", "9.7.6.3")
def selp(m: Modifiers) -> Meaning:
    """d = a where the predicate c holds, else b."""
    type_ = m.type(*SELECTABLE)

    def compute(g: Algebra[V], a: V, b: V, c: V) -> V:
        return g.ite(c, a, b)

    width = type_.width
    return Meaning((width, width, 1), (width,), compute, single=type_.name == "f32")


@semantics("slct", "9.7.6.4")
def slct(m: Modifiers) -> Meaning:
    """d = a where c >= 0, else b. A floating c that is no number selects b."""
    ftz = m.flag("ftz")
    type_, by = m.type(*SELECTABLE), m.type("s32", "f32")
    if ftz and by.name != "f32":
        raise NoForm
    test = comparison("ge", by, ftz)

    def compute(g: Algebra[V], a: V, b: V, c: V) -> V:
        return g.ite(test(g, c, g.const(0, 32)), a, b)

    single = type_.name == "f32"
    return Meaning((type_.width, type_.width, 32), (type_.width,), compute, single=single)
