"""Blocks whose threads fill no whole number of warps."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.coalescing import LANES
from ptxsw.findings.base import Rule, Scene, plural
from ptxsw.report.model import Finding

NAME = "ptxsw-idle-lanes"
_SHARE = 0.1


def find(scene: Scene) -> Iterator[Finding]:
    if scene.block is None:
        return
    x, y, z = scene.block
    threads = x * y * z
    whole = -(-threads // LANES) * LANES
    idle = whole - threads
    if not idle:
        return
    yield scene.finding(
        NAME, "warning" if idle / whole >= _SHARE else "note", (),
        measure=f"{idle} of {whole} lanes idle",
        what=f"A block of {x}x{y}x{z} threads takes {plural(whole // LANES, 'warp')} and "
        f"leaves {idle} of {whole} lanes without a thread.",
        advice=f"Make the threads of a block a multiple of {LANES}, 128 or more.",
        weight=scene.executed * idle / whole, threads=threads, idle=idle,
    )  # fmt: skip


RULE = Rule(NAME, "The threads of a block fill no whole number of warps.", find)
