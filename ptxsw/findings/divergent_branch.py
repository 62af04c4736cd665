"""Branches at which the lanes of a warp part, with work on both sides: the warp does both."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.divergence import arms
from ptxsw.findings.base import Rule, Scene, plural
from ptxsw.findings.dependence import dependence, predicate, said
from ptxsw.report.model import Finding

NAME = "ptxsw-divergent-branch"
_FEW = 12  # instructions, which ptxas may execute under predicates
_SHARE = 0.05  # of the kernel's instructions


def find(scene: Scene) -> Iterator[Finding]:
    for branch, (one, other) in arms(scene.trace).items():
        work = sorted(round(scene.executed_in(side)) for side in (one, other))
        few = max(1, _FEW * scene.times(branch))
        if work[0] < few or not _splits_warps(scene, branch):
            continue
        cause = dependence(scene, branch)
        todo = (
            "Let the branch depend on something that a whole warp shares (`threadIdx.x / 32`)"
            if not cause.loads
            else "Sort or bin the items, so that the lanes of a warp take the same side"
        )
        yield scene.finding(
            NAME, "warning" if work[0] >= _SHARE * scene.executed else "note", [branch],
            measure=f"{plural(work[0], 'instruction')} beside {work[1]:,}",
            what=f"Lanes of one warp take different sides of this branch, which depends on "
            f"{said(scene, cause)}. The warp executes both sides: {work[0]:,} and {work[1]:,} "
            "instructions, with the iterations of their loops.",
            advice=f"{todo}. Where both sides are short, compute both results and select one.",
            weight=work[0],
            shorter=work[0], longer=work[1],
        )  # fmt: skip


def _splits_warps(scene: Scene, branch: int) -> bool:
    """Do lanes of one warp part, not whole warps only?"""
    condition = predicate(scene, branch)
    return condition is None or not scene.warps.uniform(condition)


RULE = Rule(NAME, "Lanes of one warp take different branches, and both are long.", find)
