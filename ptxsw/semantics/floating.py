"""Floating point: PTX ISA 9.0, sections 9.7.3 (single, double), 9.7.4 (half) and 9.7.5 (mixed).

The arithmetic is the algebra's, under the full name of the instruction. Only what moves bits is
written out here.
"""

from __future__ import annotations

from ptxsw.semantics.algebra import Algebra
from ptxsw.semantics.registry import Meaning, Modifiers, V, semantics

SCALAR = ("f32", "f64")
HALF = ("f16", "f16x2", "bf16", "bf16x2")
ROUNDING = ("rn", "rz", "rm", "rp")
APPROXIMATE = ("approx", "full")


def arithmetic(
    opcode: str, m: Modifiers, count: int, types: tuple[str, ...], flags: tuple[str, ...]
) -> Meaning:
    """`count` sources of one type to a result of that type, left to the algebra."""
    # The full name tells the algebra rounding and flags apart; what is taken off is only checked.
    name = ".".join((opcode, *m.rest))
    for flag in flags:
        m.flag(flag)
    type_ = m.type(*types)

    def compute(g: Algebra[V], *operands: V) -> V:
        return g.floating(name, type_.width, operands)

    width = type_.width
    return Meaning((width,) * count, (width,), compute, single=type_.name == "f32")


ARITHMETIC_FLAGS = (*ROUNDING, "ftz", "sat")
FUSED_FLAGS = (*ARITHMETIC_FLAGS, "relu", "oob")
MIXED = ("f16", "bf16")


def _mixed(opcode: str, m: Modifiers, narrow: int) -> Meaning | None:
    """The first `narrow` sources are half, what follows and the result single precision."""
    if "f32" not in m.rest or not set(MIXED) & set(m.rest):
        return None
    name = ".".join((opcode, *m.rest))
    for flag in ARITHMETIC_FLAGS:
        m.flag(flag)
    m.type("f32")
    m.type(*MIXED)

    def compute(g: Algebra[V], *operands: V) -> V:
        return g.floating(name, 32, operands)

    return Meaning((16,) * narrow + (32,), (32,), compute)


@semantics("add", "9.7.3.3")
def add(m: Modifiers) -> Meaning:
    """d = a + b, rounded."""
    mixed = _mixed("add", m, 1)
    return mixed or arithmetic("add", m, 2, (*SCALAR, *HALF, "f32x2"), ARITHMETIC_FLAGS)


@semantics("sub", "9.7.3.4")
def sub(m: Modifiers) -> Meaning:
    """d = a - b, rounded."""
    mixed = _mixed("sub", m, 1)
    return mixed or arithmetic("sub", m, 2, (*SCALAR, *HALF, "f32x2"), ARITHMETIC_FLAGS)


@semantics("mul", "9.7.3.5")
def mul(m: Modifiers) -> Meaning:
    """d = a * b, rounded."""
    return arithmetic("mul", m, 2, (*SCALAR, *HALF, "f32x2"), ARITHMETIC_FLAGS)


@semantics("fma", "9.7.3.6")
def fma(m: Modifiers) -> Meaning:
    """d = a * b + c, rounded once."""
    mixed = _mixed("fma", m, 2)
    return mixed or arithmetic("fma", m, 3, (*SCALAR, *HALF, "f32x2"), FUSED_FLAGS)


@semantics("mad", "9.7.3.7")
def mad(m: Modifiers) -> Meaning:
    """d = a * b + c, rounded once: the same as `fma` on every target from sm_20 on."""
    return arithmetic("mad", m, 3, SCALAR, ARITHMETIC_FLAGS)


@semantics("div", "9.7.3.8")
def div(m: Modifiers) -> Meaning:
    """d = a / b, rounded or approximate."""
    return arithmetic("div", m, 2, SCALAR, (*ROUNDING, *APPROXIMATE, "ftz"))


