"""Lanes that leave gaps between the elements they ask for: sectors are fetched to use a part."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural, these
from ptxsw.findings.cost import dense, lost
from ptxsw.findings.spread import SPARSE, spread
from ptxsw.report.model import Finding

NAME = "ptxsw-uncoalesced"


def find(scene: Scene) -> Iterator[Finding]:
    for group in spread(scene, SPARSE):
        shown = group.sites[0].shown
        sectors, best = shown.sectors or 0, dense(shown.bytes or 0)
        apart = f"are {abs(group.stride):,} bytes apart" if group.stride else "are scattered"
        yield scene.finding(
            NAME, "warning", group.indices,
            measure=f"{plural(sectors, 'sector')}, not {best}",
            what=f"The lanes of {these(group.sites)} {apart}, so a warp moves {sectors} sectors of "
            f"32 bytes where {best} would hold what it asks for.",
            advice="Let consecutive lanes access consecutive elements: store what is accessed "
            "together densely, or bring whole lines into shared memory and pick from there.",
            weight=lost(group) * group.times,
            sectors=sectors, best=best, stride=group.stride, times=group.times,
        )  # fmt: skip


RULE = Rule(NAME, "The lanes of a warp leave gaps between the elements they access.", find)
