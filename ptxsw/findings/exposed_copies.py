"""Copies into shared memory that a loop waits for as soon as it has started them: one stage, where
two would copy the next tile while this one is worked on. And pipelines with too few stages for the
tensor cores to work all the time (`few_stages`).

    for (…) { cp.async tile; commit; wait_group 0; barrier; work on tile; }
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.traffic import is_copy
from ptxsw.cost.gpu import UnknownGpu, of_target
from ptxsw.findings.base import WAVEFRONT, Draft, Scene, Site, plural, rule
from ptxsw.findings.few_stages import FewStages, few_stages
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx.ir import Instruction, Int

_LATENCY = 500.0  # cycles of memory, where no GPU is described
_RESIDENT = 32  # warps that wait at the same time


@rule("ptxsw-exposed-copies", "A loop waits for the copies that it has just started.")
def exposed_copies(scene: Scene) -> Iterator[Draft]:
    told = set()
    for header, loop in scene.trace.cfg.loops.items():
        started = _waited_for(scene, header, loop) or _waited_for_by_barrier(scene, header, loop)
        if not started or not _works(scene, loop):
            continue
        told.add(header)
        times = scene.times(started[0])
        yield scene.finding(
            exposed_copies, "warning", started,
            measure="1 stage",
            what=f"In every iteration, the loop starts {plural(len(started), 'copy')} into shared "
            "memory and waits for the data at once: only other blocks hide the memory "
            "latency.",
            advice="Use two stages or more: start the copy of the next tile before you wait for "
            "this one (`cp.async.wait_group 1`, or an mbarrier for each stage), each stage with "
            "its own part of shared memory.",
            weight=times * WAVEFRONT * _latency(scene) / _RESIDENT, by_lanes=False,
            copies=len(started), times=times,
        )  # fmt: skip
    for one in few_stages(scene, told):
        yield _too_few(scene, one)


def _too_few(scene: Scene, one: FewStages) -> Draft:
    times = scene.times(one.copies[0])
    stages, needed = plural(one.stages, "stage"), plural(one.needed, "stage")
    with_blocks = f"with {one.blocks} blocks at a time " * (one.blocks > 1)
    return scene.finding(
        exposed_copies, "warning", one.copies,
        measure=stages,
        what=f"The pipeline has {stages}: its copies take at least {one.latency:.0f} cycles to "
        f"arrive, and the tensor cores {one.work:.0f} for a tile, so {with_blocks}they work at "
        f"most {one.share:.0%} of the time.",
        advice=f"Give the pipeline {needed} or more, or make the tiles larger.",
        weight=times * WAVEFRONT * one.idle / _RESIDENT, by_lanes=False,
        stages=one.stages, needed=one.needed, share=round(one.share, 2), times=times,
    )  # fmt: skip


def _latency(scene: Scene) -> float:
    try:
        return of_target(scene.arch).of("dram_latency").low
    except UnknownGpu:
        return _LATENCY


def _works(scene: Scene, loop: Loop) -> bool:
    """Does the loop do more than copy: does it read shared memory, or multiply matrices?"""
    inside = set(scene.trace.cfg.indices(loop.blocks))
    return any(
        site.index in inside and site.shown.space == "shared" and site.shown.kind == "load"
        for site in scene.sites
    ) or any(scene.is_tensor_work(index) for index in inside)


# ---------------------------------------------------------------- cp.async


def _waited_for(scene: Scene, header: int, loop: Loop) -> list[int]:
    """Copies of each lane that an iteration starts and then waits for."""
    cfg = scene.trace.cfg
    inside = [i for i in cfg.indices(loop.blocks) if cfg.loop_of[cfg.block_of[i]] == header]
    copied = [i for i in inside if is_copy(cfg.instructions[i])]
    waits = [i for i in inside if _pending(cfg.instructions[i]) is not None]
    pairs = ((copy, next((i for i in waits if i > copy), None)) for copy in copied)
    return [
        copy for copy, wait in pairs if wait is not None and _exposes(scene, inside, copy, wait)
    ]


def _exposes(scene: Scene, inside: list[int], copy: int, wait: int) -> bool:
    """Does a wait come behind a copy in each iteration, and leave no group pending that was
    committed since?"""
    cfg = scene.trace.cfg
    pending = _pending(cfg.instructions[wait]) or 0
    if not cfg.dominates(cfg.block_of[copy], cfg.block_of[wait]):
        return False
    commits = sum(
        {"async", "commit_group"} <= set(cfg.instructions[i].modifiers)
        and "bulk" not in cfg.instructions[i].modifiers
        for i in inside
        if copy < i < wait
    )
    return commits > pending


def _pending(instruction: Instruction) -> int | None:
    """The groups of copies that a wait leaves pending; None for no wait."""
    modifiers = set(instruction.modifiers)
    if instruction.opcode != "cp" or "bulk" in modifiers:
        return None
    if "wait_all" in modifiers:
        return 0
    count = instruction.operands[0] if instruction.operands else None
    return count.value if "wait_group" in modifiers and isinstance(count, Int) else None


# ---------------------------------------------------------------- mbarriers


def _waited_for_by_barrier(scene: Scene, header: int, loop: Loop) -> list[int]:
    """Bulk copies that an iteration starts, and for whose mbarrier it then waits."""
    cfg = scene.trace.cfg
    inside = {i for i in cfg.indices(loop.blocks) if header in cfg.loops_around(cfg.block_of[i])}
    bulk = [site for site in scene.sites if site.index in inside and _is_bulk_load(site)]
    expected = [site for site in scene.sites if site.index in inside and _has(site, "expect_tx")]
    waits = [site for site in scene.sites if site.index in inside and _is_wait(site)]
    pairs = [
        (arrival, wait)
        for arrival in expected
        for wait in waits
        if arrival.index < wait.index and _addresses(arrival) == _addresses(wait)
    ]
    return [site.index for site in bulk] if pairs and len(waits) == 1 else []


def _is_bulk_load(site: Site) -> bool:
    modifiers = site.access.instruction.modifiers
    into_shared = bool(modifiers) and any(m.startswith("mbarrier") for m in modifiers)
    return site.access.instruction.opcode == "cp" and "bulk" in modifiers and into_shared


def _is_wait(site: Site) -> bool:
    return _has(site, "try_wait") or _has(site, "test_wait")


def _has(site: Site, modifier: str) -> bool:
    instruction = site.access.instruction
    return instruction.opcode == "mbarrier" and modifier in instruction.modifiers


def _addresses(site: Site) -> set[object]:
    return {view.address for view in site.access.variants}
