"""Adjacent elements that a thread loads or stores one by one, although one vector holds them."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural, these
from ptxsw.findings.cost import lost
from ptxsw.findings.groups import Group
from ptxsw.findings.spread import SCALARS, spread
from ptxsw.report.model import Finding

NAME = "ptxsw-scalar-accesses"
_TYPES = {2: "uchar2", 4: "uchar4 or short2", 8: "float2", 16: "float4"}


def find(scene: Scene) -> Iterator[Finding]:
    for group in spread(scene, SCALARS):
        stride = abs(group.stride or 0)
        through = sum(site.shown.sectors or 0 for site in group.sites)
        kinds = len({site.shown.kind for site in group.sites})
        yield scene.finding(
            NAME, "warning", group.indices,
            measure=f"{plural(len(group.sites), 'access')}, not {kinds}",
            what=f"A thread makes {these(group.sites)} of {stride} adjacent bytes. Each passes "
            f"{group.sites[0].shown.sectors} sectors: {through} in all, where {kinds * stride} "
            "would do.",
            advice=f"Access all {stride} bytes at once, as a vector ({_TYPES[stride]}); "
            f"{_tool(group)}.",
            weight=lost(group) * group.times + (len(group.sites) - kinds) * group.times,
            sectors=through, bytes=stride, times=group.times,
        )  # fmt: skip


def _tool(group: Group) -> str:
    return "`ptxsw optimize --rewrites vectorize` does so where the address is aligned"


RULE = Rule(NAME, "Adjacent elements of a thread are accessed one by one.", find)
