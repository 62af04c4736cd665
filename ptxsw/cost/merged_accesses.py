"""Accesses of shared memory as ptxas merged them: of loads side by side it makes one.

    ld.shared.f32 %f1, [%r1];           LDS.128 R4,[R1]     one pass for 8 lanes that are 64 bytes
    ld.shared.f32 %f2, [%r1+4];                             apart takes 4, where four accesses of
    ld.shared.f32 %f3, [%r1+8];                             4 bytes take 8 for 32 lanes
    ld.shared.f32 %f4, [%r1+12];

So what a run counts of each access of the PTX is counted anew at the width of the machine code, and
what has no machine code of its own counts nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ptxsw.cost.accesses import AccessFigures
from ptxsw.cost.account import total
from ptxsw.cost.executions import Placement, executed, placements
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.sampled import Sample
from ptxsw.cost.wavefronts import Wavefronts
from ptxsw.flow.cfg import Cfg, build
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, type_width

_ROOTS = frozenset({"LDS", "STS"})


def widths(function: Function, code: MachineKernel | None) -> Mapping[int, frozenset[int]]:
    """Bytes of a lane, by the place in the text of accesses of which ptxas made wider ones."""
    found = defaultdict[int, set[int]](set)
    own = {one.span.start: _bytes(one) for one in build(function.body).instructions}
    for instruction in code.instructions if code is not None else ():
        at, wide = instruction.ptx, instruction.width
        if instruction.root in _ROOTS and at is not None and wide and wide > own.get(at, wide):
            found[at].add(wide)
    return {at: frozenset(wide) for at, wide in found.items()}


def by_width(
    cfg: Cfg, code: MachineKernel | None, placed: Sequence[Placement], offset: Callable[[int], int]
) -> Mapping[int, Sequence[tuple[int, Placement]]]:
    """For loads and stores of shared memory, by their positions, what ptxas made of them: bytes of
    a lane, and where it is executed. Nothing at all where ptxas made none of them wider. `offset`
    tells where in the text that `code` was made from a place of the text of `cfg` is."""
    plain = {
        offset(one.span.start): (number, _bytes(one))
        for number, one in enumerate(cfg.instructions)
        if _bytes(one)
    }
    found: dict[int, list[tuple[int, Placement]]] = {number: [] for number, _ in plain.values()}
    wider = False
    for instruction, place in zip(code.instructions if code else (), placed, strict=True):
        known = plain.get(instruction.ptx) if instruction.ptx is not None else None
        if instruction.root in _ROOTS and known is not None and instruction.width:
            found[known[0]].append((instruction.width, place))
            wider |= instruction.width > known[1]
    return found if wider else {}


def as_made(
    accesses: Mapping[int, AccessFigures], waves: Wavefronts,
    made: Mapping[int, Sequence[tuple[int, Placement]]], cfg: Cfg,
) -> Mapping[int, AccessFigures]:  # fmt: skip
    """The figures of accesses, with the passes through the banks that what ptxas made of them takes
    each time that their block is executed."""

    def own(index: int, figures: AccessFigures) -> AccessFigures:
        block = cfg.block_of[index]
        parts = (
            waves.of(index, width=width) * place.get(block, 0.0) for width, place in made[index]
        )
        return replace(figures, wavefronts=total(parts))

    return {
        index: own(index, figures) if index in made and figures.known else figures
        for index, figures in accesses.items()
    }


def passes(function: Function, sample: Sample, code: MachineKernel | None) -> float:
    """Through the banks of shared memory, of a block that was run."""
    counted = {number: asked.passes for number, asked in sample.asked.items()}
    cfg = build(function.body)
    placed = () if code is None else placements(code, cfg, fallback=frozenset())
    made = by_width(cfg, code, placed, int)
    times = [float(sample.executed[b.start]) if b.start < b.end else 0.0 for b in cfg.blocks]
    through = sum(count for number, count in counted.items() if number not in made)
    for number in counted.keys() & made.keys():
        asked = sample.asked[number]
        for wide, place in made[number]:
            once = asked.wide.get(wide, asked.passes) / sample.executed[number]
            through += executed(place, times) * once
    return through


def _bytes(instruction: Instruction) -> int:
    """Of a lane, of a load or store of shared memory; 0 for what is none."""
    if instruction.opcode not in ("ld", "st") or isa.space(instruction) != "shared":
        return 0
    count = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    return count * type_width(isa.access_type(instruction) or "") // 8
