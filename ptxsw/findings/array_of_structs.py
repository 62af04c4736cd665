"""Fields of structs that lie side by side: each access of one field goes over all sectors."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural, these
from ptxsw.findings.cost import lost
from ptxsw.findings.groups import Group
from ptxsw.findings.spread import STRUCTS, spread
from ptxsw.report.model import Finding

NAME = "ptxsw-array-of-structs"


def find(scene: Scene) -> Iterator[Finding]:
    for group in spread(scene, STRUCTS):
        stride = abs(group.stride or 0)
        sectors = max(site.shown.sectors or 0 for site in group.sites)
        through = sum(site.shown.sectors or 0 for site in group.sites)
        yield scene.finding(
            NAME, "warning", group.indices,
            measure=f"{plural(through, 'sector')} for {group.bytes} of {stride} bytes a lane",
            what=f"The lanes of {these(group.sites)} are {stride} bytes apart. Together they use "
            f"{group.bytes} of these {stride} bytes, but each access by itself passes up to "
            f"{sectors} sectors of a warp.",
            advice=_advice(group, stride),
            weight=lost(group) * group.times,
            sectors=through, bytes=group.bytes, stride=stride, times=group.times,
        )  # fmt: skip


def _advice(group: Group, stride: int) -> str:
    apart = "Keep each field in an array of its own (a struct of arrays)"
    if stride % 8 == 0 and group.bytes > 8 and max(s.shown.bytes or 0 for s in group.sites) < 16:
        width = 16 if stride % 16 == 0 else 8
        return f"{apart}, or load the struct in vectors of {width} bytes (`float{width // 4}`)."
    return f"{apart}."


RULE = Rule(NAME, "Several accesses read or write the same structs, one field each.", find)
