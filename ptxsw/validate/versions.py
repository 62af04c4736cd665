"""Code that stands twice, of which all threads of a grid run the same copy.

Threads that meet at one instruction of the first text have to meet at one of the second. Two
copies behind a branch that all threads decide alike, and from which control never comes together
again, are as good as one: at most one of them is ever run.
"""

from __future__ import annotations

from functools import cached_property

from ptxsw.analysis.instruction_kinds import Kind, asks_convergence, kind, uniform_registers
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.text import Text


class Versions:
    """The second text's branches on registers that are the same for all threads of a grid, at all
    times."""

    def __init__(self, old: Text, new: Text) -> None:
        self._old, self._new = old, new

    def check_questions(self) -> None:
        """Which lanes are together is not followed: where the first text asks, branches must be
        the same, but for new ones that all threads of the grid decide alike."""
        bodies = [text.cfg.instructions for text in (self._old, self._new)]
        if any(map(asks_convergence, bodies[0])):
            uniform = self._uniform - {r for i in bodies[0] for r in (*uses(i), *defs(i))}
            guarded = [
                [i.opcode for i in body if _guard(i) is not None and _guard(i) not in uniform]
                for body in bodies
            ]
            if guarded[0] != guarded[1]:
                raise GiveUp("the kernel asks which lanes are active, and branches were added")

    @cached_property
    def _uniform(self) -> frozenset[Reg]:
        """Registers of the second text that are the same for all threads of a grid."""
        names = frozenset(p.name for p in self._old.function.params)
        uniform = frozenset(uniform_registers(self._new.cfg.instructions, names))
        # Live at the entry is what may be read before it is set: then its one definition does not
        # tell what it holds.
        return uniform if uniform.isdisjoint(self._new.live(0)) else frozenset()

    @cached_property
    def _sides(self) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
        """The blocks behind either side of such a branch, where none is behind both."""
        cfg = self._new.cfg
        sides = []
        for block in cfg.blocks:
            last = cfg.instructions[block.end - 1] if block.end > block.start else None
            if last is None or last.opcode != "bra" or last.guard is None:
                continue
            if last.guard.reg in self._uniform and len(block.successors) == 2:
                taken, fallen = (frozenset(cfg.reached_from([n])) for n in block.successors)
                if taken.isdisjoint(fallen):
                    sides.append((taken, fallen))
        return tuple(sides)

    def exclude(self, a: int, b: int) -> bool:
        """Does no grid run both instructions, whatever its threads do?"""
        one, other = (self._new.cfg.block_of[at] for at in (a, b))
        return any(
            (one in taken and other in fallen) or (one in fallen and other in taken)
            for taken, fallen in self._sides
        )


def _guard(branch: Instruction) -> Reg | None:
    """On what an instruction decides where control goes; None where it does not."""
    if kind(branch) is not Kind.CONTROL or branch.guard is None:
        return None
    return branch.guard.reg
