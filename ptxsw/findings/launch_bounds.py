"""Launch bounds that ptxas meets by spilling only."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene
from ptxsw.findings.bounds import bounds
from ptxsw.findings.spills import by_bounds, spilled, weight
from ptxsw.report.model import Finding

NAME = "ptxsw-launch-bounds"


def find(scene: Scene) -> Iterator[Finding]:
    used = scene.resources
    if used is None or used.unbounded is None or not by_bounds(used):
        return
    free = used.unbounded
    text = bounds(scene.trace.function)
    yield scene.finding(
        NAME, "warning", (),
        measure=f"{spilled(used):,} bytes spilled for {used.registers} registers",
        what=f"`{text}` leaves {used.registers} registers a thread, which ptxas meets by spilling "
        f"{used.spill_stores:,} bytes; without it, it takes {free.registers} registers and "
        f"spills {free.spill_stores:,}.",
        advice=f"Relax the bound until {free.registers} registers fit, or keep fewer values alive. "
        "A bound that spills may cost more than the occupancy it buys: measure both.",
        weight=weight(scene, used),
        registers=used.registers, wanted=free.registers, stores=used.spill_stores,
        loads=used.spill_loads,
    )  # fmt: skip


RULE = Rule(NAME, "Launch bounds that ptxas meets by spilling only.", find, asks_ptxas=True)
