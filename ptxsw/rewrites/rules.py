"""Local rules: one instruction, or two on the same operands, become other instructions.

A rule is an entry of a table: the names it is for, the condition on its operands, the lines that it
writes. Nothing else has to be written: `LocalRewrite` looks for it, `codegen/lower_rules.py` writes
it, and the tests prove each rule with Z3 for all values under its condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ptxsw.changes.rule import LocalRule, RunTimeTest
from ptxsw.ptx.bits import wrapped
from ptxsw.rewrites.base import Requires

if TYPE_CHECKING:
    from ptxsw.changes.change import Change
    from ptxsw.codegen.splice import Edit
    from ptxsw.rewrites.base import Kernel, Outcome
    from ptxsw.terms.node import Term
    from ptxsw.terms.terms import Terms


class LocalRewrite(Struct, frozen=True):
    """A rewrite that consists of rules: of each instruction the first that holds is applied."""

    name: str
    summary: str
    rules: tuple[LocalRule, ...]
    nothing_found: str = "it has no such instruction"
    refusal: str = "its operands do not have the form that the rule takes"
    needs_ptxas: bool = False

    @property
    def requires(self) -> Requires:
        """One of the names."""
        return Requires(words=tuple(sorted(set(self._names))))

    @property
    def follows(self) -> frozenset[str]:
        """What the rules ask the values of."""
        asking = (rule for rule in self.rules if rule.given or rule.beside)
        return frozenset(name for rule in asking for name in (*rule.names, *rule.others))

    @property
    def _names(self) -> Iterator[str]:
        for rule in self.rules:
            yield from (*rule.names, *rule.others)

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """See `Search`."""
        from ptxsw.rewrites.local_changes import find

        return find(self.name, self.rules, self.refusal, kernel)

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return self.nothing_found

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """See `Search`."""
        from ptxsw.codegen.builder import Builder
        from ptxsw.codegen.lower_rules import lower

        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, changes)
        return builder.edits()


# ---------------------------------------------------------------- conditions


def below_32_bits(terms: Terms, value: Term) -> Term:
    """As an unsigned number it is less than 2^32."""
    return terms.ult(value, terms.const(1 << 32, value.width))


def sign_extended(terms: Terms, value: Term) -> Term:
    """It lies between -2^31 and 2^31 - 1."""
    return terms.eq(value, terms.sext(terms.extract(value, 0, 32), value.width))


def nonzero(terms: Terms, value: Term) -> Term:
    return terms.not_(terms.eq(value, terms.const(0, value.width)))


def exact_log2(value: int) -> int | None:
    """The exponent of a power of two."""
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None


# ---------------------------------------------------------------- narrowing

_TEST = RunTimeTest(
    below_32_bits,
    (
        "shr.u64 {high:b64}, {tested}, 32;",
        "cvt.u32.u64 {upper:b32}, {high};",
        "setp.ne.u32 {fails:pred}, {upper}, 0;",
    ),
    # By zero, too, the operation stays as it is.
    ((nonzero, "setp.eq.or.u32 {fails}, {tested}, 0, {fails};"),),
    "its operands fit 32 bits",
    lambda divisor: exact_log2(abs(wrapped(divisor, 64))) is not None or not divisor,
)

# What ptxas 13.0 makes of each, counted on sm_80: a 64-bit division with its call takes some 110
# instructions more than one of 32 bits, a product of 64 bits 3 more than a wide one of 32.
_DIVISION, _PRODUCT, _REMAINDER = -105.0, -3.0, -58.0
_PRODUCTS = ("mul.lo.u64", "mul.lo.s64")
_QUOTIENTS, _REMAINDERS = ("div.u64", "div.s64"), ("rem.u64", "rem.s64")
_UNSIGNED, _SIGNED = "unsigned 32 bits", "signed 32 bits"


def _or_ones(quotient: str) -> tuple[str, ...]:
    """The lines that widen a quotient. By zero it is all ones, 32 or 64 of them."""
    return (
        "cvt.u64.u32 {wide:b64}, {narrow};",
        "setp.eq.u32 {zero:pred}, {b}, 0;",
        f"selp.b64 {{{quotient}}}, -1, {{wide}}, {{zero}};",
    )


_HALVED = (
    "div.u32 {narrow:b32}, {a}, {b};",
    "mul.lo.u32 {whole:b32}, {narrow}, {b};",
    "sub.u32 {less:b32}, {a}, {whole};",
    "cvt.u64.u32 {rest:b64}, {less};",
)
_BOTH = (
    "div.{type} {quotient}, {A}, {B};",
    "mul.lo.s64 {product:b64}, {quotient}, {B};",
    "sub.s64 {rest}, {A}, {product};",
)

NARROWING = LocalRewrite(
    "narrowing",
    "64-bit operations on values that fit 32 bits use 32-bit instructions.",
    (
        # One division serves both. The quotient goes to a register of its own: its destination may
        # be an operand that the remainder still needs, or be written in between.
        LocalRule(
            _REMAINDERS, ("mov.b64 {d}, {rest};",),
            given=((below_32_bits, "ab"), (nonzero, "b")), low="u32", test=_TEST, slow=_BOTH,
            beside="div", shared=(*_HALVED, "cvt.u64.u32 {quotient:b64}, {narrow};"),
            other=("mov.b64 {e}, {quotient};",), fact="quotient_line", adds=_DIVISION + _REMAINDER,
        ),
        LocalRule(
            _REMAINDERS, ("mov.b64 {d}, {rest};",),
            given=((below_32_bits, "ab"),), low="u32",
            beside="div", shared=(*_HALVED, *_or_ones("quotient:b64")),
            other=("mov.b64 {e}, {quotient};",), fact="quotient_line", adds=_DIVISION + _REMAINDER,
        ),
        LocalRule(
            _PRODUCTS, ("mul.wide.u32 {d}, {a}, {b};",), useless=frozenset({0, 1}),
            given=((below_32_bits, "ab"),), low="u32",
            fact="operands", said=_UNSIGNED, adds=_PRODUCT,
        ),
        LocalRule(
            _PRODUCTS, ("mul.wide.s32 {d}, {a}, {b};",), useless=frozenset({0, 1}),
            given=((sign_extended, "ab"),), low="s32",
            fact="operands", said=_SIGNED, adds=_PRODUCT,
        ),
        # As signed numbers such operands are not negative, so a signed division gives the same as
        # an unsigned one. The remainder by zero is the dividend at both widths.
        LocalRule(
            _REMAINDERS, ("rem.u32 {narrow:b32}, {a}, {b};", "cvt.u64.u32 {d}, {narrow};"),
            given=((below_32_bits, "ab"),), low="u32",
            test=_TEST, slow=("rem.{type} {d}, {A}, {B};",),
            fact="operands", said=_UNSIGNED, adds=_DIVISION,
        ),
        LocalRule(
            _QUOTIENTS, ("div.u32 {narrow:b32}, {a}, {b};", "cvt.u64.u32 {d}, {narrow};"),
            given=((below_32_bits, "ab"), (nonzero, "b")), low="u32",
            test=_TEST, slow=("div.{type} {d}, {A}, {B};",),
            fact="operands", said=_UNSIGNED, adds=_DIVISION,
        ),
        LocalRule(
            _QUOTIENTS,
            ("div.u32 {narrow:b32}, {a}, {b};", *_or_ones("d")),
            given=((below_32_bits, "ab"),), low="u32",
            fact="operands", said=_UNSIGNED, adds=_DIVISION,
        ),
        # By zero the product is 0, and the remainder the dividend.
        LocalRule(
            _REMAINDERS,
            ("mul.lo.s64 {product:b64}, {quotient}, {b};", "sub.s64 {d}, {a}, {product};"),
            beside="div", shared=("div.{type} {quotient:b64}, {a}, {b};",),
            other=("mov.b64 {e}, {quotient};",), fact="quotient_line", adds=_REMAINDER,
        ),
    ),
    nothing_found="no division, remainder or product of 64 bits is executed",
    refusal="its operands are not known to fit 32 bits",
)  # fmt: skip
"""64-bit operations on values that fit 32 bits (gpucc, 3.6), and a remainder from the quotient of
the same operands. ptxas expands a 64-bit division to some hundred instructions and never asks how
wide its operands are."""
