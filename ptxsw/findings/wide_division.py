"""Divisions of 64 bits in loops: a GPU has no instruction for them."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural
from ptxsw.report.model import Finding

NAME = "ptxsw-wide-division"
INSTRUCTIONS = 75
"""Of the routine that ptxas 13.0 calls for one: 67 to 84 for sm_80 and sm_90, by its SASS."""


def find(scene: Scene) -> Iterator[Finding]:
    cfg = scene.trace.cfg
    divisions = [
        index
        for index, instruction in enumerate(cfg.instructions)
        if instruction.opcode in ("div", "rem")
        and not {"u64", "s64"}.isdisjoint(instruction.modifiers)
        and cfg.loops_around(cfg.block_of[index])
    ]
    if not divisions:
        return
    divisions.sort(key=lambda index: (-scene.times(index), index))
    yield scene.finding(
        NAME, "warning", divisions,
        measure=f"{plural(len(divisions), 'division')} of 64-bit integers",
        what=f"{plural(len(divisions), 'division')} of 64-bit integers in a loop. For each, ptxas "
        f"calls a routine of some {INSTRUCTIONS} instructions; a 32-bit division takes about 20.",
        advice="Use 32-bit operands where the values fit, hoist the division out of the loop, or "
        "count quotient and remainder along with the index.",
        weight=sum(INSTRUCTIONS * scene.times(index) for index in divisions),
        divisions=len(divisions), times=scene.times(divisions[0]),
    )  # fmt: skip


RULE = Rule(NAME, "A loop divides 64-bit integers.", find)
