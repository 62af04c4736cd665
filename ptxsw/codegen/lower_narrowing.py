"""64-bit products, quotients and remainders by 32-bit instructions. `NarrowOperation` says how the
operands are known to fit; the lines before and after stand in `rewrites/narrowing.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ptxsw.changes.change import Change, Line
from ptxsw.codegen.builder import Builder, written
from ptxsw.ptx.ir import Int, Operand

_LOW_HALF = (1 << 32) - 1


class NarrowOperation(Struct, frozen=True):
    """Instruction `at` computes with 32 bits. `signed`: its operands are sign-extended from 32
    bits (products only), else they are below 2^32. `nonzero`: the divisor is not 0."""

    at: int
    signed: bool
    nonzero: bool

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"operands": "signed 32 bits" if self.signed else "unsigned 32 bits"}


class RemainderOfQuotient(Struct, frozen=True):
    """Instruction `at`, a remainder, is made from the quotient of the same operands that
    instruction `quotient` computes, before it or behind it."""

    at: int
    quotient: int

    def facts(self, line: Line) -> Mapping[str, Any]:
        """What a report says of it."""
        return {"quotient_line": line(self.quotient)}


def lower(builder: Builder, changes: Iterable[Change]) -> None:
    """Write all changes."""
    details = [change.detail for change in changes]
    for detail in details:
        if isinstance(detail, NarrowOperation):
            builder.replace(detail.at, *_narrow(builder, detail))
    for detail in details:
        if isinstance(detail, RemainderOfQuotient):
            _remainder(builder, detail)


def _narrow(builder: Builder, detail: NarrowOperation) -> Iterator[str]:
    instruction = builder.instructions[detail.at]
    guard = builder.guard(detail.at)
    dest, a, b = instruction.operands
    if instruction.opcode == "mul":
        low = [_low(builder, operand, detail.signed) for operand in (a, b)]
        yield from (line for _, line in low if line)
        kind = "s32" if detail.signed else "u32"
        yield f"{guard}mul.wide.{kind} {written(dest)}, {low[0][0]}, {low[1][0]};"
        return
    (x, convert_x), (y, convert_y) = _low(builder, a, False), _low(builder, b, False)
    yield from (line for line in (convert_x, convert_y) if line)
    # Only what writes the old destination repeats the guard: the division has no side effect.
    result = builder.register("narrow", "b32")
    yield f"{instruction.opcode}.u32 {result}, {x}, {y};"
    if instruction.opcode == "rem" or detail.nonzero:
        yield f"{guard}cvt.u64.u32 {written(dest)}, {result};"
        return
    wide, zero = builder.register("wide", "b64"), builder.register("zero", "pred")
    yield f"cvt.u64.u32 {wide}, {result};"
    yield f"setp.eq.u32 {zero}, {y}, 0;"
    yield f"{guard}selp.b64 {written(dest)}, -1, {wide}, {zero};"


def _low(builder: Builder, operand: Operand, signed: bool) -> tuple[str, str]:
    """The low half of an operand, and the line that computes it."""
    if isinstance(operand, Int):
        value = operand.value & _LOW_HALF
        return str(value - (1 << 32) if signed and value >> 31 else value), ""
    half = builder.register("low", "b32")
    return half, f"cvt.u32.u64 {half}, {written(operand)};"


def _remainder(builder: Builder, detail: RemainderOfQuotient) -> None:
    """`a - (a / b) * b`: one division for both."""
    remainder = builder.instructions[detail.at]
    quotient = builder.instructions[detail.quotient]
    dest, a, b = map(written, remainder.operands)
    # The quotient goes to a register of its own: its destination may be one of the operands that
    # the remainder still needs, or be written again in between. With divisor 0 the product is 0
    # and the remainder the dividend, as PTX has it.
    kept = builder.register("quotient", "b64")
    product = builder.register("product", "b64")
    divide = f"{quotient.name} {kept}, {a}, {b};"
    rest = (f"mul.lo.s64 {product}, {kept}, {b};", f"sub.s64 {dest}, {a}, {product};")
    copy = f"mov.b64 {written(quotient.operands[0])}, {kept};"
    if detail.quotient < detail.at:
        builder.replace(detail.quotient, divide, copy)
        builder.replace(detail.at, *rest)
    else:
        builder.replace(detail.at, divide, *rest)
        builder.replace(detail.quotient, copy)
