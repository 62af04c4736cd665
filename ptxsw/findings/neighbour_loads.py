"""Loads of bytes that another lane of the warp has just loaded, as in a stencil."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural
from ptxsw.findings.groups import Group, groups
from ptxsw.report.model import Finding

NAME = "ptxsw-neighbour-loads"


def find(scene: Scene) -> Iterator[Finding]:
    for group in groups(scene):
        again = [s for s in group.sites if any(reuse.delta for reuse in s.shown.reuse)]
        if again:
            yield _finding(scene, group, len(again))


def _finding(scene: Scene, group: Group, again: int) -> Finding:
    sites = [s for s in group.sites if any(reuse.delta for reuse in s.shown.reuse)]
    return scene.finding(
        NAME, "note", [site.index for site in sites],
        measure=f"{again} of {plural(len(group.sites), 'load')}",
        what=f"{plural(again, 'load').capitalize()} of this row fetch{'es' * (again == 1)} bytes "
        "that a neighbouring lane has just fetched. Such a load hits the L1 cache, but costs a "
        "pass through it.",
        advice="Change nothing unless the L1 cache bounds the kernel. If it does, load a tile into "
        "shared memory, or try `ptxsw optimize --mode force --rewrites shuffle`.",
        weight=sum(site.times * (site.shown.sectors or 1) for site in sites),
        loads=again, times=group.times,
    )  # fmt: skip


RULE = Rule(NAME, "Loads fetch what a neighbouring lane has just fetched.", find)
