"""Threads that meet at one instruction of the first text meet at one of the second.

    @%part bra SLOW;                  taken unless all 32 lanes of the warp are here
    shfl.sync.bfly.b32 %r9, ..., -1;  so either all lanes of a warp meet here,
    bra.uni DONE;
    SLOW:
    shfl.sync.bfly.b32 %r9, ..., -1;  or all of them here
    DONE:

Of code that stands several times, threads that meet may run one copy only. That is so where all
threads of the grid choose alike (`versions.py`). For an instruction at which only lanes of one warp
meet it is enough that all copies but one are run by whole warps: their lanes were seen together,
and have chosen alike since, on what is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.validate.outcome import Differ
from ptxsw.validate.versions import Versions

_MASKED = isa.opcodes(isa.Trait.MASKED)


class Meetings:
    """Where threads meet in both texts, by positions."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._images: dict[int, dict[int, bool]] = {}  # and whether whole warps alone come there
        self._of: dict[int, int] = {}

    def meet(self, old: int, new: int, *, whole: bool) -> None:
        """What threads meet at in the first text, they meet at there in the second. `whole`: all
        lanes of the warp are known to come there together. Raises Differ."""
        images = self._images.setdefault(old, {})
        images[new] = images.get(new, True) and whole
        if self._of.setdefault(new, old) != old:
            raise _several(old, new)

    def check(self, instruction: Callable[[int], Instruction]) -> None:
        """No threads that meet at one instruction meet at several; raises Differ. `instruction`
        gives those of the first text."""
        for old, images in self._images.items():
            in_warp = meets_in_warp(instruction(old))
            left = [new for new, whole in images.items() if not (in_warp and whole)]
            for at, new in enumerate(left):
                if not all(self._versions.exclude(new, other) for other in left[:at]):
                    raise _several(old, new)


def meets_in_warp(instruction: Instruction) -> bool:
    """Do only lanes of one warp meet at it?"""
    if instruction.opcode in _MASKED:
        return "sync" in instruction.modifiers
    return instruction.opcode == "bar" and "warp" in instruction.modifiers


def _several(old: int, new: int) -> Differ:
    return Differ("threads that meet at one instruction would meet at several", old, new)
