"""Straight-line code that may stand twice, with threads of one warp in both copies."""

from __future__ import annotations

from ptxsw.analysis.instruction_kinds import meets
from ptxsw.flow.segments import segments
from ptxsw.ptx.ir import Instruction
from ptxsw.rewrites.base import Kernel


def straight_stretches(kernel: Kernel) -> list[int]:
    """The number of each instruction's stretch: straight-line code that may stand twice. No
    barrier or shuffle stands in it, at which threads of both copies would have to meet, and no
    scope and no label begins in it, which would be declared twice."""
    number = segments(kernel.trace.cfg)
    lengths: list[int] = []
    current = 0
    for statement in kernel.function.body.code:
        if isinstance(statement, Instruction):
            at = len(lengths)
            alone = meets(statement) or (at > 0 and meets(kernel.trace.cfg.instructions[at - 1]))
            current += alone or (at > 0 and number[at] != number[at - 1])
            lengths.append(current)
        else:
            current += 1
    return lengths
