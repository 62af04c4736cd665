"""Kernels of which few warps fit a multiprocessor, and the resource that runs out."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.cost.occupancy import Occupancy, UnknownTarget, limits, occupancy
from ptxsw.findings.base import Rule, Scene
from ptxsw.findings.bounds import most_threads
from ptxsw.report.model import Finding

NAME = "ptxsw-occupancy"
_LOW, _HALF = 0.25, 0.5


def find(scene: Scene) -> Iterator[Finding]:
    threads = most_threads(scene)
    if threads is None or scene.arch is None:
        return
    used = scene.resources
    shared = used.shared if used is not None else _static(scene)
    try:
        resident = occupancy(
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


def _static(scene: Scene) -> int:
    """Bytes of shared memory that the kernel declares."""
    variables = (*scene.trace.function.body.variables, *scene.trace.module.variables)
    text = scene.trace.module.source.text
    span = scene.trace.function.span
    body = text[span.start : span.end]
    return sum(v.size for v in variables if v.space == "shared" and v.name in body)


def _impossible(scene: Scene, threads: int, occupancy: Occupancy, shared: int) -> Finding:
    return scene.finding(
        NAME, "error", (),
        measure="cannot be launched",
        what=f"No block of {threads} threads fits a multiprocessor of {scene.arch}: it needs more "
        f"{_noun(occupancy.limiter)} than there is.",
        advice="Make the block smaller, or let it need less of that resource.",
        weight=scene.executed, threads=threads, shared=shared,
    )  # fmt: skip


def _low(scene: Scene, threads: int, occupancy: Occupancy) -> Finding:
    assert scene.arch is not None
    most = limits(scene.arch).warps
    return scene.finding(
        NAME, "warning" if occupancy.fraction < _LOW else "note", (),
        measure=f"{occupancy.warps} of {most} warps",
        what=f"With blocks of {threads} threads a multiprocessor of {scene.arch} holds "
        f"{occupancy.blocks} at a time, {occupancy.warps} of {most} warps: "
        f"{_noun(occupancy.limiter)} {'run' if occupancy.limiter != 'shared' else 'runs'} "
        "out first. Fewer warps hide less latency.",
        advice=_advice(occupancy),
        weight=scene.executed * (_HALF - occupancy.fraction),
        warps=occupancy.warps, blocks=occupancy.blocks,
        limiter=occupancy.limiter, fraction=occupancy.fraction,
    )  # fmt: skip


def _noun(limiter: str) -> str:
    return {"shared": "shared memory", "barriers": "barriers"}.get(limiter, limiter)


def _advice(occupancy: Occupancy) -> str:
    if occupancy.limiter == "blocks":
        return "Make the blocks larger: their number is limited, whatever their size."
    if occupancy.limiter == "warps":
        return "Choose a block whose warps divide those of a multiprocessor."
    step = next(
        (
            s
            for s in occupancy.next_steps
            if s.resource == occupancy.limiter and s.blocks > occupancy.blocks
        ),
        None,
    )
    if step is None:
        return "Split the kernel, or give each block less to keep."
    need = (
        f"{step.at:,} bytes of shared memory"
        if step.resource == "shared"
        else (f"{step.at} registers a thread")
    )
    return f"With {need}, {step.blocks} blocks would fit ({step.fraction:.0%} of the warps)."


RULE = Rule(NAME, "Few warps of the kernel fit a multiprocessor.", find, asks_ptxas=True)
