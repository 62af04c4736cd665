"""What may write, while a kernel runs, the bytes that one of its loads reads.

Its own plain stores and atomics have an address each, and can be compared with the load. All else
that writes, or waits for what others write, forbids every assumption about unwritten bytes.
"""

from __future__ import annotations

from ptxsw.changes.assumptions import NO_OUTSIDE_WRITER
from ptxsw.ptx import isa
from ptxsw.ptx.ir import type_width
from ptxsw.ptx.isa import Effect
from ptxsw.rewrites.base import Kernel

_ORDERING = frozenset({"volatile", "mmio", "acquire", "release", "acq_rel", "sc"})
_FENCES = isa.opcodes(isa.Trait.FENCE)


def obstacle(kernel: Kernel) -> str | None:
    """Why no load of the kernel may be made read-only."""
    if NO_OUTSIDE_WRITER not in kernel.options.assume:
        return f"others may write while the kernel runs: {NO_OUTSIDE_WRITER} is not assumed"
    if kernel.trace.statistics.timed_out:
        return "the symbolic run of the kernel did not finish"
    reached = {access.index for access in kernel.trace.accesses}
    for index, instruction in enumerate(kernel.trace.cfg.instructions):
        reason = _hazard(instruction.opcode, instruction.modifiers)
        if reason is None and isa.may_write_global(instruction):
            block = kernel.trace.cfg.block_of[index]
            if index not in reached and block in kernel.trace.cfg.rank:
                reason = "may write anywhere"
        if reason is not None:
            return f"{instruction.name} (line {kernel.line(index)}) {reason}"
    return None


@isa.by_name
def _hazard(opcode: str, modifiers: tuple[str, ...]) -> str | None:
    """What an instruction does, if others than this kernel's plain accesses may write, or wait
    for what is written."""
    if isa.row(opcode, modifiers) is None:
        return "is unknown and may do anything"
    effects = isa.effects(opcode, modifiers)
    if effects & Effect.CALL:
        return "may call code that writes these bytes"
    if opcode == "griddepcontrol":
        return "waits for another kernel, which may write these bytes"
    if not _ORDERING.isdisjoint(modifiers) and effects & (Effect.READ | Effect.WRITE):
        return "is volatile or ordered: others may write what is read after it"
    # A fence or barrier of the block only orders what this kernel's own threads write, and their
    # stores are compared with the load one by one.
    if opcode in _FENCES and "cta" not in modifiers:
        return "is a device-wide fence: others may write what is read after it"
    single = opcode in ("st", "atom", "red") and any(map(type_width, modifiers))
    if effects & Effect.WRITE and (not single or effects & Effect.ASYNC):
        return "may write these bytes by itself"
    return None
