"""Instructions that give all lanes of a warp one value.

    @%p1 bra L;                        lanes but the first
    mov.b32 %r2, %r1;
    L: shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;

Where lanes may have come on several paths, no path tells what lanes of the others hand over. All
that is known then is that every lane gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Int, Reg
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.terms import Terms

_LANES = 32
_EVERY = (1 << _LANES) - 1


def broadcasts(cfg: Cfg) -> Iterator[int]:
    """The `shfl.sync.idx` by which all lanes of a warp get the value of a given one, and which a
    lane makes at most once, or once in every iteration of one loop. Of others one lane may make the
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


class Broadcasts:
    """What the instructions `places` give. `alone` tells whether one path leads to the block that
    is run."""

    def __init__(self, terms: Terms) -> None:
        self.places: frozenset[int] = frozenset()
        self.alone = True
        self._terms = terms
        self._given: dict[int, Term] = {}

    def given(self, index: int, own: Term, width: int) -> Term:
        """What a lane gets that hands over its `own` value."""
        if self.alone and own.variance is Variance.UNIFORM:
            return own
        if index not in self._given:
            self._given[index] = self._terms.fresh("shfl", width, Variance.UNIFORM)
        return self._given[index]
