"""What one warp does in one iteration of a loop, from the trace alone.

Without a launch nobody knows how often a loop runs, what the caches hold, or which way a
branch goes. So each innermost loop is looked at by itself, one iteration of it; of a kernel without
loops, one pass. A loop that does nothing but wait for an mbarrier is no work: it counts as part of
the loop around it, gone round once. What is executed in some iterations only counts from not at
all to always, what may be in a cache from all to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import LINE
from ptxsw.analysis.warp_roles import working_loops
from ptxsw.cost.accesses import access_figures, unmeasured
from ptxsw.cost.account import Account, Interval, exactly
from ptxsw.cost.bulk_copies import bulk_bytes
from ptxsw.cost.executions import executed, fallback_blocks, placements
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.instructions import critical_path, latencies, of_machine_code
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.merged_accesses import as_made, by_width
from ptxsw.cost.resource_demand import asked, between
from ptxsw.cost.stalls import alone
from ptxsw.cost.tensor import constants, tensor_in
from ptxsw.cost.wavefronts import wavefronts_of
from ptxsw.emulator.trace import Access, Trace
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.isa import Trait

_FIXED: Final = frozenset({"the latency of mma", "the latency of wmma"})
_FIRST: Final = 80  # architecture from which on tensor cores set no barrier


class Stretch(Struct, frozen=True):
    """Code that is looked at by itself: a loop by the label of its header, or all of a kernel
    where `label` is None. `line` is that of its first instruction. `unknown` are the lines of
    accesses of which it is not known what a warp touches, `unmeasured` their positions; `accesses`
    are the positions and names of all. `header` is the block with which a loop begins."""

    label: str | None
    line: int
    account: Account
    unknown: tuple[int, ...]
    unmeasured: frozenset[int] = frozenset()
    accesses: tuple[tuple[int, str], ...] = ()
    header: int | None = None


def stretches(
    gpu: Gpu,
    trace: Trace,
    block: tuple[int, int, int] | None,
    code: MachineKernel | None,
    offset: Callable[[int], int] = int,
    unknown: frozenset[int] = frozenset(),
) -> tuple[Stretch, ...]:
    """The innermost loops of a kernel in the order of the code, or the kernel; without what runs
    only where a test of ours fails. `offset` tells where in the text that `code` was made from
    a place of the trace's text is. Of `unknown` accesses nothing is taken to be known."""
    cfg = trace.cfg
    fallback = fallback_blocks(cfg)
    inner = [cfg.loops[header] for header in working_loops(cfg, fallback)]
    reader = _Reader(gpu, trace, block, code, offset, unknown)
    if not inner:
        blocks = frozenset(cfg.order) - fallback
        return tuple(reader.read(None, blocks, frozenset(_always(cfg, blocks))))
    runs: list[Stretch] = []
    for loop in inner:
        always = frozenset(
            b for b in loop.blocks if all(cfg.dominates(b, latch) for latch in loop.latches)
        )
        runs += reader.read(loop.header, loop.blocks, always)
    return tuple(runs)


def _always(cfg: Cfg, blocks: frozenset[int]) -> Iterator[int]:
    """Blocks that every thread passes that runs to an end through these blocks alone."""
    ends = frozenset(n for n in blocks if not cfg.blocks[n].successors)
    if len(blocks) == len(cfg.order):
        return (n for n in cfg.order if all(cfg.dominates(n, end) for end in ends))
    return (n for n in blocks if ends.isdisjoint(_reached(cfg, blocks - {n})))


def _reached(cfg: Cfg, blocks: frozenset[int]) -> set[int]:
    """Those blocks to which a thread may come through these alone."""
    reached, work = set[int](), [cfg.order[0]]
    while work:
        block = work.pop()
        if block in blocks and block not in reached:
            reached.add(block)
            work += cfg.blocks[block].successors
    return reached


