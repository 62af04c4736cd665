"""Threads that meet at one instruction of the first text meet at one of the second.

    @%part bra SLOW;                  taken unless all 32 lanes of the warp are here
    shfl.sync.bfly.b32 %r9, ..., -1;  so either all lanes of a warp meet here,
    bra.uni DONE;
    SLOW:
    shfl.sync.bfly.b32 %r9, ..., -1;  or all of them here
    DONE:

Of code that stands several times, threads that meet may run one copy only. That is so where the
copies stand behind a branch that all threads of the grid decide alike, and from which control never
comes together again: at most one of them is ever run. For an instruction at which only lanes of one
warp meet it is enough that all copies but one are run by whole warps: their lanes were seen
together, and have chosen alike since, on what is the same for all of them.
"""

from __future__ import annotations

from functools import cached_property

from ptxsw.analysis.instruction_kinds import Kind, asks_convergence, kind, uniform_registers
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.validate.outcome import Differ, GiveUp
from ptxsw.validate.text import Text

_MASKED = isa.opcodes(isa.Trait.MASKED)


class BarrierPairs:
    """Where threads meet in both texts, by positions."""

    def __init__(self, old: Text, new: Text) -> None:
        self._old, self._new = old, new
        self._images: dict[int, dict[int, bool]] = {}  # and whether whole warps alone come there
        self._of: dict[int, int] = {}

    def check_questions(self) -> None:
        """Which lanes are together is not followed: where the first text asks, branches must be
        the same, but for new ones that all threads of the grid decide alike. Raises GiveUp."""
        bodies = [text.cfg.instructions for text in (self._old, self._new)]
        if any(map(asks_convergence, bodies[0])):
            uniform = self._uniform - {r for i in bodies[0] for r in (*uses(i), *defs(i))}
            guarded = [
                [i.opcode for i in body if _guard(i) is not None and _guard(i) not in uniform]
                for body in bodies
            ]
            if guarded[0] != guarded[1]:
                raise GiveUp("the kernel asks which lanes are active, and branches were added")

    def meet(self, old: int, new: int, *, whole: bool) -> None:
        """What threads meet at in the first text, they meet at there in the second. `whole`: all
        lanes of the warp are known to come there together. Raises Differ."""
        images = self._images.setdefault(old, {})
        images[new] = images.get(new, True) and whole
        if self._of.setdefault(new, old) != old:
            raise _several(old, new)

    def check(self) -> None:
        """No threads that meet at one instruction meet at several; raises Differ."""
        for old, images in self._images.items():
            in_warp = meets_in_warp(self._old.cfg.instructions[old])
            left = [new for new, whole in images.items() if not (in_warp and whole)]
            for at, new in enumerate(left):
                if not all(self._exclude(new, other) for other in left[:at]):
                    raise _several(old, new)

    def _exclude(self, a: int, b: int) -> bool:
        """Does no grid run both instructions of the second text, whatever its threads do?"""
        one, other = (self._new.cfg.block_of[at] for at in (a, b))
        return any(
            (one in taken and other in fallen) or (one in fallen and other in taken)
            for taken, fallen in self._sides
        )

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


def _guard(branch: Instruction) -> Reg | None:
    """On what an instruction decides where control goes; None where it does not."""
    if kind(branch) is not Kind.CONTROL or branch.guard is None:
        return None
    return branch.guard.reg


def meets_in_warp(instruction: Instruction) -> bool:
    """Do only lanes of one warp meet at it?"""
    if instruction.opcode in _MASKED:
        return "sync" in instruction.modifiers
    return instruction.opcode == "bar" and "warp" in instruction.modifiers


def _several(old: int, new: int) -> Differ:
    return Differ("threads that meet at one instruction would meet at several", old, new)
