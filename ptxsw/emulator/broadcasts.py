"""Instructions that give all lanes of a warp one value."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.flow.cfg import Cfg
from ptxsw.ir import Int, Reg

_LANES = 32
_EVERY = (1 << _LANES) - 1


def broadcasts(cfg: Cfg) -> Iterator[int]:
    """The `shfl.sync.idx` by which all lanes of a warp get the value of a given one, and which a
    lane makes at most once, or once in every turn of one loop. Of others one lane may make the
    first where another makes its second."""
    for index, instruction in enumerate(cfg.instructions):
        if instruction.opcode != "shfl" or not {"sync", "idx", "b32"} <= {*instruction.modifiers}:
            continue
        block = cfg.block_of[index]
        around = cfg.loops_around(block)
        latches = [latch for header in around for latch in cfg.loops[header].latches]
        if instruction.guard is not None or len(around) > 1 or block in cfg.irreducible:
            continue
        if not all(cfg.dominates(block, latch) for latch in latches):
            continue
        match instruction.operands:
            case (Reg(), Reg(), Int(lane), Int(clamp), Int(mask)) if (
                0 <= lane < _LANES and clamp == _LANES - 1 and mask & _EVERY == _EVERY
            ):
                yield index
