"""Over which threads of a warp the registers vary that a trace does not follow.

A trace follows what addresses and branches depend on. The rest (mostly floating point) gets a
coarser answer, without regard to the order of instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw import isa
from ptxsw.emulator.node import Variance
from ptxsw.emulator.trace import Access, Trace
from ptxsw.ir import Instruction, Reg
from ptxsw.semantics import meaning


def register_variance(trace: Trace) -> Mapping[Reg, Variance]:
    """The variance of every register that the function writes: as in `trace.registers` for those
    it follows, else as much as anything it may be computed from."""
    writers: dict[Reg, list[int]] = {}
    for index, instruction in enumerate(trace.cfg.instructions):
        for reg in isa.defs(instruction):
            if reg not in trace.registers:
                writers.setdefault(reg, []).append(index)
    access_at = {a.index: a for a in trace.accesses}
    level: dict[Reg, Variance] = {**dict.fromkeys(writers, Variance.UNIFORM), **trace.registers}
    for reg, indices in writers.items():
        if len(indices) > 1 or not _in_step(trace, indices[0]):
            level[reg] = Variance.LANE
    fixed = ("const", "param") if trace.function.kind == "entry" else ("const",)
    changed = True
    while changed:
        changed = False
        for reg, indices in writers.items():
            most = max(
                _of(trace.cfg.instructions[i], access_at.get(i), level, fixed) for i in indices
            )
            if most > level[reg]:
                level[reg] = most
                changed = True
    return level


def _in_step(trace: Trace, index: int) -> bool:
    """Is the instruction unguarded and in no cycle that lanes may leave apart?"""
    cfg = trace.cfg
    around = cfg.loops_around(cfg.block_of[index])
    together = trace.uniform_loops.issuperset(around) and not cfg.irreducible
    return together and cfg.instructions[index].guard is None


def _of(
    instruction: Instruction,
    access: Access | None,
    level: Mapping[Reg, Variance],
    fixed: tuple[str, ...],
) -> Variance:
    """How much a result varies; `fixed` are the spaces that nobody writes."""
    if instruction.opcode == "ld":
        if access is None or len(access.variants) != 1:
            return Variance.LANE
        constant = access.space in fixed or "nc" in instruction.modifiers
        return access.variants[0].address.variance if constant else Variance.LANE
    if meaning(instruction.opcode, instruction.modifiers) is None:
        return Variance.LANE
    return max(
        (
            level.get(r, Variance.LANE) if isinstance(r, Reg) else Variance.LANE
            for r in isa.uses(instruction)
        ),
        default=Variance.UNIFORM,
    )
