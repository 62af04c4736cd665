"""Loads in a loop whose address is the same for all lanes: a pass through L1 for one element."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, Site, plural, these
from ptxsw.ptx import isa
from ptxsw.report.model import Finding

NAME = "ptxsw-uniform-loads"


def find(scene: Scene) -> Iterator[Finding]:
    cfg = scene.trace.cfg
    by_line: dict[int, list[Site]] = {}
    for site in scene.sites:
        header = cfg.loop_of.get(cfg.block_of[site.index])
        same = site.shown.uniform or site.shown.lane_stride == 0
        if header is not None and same and _is_plain_load(site) and site.is_global:
            by_line.setdefault(header, []).append(site)
    for sites in by_line.values():
        yield scene.finding(
            NAME, "note", [site.index for site in sites],
            measure=f"{plural(len(sites), 'load')} of one element",
            what=f"In every iteration, all lanes of a warp make {these(sites)} from one address. "
            "Each takes a pass through the L1 cache for one element.",
            advice="A table that the kernel only reads can lie in `__constant__` memory; elements "
            "that are used one after the other can be loaded as a vector.",
            weight=sum(site.times * 2 for site in sites),
            loads=len(sites), times=sites[0].times,
        )  # fmt: skip


def _is_plain_load(site: Site) -> bool:
    """Is it a load of what the lanes expect to stay? Volatile and ordered loads wait for a change,
    as of a flag."""
    instruction = site.access.instruction
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return site.shown.kind == "load" and not effects & isa.Effect.ATOMIC


RULE = Rule(NAME, "All lanes of a warp load one element, in every iteration of a loop.", find)
