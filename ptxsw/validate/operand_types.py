"""Does ptxas take the operands of an instruction? What it refuses is no kernel, and equals none.

add.u32 %r1, %r2, %f3;      integers are not computed with in registers of type .f32,
add.f32 %f1, %f2, %r3;      nor floats in .u32 or .s32; .b32 takes both
mov.b32 %r1, %f3;           all registers of 32 bits (manual 9.4)
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.ptx import isa
from ptxsw.ptx.ir import (
    Float,
    Function,
    Instruction,
    Int,
    Operand,
    Reg,
    Symbol,
    Vec,
    flatten,
    type_width,
)
from ptxsw.semantics import meaning

_TAKE_WIDER = frozenset({"cvt", "ld", "st"})  # registers (manual 9.4.1)
_CONVERTS = frozenset({
    "to", "const", "global", "local", "shared", "shared::cta", "shared::cluster", "param",
    "param::entry", "u32", "u64",
})  # fmt: skip
_INTEGERS = frozenset({
    "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64",
})  # fmt: skip
_FLOATS = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f32x2", "f64"})
_ALIKE = frozenset({
    "abs", "add", "addc", "atom", "bfe", "bfind", "copysign", "cos", "div", "ex2", "fma", "ld",
    "ldu", "lg2", "mad", "mad24", "madc", "max", "min", "mov", "mul", "mul24", "neg", "rcp", "red",
    "rem", "rsqrt", "sad", "selp", "setp", "shr", "sin", "sqrt", "st", "sub", "subc", "tanh",
    "testp",
})  # fmt: skip
"""Opcodes of which each operand is of the one type that they name, or a predicate or count."""
_RESULT_FIRST = frozenset({"cvt", "set"})  # its type, then that of the sources


def ill_typed(first: Function, second: Function) -> tuple[Instruction, str] | None:
    """The first instruction of the second text that ptxas would refuse for its operands, and why;
    None where there is none. What the first text has is taken for right; which kinds of operands an
    opcode takes, the parser has seen to."""
    known = {instruction[:4] for instruction in first.body.instructions}
    for instruction in second.body.instructions:
        reason = None if instruction[:4] in known else _refused(second, instruction)
        if reason is not None:
            return instruction, reason
    return None


def _refused(function: Function, instruction: Instruction) -> str | None:
    for name in (o.name for o in instruction.operands if type(o) is Symbol):
        if _takes_none(function, instruction, name):
            return f"{instruction.name} takes no name of a variable, as {name}"
    if instruction.opcode == "cvta" and not _CONVERTS.issuperset(instruction.modifiers):
        return f"there is no {instruction.name}"
    return _wrong_width(function, instruction) or _wrong_kind(function, instruction)


def _wrong_width(function: Function, instruction: Instruction) -> str | None:
    for operand, width in _expected(instruction):
        if type(operand) is not Reg or not width:
            continue
        given = function.body.width(operand)
        wider = given > width and instruction.opcode in _TAKE_WIDER
        if given not in (0, width) and not wider:
            return f"{instruction.name} takes {width} bits, and {operand.name} has {given}"
    return None


def _takes_none(function: Function, instruction: Instruction, name: str) -> bool:
    """May what can be named here not be a variable? `st` stores the addresses of functions."""
    if instruction.opcode == "st":
        return any(name == variable.name for variable in function.body.variables)
    return instruction.opcode == "cvta" and "to" in instruction.modifiers


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


def _wrong_kind(function: Function, instruction: Instruction) -> str | None:
    for operand, type_ in _of_type(instruction):
        if type(operand) is Reg:
            declared = function.body.declaration(operand)
            if declared is not None and _are_apart(type_, declared.type):
                kind = f"register of type .{declared.type}"
                return f"{instruction.name} takes no {kind}, as {operand.name}"
        elif (type(operand) is Float and type_ in _INTEGERS) or (
            type(operand) is Int and type_ in ("f32", "f64")
        ):
            wanted = "integers" if type_ in _INTEGERS else "floats"
            return f"{instruction.name} takes no other numbers than {wanted}"
    return None


def _of_type(instruction: Instruction) -> Iterator[tuple[Operand, str]]:
    """Operands with the types that an instruction names for them, as far as these are known."""
    opcode, modifiers, operands = instruction[:3]
    types = [m for m in modifiers if type_width(m)]
    if len(types) == 1 and opcode in _ALIKE:
        yield from ((each, types[0]) for each in flatten(operands))
    elif len(types) == 2 and opcode in _RESULT_FIRST:
        yield from ((each, types[min(at, 1)]) for at, each in enumerate(operands))
    elif len(types) == 2 and opcode == "slct":
        yield from zip(operands, (types[0], types[0], types[0], types[1]), strict=False)


def _are_apart(type_: str, declared: str) -> bool:
    """May what is of a type not be in a register that is declared with another? A register for two
    halves takes integers."""
    if type_ in _INTEGERS:
        return declared in ("f16", "f32", "f64")
    return type_ in _FLOATS and declared != type_ and declared in _INTEGERS | _FLOATS
