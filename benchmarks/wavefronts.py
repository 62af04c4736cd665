"""What warps ask of memory in a launch, counted in the interpreter: wavefronts, in the widths that
ptxas chose.

    shl.b32 %r2, %tid.x, 5;         lanes 32 bytes apart: 8 words of a warp lie in each of four
    ld.shared.f32 %f1, [%r2];       banks, so the load takes 8 wavefronts

Of shared memory a wavefront serves each bank once. Of global memory it serves a line of 128 bytes,
and no more bytes than that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.kernelgen.cases import Run
from ptxsw.analysis.banks import wavefronts as shared_wavefronts
from ptxsw.cost.machine_code import MachineInstruction
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Module
from ptxsw.simt.chunk import Chunk, Geometry
from ptxsw.simt.machine import Machine
from ptxsw.simt.memory import AccessedBytes
from ptxsw.simt.program import Program
from ptxsw.simt.run import LIMIT, entry
from ptxsw.simt.schedule import Converging
from ptxsw.simt.state import Fragment
from ptxsw.simt.translate import translate_all

_LINE = 128  # bytes
_CONSTANT = ("param", "const")  # which have a cache of their own
_MEMORY = ("LD", "ST", "ATOM", "RED")


@dataclass(frozen=True, slots=True)
class Request:
    """The addresses of the lanes of one warp that take part in an access of `size` bytes."""

    shared: bool
    addresses: tuple[int, ...]
    size: int

    def wavefronts(self, width: int) -> int:
        """Those of an access of `width` bytes that holds what was asked for."""
        wide = tuple(at // width * width for at in self.addresses)
        if self.shared:
            return shared_wavefronts(wide, width)
        distinct = set(wide)
        return max(len({at // _LINE for at in distinct}), -(-len(distinct) * width // _LINE))


@dataclass(frozen=True)
class Executed:
    """What a launch did: the requests of each access, and the opcodes of the instructions that
    were executed, by their offsets in the text; and how many loads of global memory its warps
    have executed."""

    requests: Mapping[int, Sequence[Request]]
    opcodes: Mapping[int, str]
    loads: int

    @property
    def instructions(self) -> Collection[int]:
        return self.opcodes.keys()


def execute(module: Module, kernel: str, run: Run) -> Executed:
    """Runs all blocks of a launch at once. Raises RunError."""
    program = Program(module, entry(module, kernel), run.args, run.shared, run.memory)
    translate_all(program)
    geometry = Geometry(run.grid, run.block)
    seen = _Recorder()
    with np.errstate(all="ignore"):
        machine = Machine(program, geometry, 0, geometry.blocks, Converging(), None, None, LIMIT)
        machine.recorder = seen
        machine.run()
    done = {
        instruction.span.start: instruction.opcode
        for code in program.codes.values()
        for instruction, warps in zip(code.instructions, code.warps, strict=True)
        if warps
    }
    return Executed(seen.requests, done, seen.loads)


@dataclass
class _Recorder:
    """Is told of each access."""

    requests: defaultdict[int, list[Request]] = field(default_factory=lambda: defaultdict(list))
    loads: int = 0

    def executed(self, *_: object) -> None: ...

    def access(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, write: bool
    ) -> None:
        instruction = chunk.instruction(fragment)
        if place.region is chunk.local or isa.space(instruction) in _CONSTANT:
            return
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        offsets = np.broadcast_to(place.offsets, len(idx))
        shared = place.region is chunk.shared
        if shared:
            offsets = offsets - chunk.block_of(idx) * chunk.program.shared_size
        into = self.requests[instruction.span.start]
        warps = np.unique(idx >> 5)
        self.loads += 0 if shared or write else len(warps)
        for warp in warps:
            into.append(Request(shared, tuple(offsets[idx >> 5 == warp].tolist()), size))


def wavefronts(executed: Executed, made: Sequence[MachineInstruction]) -> dict[int, float]:
    """Of each access all warps together, by its offset in the text. An access of which ptxas made
    nothing has been joined to another, of several copies each is taken equally often."""
    copies: defaultdict[int, list[int]] = defaultdict(list)
    for instruction in made:
        if instruction.ptx is not None and instruction.root.startswith(_MEMORY):
            copies[instruction.ptx].append(instruction.width or 0)
    return {
        at: sum(
            request.wavefronts(max(width, request.size)) / len(copies[at])
            for request in requests
            for width in copies[at]
        )
        for at, requests in executed.requests.items()
    }
