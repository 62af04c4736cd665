"""What a value must not be carried past in a register."""

from __future__ import annotations

from ptxsw import isa
from ptxsw.ir import Instruction
from ptxsw.isa import Effect


def hazard(instruction: Instruction, followed: bool) -> str | None:
    """Why nothing may be carried past an instruction."""
    if not isa.known(instruction):
        return "is unknown and may do anything"
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    if instruction.opcode in ("ret", "exit", "trap"):
        return "may end the thread inside the loop"
    if effects & Effect.CALL:
        return "may call code that accesses these bytes"
    if instruction.opcode in ("griddepcontrol", "brx"):
        return "stands in the loop"
    waits = Effect.BARRIER | Effect.FENCE | Effect.ATOMIC | Effect.ASYNC
    if effects & waits:
        return "orders memory, or waits for others"
    private = isa.space(instruction) in ("param", "const")
    if effects & (Effect.READ | Effect.WRITE) and not followed and not private:
        return "may access anything"
    return None
