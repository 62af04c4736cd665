"""Which value of a register reaches a place, as in static single assignment.

A version is the write that reaches a place on all ways there, or the block where several meet. It
was made on every way to the places that it reaches. So where one place dominates another and both
see the same version, the register holds there what it held at the last visit of the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from ptxsw.flow.cfg import Cfg
from ptxsw.ptx.ir import Reg

Version = int
"""The instruction that wrote the value; below 0 the block where several values meet, or of which
nobody knows what came before: -1 for block 0."""


class Versions:
    """The versions of the registers of one body."""

    def __init__(self, cfg: Cfg) -> None:
        self._cfg = cfg
        self._entries: dict[Reg, Mapping[int, Version]] = {}

    def at(self, register: Reg, index: int) -> Version:
        """The version that an instruction finds, if control comes to it."""
        cfg = self._cfg
        number, ats = cfg.block_of[index], cfg.writers.get(register, ())
        before = bisect_left(ats, index)
        if before and cfg.block_of[ats[before - 1]] == number:
            return ats[before - 1]
        if len(ats) == 1 and ats[0] not in range(*self._span(number)):
            writer = cfg.block_of[ats[0]]
            if writer in cfg.rank and cfg.dominates(writer, number):
                return ats[0]
        if register not in self._entries:
            self._entries[register] = self._solved(register)
        return self._entries[register].get(number, -1)

    def _span(self, number: int) -> tuple[int, int]:
        block = self._cfg.blocks[number]
        return block.start, block.end

    def _solved(self, register: Reg) -> Mapping[int, Version]:
        """The version at the begin of each block. Values only ever give way to meetings, so this
        ends."""
        cfg = self._cfg
        left = {cfg.block_of[at]: at for at in cfg.writers.get(register, ())}  # the last one wins
        entry: dict[int, Version] = {}
        changed = True
        while changed:
            changed = False
            for number in cfg.order:
                come = {left.get(p, entry.get(p)) for p in cfg.predecessors[number]} - {None}
                meets = number == 0 or len(come) > 1 or entry.get(number) == -1 - number
                now = -1 - number if meets else next(iter(come))
                if entry.get(number) != now:
                    assert now is not None
                    entry[number], changed = now, True
        return entry
