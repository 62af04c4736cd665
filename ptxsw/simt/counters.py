"""What a run counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct, field

from ptxsw.ptx.ir import Instruction
from ptxsw.simt.code import Code
from ptxsw.simt.state import Array, Index

if TYPE_CHECKING:
    from ptxsw.ptx.ir import Instruction
    from ptxsw.simt.chunk import Chunk
    from ptxsw.simt.memory import AccessedBytes
    from ptxsw.simt.state import Fragment

SECTOR = 32  # bytes

_CLASSES = {
    **dict.fromkeys(("ld", "ldu"), "load"),
    "st": "store",
    **dict.fromkeys(("atom", "red"), "atomic"),
    "shfl": "shuffle",
    **dict.fromkeys(("vote", "match", "redux", "activemask", "elect"), "vote"),
    **dict.fromkeys(("bar", "barrier"), "barrier"),
    **dict.fromkeys(("bra", "brx", "call", "ret", "exit"), "branch"),
    **dict.fromkeys(("membar", "fence"), "fence"),
}


def class_of(instruction: Instruction) -> str:
    """`load.global`, `store.shared`, `shuffle`, `branch`, `float`, `integer`, …"""
    kind = _CLASSES.get(instruction.opcode)
    if kind in ("load", "store", "atomic"):
        spaces = ("global", "shared", "local", "const", "param")
        names = {m.split("::")[0] for m in instruction.modifiers}
        space = next((s for s in spaces if s in names), "generic")
        return f"{kind}.{space}"
    if kind is not None:
        return kind
    types = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"}
    moving = instruction.opcode in ("mov", "selp")
    return "float" if types & set(instruction.modifiers) and not moving else "integer"


class Counters(Struct):
    """Counts of one launch. Loads and sectors are those of global memory."""

    thread_instructions: int = 0
    warp_instructions: dict[str, int] = field(default_factory=dict)  # by class
    warp_loads: int = 0  # global loads of which at least one lane took part
    lane_loads: int = 0
    load_sectors: int = 0  # distinct 32-byte sectors, summed over warp loads
    shuffles: int = 0  # by warp
    divergent_branches: int = 0  # by warp

    def add_codes(self, codes: Iterable[Code]) -> None:
        """Adds what each instruction was counted to have done."""
        classes: Counter[str] = Counter()
        for code in codes:
            self.thread_instructions += sum(code.threads)
            for instruction, warps in zip(code.instructions, code.warps, strict=True):
                if warps:
                    classes[class_of(instruction)] += warps
        self.warp_instructions = dict(sorted(classes.items()))
        self.shuffles = classes["shuffle"]

    def load(self, idx: Index, offsets: Index, size: int) -> None:
        """A global load by threads `idx` of `size` bytes at `offsets` (one: all the same)."""
        warps = idx >> 5
        count = 1 + int(np.count_nonzero(warps[1:] != warps[:-1]))
        self.warp_loads += count
        self.lane_loads += len(idx)
        if len(offsets) == 1:
            span = (int(offsets[0]) + size - 1) // SECTOR - int(offsets[0]) // SECTOR + 1
            self.load_sectors += count * span
            return
        self.load_sectors += sectors(warps, offsets, size)


def sectors(warps: Array, offsets: Index, size: int) -> int:
    """Distinct sectors touched by each warp, summed over the warps, which are in order. Accesses
    are aligned to their size, so only those larger than a sector touch several."""
    first = offsets // SECTOR
    if size > SECTOR:
        steps = -(-size // SECTOR)
        first = (first[:, None] + np.arange(steps)).reshape(-1)
        warps = np.repeat(warps, steps)
    same_warp = warps[1:] == warps[:-1]
    step = first[1:] - first[:-1]
    if not (same_warp & (step < 0)).any():
        return 1 + int(np.count_nonzero(~same_warp | (step != 0)))
    order = np.lexsort((first, warps))
    first, warps = first[order], warps[order]
    return 1 + int(np.count_nonzero((first[1:] != first[:-1]) | (warps[1:] != warps[:-1])))


class Recorder(Protocol):
    """Sees a run go by. What it raises ends the run."""

    def access(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, write: bool
    ) -> None:
        """Threads of a fragment access `size` bytes each; an atomic operation writes."""

    def executed(self, kernel: Sequence[Instruction], warps: Sequence[int]) -> None:
        """How many warps have executed each instruction of one function, when the run ends."""
