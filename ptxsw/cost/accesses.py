"""The figures of a kernel that every command gives alike: what each access moves when a warp
executes it once, and what all of its code takes, each block of it executed once.

    ld.global.f32 %f1, [%rd1];      lanes 128 bytes apart: 32 sectors in the first-level cache, 32
                                    wavefronts
    ld.shared.f64 %fd1, [%r2];      lanes 8 bytes apart: 2 passes through the banks

Of an access whose addresses are not known they are ranges, and `known` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES, LINE, SECTOR
from ptxsw.analysis.path_choice import with_one_path
from ptxsw.analysis.traffic import Traffic, lane_bytes, read_by_copy
from ptxsw.analysis.warps import Block, Warps
from ptxsw.cost.account import Interval, exactly, total
from ptxsw.cost.executions import placements
from ptxsw.cost.instructions import Mix, of_machine_code, of_ptx
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.wavefronts import Wavefronts, wavefronts_of
from ptxsw.emulator.trace import Access, Trace

_NONE: Final = exactly(0.0)
_ONE_WORD: Final = frozenset({"mbarrier"})
_SECTORS: Final = frozenset({"global", "generic", "local"})


class AccessFigures(Struct, frozen=True):
    """Of one access, for a warp that executes it once. `bytes` are those of a lane."""

    bytes: int
    sectors: Interval = _NONE  # of 32 bytes, of the warp that touches most, in global memory
    wavefronts: Interval = _NONE  # passes of the memory pipe: of shared memory, through its banks
    known: bool = True


class KernelFigures(Struct, frozen=True, kw_only=True):
    """Of a kernel, each block of its code executed once by a warp: no loop is weighed. `source`
    says whether instructions are those of machine code ("SASS"), which tells registers and bytes of
    static shared memory, too, or bounds by the PTX ("PTX"). Accesses are those of the PTX;
    `unknown` is how many of them are ranges."""

    source: str
    instructions: Interval
    pipes: Mapping[str, Interval]
    wavefronts: Interval
    sectors: Interval
    unknown: int
    registers: int | None = None
    shared: int | None = None


def figures(
    accesses: Mapping[int, AccessFigures], mix: Mix, made: tuple[int, int] | None
) -> KernelFigures:
    """Of what a kernel's accesses and its instructions take; `made` are the registers and bytes of
    shared memory of the machine code whose instructions they are, None where they are the PTX's."""
    every = accesses.values()
    registers, shared = made or (None, None)
    return KernelFigures(
        source="PTX" if made is None else "SASS", instructions=mix.instructions, pipes=mix.pipes,
        wavefronts=total(one.wavefronts for one in every),
        sectors=total(one.sectors for one in every),
        unknown=sum(not one.known for one in every), registers=registers, shared=shared,
    )  # fmt: skip


def kernel_figures(
    trace: Trace,
    block: Block | None,
    code: MachineKernel | None = None,
    offset: Callable[[int], int] = int,
    accesses: Mapping[int, AccessFigures] | None = None,
) -> KernelFigures:
    """Of a kernel in blocks of a shape (`accesses` are those of it, where they are known), by what
    ptxas made of it where that is known. `offset` tells where in the text that `code` was made from
    a place of the trace's text is."""
    cfg, accesses = trace.cfg, accesses or access_figures(trace, block)
    if code is None or not code.instructions:
        return figures(accesses, of_ptx(cfg.instructions, [1.0] * len(cfg.instructions)), None)
    once = [1.0] * len(cfg.blocks)
    mix = of_machine_code(code, placements(code, cfg, offset), once)
    return figures(accesses, mix, (code.registers, code.shared))


def access_figures(
    trace: Trace,
    block: Block | None,
    asked: Wavefronts | None = None,
    warps: Warps | None = None,
) -> Mapping[int, AccessFigures]:
    """Of the accesses of a kernel, by the position of their instructions, in blocks of a shape (or
    of usual ones); without those of parameters and constants, and those of which no lane has
    bytes of its own. `asked` are their wavefronts and `warps` those of a block, where somebody
    knows them."""
    warps = warps or Warps(block)
    asked = asked or wavefronts_of(trace, block, warps)
    found = {}
    for access in trace.accesses:
        size = lane_bytes(access) or (access.bytes if access.instruction.opcode in _ONE_WORD else 0)
        if size and (access.space == "shared" or access.space in _SECTORS):
            found[access.index] = _figures(trace, access, size, asked, warps)
    return found


def unmeasured(figures: AccessFigures) -> AccessFigures:
    """The same as if its addresses were not known."""
    size = figures.bytes
    waves = Interval(float(max(1, LANES * size // LINE)), float(LANES))
    sectors = _any_sectors(size) if figures.sectors.high else _NONE
    return AccessFigures(size, sectors, waves, known=False)


def _any_sectors(size: int) -> Interval:
    return Interval(1.0, LANES * max(1.0, size / SECTOR))


def _figures(
    trace: Trace, access: Access, size: int, asked: Wavefronts, warps: Warps
) -> AccessFigures:
    wavefronts = asked.of(access.index, width=size)
    known = access.index not in asked.unknown or access.space != "shared"
    reading = read_by_copy(access) if access.space == "shared" else access
    if reading is None:
        return AccessFigures(size, wavefronts=wavefronts, known=known)
    alone = with_one_path(trace.terms, reading)
    sectors, _ = Traffic.of(alone, trace.unwrapped, warps).sectors()
    if sectors is None:
        return AccessFigures(size, _any_sectors(size), wavefronts, known=False)
    return AccessFigures(size, exactly(float(sectors)), wavefronts, known)
