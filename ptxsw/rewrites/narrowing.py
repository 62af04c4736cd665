"""Narrowing (gpucc, 3.6): 64-bit operations on values that fit 32 bits, and a remainder from the
quotient of the same operands.

    cvt.u64.u32 %rd1, %r1;                 cvt.u64.u32 %rd1, %r1;
    cvt.u64.u32 %rd2, %r2;                 cvt.u64.u32 %rd2, %r2;
    div.u64 %rd3, %rd1, %rd2;      =>      cvt.u32.u64 %sw_low1, %rd1;
                                           cvt.u32.u64 %sw_low2, %rd2;
                                           div.u32 %sw_narrow1, %sw_low1, %sw_low2;
                                           cvt.u64.u32 %sw_wide1, %sw_narrow1;
                                           setp.eq.u32 %sw_zero1, %sw_low2, 0;
                                           selp.b64 %rd3, -1, %sw_wide1, %sw_zero1;

    div.u64 %rd3, %rd1, %rd2;              div.u64 %sw_quotient1, %rd1, %rd2;
                                           mov.b64 %rd3, %sw_quotient1;
    rem.u64 %rd4, %rd1, %rd2;      =>      mul.lo.s64 %sw_product1, %sw_quotient1, %rd2;
                                           sub.s64 %rd4, %rd1, %sw_product1;

ptxas expands a 64-bit division to some hundred instructions and never asks how wide its operands
are. Division by zero gives what it gave: all ones, and for a remainder the dividend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ptxsw.changes.change import Change, Refusal, Worth
from ptxsw.changes.plan import Proof
from ptxsw.codegen.builder import Builder
from ptxsw.codegen.lower_narrowing import NarrowOperation, RemainderOfQuotient, lower
from ptxsw.codegen.splice import Edit
from ptxsw.emulator.trace import OperandValues
from ptxsw.flow.dataflow import defs
from ptxsw.ptx.ir import Instruction, Int, Reg
from ptxsw.rewrites.base import Kernel, Outcome
from ptxsw.terms import op
from ptxsw.terms.node import Term, ones
from ptxsw.terms.solver import Proved

_DIVISIONS = frozenset({"div.u64", "div.s64", "rem.u64", "rem.s64"})
OPERATIONS = _DIVISIONS | {"mul.lo.u64", "mul.lo.s64"}
_HALF = 1 << 32
_TOO_WIDE = "its operands are not known to fit 32 bits"

# What ptxas 13.0 makes of each, counted on sm_80: a 64-bit division with its call takes some 110
# instructions more than one of 32 bits, a product of 64 bits 3 more than a wide one of 32.
_DIVISION, _PRODUCT, _REMAINDER = Worth(-105.0), Worth(-3.0), Worth(-58.0)


class Narrowing:
    """See above."""

    name: ClassVar[str] = "narrowing"
    summary: ClassVar[str] = (
        "64-bit operations on values that fit 32 bits are computed with 32 bits."
    )

    def find(self, kernel: Kernel) -> Iterator[Outcome]:
        """Operations whose operands are proved to fit, and remainders beside their quotients."""
        narrow: set[int] = set()
        wide: set[int] = set()
        for index, read in sorted(kernel.trace.operands.items()):
            instruction = kernel.trace.cfg.instructions[index]
            if instruction.name not in OPERATIONS:
                continue
            detail = _fitting(kernel, index, read)
            if detail is None:
                wide.add(index)
            else:
                narrow.add(index)
                worth = _PRODUCT if instruction.opcode == "mul" else _DIVISION
                yield Change(self.name, index, frozenset({index}), Proof(), detail, worth=worth)
        for remainder, quotient in _pairs(kernel, narrow):
            wide -= {remainder, quotient}
            yield Change(
                self.name, remainder, frozenset({remainder, quotient}), Proof(),
                RemainderOfQuotient(remainder, quotient), worth=_REMAINDER,
            )  # fmt: skip
        if kernel.explains:
            yield from (Refusal(self.name, index, _TOO_WIDE) for index in sorted(wide))

    def nothing(self, kernel: Kernel) -> str:
        """See `OwnSearch`."""
        return "no division, remainder or product of 64 bits is executed"

    def lower(self, kernel: Kernel, changes: Sequence[Change]) -> tuple[Edit, ...]:
        """The edits that make the changes."""
        builder = Builder(kernel.text, kernel.function, kernel.trace.cfg.instructions)
        lower(builder, changes)
        return builder.edits()


def _fitting(kernel: Kernel, index: int, read: Sequence[OperandValues]) -> NarrowOperation | None:
    """The operation with 32 bits, if its operands fit them on all paths."""
    instruction = kernel.trace.cfg.instructions[index]
    if not all(isinstance(operand, Reg | Int) for operand in instruction.operands):
        return None
    # The smallest values first: one that nothing is known of is seen to be too large at once.
    operands = sorted(((value, paths) for paths in read for value in paths.values), key=_size)
    # As signed numbers such operands are not negative, so a signed division gives the same as an
    # unsigned one. The remainder by zero is the dividend at both widths; the quotient is all ones,
    # 32 or 64 of them, so only `div` has to know its divisor.
    if all(_below(kernel, value, _HALF, paths) for value, paths in operands):
        divides = instruction.opcode == "div"
        nonzero = divides and all(_nonzero(kernel, paths.values[1], paths) for paths in read)
        return NarrowOperation(index, signed=False, nonzero=nonzero)
    if instruction.opcode == "mul" and all(
        _sign_extended(kernel, value, paths) for value, paths in operands
    ):
        return NarrowOperation(index, signed=True, nonzero=False)
    return None


def _size(operand: tuple[Term | int, OperandValues]) -> int:
    return 0 if isinstance(operand[0], int) else operand[0].size


def _below(kernel: Kernel, value: Term | int, limit: int, paths: OperandValues) -> bool:
    """Is an unsigned 64-bit value proved to be below `limit`?"""
    if isinstance(value, int):
        return 0 <= value < limit
    if ones(value) < limit:
        return True
    terms = kernel.trace.terms
    return _proved(kernel, terms.ult(value, terms.const(limit, value.width)), paths)


def _nonzero(kernel: Kernel, value: Term | int, paths: OperandValues) -> bool:
    if isinstance(value, int):
        return value != 0
    terms = kernel.trace.terms
    return _proved(kernel, terms.not_(terms.eq(value, terms.const(0, value.width))), paths)


def _sign_extended(kernel: Kernel, value: Term | int, paths: OperandValues) -> bool:
    """Does a 64-bit value lie between -2^31 and 2^31 - 1?"""
    if isinstance(value, int):
        return -_HALF // 2 <= value < _HALF // 2
    if ones(value) < _HALF // 2:
        return True
    terms = kernel.trace.terms
    same = terms.eq(value, terms.sext(terms.extract(value, 0, 32), value.width))
    return _proved(kernel, same, paths)


def _proved(kernel: Kernel, claim: Term, paths: OperandValues) -> bool:
    if claim.kind is op.CONST:
        return bool(claim.value)
    return isinstance(kernel.solver.prove(claim, paths.conditions), Proved)


def _pairs(kernel: Kernel, narrow: set[int]) -> Iterator[tuple[int, int]]:
    """Remainders and quotients of the same operands that stand in one block, with nothing between
    that writes what the later one reads."""
    cfg = kernel.trace.cfg
    for block in cfg.blocks:
        open_: dict[tuple[object, ...], int] = {}
        for index in range(block.start, block.end):
            instruction = cfg.instructions[index]
            written: set[object] = set(defs(instruction))
            if _divides(instruction) and index not in narrow and index in kernel.trace.operands:
                key = (instruction.modifiers, *instruction.operands[1:])
                other = open_.pop(key, None)
                if other is None:
                    open_[key] = index
                elif instruction.opcode != cfg.instructions[other].opcode:
                    pair = (index, other) if instruction.opcode == "rem" else (other, index)
                    yield pair
            # After this instruction itself has been entered, since `div.u64 %rd1, %rd1, %rd2`
            # overwrites its own dividend: a later `rem` of %rd1 has another one.
            for stale in [key for key in open_ if not written.isdisjoint(key)]:
                del open_[stale]


def _divides(instruction: Instruction) -> bool:
    return (
        instruction.name in _DIVISIONS
        and instruction.guard is None
        and all(isinstance(operand, Reg | Int) for operand in instruction.operands)
    )
