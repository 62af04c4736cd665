"""Kernels that take all registers a thread can have."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene
from ptxsw.findings.spills import spilled
from ptxsw.report.model import Finding

NAME = "ptxsw-register-ceiling"
_CEILING = 255
_NEAR = 248  # from here on no block of registers is left to give to a warp


def find(scene: Scene) -> Iterator[Finding]:
    used = scene.resources
    if used is None or used.registers < _NEAR or spilled(used):
        return
    yield scene.finding(
        NAME, "warning", (),
        measure=f"{used.registers} of {_CEILING} registers",
        what=f"Each thread takes {used.registers} registers of the {_CEILING} it can have: 8 warps "
        "fill a multiprocessor, and a few more values will spill.",
        advice="Keep fewer values alive: unroll less, split the kernel, or share the work of a "
        "thread among several.",
        weight=scene.executed / 4, registers=used.registers,
    )  # fmt: skip


RULE = Rule(NAME, "The kernel takes all registers a thread can have.", find, asks_ptxas=True)
