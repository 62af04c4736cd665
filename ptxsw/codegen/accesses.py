"""The operands of loads and stores."""

from __future__ import annotations

from ptxsw.ptx.ir import Instruction, Operand, Vec


def elements(instruction: Instruction) -> tuple[Operand, ...]:
    """The registers that a load writes, or the values that a store writes, in order."""
    operand = instruction.operands[0 if instruction.opcode == "ld" else 1]
    return operand.elements if isinstance(operand, Vec) else (operand,)
