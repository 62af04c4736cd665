"""Over which threads of a warp the registers vary that a trace does not follow.

A trace follows what addresses and branches depend on. The rest (mostly floating point) gets a
coarser answer, without regard to the order of instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptxsw import isa
from ptxsw.emulator.node import Variance
from ptxsw.emulator.specials import SPECIALS
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import uses
from ptxsw.ir import Reg, Special, Symbol
from ptxsw.semantics import meaning


def register_variance(trace: Trace) -> Mapping[Reg, Variance]:
    """The variance of every register that the function writes: as in `trace.registers` for those
    it follows, else as much as anything it may be computed from."""
    every = trace.cfg.writers
    written_at = {reg: at for reg, at in every.items() if reg not in trace.registers}
    access_at = {a.index: a for a in trace.accesses}
    level: dict[Reg, Variance] = {**dict.fromkeys(written_at, Variance.UNIFORM), **trace.registers}
    for reg, indices in written_at.items():
        # With two writers, or one in a loop that lanes leave apart, lanes may hold what different
        # paths or iterations wrote.
        if len(indices) > 1 or not _in_step(trace, indices[0]):
            level[reg] = Variance.LANE
    level.update(dict.fromkeys(_read_unwritten(trace.cfg, written_at), Variance.LANE))
    changed = True
    while changed:
        changed = False
        for reg, indices in written_at.items():
            most = max(_of(trace, i, access_at.get(i), level) for i in indices)
            if most > level[reg]:
                level[reg] = most
                changed = True
    return level


def _read_unwritten(cfg: Cfg, written_at: Mapping[Reg, Sequence[int]]) -> Iterator[Reg]:
    """Registers with one writer that are read where it need not have run: each lane may find
    something else in them."""
    for index, instruction in enumerate(cfg.instructions):
        block = cfg.block_of[index]
        if block not in cfg.rank:
            continue
        for reg in uses(instruction):
            for writer in written_at.get(reg, ())[:1]:
                above = cfg.block_of[writer]
                if writer >= index if above == block else not _above(cfg, above, block):
                    yield reg


def _above(cfg: Cfg, above: int, below: int) -> bool:
    return above in cfg.rank and cfg.dominates(above, below)


def _in_step(trace: Trace, index: int) -> bool:
    """Is the instruction unguarded, and in no cycle that lanes may leave separately?"""
    cfg = trace.cfg
    around = cfg.loops_around(cfg.block_of[index])
    together = trace.uniform_loops.issuperset(around) and not cfg.irreducible
    return together and cfg.instructions[index].guard is None


def _of(trace: Trace, index: int, access: Access | None, level: Mapping[Reg, Variance]) -> Variance:
    """How much a result varies."""
    instruction = trace.cfg.instructions[index]
    if instruction.opcode == "ld":
        if access is None or len(access.variants) != 1:
            return Variance.LANE
        # Parameters of a device function may differ from thread to thread.
        # What a load gives is as uniform as its address only if no thread may write there.
        fixed = ("const", "param") if trace.function.kind == "entry" else ("const",)
        constant = access.space in fixed or "nc" in instruction.modifiers
        return access.variants[0].address.variance if constant else Variance.LANE
    is_modelled = meaning(instruction.opcode, instruction.modifiers) is not None
    if not is_modelled or any(isinstance(o, Symbol) for o in instruction.operands):
        return Variance.LANE  # a symbol may be a variable of each thread's own
    read = (r for r in isa.uses(instruction) if isinstance(r, Special))
    specials = (SPECIALS[s.name][0] if s.name in SPECIALS else Variance.LANE for s in read)
    registers = (level.get(r, Variance.LANE) for r in uses(instruction))
    return max((*registers, *specials), default=Variance.UNIFORM)
