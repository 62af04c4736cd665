"""The registers that instructions write and read, the carry bit among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxsw.ptx import isa
from ptxsw.ptx.ir import Float, Instruction, Int, Mem, Reg

CARRY = Reg("%cc", -1)
"""The carry bit of the condition code register, which `add.cc` writes and `addc` reads (manual
9.7.2). It has no name in PTX, so that no instruction names it among its operands."""

_CARRIES_IN = frozenset({"addc", "subc", "madc"})


def defs(instruction: Instruction) -> tuple[Reg, ...]:
    """Registers written, the carry bit included: calls do not preserve it."""
    written = isa.defs(instruction)
    if _writes_carry(instruction.opcode, instruction.modifiers):
        return (*written, CARRY)
    return written


@isa.by_name
def _writes_carry(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return "cc" in modifiers or opcode == "call" or isa.row(opcode, modifiers) is None


def uses(instruction: Instruction) -> frozenset[Reg]:
    """Registers read, the carry bit included, special registers left out."""
    return frozenset(read(instruction))


def read(instruction: Instruction) -> tuple[Reg, ...]:
    """The same in the order in which they are named, some of them twice."""
    registers = tuple([r for r in isa.uses(instruction) if type(r) is Reg])
    return (*registers, CARRY) if instruction.opcode in _CARRIES_IN else registers


def written_and_read(
    instructions: Iterable[Instruction],
) -> tuple[tuple[tuple[Reg, ...], ...], tuple[tuple[Reg, ...], ...]]:
    """`defs` and `read` of each of many instructions."""
    written: list[tuple[Reg, ...]] = []
    registers: list[tuple[Reg, ...]] = []
    for instruction in instructions:
        both = _of_usual(instruction)
        written.append(defs(instruction) if both is None else both[0])
        registers.append(read(instruction) if both is None else both[1])
    return tuple(written), tuple(registers)


def _of_usual(instruction: Instruction) -> tuple[tuple[Reg, ...], tuple[Reg, ...]] | None:
    """The same of one that sets a register or none, from registers, numbers and addresses, as most
    do; None of others."""
    count = _usual(instruction.opcode, instruction.modifiers)
    operands = instruction.operands
    if count is None:
        return None
    written: tuple[Reg, ...] = ()
    if count:
        first = operands[0] if operands else None
        if not isinstance(first, Reg):
            return None
        written = (first,)
    registers = [] if instruction.guard is None else [instruction.guard.reg]
    for operand in operands[count:]:
        if isinstance(operand, Reg):
            registers.append(operand)
        elif isinstance(operand, Mem) and isinstance(operand.base, Reg) and not operand.extra:
            registers.append(operand.base)
        elif not isinstance(operand, Int | Float):
            return None
    return written, tuple(registers)


@isa.by_name
def _usual(opcode: str, modifiers: tuple[str, ...]) -> int | None:
    """How many operands an instruction sets by its name, 0 or 1, if it keeps nothing of what they
    held and has no carry; None of others."""
    op = isa.row(opcode, modifiers)
    if op is None or op.defs > 1 or op.updates or opcode in _CARRIES_IN:
        return None
    return None if _writes_carry(opcode, modifiers) else op.defs


def writers(
    written: Sequence[tuple[Reg, ...]], among: Iterable[int] | None = None
) -> dict[Reg, list[int]]:
    """The instructions that write each register, by index and in the order of `among`, to which
    they belong (all, where it is None). `written` are the registers that each of them writes."""
    indices: dict[Reg, list[int]] = {}
    for index in range(len(written)) if among is None else among:
        for reg in written[index]:
            indices.setdefault(reg, []).append(index)
    return indices
