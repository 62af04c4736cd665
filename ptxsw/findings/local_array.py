"""Arrays of a thread that lie in local memory, since an index is known at run time only."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, counted, plural
from ptxsw.findings.cost import FETCH
from ptxsw.report.model import Finding

NAME = "ptxsw-local-array"


def find(scene: Scene) -> Iterator[Finding]:
    sites = [site for site in scene.sites if site.shown.space == "local"]
    if not sites:
        return
    variables = scene.trace.function.body.variables
    frame = sum(variable.size for variable in variables if variable.space == "local")
    most = max(sites, key=lambda site: (site.times, -site.index))
    indices = [most.index, *(site.index for site in sites if site is not most)]
    yield scene.finding(
        NAME, "warning", indices,
        measure=f"{plural(frame, 'byte')} a thread",
        what=f"An array of {plural(frame, 'byte')} a thread lies in local memory, because an index "
        f"is known only at run time: {counted(sites)} go there. Local memory is off the chip, "
        "behind the L1 cache.",
        advice="Unroll the loops that index the array, so that every index is a number and the "
        "elements become registers; or keep the array in shared memory, a column for each thread.",
        weight=sum((1 + FETCH / 2) * (site.shown.sectors or 4) * site.times for site in sites),
        bytes=frame, accesses=len(sites),
    )  # fmt: skip


RULE = Rule(NAME, "An array of each thread lies in local memory.", find)
