"""An opcode that ptxsw does not know, and a rule for one instruction.

sqr.u32 %r2, %r1;                      the square of %r1; no such opcode is in PTX 9.0

mul.lo.u32 %r2, %r1, 8;        =>      shl.b32 %r2, %r1, 3;
"""

from __future__ import annotations

from ptxsw.changes.rule import LocalRule
from ptxsw.driver import plugins
from ptxsw.ptx.isa import Op
from ptxsw.rewrites.rules import LocalRewrite, exact_log2
from ptxsw.semantics.registry import Meaning, Modifiers

PRODUCTS = ("mul.lo.u32", "mul.lo.s32")
SHIFT_FOR_PRODUCT = LocalRewrite(
    "shift-for-product",
    "A product of 32 bits with a power of two becomes a shift.",
    (LocalRule(PRODUCTS, ("shl.b32 {d}, {a}, {n};",), number=exact_log2, fact="shift"),),
    refusal="the factor is no power of two",
)


def register() -> None:
    """Called by `ptxsw --plugins example`."""
    plugins.register_opcode("sqr", Op(), sqr)
    plugins.register_rewrite(SHIFT_FOR_PRODUCT)


def sqr(modifiers: Modifiers) -> Meaning:
    """The meaning of `sqr`: works over numbers, terms and Z3 alike."""
    width = modifiers.type("u32", "u64").width
    return Meaning((width,), (width,), lambda algebra, a: algebra.mul(a, a))
