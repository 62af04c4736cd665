"""Atomic operations of many lanes on one address: they are made one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, Site
from ptxsw.findings.cost import WAVEFRONT
from ptxsw.report.model import Finding

NAME = "ptxsw-atomic-contention"
_INTEGERS = frozenset({"u32", "s32", "b32"})
_GATHERED = frozenset({"add", "and", "or", "xor", "min", "max"})
_REDUX = 80  # sm_80, which can reduce integers over a warp


def find(scene: Scene) -> Iterator[Finding]:
    for site in scene.sites:
        lanes = _meeting(scene, site) if site.shown.kind == "atomic" else 1
        if lanes > 1:
            yield _finding(scene, site, lanes)


def _meeting(scene: Scene, site: Site) -> int:
    """The lanes of a warp that go to one address."""
    if site.shown.contention is not None:
        return min(site.shown.contention, scene.lanes(site))
    one = site.shown.uniform or site.shown.lane_stride == 0
    return scene.lanes(site) if one else 1


def _finding(scene: Scene, site: Site, lanes: int) -> Finding:
    gathered = _gathered(site) and scene.trace.module.sm >= _REDUX
    return scene.finding(
        NAME, "note" if gathered else "warning", [site.index],
        measure=f"{lanes} lanes on one address",
        what=f"Up to {lanes} lanes of a warp, and every other warp, make this atomic operation on "
        "one address, one after the other."
        + " ptxas lets one lane of 32-bit integers make it for its warp." * gathered,
        advice="Reduce the values of the warp first (`__shfl_down_sync`, for integers "
        "`__reduce_add_sync`), then those of the block, and let one thread add the result.",
        weight=WAVEFRONT * site.times * (1 if gathered else lanes),
        lanes=lanes, times=site.times,
    )  # fmt: skip


def _gathered(site: Site) -> bool:
    """Does ptxas gather the lanes by itself?"""
    modifiers = set(site.access.instruction.modifiers)
    plain = bool(modifiers & _INTEGERS and modifiers & _GATHERED)
    return plain and site.is_global and bool(site.shown.uniform)


RULE = Rule(NAME, "Many lanes make an atomic operation on one address.", find)
