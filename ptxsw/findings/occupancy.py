"""Kernels of which few warps fit a multiprocessor, or whose blocks leave lanes without a thread."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.shared_banks import dynamic_bytes, shared_arrays
from ptxsw.cost.occupancy import Occupancy, UnknownTarget, limits
from ptxsw.cost.occupancy import occupancy as resident_blocks
from ptxsw.findings.base import Draft, Scene, plural, rule
from ptxsw.findings.cost import of_blocks

_LOW, _HALF = 0.25, 0.5


@rule("ptxsw-occupancy", "Few warps of the kernel fit on a multiprocessor.", asks_ptxas=True)
def occupancy(scene: Scene) -> Iterator[Draft]:
    threads = _most_threads(scene)
    if threads is None or scene.arch is None:
        return
    used = scene.resources
    shared = (used.shared if used is not None else _static(scene)) + _dynamic(scene)
    try:
        resident = resident_blocks(
            scene.arch,
            block_threads=threads,
            registers=used.registers if used else 0,
            shared=shared,
        )
    except (UnknownTarget, ValueError):
        return
    if resident.blocks == 0:
        yield _impossible(scene, threads, resident, shared)
    elif resident.fraction < _HALF:
        yield _low(scene, threads, resident)


def _most_threads(scene: Scene) -> int | None:
    """The threads of a block, as far as they are known; a bound is taken for the size."""
    if scene.block is not None:
        return prod(scene.block)
    sizes = dict(scene.trace.function.directives).get("maxntid")
    return None if sizes is None else prod(int(size) for size in sizes.replace(",", " ").split())


def _static(scene: Scene) -> int:
    """Bytes of shared memory that the kernel declares."""
    variables = (*scene.trace.function.body.variables, *scene.trace.module.variables)
    text = scene.trace.module.source.text
    span = scene.trace.function.span
    body = text[span.start : span.end]
    return sum(v.size for v in variables if v.space == "shared" and v.name in body)


def _dynamic(scene: Scene) -> int:
    """Bytes of dynamic shared memory, as far as the launch in the source says; or else those that
    accesses show."""
    return _launched(scene) or (dynamic_bytes(scene.trace, scene.block) if _is_open(scene) else 0)


def _launched(scene: Scene) -> int:
    return (scene.source.launch.shared or 0) if scene.source.launch is not None else 0


def _is_open(scene: Scene) -> bool:
    """Has the kernel dynamic shared memory, and nothing says how much?"""
    return not _launched(scene) and any(array.is_dynamic for array in shared_arrays(scene.trace))


def _impossible(scene: Scene, threads: int, resident: Occupancy, shared: int) -> Draft:
    return scene.finding(
        occupancy, "error", (),
        measure="cannot be launched",
        what=f"No block of {threads} threads fits on a multiprocessor of {scene.arch}: it needs "
        f"more {_noun(resident.limiter)} than there is.",
        advice="Make the block smaller, or reduce its use of that resource.",
        weight=scene.executed, threads=threads, shared=shared,
    )  # fmt: skip


def _low(scene: Scene, threads: int, resident: Occupancy) -> Draft:
    assert scene.arch is not None
    most = limits(scene.arch).warps
    return scene.finding(
        occupancy, "warning" if resident.fraction < _LOW and not scene.has_tensor_work else "note",
        (),
        measure=f"{resident.warps} of {most} warps",
        what=f"With blocks of {threads} threads a multiprocessor of {scene.arch} holds "
        f"{_most_of(scene, resident)}, {resident.warps} of {most} warps: "
        f"{_limited(scene, resident.limiter)}{_said(scene)}. "
        + (
            "Tensor-core kernels often need only few warps, which keep several copies in flight."
            if scene.has_tensor_work
            else "Fewer warps hide less latency."
        ),
        advice=_advice(resident, _condition(scene, resident.limiter)),
        weight=scene.executed * (_HALF - resident.fraction),
        warps=resident.warps, blocks=resident.blocks,
        limiter=resident.limiter, fraction=resident.fraction,
    )  # fmt: skip


def _most_of(scene: Scene, resident: Occupancy) -> str:
    return f"{'at most ' * _is_open(scene)}{resident.blocks} at a time"


def _limited(scene: Scene, limiter: str) -> str:
    if limiter == "shared":
        return "shared memory runs out first"
    return f"{_noun(limiter)} {'allow no more' if _is_open(scene) else 'run out first'}"


def _said(scene: Scene) -> str:
    bytes_asked = _launched(scene)
    if _is_open(scene):
        return (
            " (the size of its dynamic shared memory is unknown: at least "
            f"{_dynamic(scene):,} bytes, judging by its accesses)"
        )
    if not bytes_asked or scene.source.launch is None:
        return ""
    return (
        f" (the launch in line {scene.source.launch.line} requests {bytes_asked:,} bytes of "
        "dynamic shared memory)"
    )


def _condition(scene: Scene, limiter: str) -> str:
    """What else has to hold for more blocks to fit."""
    return "" if limiter == "shared" else ", if dynamic shared memory allows it" * _is_open(scene)


def _noun(limiter: str) -> str:
    return {"shared": "shared memory", "barriers": "barriers"}.get(limiter, limiter)


def _advice(resident: Occupancy, where: str) -> str:
    if resident.limiter == "blocks":
        return "Make the blocks larger: their number is limited, whatever their size."
    if resident.limiter == "warps":
        return "Choose a block whose warps divide those of a multiprocessor."
    step = next(
        (
            s
            for s in resident.next_steps
            if s.resource == resident.limiter and s.blocks > resident.blocks
        ),
        None,
    )
    if step is None:
        return "Split the kernel, or reduce the data that each block keeps."
    need = (
        f"{step.at:,} bytes of shared memory"
        if step.resource == "shared"
        else (f"{step.at} registers a thread")
    )
    return f"With {need}, {step.blocks} blocks would fit ({step.fraction:.0%} of the warps){where}."


_SHARE = 0.1


@rule("ptxsw-idle-lanes", "The threads of a block do not fill a whole number of warps.")
def idle_lanes(scene: Scene) -> Iterator[Draft]:
    if scene.block is None:
        return
    x, y, z = scene.block
    threads = x * y * z
    whole = -(-threads // LANES) * LANES
    idle = whole - threads
    if not idle:
        return
    yield scene.finding(
        idle_lanes, "warning" if idle / whole >= _SHARE else "note", (),
        measure=f"{idle} of {whole} lanes idle",
        what=f"A block of {x}x{y}x{z} threads takes {plural(whole // LANES, 'warp')} and "
        f"leaves {idle} of {whole} lanes without a thread.",
        advice=f"Make the threads of a block a multiple of {LANES}, 128 or more.",
        saves=of_blocks(scene, scene.trace.cfg.order, idle / whole),
        weight=scene.executed * idle / whole, threads=threads, idle=idle,
    )  # fmt: skip
