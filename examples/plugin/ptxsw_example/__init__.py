"""An opcode that ptxsw does not know, and a rewrite of one instruction.

sqr.u32 %r2, %r1;                      the square of %r1; no such opcode is in PTX 9.0

mul.lo.u32 %r2, %r1, 8;        =>      shl.b32 %r2, %r1, 3;
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from ptxsw.changes.change import Change, Line, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.splice import Edit
from ptxsw.driver import plugins
from ptxsw.ptx.ir import Instruction, Int, Reg
from ptxsw.ptx.isa import Op
from ptxsw.rewrites.base import Kernel, Outcome, Requires
from ptxsw.semantics.registry import Meaning, Modifiers


def register() -> None:
    """Called by `ptxsw --plugins example`."""
    plugins.register_opcode("sqr", Op(), sqr)
    plugins.register_rewrite(ShiftForProduct())


def sqr(modifiers: Modifiers) -> Meaning:
    """The meaning of `sqr`: works over numbers, terms and Z3 alike."""
    width = modifiers.type("u32", "u64").width
    return Meaning((width,), (width,), lambda algebra, a: algebra.mul(a, a))


class Shift(Struct, frozen=True):
    """Instruction `at` shifts left by so many bits."""

    at: int
    by: int

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"shift": self.by}


class ShiftForProduct:
    """A product with a power of two becomes a shift."""

    name: ClassVar[str] = "shift-for-product"
    summary: ClassVar[str] = "A product of 32 bits with a power of two becomes a shift."
    requires: ClassVar[Requires] = Requires(words=("mul.lo.u32", "mul.lo.s32"))
    needs_ptxas: ClassVar[bool] = False
    follows: ClassVar[frozenset[str]] = frozenset()

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """The products by literals. `validate` proves the new text, so no proof is needed here."""
        for at, instruction in enumerate(kernel.trace.cfg.instructions):
            if instruction.name not in self.requires.words:
                continue
            by = _power(instruction)
            if by is None:
                yield Refusal(self.name, at, "the factor is no power of two")
            else:
                yield Change(
                    self.name, at, frozenset({at}), Proof(), Shift(at, by),
                    worth=Worth(instructions=0),
                )  # fmt: skip

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        for change in changes:
            assert isinstance(change.detail, Shift)
            dest, source, _ = builder.instructions[change.at].operands
            assert isinstance(dest, Reg) and isinstance(source, Reg)
            builder.replace(change.at, f"shl.b32 {dest.name}, {source.name}, {change.detail.by};")
        return builder.edits()


def _power(instruction: Instruction) -> int | None:
    """The exponent, where the last operand is a power of two and nothing guards the product."""
    factor = instruction.operands[-1]
    if instruction.guard is not None or not isinstance(factor, Int):
        return None
    value = factor.value
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None
