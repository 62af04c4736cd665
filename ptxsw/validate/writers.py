"""What in a kernel may write global memory."""

from __future__ import annotations

from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem

PRIVATE = frozenset({"shared", "local", "param"})
"""Spaces that are no part of global memory."""
_WRITES = isa.Effect.WRITE | isa.Effect.CALL
_WRITERS = isa.opcodes(isa.Trait.SCALAR_ACCESS) - {"ld"}


def may_write(instruction: Instruction) -> bool:
    """May an instruction write global memory, or let another kernel's writes be seen?"""
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    if instruction.opcode == "griddepcontrol":
        return True
    plain = instruction.opcode in _WRITERS
    return bool(effects & _WRITES) and not (plain and isa.space(instruction) in PRIVATE)


def written_address(instruction: Instruction) -> Mem | None:
    """Where a store or atomic writes; None for what may write anywhere."""
    addresses = [o for o in instruction.operands if isinstance(o, Mem)]
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    single = instruction.opcode in _WRITERS and len(addresses) == 1
    sized = isa.access_type(instruction) is not None and not effects & isa.Effect.ASYNC
    return addresses[0] if single and sized else None
