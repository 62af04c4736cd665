"""What tensor cores read in shared memory, as reports give it: by which instructions, and how it
lies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ptxsw.analysis.descriptors import descriptors
from ptxsw.emulator.trace import Trace
from ptxsw.report.cost_model import DescribedOperand
from ptxsw.report.tables import UNKNOWN, Table

_USUAL = 16  # bytes of a chunk
TITLE = "Operands by descriptor"


def described_operands(trace: Trace) -> tuple[DescribedOperand, ...]:
    """Of a kernel: one for all that are alike, in the order of the code."""
    lines = defaultdict[tuple[str, str, int | None, int, int | None], list[int]](list)
    for one in descriptors(trace.module, trace.function):
        instruction = trace.cfg.instructions[one.index]
        name = "tcgen05.mma" if instruction.opcode == "tcgen05" else instruction.opcode
        line = trace.module.source.line(instruction.span.start)
        lines[name, one.matrix, one.swizzle, one.chunk, one.stride].append(line)
    return tuple(
        DescribedOperand(name, matrix, tuple(at), swizzle, chunk, stride)
        for (name, matrix, swizzle, chunk, stride), at in lines.items()
    )


def descriptor_table(operands: Iterable[DescribedOperand]) -> Table:
    """One row for all that are alike."""
    rows = tuple(
        (_lines(one.lines), one.instruction, one.matrix, _swizzle(one), _stride(one.stride))
        for one in operands
    )
    return Table(("line", "instruction", "matrix", "swizzle", "8 rows"), rows)


def _lines(lines: tuple[int, ...]) -> str:
    more = len(lines) - 1
    return f"{lines[0]}{f' and {more} more' * bool(more)}"


def _swizzle(one: DescribedOperand) -> str:
    if one.swizzle is None:
        return UNKNOWN
    wide = f" in chunks of {one.chunk}" * (one.chunk != _USUAL)
    return f"{one.swizzle} bytes{wide}" if one.swizzle else "none"


def _stride(stride: int | None) -> str:
    return UNKNOWN if stride is None else f"{stride} bytes"
