"""Operands that tensor cores read in shared memory by descriptors, and how these say that they lie.

    or.b64 %rd2, %rd1, 0x4000004000010000;
    wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {...}, %rd2, %rd3, 1, 1, 1, 0, 0;

The last bits are the swizzling mode, bits 32 to 45 the distance of the groups of 8 rows in units of
16 bytes: PTX ISA 9.0, 9.7.15.5.1.2 for `wgmma` and 9.7.16.4.1, table 40, for `tcgen05`; CUTLASS,
cute/arch/mma_sm90_desc.hpp and mma_sm100_desc.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from ptxsw.analysis.register_terms import RegisterTerms
from ptxsw.flow.cfg import Cfg, build
from ptxsw.ptx.ir import Function, Instruction, Module, Reg
from ptxsw.terms import op
from ptxsw.terms.node import Term, Variance, ones, split, walk
from ptxsw.terms.origin import Origin

_UNIT: Final = 16  # bytes
_STRIDE: Final = (32, 14)  # the lowest bit, and how many
_MODES: Final = {
    "wgmma": (62, 2, {0: (0, 16), 1: (128, 16), 2: (64, 16), 3: (32, 16)}),
    "tcgen05": (61, 3, {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}),
}
"""By the opcode: where the mode is, and the bytes of rows and of the chunks that a mode permutes in
them; rows of 0 bytes where it permutes none."""
_NAMES: Final = "AB"


class Descriptor(Struct, frozen=True):
    """An operand of an instruction at `index`: matrix "A" or "B". `swizzle` are the bytes of a row
    in which chunks of so many bytes are permuted, 0 for none, and `stride` those from 8 rows to the
    next 8; None where they are not known. `arrays` are the symbols of its address."""

    index: int
    matrix: str
    swizzle: int | None
    chunk: int
    stride: int | None
    arrays: frozenset[str]


def descriptors(module: Module, function: Function) -> tuple[Descriptor, ...]:
    """All of a function, in the order of the code."""
    operands = list(_operands(build(function.body)))
    if not operands:
        return ()
    values = RegisterTerms(
        module, function, [reg for _, _, reg in operands],
        lambda term: term.variance is Variance.UNIFORM,
    )  # fmt: skip
    return tuple(_read(index, name, values.read(reg), values) for index, name, reg in operands)


def _operands(cfg: Cfg) -> Iterator[tuple[int, str, Reg]]:
    for index, instruction in enumerate(cfg.instructions):
        if _multiplies(instruction):
            for name, operand in zip(_NAMES, instruction.operands[1:3], strict=False):
                if isinstance(operand, Reg):
                    yield index, name, operand


def _multiplies(instruction: Instruction) -> bool:
    first = instruction.modifiers[:1]
    return (instruction.opcode, *first) in (("wgmma", "mma_async"), ("tcgen05", "mma"))


def _read(index: int, matrix: str, value: Term, values: RegisterTerms) -> Descriptor:
    low, width, modes = _MODES[values.cfg.instructions[index].opcode]
    mode, stride = field(values, value, low, width), field(values, value, *_STRIDE)
    row, chunk = (None, _UNIT) if mode is None else modes.get(mode, (None, _UNIT))
    arrays = {str(t.of[0]) for t in walk(value) if t.origin is Origin.SYMBOL and t.of}
    return Descriptor(
        index, matrix, row, chunk, None if stride is None else stride * _UNIT, frozenset(arrays),
    )  # fmt: skip


def field(values: RegisterTerms, term: Term, low: int, width: int) -> int | None:
    """Some bits of a term as a number; None where they are not known."""
    bits = values.terms.extract(term, low, width)
    if bits.kind is op.CONST:
        return int(bits.value)
    if term.kind is op.CONCAT:
        above, below = term.args
        if low >= below.width:
            return field(values, above, low - below.width, width)
        return field(values, below, low, width) if low + width <= below.width else None
    if term.kind is op.EXTRACT:
        return field(values, term.args[0], term.value + low, width)
    if term.kind is op.SUM:
        constant, items = split(term)
        most = constant % (1 << low) + sum(factor * ones(item) for item, factor in items)
        if most < 1 << low and all(factor > 0 for _, factor in items):  # nothing is carried
            return constant >> low & (1 << width) - 1
    return None
