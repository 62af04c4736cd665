"""What loops do in each iteration although once, or something cheaper, would do."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.coalescing import LANES
from ptxsw.analysis.pointers import pointers, unrelated
from ptxsw.findings.base import Draft, Saved, Scene, Site, plural, rule, these
from ptxsw.ptx import isa

_OFTEN = 8  # iterations: fewer are what unrolling left


@rule(
    "ptxsw-uniform-loads",
    "In every iteration of a loop, all lanes of a warp load the same element.",
)
def uniform_loads(scene: Scene) -> Iterator[Draft]:
    cfg = scene.trace.cfg
    by_line: dict[int, list[Site]] = {}
    for site in scene.sites:
        header = cfg.loop_of.get(cfg.block_of[site.index])
        same = site.shown.uniform or site.shown.lane_stride == 0
        often = header is not None and scene.trips(header) >= _OFTEN
        if header is not None and often and same and is_plain_load(site) and site.is_global:
            by_line.setdefault(header, []).append(site)
    for sites in by_line.values():
        yield scene.finding(
            uniform_loads, "note", scene.heaviest_first(sites),
            measure=f"{plural(len(sites), 'load')} of one element",
            what=f"In every iteration, all lanes of a warp make {these(sites)} from one address. "
            "Each takes a pass through the L1 cache for one element.",
            advice=_advice_for_tables(scene, sites),
            saves=_saved_by_constants(sites), weight=sum(site.times * 2 for site in sites),
            cause=header,
            loads=len(sites), times=sites[0].times,
        )  # fmt: skip


def _saved_by_constants(sites: list[Site]) -> Saved:
    """Constant memory is no work of the first-level cache."""
    times = sum(site.times for site in sites)
    return {"sectors": times, "lanes": LANES * times, "lsu": times}


def _advice_for_tables(scene: Scene, sites: list[Site]) -> str:
    """What the kernel may write cannot be constant."""
    vector = "elements that are used one after another can be loaded as a vector."
    stores = [site for site in scene.sites if site.shown.kind != "load" and not _is_block_own(site)]
    written = any(
        not unrelated(pointers(load.access), pointers(store.access))
        for load in sites
        for store in stores
    )
    if written:
        return vector.capitalize()
    return f"A table that the kernel only reads can lie in `__constant__` memory; {vector}"


def _is_block_own(site: Site) -> bool:
    return site.shown.space in ("shared", "local")


def is_plain_load(site: Site) -> bool:
    """Is it a load of what the lanes expect to stay? Volatile and ordered loads wait for a change,
    as of a flag."""
    instruction = site.access.instruction
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return site.shown.kind == "load" and not effects & isa.Effect.ATOMIC


INSTRUCTIONS = 75
"""Of the routine that ptxas 13.0 calls for one: 67 to 84 for sm_80 and sm_90, by its SASS."""


_MORE = {"instructions": 55, "fma": 26, "alu": 21, "cbu": 6}
"""By which it is longer than a division of 32 bits (`cost.instructions`)."""


@rule("ptxsw-wide-division", "A loop divides 64-bit integers.")
def wide_division(scene: Scene) -> Iterator[Draft]:
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
        wide_division, "warning", divisions,
        measure=f"{plural(len(divisions), 'division')} of 64-bit integers",
        what=f"{plural(len(divisions), 'division')} of 64-bit integers in a loop. For each, ptxas "
        f"calls a routine of some {INSTRUCTIONS} instructions; a 32-bit division takes about 20.",
        advice="Use 32-bit operands where the values fit, hoist the division out of the loop, or "
        "count quotient and remainder along with the index.",
        saves={name: count * sum(map(scene.times, divisions)) for name, count in _MORE.items()},
        weight=INSTRUCTIONS * sum(map(scene.times, divisions)), by_lanes=False,
        divisions=len(divisions), times=scene.times(divisions[0]),
    )  # fmt: skip
