"""Lanes that are a whole row, or a whole chunk, apart: every lane touches a line of its own."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural, these
from ptxsw.findings.cost import dense, lost
from ptxsw.findings.groups import Group
from ptxsw.findings.spread import COLUMN, spread
from ptxsw.report.model import Finding

NAME = "ptxsw-column"


def find(scene: Scene) -> Iterator[Finding]:
    for group in spread(scene, COLUMN):
        shown = group.sites[0].shown
        sectors, best = shown.sectors or 0, dense(shown.bytes or 0)
        apart = f"{abs(group.stride):,}" if group.stride else f"`{group.step}`"
        yield scene.finding(
            NAME, "warning", group.indices,
            measure=f"{plural(sectors, 'sector')}, not {best}",
            what=f"The lanes of {these(group.sites)} are {apart} bytes apart{_walk(group)}, so "
            f"that every access moves {sectors} sectors where {best} would do.",
            advice=_advice(group),
            weight=lost(group) * group.times,
            sectors=sectors, best=best, stride=group.stride or group.step, times=group.times,
        )  # fmt: skip


def _walk(group: Group) -> str:
    return ", and each walks through a chunk of its own" if _walks(group) else ""


def _walks(group: Group) -> bool:
    """Does each lane go on to what is next to its last elements?"""
    return bool(group.growth) and abs(group.growth or 0) <= group.bytes


def _advice(group: Group) -> str:
    if _walks(group):
        return (
            "Let the lanes share a chunk: lane i takes elements i, i + 32, … of it. If each thread "
            "needs a whole row, store the array transposed, or load tiles through shared memory."
        )
    return (
        "Let `threadIdx.x` run along the rows, where elements are adjacent. To read rows and write "
        "columns, go through a tile in shared memory."
    )


RULE = Rule(NAME, "The lanes of a warp are a whole row or chunk apart.", find)
