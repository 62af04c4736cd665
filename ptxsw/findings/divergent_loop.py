"""Loops that lanes leave after different numbers of iterations: all wait for the last."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene
from ptxsw.findings.dependence import Dependence, dependence, said
from ptxsw.flow.flow_graph import Loop
from ptxsw.report.model import Finding

NAME = "ptxsw-divergent-loop"


def find(scene: Scene) -> Iterator[Finding]:
    cfg = scene.trace.cfg
    for header, loop in cfg.loops.items():
        if header in scene.trace.uniform_loops:
            continue
        for source in sorted({source for source, _ in loop.exits}):
            branch = cfg.blocks[source].end - 1
            cause = dependence(scene, branch)
            if cause.loads:  # what the index of the thread decides differs by an iteration or so
                yield _finding(scene, loop, branch, cause)
                break


def _finding(scene: Scene, loop: Loop, branch: int, cause: Dependence) -> Finding:
    body = scene.executed_in(loop.blocks)
    return scene.finding(
        NAME, "warning", [branch, *(site.index for site in cause.loads)],
        measure="as many iterations as the longest lane",
        what=f"The number of iterations of a lane depends on {said(scene, cause)}. The warp "
        "continues until its last lane is done, and the other lanes idle.",
        advice="Give each item to a whole warp, whose lanes share its iterations; or sort the "
        "items by length, so that the lanes of a warp have items of equal length.",
        weight=body / 2,  # lengths that are spread evenly keep half of the lanes waiting
        instructions=body,
    )  # fmt: skip


RULE = Rule(NAME, "Lanes leave a loop after different numbers of iterations.", find)
