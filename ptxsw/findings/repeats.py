"""Loads of bytes that the same thread has loaded before, and what keeps the two apart: the one
question behind two rules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from ptxsw.analysis.pointers import Pointers, pointers, unrelated
from ptxsw.findings.base import Scene, Site
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction

_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})
_STOPS = isa.Effect.BARRIER | isa.Effect.FENCE | isa.Effect.CALL


class Repeat(Struct, frozen=True):
    """A load, and the one that had its bytes. `iterations` is how many iterations of a loop ago, 0
    for the same iteration; `stores` are accesses between them that may write there as far as the
    types tell, through other pointers; `barrier` is an instruction that orders memory between
    them."""

    site: Site
    source: Site
    iterations: int
    stores: tuple[Site, ...]
    barrier: int | None


@lru_cache(maxsize=1)
def repeats(scene: Scene) -> tuple[Repeat, ...]:
    """Loads from global memory that a thread makes twice."""
    return tuple(_repeats(scene))


def _repeats(scene: Scene) -> Iterator[Repeat]:
    by_line = {site.shown.line: site for site in scene.sites}
    for site in scene.sites:
        plain = _ORDERED.isdisjoint(site.access.instruction.modifiers)
        if site.shown.kind != "load" or not site.is_global or not plain:
            continue
        repeat = _same_iteration(scene, site, by_line) or _earlier_iteration(scene, site, by_line)
        if repeat is not None:
            yield repeat


def _same_iteration(scene: Scene, site: Site, by_line: dict[int, Site]) -> Repeat | None:
    cfg = scene.trace.cfg
    for reuse in site.shown.reuse:
        source = by_line.get(reuse.line)
        if reuse.delta or source is None or source.index >= site.index:
            continue
        if cfg.dominates(cfg.block_of[source.index], cfg.block_of[site.index]):
            return _repeat(scene, site, source, 0, range(source.index + 1, site.index))
    return None


def _earlier_iteration(scene: Scene, site: Site, by_line: dict[int, Site]) -> Repeat | None:
    cfg = scene.trace.cfg
    header = cfg.loop_of.get(cfg.block_of[site.index])
    if header is None:
        return None
    name = cfg.name(header).replace("$L__", "")
    for carried in site.shown.carried:
        source = by_line.get(carried.line)
        if carried.delta or carried.loop != name or source is None:
            continue
        inside = [i for n in cfg.loops[header].blocks for i in _block(scene, n)]
        return _repeat(scene, site, source, carried.iterations, inside)
    return None


def _block(scene: Scene, number: int) -> range:
    block = scene.trace.cfg.blocks[number]
    return range(block.start, block.end)


def _repeat(
    scene: Scene, site: Site, source: Site, iterations: int, between: range | list[int]
) -> Repeat:
    positions = set(between)
    own: Pointers = pointers(site.access)
    stores = tuple(
        other
        for other in scene.sites
        if other.index in positions
        and other.is_global
        and other.shown.kind != "load"
        and unrelated(own, pointers(other.access))
    )
    instructions = scene.trace.cfg.instructions
    barrier = next((i for i in sorted(positions) if _stops(instructions[i])), None)
    return Repeat(site, source, iterations, stores, barrier)


def _stops(instruction: Instruction) -> bool:
    return bool(isa.effects(instruction.opcode, instruction.modifiers) & _STOPS)
