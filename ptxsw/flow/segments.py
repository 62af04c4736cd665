"""Straight-line segments of a body: where no lane can leave the others."""

from __future__ import annotations

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.isa import Effect

_ENDS = Effect.BARRIER | Effect.CALL | Effect.ASYNC | Effect.EXIT


def segments(cfg: Cfg) -> tuple[int, ...]:
    """The number of each instruction's segment: lanes that run one instruction of a segment
    together run the others together, too. A block ends one, and so does a call, a barrier and
    whatever is not known."""
    # The lanes need not run it in the same cycle. It is enough that whoever executes one of its
    # instructions executes all: a shuffle then finds every lane that `activemask` has named.
    numbers: list[int] = []
    current = 0
    for block in cfg.blocks:
        current += 1
        for index in range(block.start, block.end):
            numbers.append(current)
            instruction = cfg.instructions[index]
            if _ends(instruction.opcode, instruction.modifiers):
                current += 1
    return tuple(numbers)


def ends_of_segments(cfg: Cfg, number: int) -> list[int]:
    """The instructions of a block behind which another segment begins, or that are its last."""
    block = cfg.blocks[number]
    code = cfg.instructions
    return [
        at for at in range(block.start, block.end) if _ends(code[at].opcode, code[at].modifiers)
    ]


@isa.by_name
def _ends(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return bool(isa.effects(opcode, modifiers) & _ENDS)
