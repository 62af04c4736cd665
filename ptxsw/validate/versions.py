"""Code that stands twice, of which all threads of a grid run the same copy.

Threads that meet at one instruction of the first text have to meet at one of the second. Two
copies behind a branch that all threads decide alike, and from which control never comes together
again, are as good as one: at most one of them is ever run.
"""

from __future__ import annotations

from collections.abc import Container

from ptxsw.flow.cfg import Cfg
from ptxsw.ir import Reg


class Versions:
    """The two sides of each branch of a text whose guard is among registers that are the same for
    all threads of a grid, at all times."""

    def __init__(self, cfg: Cfg, alike: Container[Reg]) -> None:
        self._cfg = cfg
        self._sides: list[tuple[frozenset[int], frozenset[int]]] = []
        for block in cfg.blocks:
            last = cfg.instructions[block.end - 1] if block.end > block.start else None
            if last is None or last.opcode != "bra" or last.guard is None:
                continue
            if last.guard.reg in alike and len(block.successors) == 2:
                taken, fallen = (frozenset(cfg.reached_from([n])) for n in block.successors)
                if taken.isdisjoint(fallen):
                    self._sides.append((taken, fallen))

    def exclude(self, a: int, b: int) -> bool:
        """Does no grid run both instructions, whatever its threads do?"""
        one, other = self._cfg.block_of[a], self._cfg.block_of[b]
        return any(
            (one in taken and other in fallen) or (one in fallen and other in taken)
            for taken, fallen in self._sides
        )
