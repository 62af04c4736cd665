"""What a launch does, from a few of its blocks in the interpreter.

One block from the middle of the grid is run to its end, and counted: how often warps execute each
instruction, and what its accesses ask of the first-level cache and of shared memory. Its
neighbours are run for a while beside it, so that it is seen what blocks find of each other in the
caches (`caches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from ptxsw.analysis.banks import wavefronts
from ptxsw.cost.caches import SECTOR, Touches
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Module
from ptxsw.simt import launch as simulate
from ptxsw.simt.state import Runaway
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch
from ptxsw.verify.runs import placed

if TYPE_CHECKING:
    from ptxsw.simt.chunk import Chunk
    from ptxsw.simt.memory import AccessedBytes
    from ptxsw.simt.state import Fragment

Array = NDArray[Any]
LIMIT: Final = 1 << 20
"""Instructions of groups of threads after which a block is taken to be too long to be counted."""
_THREADS: Final = 4096  # of the blocks that run side by side
_TOUCHES: Final = 300_000  # sectors that are remembered
_OFTEN: Final = 32  # times after which one in `_THINNED` is looked at
_THINNED: Final = 13
_WORD: Final = 4  # bytes
_ALL_AS_WRITTEN: Final[Mapping[int, frozenset[int]]] = {}


class TooLong(ValueError):
    """A block is too long to be run here; the message says what to do."""


class Asked(Struct):
    """What one instruction asks of memory, of all warps of a block: `lanes` that take part (those
    of four bytes; wider ones count several times), `sectors` of each warp added up, `passes`
    through the banks of shared memory (`wide`: if lanes accessed so many bytes around theirs), and
    the `distinct` sectors of each time threads come by."""

    lanes: float = 0.0
    sectors: float = 0.0
    passes: float = 0.0
    distinct: float = 0.0
    write: bool = False
    cached: bool = False  # by `.nc` in any first-level cache
    wide: dict[int, float] = field(default_factory=dict)


class Sample(Struct, frozen=True):
    """What was seen. Of one block: `executed` is how often warps execute each instruction, `steps`
    how often each thread goes through its innermost loop. `asked` is by the number of the
    instruction."""

    instructions: tuple[Instruction, ...]
    executed: tuple[int, ...]
    warps: int
    steps: float
    asked: Mapping[int, Asked]
    touches: Touches


def sample(
    module: Module, kernel: str, launch: Launch, resident: int,
    widths: Mapping[int, frozenset[int]] = _ALL_AS_WRITTEN,
) -> Sample:  # fmt: skip
    """Runs blocks of a launch of which `resident` are on the GPU at a time. `widths` are bytes for
    which passes are counted, too, by the place of an access in the text. Raises TooLong; RunError
    for what the program does wrong, Unsupported for what is not modelled."""
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    side_by_side = max(1, min(blocks, resident, _THREADS // (-(-threads // 32) * 32)))
    first = (blocks - side_by_side) // 2
    try:
        counted = _counted(module, kernel, launch, first + side_by_side // 2, widths)
    except Runaway as error:
        raise TooLong(
            f"{kernel}: a block executes more than {LIMIT} instructions: predict a smaller launch"
        ) from error
    window = _Window(threads, side_by_side)
    with suppress(_Enough, Runaway):
        _run(module, kernel, launch, range(first, first + side_by_side), window)
    touches = window.touches(counted.instructions)
    return Sample(
        counted.instructions, counted.warps_executed, -(-threads // 32),
        counted.steps(), counted.asked(), touches,
    )  # fmt: skip


def _run(module: Module, kernel: str, launch: Launch, only: range, recorder: Any) -> None:
    values, memory, _ = placed(module, kernel, launch, Data.plain_array)
    simulate(
        module, kernel, launch.grid, launch.block, values, shared=launch.shared, memory=memory,
        counters=False, only=only, limit=LIMIT, recorder=recorder, results=False,
    )  # fmt: skip


def executions(module: Module, kernel: str, launch: Launch) -> dict[int, float]:
    """How often a warp of a block from the middle of the grid executes each instruction, by the
    instruction's place in the text. Raises as `sample` does."""
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    try:
        counted = _counted(module, kernel, launch, blocks // 2)
    except Runaway as error:
        raise TooLong(f"a block executes more than {LIMIT} instructions") from error
    warps = -(-threads // 32)
    return {
        instruction.span.start: times / warps
        for instruction, times in zip(counted.instructions, counted.warps_executed, strict=True)
        if times
    }


def _counted(
    module: Module, kernel: str, launch: Launch, block: int,
    widths: Mapping[int, frozenset[int]] = _ALL_AS_WRITTEN,
) -> _Counting:  # fmt: skip
    """One block, by its number, run to its end. Raises Runaway, and what a run raises."""
    counted = _Counting(launch.block[0] * launch.block[1] * launch.block[2], widths)
    _run(module, kernel, launch, range(block, block + 1), counted)
    return counted


class _Enough(Exception):
    """As much was seen as is remembered."""


class _Counting:
    """Counts what one block asks for."""

    def __init__(
        self, threads: int, widths: Mapping[int, frozenset[int]] = _ALL_AS_WRITTEN
    ) -> None:
        self._threads, self._widths = threads, widths
        self._codes: dict[int, int] = {}  # number of the first instruction of each function
        self._next = 0
        self._asked: dict[int, Asked] = {}
        self._looked: dict[int, float] = {}
        self._times: dict[int, int] = {}
        self.instructions: tuple[Instruction, ...] = ()
        self.warps_executed: tuple[int, ...] = ()
        self._visits: dict[int, float] = {}

    def executed(self, kernel: Sequence[Instruction], warps: Sequence[int]) -> None:
        if id(kernel) in self._codes:  # numbers were given in another order
            at = self._codes[id(kernel)]
        else:
            at = self._next
            self._next += len(kernel)
        size = max(len(self.instructions), at + len(kernel))
        instructions = [*self.instructions, *[None] * (size - len(self.instructions))]
        counts = [*self.warps_executed, *[0] * (size - len(self.warps_executed))]
        instructions[at : at + len(kernel)] = kernel
        counts[at : at + len(kernel)] = warps
        self.instructions = tuple(instructions)  # type: ignore[arg-type]
        self.warps_executed = tuple(counts)

    def number(self, fragment: Fragment) -> int:
        """The number of a fragment's instruction among those of all functions."""
        instructions = fragment.frame.code.instructions
        key = id(instructions)
        if key not in self._codes:
            self._codes[key] = self._next
            self._next += len(instructions)
        return self._codes[key] + fragment.pc

    def steps(self) -> float:
        """How often a thread comes to the access that it comes to most often."""
        return max(self._visits.values(), default=1.0)

    def visit(self, number: int, *, threads: int) -> None:
        self._visits[number] = self._visits.get(number, 0.0) + threads / self._threads

    def access(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, write: bool
    ) -> None:
        if place.region is chunk.local:
            return
        number = self.number(fragment)
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        self.visit(number, threads=len(idx))
        self._times[number] = self._times.get(number, 0) + 1
        if self._times[number] > _OFTEN and self._times[number] % _THINNED:
            return
        self._looked[number] = self._looked.get(number, 0.0) + len(idx) / self._threads
        record = self._asked.setdefault(number, Asked(write=write))
        warps = idx >> 5
        if not place.arena:
            record.passes += _passes(warps, place.offsets, size)
            for wide in self._widths.get(chunk.instruction(fragment).span.start, ()):
                around = _passes(warps, place.offsets // wide * wide, wide)
                record.wide[wide] = record.wide.get(wide, 0.0) + around
            return
        record.cached = "nc" in chunk.instruction(fragment).modifiers
        record.lanes += len(idx) * max(1, size // _WORD)
        sectors = np.broadcast_to(place.offsets // SECTOR, len(idx))
        record.sectors += len(np.unique(warps * (1 << 40) + sectors))
        record.distinct += len(np.unique(sectors))

    def asked(self) -> dict[int, Asked]:
        """What each instruction asked for; what was looked at stands for all."""
        return {number: self._scaled(number, counted) for number, counted in self._asked.items()}

    def _scaled(self, number: int, asked: Asked) -> Asked:
        times = self._visits[number] / self._looked[number]
        return Asked(
            asked.lanes * times, asked.sectors * times, asked.passes * times,
            asked.distinct * times, asked.write, asked.cached,
            {wide: passes * times for wide, passes in asked.wide.items()},
        )  # fmt: skip


def _passes(warps: Array, offsets: Array, size: int) -> int:
    """Passes through the banks of all warps."""
    offsets = np.broadcast_to(offsets, len(warps))
    borders = np.flatnonzero(np.diff(warps)) + 1
    return sum(wavefronts(tuple(one.tolist()), size) for one in np.split(offsets, borders))


class _Window(_Counting):
    """Remembers which sectors each block touches, until it is enough."""

    def __init__(self, threads: int, blocks: int) -> None:
        super().__init__(threads * blocks)
        self._blocks, self._seen, self._records = blocks, 0, 0
        self._columns: list[tuple[Array, Array, int, int, bool, bool]] = []

    def access(
        self, chunk: Chunk, fragment: Fragment, place: AccessedBytes, size: int, write: bool
    ) -> None:
        if not place.arena:
            return
        number = self.number(fragment)
        idx = fragment.idx if place.which is None else fragment.idx[place.which]
        self.visit(number, threads=len(idx))
        instruction = chunk.instruction(fragment)
        if isa.space(instruction) in ("param", "const"):
            return
        self._records += 1
        sectors = np.broadcast_to(place.offsets // SECTOR, len(idx))
        key = np.unique(chunk.block_of(idx) * (1 << 44) + sectors)
        cached = "nc" in instruction.modifiers
        self._columns.append(
            (key >> 44, key & ((1 << 44) - 1), self._records, number, write, cached)
        )
        self._seen += len(key)
        if self._seen > _TOUCHES:
            raise _Enough

    def touches(self, instructions: Sequence[Instruction]) -> Touches:
        """What was remembered; time in steps."""
        columns = self._columns
        steps = self.steps()
        scale = steps / max(self._records, 1)

        def spread(values: Sequence[Any], kind: Any) -> Array:
            lengths = [len(c[0]) for c in columns]
            return np.repeat(np.array(values, kind), lengths)

        def joined(which: int) -> Array:
            parts = [c[which] for c in columns]
            return np.concatenate(parts) if parts else np.zeros(0, np.int64)

        return Touches(
            joined(0), spread([c[2] for c in columns], np.float64) * scale, joined(1),
            spread([c[4] for c in columns], np.bool_), spread([c[5] for c in columns], np.bool_),
            spread([c[3] for c in columns], np.int64), self._blocks, steps,
        )  # fmt: skip
