"""The account of a whole launch: what a sample of blocks was seen to do, times the blocks."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.analysis.coalescing import LINE
from ptxsw.cost import caches
from ptxsw.cost.account import Account, Interval, exactly
from ptxsw.cost.caches import SECTOR, CacheTraffic, Setting
from ptxsw.cost.executions import placements
from ptxsw.cost.gpu import Gpu
from ptxsw.cost.instructions import Mix, critical_path, latencies, of_machine_code, of_ptx
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.merged_accesses import passes
from ptxsw.cost.occupancy import Occupancy
from ptxsw.cost.sampled import Sample
from ptxsw.cost.tensor import tensor_times
from ptxsw.flow.cfg import build
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function

_KIB: Final = 1024
_VARIES: Final = (0.5, 1.0)
"""How much the time of a block's step varies: its standard deviation over its mean. 1 is that of an
exponential distribution; half of it is assumed to be the least, as nothing keeps blocks in step."""
_RARE: Final = 0.02  # share of an access's sectors below which a level is not waited for


class Flow(Struct, frozen=True):
    """Sectors of the launch between the caches, and those to and from memory: where blocks run in
    lock step, and where they do not."""

    together: CacheTraffic
    apart: CacheTraffic


def account(
    gpu: Gpu,
    function: Function,
    sample: Sample,
    blocks: int,
    resident: Occupancy,
    shared: int,
    code: MachineKernel | None,
) -> Account:
    """What a launch of so many blocks asks of a GPU. `code` is what ptxas made of the kernel, if
    it is known; `shared` the shared memory of a block in bytes."""
    flow = traffic(gpu, sample, blocks, resident, shared)
    mix = _mix(function, sample, code)
    memory = {n: a for n, a in sample.asked.items() if a.lanes and _is_global(sample, n)}
    # What the first-level cache does not keep goes past it, through the load-store units alone.
    served = {n: a for n, a in memory.items() if gpu.plain_loads or a.cached}
    l2 = _l2_sectors(sample, flow.together)
    dram = Interval(*sorted((_dram_share(flow.together), _dram_share(flow.apart)))) * l2
    work = tensor_times(build(function.body), sample.executed)
    operands = work.shared / exactly(float(LINE))
    return Account(
        blocks=blocks,
        resident=resident.blocks,
        instructions=mix.instructions * blocks,
        pipes={pipe: count * blocks for pipe, count in mix.pipes.items()},
        passes=(exactly(passes(function, sample, code)) + operands) * blocks,
        lanes=exactly(blocks * sum(a.lanes for a in served.values())),
        sectors=exactly(blocks * sum(a.sectors for a in served.values())),
        l2_bytes=exactly(blocks * l2 * SECTOR),
        dram_bytes=dram * (blocks * SECTOR),
        chain=_chain(gpu, function, sample, flow),
        tensor={kind: count * blocks for kind, count in work.multiply_adds.items()},
        unmodelled=work.unmodelled,
    )


def traffic(gpu: Gpu, sample: Sample, blocks: int, resident: Occupancy, shared: int) -> Flow:
    """What the caches of a GPU make of the sampled accesses."""
    l1 = _l1_bytes(gpu, resident, shared)
    together = min(float(blocks), resident.blocks * gpu.of("sms").high)
    touches = _cacheable(gpu, sample)
    on_sm = min(float(resident.blocks), max(1.0, blocks / gpu.of("sms").high))
    # Halfway through its steps a block is off by the root of as many, times how much one varies.
    drift = (sample.steps / 2) ** 0.5
    settings = (
        Setting(
            l1_bytes=l1,
            l2_bytes=gpu.of("l2_size").high * _KIB * _KIB,
            on_sm=on_sm,
            resident=together,
            drift=varies * drift,
        )
        for varies in _VARIES
    )
    return Flow(*(caches.traffic(touches, setting) for setting in settings))


def _l1_bytes(gpu: Gpu, resident: Occupancy, shared: int) -> float:
    """What shared memory leaves of the first-level cache where both share a store, as they do
    where its size is a range."""
    size = gpu.of("l1_size") * _KIB
    if size.low == size.high:
        return size.high
    return max(size.low, size.high - resident.blocks * shared)


def _cacheable(gpu: Gpu, sample: Sample) -> caches.Touches:
    """The touches, with what the first-level cache of this GPU may keep."""
    touches = sample.touches
    if not gpu.plain_loads:
        return touches
    return replace(touches, cached=~touches.write)


def _mix(function: Function, sample: Sample, code: MachineKernel | None) -> Mix:
    if code is None or not code.instructions:
        return of_ptx(sample.instructions, sample.executed)
    cfg = build(function.body)
    own = len(cfg.instructions)
    times = [
        float(sample.executed[b.start]) if b.start < min(b.end, len(sample.executed)) else 0.0
        for b in cfg.blocks
    ]
    others = zip(sample.instructions[own:], sample.executed[own:], strict=True)
    inlined = {instruction.span.start: float(often) for instruction, often in others}
    placed = placements(code, cfg, fallback=frozenset())  # whatever was executed counts
    return of_machine_code(code, placed, times, inlined)


def _is_global(sample: Sample, number: int) -> bool:
    return isa.space(sample.instructions[number]) in ("global", "generic")


def _l2_sectors(sample: Sample, flow: CacheTraffic) -> float:
    """Sectors of one block that come to the second-level cache."""
    return sum(
        asked.distinct * flow.beyond_l1.get(number, 1.0)
        for number, asked in sample.asked.items()
        if asked.distinct and _is_global(sample, number)
    )


def _dram_share(flow: CacheTraffic) -> float:
    return flow.dram / flow.l2 if flow.l2 else 0.0


def _chain(gpu: Gpu, function: Function, sample: Sample, flow: Flow) -> Interval:
    """Cycles that one warp needs if it waits for nothing but its own results."""
    cfg = build(function.body)
    l1, l2, dram = gpu.of("l1_latency"), gpu.of("l2_latency"), gpu.of("dram_latency")

    def load(number: int) -> Interval:
        nearer, farther = flow.together, flow.apart
        beyond = nearer.beyond_l1.get(number, 1.0)
        least = nearer.beyond_l2.get(number, 1.0)
        most = farther.beyond_l2.get(number, 1.0)
        low = l1.low + beyond * (l2.low - l1.low) + least * (dram.low - l2.low)
        high = dram.high if most > _RARE else l2.high if beyond > _RARE else l1.high
        return Interval(min(low, high), high)

    wait = latencies(gpu, load)
    low = high = 0.0
    for block in cfg.blocks:
        if block.start < min(block.end, len(sample.executed)):
            times = sample.executed[block.start] / sample.warps
            path = critical_path(cfg, block.number, wait)
            low, high = low + times * path.low, high + times * path.high
    return Interval(low, high)
