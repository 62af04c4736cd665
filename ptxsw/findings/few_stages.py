"""Pipelines whose tensor cores wait for copies, because they have too few stages.

A stage is filled once its tile has been worked on. Then its copy is on the way for the latency of
the second-level cache, at least, and its next tile is worked on for as long as the tensor cores
need for that. So of S stages, S tiles are done in that time at most:

    share of the time = blocks * S * work / (latency + work)

Whatever else takes time makes it less. Nothing is said where the share may be near 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import ceil, prod

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.warp_roles import working_loops
from ptxsw.cost.gpu import Gpu, UnknownGpu, of_target
from ptxsw.cost.occupancy import UnknownTarget, limits, occupancy
from ptxsw.cost.roles import LoopReader, RoleLoop, roles_of, tiles
from ptxsw.cost.tensor import constants, tensor_in
from ptxsw.findings.base import Scene

_BUSY = 0.8  # share from which on nothing is said


class FewStages(Struct, frozen=True):
    """A pipeline, by the copies that fill it. Times are cycles: the least `latency` of a copy, the
    `work` of the tensor cores for a tile and what they are `idle` for each. `share` is the most of
    the time that they work, and `needed` how many stages could let them work all the time."""

    copies: tuple[int, ...]
    stages: int
    blocks: int
    latency: float
    work: float
    share: float
    needed: int

    @property
    def idle(self) -> float:
        return (self.latency + self.work) / self.stages - self.blocks * self.work


def few_stages(scene: Scene, without: Collection[int]) -> Iterator[FewStages]:
    """The pipelines of a kernel of which it is certain, those of some loops left out."""
    if not scene.has_tensor_work or scene.arch is None:
        return
    try:
        gpu, most = of_target(scene.arch), limits(scene.arch)
    except (UnknownGpu, UnknownTarget):
        return
    latency = gpu.of("l2_latency").low
    for loop, work in _pipelines(scene, gpu):
        copies = tuple(_copies(scene, loop.header))
        if loop.header in without or not copies or not loop.stages or not work:
            continue
        blocks = _blocks(scene, loop, most.blocks)
        share = blocks * loop.stages * work / (latency + work)
        if share < _BUSY:
            needed = ceil((latency + work) / (blocks * work))
            yield FewStages(copies, loop.stages, blocks, latency, work, share, needed)


def _pipelines(scene: Scene, gpu: Gpu) -> Iterator[tuple[RoleLoop, float | None]]:
    """Loops that fill one ring of stages, a tile an iteration, and how long tensor cores work on a
    tile at most; None where that is not known."""
    block = scene.trace.function.block_shape or scene.block
    roles = roles_of(scene.trace, block)
    if not roles:
        threads = prod(block) if block else scene.trace.function.most_threads
        reader = LoopReader(scene.trace)
        for header in working_loops(scene.trace.cfg):
            loop = reader.read(header)
            if len(loop.expects) == 1 and threads is not None:
                yield loop, _work(scene, gpu, header, -(-threads // LANES))
        return
    passed = tiles(roles)
    loops = [(loop, len(role.warps)) for role in roles for loop in role.loops]
    filling = [loop for loop, _ in loops if loop.expects]
    users = [(loop, warps) for loop, warps in loops if loop.header in passed and not loop.expects]
    if len(filling) == 1 and len(filling[0].expects) == 1:
        works = [_work(scene, gpu, loop.header, warps) for loop, warps in users]
        shares = zip(works, (passed[loop.header] for loop, _ in users), strict=True)
        known = [work / count for work, count in shares if work is not None]
        yield filling[0], sum(known) if len(known) == len(users) else None


def _work(scene: Scene, gpu: Gpu, header: int, warps: int) -> float | None:
    """The most cycles that tensor cores work for so many warps in an iteration of a loop."""
    cfg = scene.trace.cfg
    blocks = sorted(cfg.loops[header].blocks)
    work = tensor_in(cfg, blocks, frozenset(blocks), constants(cfg))
    total = 0.0
    for (opcode, rate), count in work.multiply_adds.items():
        speed = gpu.tensor_rate(rate, opcode)
        if speed is None:
            return None
        total += count.high * warps / speed.low
    return None if any(what.startswith("the shape") for what in work.unmodelled) else total


def _copies(scene: Scene, header: int) -> Iterable[int]:
    cfg = scene.trace.cfg
    for index in cfg.indices(sorted(cfg.loops[header].blocks)):
        one = cfg.instructions[index]
        if one.opcode == "cp" and "bulk" in one.modifiers:
            yield index


def _blocks(scene: Scene, loop: RoleLoop, most: int) -> int:
    """The most blocks that a multiprocessor holds."""
    assert scene.arch is not None
    block = scene.trace.function.block_shape or scene.block
    used = scene.resources
    resident = occupancy(
        scene.arch, block_threads=1 if block is None else prod(block),
        registers=0 if used is None or block is None else used.registers,
        shared=loop.on_the_way or 0,
    )  # fmt: skip
    return max(1, min(most, resident.blocks))
