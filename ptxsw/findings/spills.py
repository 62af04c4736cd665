"""Registers that ptxas keeps in local memory, since there are too few."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import KernelResources, Rule, Scene
from ptxsw.findings.cost import FETCH
from ptxsw.report.model import Finding

NAME = "ptxsw-spills"
_WORD = 4  # bytes, each of 32 lanes: 4 sectors


def spilled(used: KernelResources) -> int:
    """Bytes a thread that are stored and loaded."""
    return used.spill_stores + used.spill_loads


def weight(scene: Scene, used: KernelResources) -> float:
    """Spills are taken to lie where the kernel's instructions do."""
    often = scene.executed / max(1, len(scene.trace.cfg.instructions))
    return spilled(used) / _WORD * (1 + 4 + FETCH * 4) * often


def find(scene: Scene) -> Iterator[Finding]:
    used = scene.resources
    if used is None or not spilled(used) or by_bounds(used):
        return
    yield scene.finding(
        NAME, "warning", (),
        measure=f"{spilled(used):,} bytes spilled",
        what=f"With {used.registers} registers in use, ptxas stores {used.spill_stores:,} bytes of "
        f"each thread to local memory and loads {used.spill_loads:,}.",
        advice="Keep fewer values alive: unroll less, split the kernel, or recompute what is "
        "cheap. A few bytes outside loops do no harm; `nvdisasm` shows where they are.",
        weight=weight(scene, used),
        stores=used.spill_stores, loads=used.spill_loads, registers=used.registers,
    )  # fmt: skip


def by_bounds(used: KernelResources) -> bool:
    """Does the kernel spill less without its launch bounds?"""
    return used.unbounded is not None and spilled(used.unbounded) < spilled(used)


RULE = Rule(NAME, "ptxas keeps registers in local memory.", find, asks_ptxas=True)