@semantics("abs", "9.7.3.9")
def abs_(m: Modifiers) -> Meaning:
    """d = |a|."""
    return arithmetic("abs", m, 1, (*SCALAR, *HALF), ("ftz",))


@semantics("neg", "9.7.3.10")
def neg(m: Modifiers) -> Meaning:
    """d = -a."""
    return arithmetic("neg", m, 1, (*SCALAR, *HALF), ("ftz",))


EXTREME_FLAGS = ("ftz", "NaN", "xorsign", "abs")


@semantics("min", "9.7.3.11")
def min_(m: Modifiers) -> Meaning:
    """d = the lesser of a and b; a number if one of them is no number (`.NaN`: no number)."""
    return arithmetic("min", m, 2, (*SCALAR, *HALF), EXTREME_FLAGS)


@semantics("max", "9.7.3.12")
def max_(m: Modifiers) -> Meaning:
    """d = the greater of a and b; a number if one of them is no number (`.NaN`: no number)."""
    return arithmetic("max", m, 2, (*SCALAR, *HALF), EXTREME_FLAGS)


@semantics("rcp", "9.7.3.13")
def rcp(m: Modifiers) -> Meaning:
    """d = 1 / a, rounded or approximate."""
    return arithmetic("rcp", m, 1, SCALAR, (*ROUNDING, "approx", "ftz"))


@semantics("sqrt", "9.7.3.15")
def sqrt(m: Modifiers) -> Meaning:
    """d = the square root of a, rounded or approximate."""
    return arithmetic("sqrt", m, 1, SCALAR, (*ROUNDING, "approx", "ftz"))


@semantics("rsqrt", "9.7.3.16")
def rsqrt(m: Modifiers) -> Meaning:
    """d = 1 / the square root of a, approximate."""
    return arithmetic("rsqrt", m, 1, SCALAR, ("approx", "ftz"))


@semantics("sin", "9.7.3.18")
def sin(m: Modifiers) -> Meaning:
    """d = sin a, approximate."""
    return arithmetic("sin", m, 1, ("f32",), ("approx", "ftz"))


@semantics("cos", "9.7.3.19")
def cos(m: Modifiers) -> Meaning:
    """d = cos a, approximate."""
    return arithmetic("cos", m, 1, ("f32",), ("approx", "ftz"))


@semantics("lg2", "9.7.3.20")
def lg2(m: Modifiers) -> Meaning:
    """d = the logarithm of a to base 2, approximate."""
    return arithmetic("lg2", m, 1, ("f32",), ("approx", "ftz"))


@semantics("ex2", "9.7.3.21")
def ex2(m: Modifiers) -> Meaning:
    """d = 2 to the power a, approximate."""
    return arithmetic("ex2", m, 1, ("f32", *HALF), ("approx", "ftz"))


@semantics("tanh", "9.7.3.22")
def tanh(m: Modifiers) -> Meaning:
    """d = tanh a, approximate."""
    return arithmetic("tanh", m, 1, ("f32", *HALF), ("approx",))


@semantics("testp", "9.7.3.1")
def testp(m: Modifiers) -> Meaning:
    """p = a is finite, infinite, a number, no number, normal or subnormal."""
    kind = m.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    type_ = m.type(*SCALAR)
    name = f"testp.{kind}.{type_.name}"

    def compute(g: Algebra[V], a: V) -> V:
        return g.floating(name, 1, (a,))

    return Meaning((type_.width,), (1,), compute, single=type_.name == "f32")


@semantics("copysign", "9.7.3.2")
def copysign(m: Modifiers) -> Meaning:
    """d = b with the sign of a."""
    type_ = m.type(*SCALAR)
    width = type_.width

    def compute(g: Algebra[V], a: V, b: V) -> V:
        return g.concat(g.extract(a, width - 1, 1), g.extract(b, 0, width - 1))

    return Meaning((width, width), (width,), compute, single=type_.name == "f32")
