"""What a symbolic run has to track: no register that decides nothing of what a trace tells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs, liveness, slice_registers, uses
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg


def tracked(cfg: Cfg, follow: frozenset[str]) -> frozenset[Reg]:
    """The registers on which a trace depends; with all that instructions of the names in `follow`
    have to do with."""
    return slice_registers(cfg, partial(_roots, follow))


def followed(cfg: Cfg, names: frozenset[str]) -> frozenset[int]:
    """The instructions that have one of the names."""
    if not names:
        return frozenset()
    return frozenset(i for i, ins in enumerate(cfg.instructions) if ins.name in names)


def followed_anyway(cfg: Cfg, names: frozenset[str], tracked: frozenset[Reg]) -> frozenset[str]:
    """Those of some names whose instructions have to do with tracked registers alone."""
    at = followed(cfg, names)
    strange = (i for i in at if not tracked.issuperset((*cfg.written[i], *cfg.read[i])))
    return names - {cfg.instructions[i].name for i in strange}


def live_registers(cfg: Cfg, tracked: frozenset[Reg]) -> Mapping[int, tuple[Reg, ...]]:
    """By block, the tracked registers that live on at its start, in a fixed order."""

    def wanted(at: int) -> bool:
        if not tracked.isdisjoint(cfg.written[at]):
            return True
        ins = cfg.instructions[at]
        return bool(isa.effects(ins.opcode, ins.modifiers))

    facts = liveness(cfg, wanted)
    return {
        number: tuple(sorted(live & tracked, key=lambda r: (r.name, r.scope)))
        for number, live in facts.items()
    }


def _roots(follow: frozenset[str], instruction: Instruction) -> tuple[Reg, ...]:
    """Registers a trace needs: bases of addresses, what decides branches, guards of accesses, all
    that an instruction of a name in `follow` has to do with."""
    if follow and instruction.name in follow:
        return (*defs(instruction), *uses(instruction))
    roots = [o.base for o in instruction.operands if isinstance(o, Mem) and isinstance(o.base, Reg)]
    if instruction.opcode == "brx":
        roots.extend(o for o in instruction.operands if isinstance(o, Reg))
    if instruction.guard is not None and isa.effects(instruction.opcode, instruction.modifiers):
        roots.append(instruction.guard.reg)
    return tuple(roots)
