"""The registers that an instruction writes and reads, the carry bit among them."""

from __future__ import annotations

from ptxsw import isa
from ptxsw.ir import Instruction, Reg

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
