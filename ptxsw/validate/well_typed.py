"""Would ptxas take the instructions of a text? What it refuses is no kernel, and equals none.

Registers have the width that the instruction reads or writes; `cvt`, `ld` and `st` alone take wider
ones (manual 9.4.1). The name of a variable is an operand of what asks where it lies; of arithmetic
the parser takes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Operand, Reg, Symbol, Vec, flatten, type_width
from ptxsw.semantics import meaning

_TAKE_NAMES = frozenset({"mov", "cvta", "mapa", "call", "bra", "brx", "alloca", "createpolicy"})
_TAKE_WIDER = frozenset({"cvt", "ld", "st"})


def ill_typed(first: Function, second: Function) -> tuple[Instruction, str] | None:
    """The first instruction of the second text that ptxas would refuse for its operands, and why;
    None where there is none. What the first text has is taken for right."""
    known = {instruction[:4] for instruction in first.body.instructions}
    for instruction in second.body.instructions:
        reason = None if instruction[:4] in known else _problem(second, instruction)
        if reason is not None:
            return instruction, reason
    return None


def _problem(function: Function, instruction: Instruction) -> str | None:
    named = [o for o in instruction.operands if type(o) is Symbol]
    if named and not _takes_name(function, instruction, named):
        return f"{instruction.name} takes no name of a variable, as {named[0].name}"
    for operand, width in _expected(instruction):
        if type(operand) is not Reg or not width:
            continue
        given = function.body.width(operand)
        wider = given > width and instruction.opcode in _TAKE_WIDER
        if given not in (0, width) and not wider:
            return f"{instruction.name} takes {width} bits, and {operand.name} has {given}"
    return None


def _takes_name(function: Function, instruction: Instruction, named: Sequence[Symbol]) -> bool:
    if instruction.opcode == "st":  # of functions
        variables = {v.name for v in function.body.variables}
        return variables.isdisjoint(symbol.name for symbol in named)
    return instruction.opcode in _TAKE_NAMES and "to" not in instruction.modifiers


def _expected(instruction: Instruction) -> Iterator[tuple[Operand, int]]:
    """Operands with their widths in bits, as far as these are known."""
    opcode, modifiers, operands = instruction[:3]
    if opcode in ("ld", "st"):
        width = type_width(isa.access_type(instruction) or "")
        value = operands[0 if opcode == "ld" else 1 :][:1]
        yield from ((each, width) for each in flatten(value))
        return
    row, sense = isa.row(opcode, modifiers), meaning(opcode, modifiers)
    if row is None or sense is None or any(type(o) is Vec for o in operands):
        return
    written = list(flatten(operands[: row.defs]))
    if sense.pair is not None and len(written) != len(sense.results):
        sense = sense.pair
    yield from zip(written, sense.results, strict=False)
    yield from zip(operands[row.defs :], sense.inputs, strict=False)
