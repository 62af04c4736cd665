"""Constant memory that lanes index apart: its cache serves one address at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Draft, Scene, Site, each, rule
from ptxsw.findings.cost import places


@rule("ptxsw-constant-by-lane", "The lanes of a warp read different elements of constant memory.")
def constant_by_lane(scene: Scene) -> Iterator[Draft]:
    by_table: dict[str, list[Site]] = {}
    for site in scene.sites:
        if site.shown.space == "const" and places(scene, site) > 1:
            table = (site.shown.index or "").partition("[")[0]
            by_table.setdefault(table, []).append(site)
    for table, sites in by_table.items():
        most = max(places(scene, site) for site in sites)
        name = f" in `{table}`" if table else ""
        saved = sum((places(scene, s) - 1) * s.times for s in sites)
        yield scene.finding(
            constant_by_lane, "warning", scene.heaviest_first(sites),
            measure=f"up to {most} addresses, not 1",
            what=f"The lanes of {each(sites)} read up to {most} different elements of constant "
            f"memory{name}, whose cache serves one address after the other.",
            advice="Keep the table in shared memory, or in read-only global memory (`const "
            "… *__restrict__`); constant memory suits loads of the same element by all lanes.",
            saves={"constants": saved}, addresses=most, times=sites[0].times,
        )  # fmt: skip
