"""Does a rewritten kernel certainly pay? Decided on what ptxas made of both texts.

A kernel takes at least as long as its busiest resource, and at most as long as all of them one
after the other. Resources are the issue slots, each pipe, and the wavefronts of memory. A rewritten
kernel is kept if it dominates: one of these two ends falls by 5 % or more, the other does not rise
by more than 1 %, no fewer warps are resident, and nothing more is spilled to local memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ptxsw.cost import pipes
from ptxsw.cost.dominance import Ends, dominates
from ptxsw.cost.occupancy import WARP, limits, occupancy

if TYPE_CHECKING:
    from ptxsw.cost.counted import Counted
    from ptxsw.cost.wavefronts import Wavefronts

PTXAS, COUNTS, TUNED = "ptxas", "counts", "tuned"
"""What a decision rests on: the machine code, what the rewrites counted themselves, or what
`ptxsw tune` measured."""

_USUAL_BLOCKS: Final = (64, 128, 256, 512, 1024)


class Figures(Struct, frozen=True):
    """What a kernel takes: registers a thread, bytes that a thread spills to local memory and that
    a block has in shared memory, the share of resident warps by the threads of a block; and what a
    warp does that runs through it once, each loop taken 16 times: instructions, wavefronts, and the
    ends of its time in cycles of a multiprocessor."""

    registers: int
    local: int
    shared: int
    occupancy: Mapping[int, float]
    instructions: float
    wavefronts: float
    ends: Ends


class Decision(Struct, frozen=True):
    """Whether what was made of a kernel is kept, and why. Without figures of ptxas `before` and
    `after` are None."""

    kept: bool
    by: str
    reason: str
    before: Figures | None = None
    after: Figures | None = None


def figures(
    counted: Counted, asked: Wavefronts, arch: str, block: tuple[int, int, int] | None
) -> Figures:
    """The figures of a text, whose accesses ask for so many wavefronts. Raises UnknownTarget."""
    waves = sum(use.executions * asked.of(use.index, use.width) for use in counted.uses)
    cycles = [waves, counted.instructions * WARP / pipes.ISSUED]
    cycles += [n * WARP / pipes.lanes(pipe, counted.arch) for pipe, n in counted.pipes.items()
               if pipes.lanes(pipe, counted.arch) < pipes.ISSUED]  # fmt: skip
    resident = {
        threads: occupancy(arch, threads, counted.registers, counted.shared).fraction
        for threads in _threads(arch, block)
    }
    return Figures(
        counted.registers, counted.local, counted.shared, resident, counted.instructions, waves,
        Ends(max(cycles), sum(cycles)),
    )  # fmt: skip


def _threads(arch: str, block: tuple[int, int, int] | None) -> Sequence[int]:
    if block is not None:
        return (block[0] * block[1] * block[2],)
    most = limits(arch).block_threads
    return tuple(threads for threads in _USUAL_BLOCKS if threads <= most)


def decide(before: Figures, after: Figures) -> Decision:
    """Is the rewritten kernel kept?"""
    reason = _loss(before, after)
    if reason is not None:
        return Decision(False, PTXAS, reason, before, after)
    return Decision(True, PTXAS, _gain(before, after), before, after)


def _loss(before: Figures, after: Figures) -> str | None:
    """Why it does not certainly pay."""
    lost = [t for t in before.occupancy if after.occupancy[t] < before.occupancy[t]]
    if lost:
        threads = lost[0]
        share = f"{100 * after.occupancy[threads]:.0f} % of the warps are resident"
        return (
            f"ptxas takes {after.registers} registers for it in place of {before.registers}: "
            f"{share} in place of {100 * before.occupancy[threads]:.0f} % (blocks of {threads})"
        )
    if after.local > before.local:
        return f"ptxas spills {after.local} bytes a thread for it in place of {before.local}"
    if not dominates(after.ends, before.ends):
        return f"by what ptxas makes of it, it is not sure to pay: {_change(before, after)}"
    return None


def _gain(before: Figures, after: Figures) -> str:
    return f"by what ptxas makes of it: {_change(before, after)}"


def _change(before: Figures, after: Figures) -> str:
    pairs = (
        ("instructions", before.instructions, after.instructions),
        ("wavefronts", before.wavefronts, after.wavefronts),
        ("cycles of an SM at least", before.ends.busiest, after.ends.busiest),
        ("at most", before.ends.sum, after.ends.sum),
    )
    return ", ".join(f"{name} {old:.0f} to {new:.0f}" for name, old, new in pairs)