class _Reader:
    """Reads stretches of one kernel."""

    def __init__(
        self,
        gpu: Gpu,
        trace: Trace,
        block: tuple[int, int, int] | None,
        code: MachineKernel | None,
        offset: Callable[[int], int],
        unknown: frozenset[int],
    ) -> None:
        self._gpu, self._trace, self._code = gpu, trace, code
        self._placed = () if code is None else placements(code, trace.cfg, offset)
        waves, made = wavefronts_of(trace, block), by_width(trace.cfg, code, self._placed, offset)
        accesses = as_made(access_figures(trace, block, waves), waves, made, trace.cfg)
        self._figures = {
            at: unmeasured(figures) if at in unknown else figures
            for at, figures in accesses.items()
        }
        self._value = constants(trace.cfg)
        self._threads = None if block is None else prod(block)

    def read(
        self, header: int | None, blocks: frozenset[int], always: frozenset[int]
    ) -> Iterator[Stretch]:
        cfg = self._trace.cfg
        inside = cfg.indices(sorted(blocks))
        if not inside:
            return
        accesses = [a for a in self._trace.accesses if a.index in set(inside)]
        unknown = frozenset(
            a.index for a in accesses if a.index in self._figures and not self._known(a)
        )
        own = between(self._asked(set(cfg.indices(always))), self._asked(set(inside)))
        work = tensor_in(cfg, sorted(blocks), always, self._value)
        bulk = bulk_bytes(cfg, sorted(blocks), self._value, self._threads)
        chain, left = self._waits(self._chain(blocks, always), blocks, work.unmodelled)
        account = replace(
            own,
            passes=own.passes + (work.shared + bulk.bytes) / exactly(float(LINE)),
            l2_bytes=own.l2_bytes + bulk.bytes,
            dram_bytes=own.dram_bytes + Interval(0.0, bulk.bytes.high),
            chain=chain,
            tensor=work.multiply_adds,
            unmodelled=(*left, *bulk.unmodelled),
        )
        label = None if header is None else cfg.name(header).partition("@")[0]  # less its scope
        lines = tuple(map(self._line, sorted(unknown)))
        names = tuple((a.index, a.instruction.name) for a in accesses)
        yield Stretch(label, self._line(min(inside)), account, lines, unknown, names, header)

    def _waits(
        self, chain: Interval, blocks: frozenset[int], unmodelled: Sequence[str]
    ) -> tuple[Interval, tuple[str, ...]]:
        """With how long `mma` takes, where machine code says it; and what is left without figures:
        others than the warp itself say how long it waits for an mbarrier."""
        cfg = self._trace.cfg
        polls = any(isa.has(cfg.instructions[at], Trait.POLLS) for at in cfg.indices(blocks))
        left = (*unmodelled, *(("waits for mbarriers",) if polls else ()))
        if self._code is None or _FIXED.isdisjoint(unmodelled) or not self._is_recent:
            return chain, left
        once = [float(block.number in blocks) for block in cfg.blocks]
        often = [executed(place, once) for place in self._placed]
        most = alone(self._code, often, self._gpu.of("dram_latency").high)
        if most is None or not often:
            return chain, left
        return Interval(chain.low, max(chain.high, most)), tuple(w for w in left if w not in _FIXED)

    @property
    def _is_recent(self) -> bool:
        """Have control words the latency of tensor cores, and is the code for this GPU's own?"""
        return int(self._gpu.arch.removeprefix("sm_")) >= _FIRST

    def _known(self, access: Access) -> bool:
        return self._figures[access.index].known

    def _line(self, index: int) -> int:
        return self._trace.module.source.line(self._trace.cfg.instructions[index].span.start)

    def _asked(self, executed: set[int]) -> Account:
        """Of a warp that executes these instructions once."""
        cfg = self._trace.cfg
        times = [float(index in executed) for index in range(len(cfg.instructions))]
        mix = None
        if self._code is not None and self._code.instructions:
            of_blocks = [float(b.start < b.end and b.start in executed) for b in cfg.blocks]
            mix = of_machine_code(self._code, self._placed, of_blocks)
        return asked(self._gpu, self._trace, self._figures, times, mix)

    def _chain(self, blocks: frozenset[int], always: frozenset[int]) -> Interval:
        """Cycles of the blocks one after the other, those that are not always executed perhaps."""
        l1, dram = self._gpu.of("l1_latency"), self._gpu.of("dram_latency")
        l2 = self._gpu.of("l2_latency")
        cfg = self._trace.cfg

        def load(index: int) -> Interval:
            kept = self._gpu.plain_loads or "nc" in cfg.instructions[index].modifiers
            near = l1 if kept or isa.space(cfg.instructions[index]) == "local" else l2
            return Interval(near.low, dram.high)

        wait = latencies(self._gpu, load)
        paths = {n: critical_path(cfg, n, wait) for n in blocks}
        return Interval(
            sum(path.low for n, path in paths.items() if n in always),
            sum(path.high for path in paths.values()),
        )
