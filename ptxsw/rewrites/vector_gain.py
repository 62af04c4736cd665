"""Vectors that cannot pay, which a kernel's text alone shows: so ptxas is not asked about them.

Mode auto keeps all vectors of a kernel or none. They cannot pay where they save next to nothing of
what the whole kernel does, nor where a thread's registers are full of values: a vector holds those
of its elements from the first of the accesses to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ptxsw.analysis.trip_count import times_in_loops
from ptxsw.changes.change import Change
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import liveness
from ptxsw.ptx.ir import Body, Reg
from ptxsw.rewrites.base import Kernel

_REGISTERS: Final = 255  # that a thread may have
_FULL: Final = 204
"""Four fifths: ptxas needs registers for what it computes on the way, too. Of 1,212 kernels of real
compilers 17 hold so many, all of Triton's, and there is no vector to make in any of them."""

_GAIN: Final = 0.05  # that mode auto asks for
_SHARE: Final = 0.2
"""Of that gain: ptxas may make five times less of the whole kernel than stands in its text."""


def cannot_pay(kernel: Kernel, changes: Sequence[Change]) -> str | None:
    """Why mode auto makes none of these vectors; None where they may pay."""
    trace, least = kernel.trace, kernel.options.min_gain
    share = _SHARE * (_GAIN if least is None else least / 100)
    instructions, accesses = _executed(trace)
    fewer = -sum(change.worth.instructions for change in changes)
    saved = -sum(change.worth.wavefronts for change in changes)
    if fewer < share * instructions and saved < share * accesses:
        return f"the vectors save less than {100 * share:g} % of the kernel's work"
    held = _most_held(trace, kernel.function.body, {trace.cfg.block_of[c.at] for c in changes})
    if held >= _FULL:
        return f"{held} of {_REGISTERS} registers are in use there, and vectors need more at once"
    return None


def _executed(trace: Trace) -> tuple[float, float]:
    """The instructions of a warp and the accesses among them, where every loop is taken as often as
    in the worth of a change. An access takes a wavefront at least."""
    cfg = trace.cfg
    times = [times_in_loops(len(cfg.loops_around(block.number))) for block in cfg.blocks]
    instructions = sum(
        (block.end - block.start) * often for block, often in zip(cfg.blocks, times, strict=True)
    )
    return instructions, sum(times[cfg.block_of[access.index]] for access in trace.accesses)


def _most_held(trace: Trace, body: Body, blocks: set[int]) -> int:
    """The most registers of 32 bits that hold values at once somewhere in these blocks."""
    cfg, live, most = trace.cfg, liveness(trace.cfg), 0

    def size(reg: Reg) -> int:
        bits = body.width(reg)
        return (bits > 1) * max(1, bits // 32)

    for number in blocks:
        block, now = cfg.blocks[number], set[Reg]()
        for successor in block.successors:
            now |= live.get(successor, frozenset())
        held = sum(map(size, now))
        for at in range(block.end - 1, block.start - 1, -1):
            for reg in now.intersection(cfg.surely_written[at]):
                held -= size(reg)
            now.difference_update(cfg.surely_written[at])
            for reg in {*cfg.read[at]} - now:
                held += size(reg)
            now.update(cfg.read[at])
            most = max(most, held)
    return most
