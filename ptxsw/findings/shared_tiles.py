"""Loads that many threads of a block make alike, in a loop: a tile in shared memory holds what all
of them need.

    for (k = 0; k < n; k++)                 the same for all threads along
        sum += A[row * n + k]               x, if row comes from y
             * B[k * n + col];              y, if col comes from x
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from ptxsw.analysis.coalescing import LANES, SECTOR
from ptxsw.cost.resource_demand import lanes
from ptxsw.findings.base import Draft, Saved, Scene, Site, each, rule
from ptxsw.findings.cost import Group, gain, groups
from ptxsw.findings.loop_work import is_plain_load
from ptxsw.findings.neighbour_tiles import neighbour_tiles
from ptxsw.findings.tile_lines import tile_lines
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.terms.node import Term, Variance, unknowns
from ptxsw.terms.origin import Origin
from ptxsw.terms.specials import SPECIALS

_LONG = 32  # iterations of a loop that is worth a tile
_TABLE = 1024  # iterations from which on what all threads load is not a table of constants
_SHARERS = 8  # threads that load the same, at least
_GAIN = 0.05  # of the kernel's bound, or it is a note
_USUAL = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}  # by the axes that a kernel uses
_THREAD = frozenset(f"%tid.{axis}" for axis in "xyz")
_UNKNOWN = (Variance.LANE, 0)
_STOPS = isa.Effect.BARRIER | isa.Effect.CALL


class AlikeLoads(Struct, frozen=True):
    """Loads of one row that so many threads of a block make alike, in so many of its warps."""

    group: Group
    threads: int
    warps: int


@rule("ptxsw-shared-tile", "Threads of a block load the same elements, each for itself.")
def shared_tile(scene: Scene) -> Iterator[Draft]:
    known: set[int] = set()
    for header, loop in scene.trace.cfg.loops.items():
        alike = tuple(_alike(scene, header, loop))
        known.update(site.index for one in alike for site in one.group.sites)
        if alike and not _is_tiled(scene, loop):
            yield _finding(scene, alike)
    block = _block(scene, _axes(scene))
    yield from neighbour_tiles(scene, shared_tile, block, frozenset(known))


def _alike(scene: Scene, header: int, loop: Loop) -> Iterator[AlikeLoads]:
    axes = _axes(scene)
    block = _block(scene, axes)
    for group in groups(scene):
        site = group.sites[0]
        inside = scene.trace.cfg.loop_of.get(scene.trace.cfg.block_of[site.index]) == header
        if not inside or not is_plain_load(site) or not _walks(scene, site):
            continue
        missing = axes - _places(scene, site)
        threads = prod(size for axis, size in zip("xyz", block, strict=True) if axis in missing)
        trips = scene.trips(header) if scene.is_counted(header) else None
        least = _TABLE if missing == axes else _LONG
        if threads >= _SHARERS and (trips is None or trips > least):
            yield AlikeLoads(group, threads, _warps(block, missing))


def _axes(scene: Scene) -> frozenset[str]:
    """The axes of the block that accesses to memory depend on."""
    return frozenset().union(*(_places(scene, site) for site in scene.sites))


def _places(scene: Scene, site: Site) -> frozenset[str]:
    """The axes that the address of an access depends on."""
    addresses = [view.address for view in site.access.variants]
    return frozenset(
        str(leaf.value)[-1]
        for address in addresses
        for leaf in unknowns(address)
        if leaf.value in _THREAD
    )


def _block(scene: Scene, axes: frozenset[str]) -> tuple[int, int, int]:
    return scene.block or scene.assumed or _USUAL[max(1, len(axes))]


def _warps(block: tuple[int, int, int], missing: frozenset[str]) -> int:
    """The warps of a block that load the same: lanes of one warp do so at once."""
    x, y, z = (size if axis in missing else 1 for axis, size in zip("xyz", block, strict=True))
    return max(1, -(-x * y * z // (min(LANES, block[0]) if "x" in missing else 1)))


def _walks(scene: Scene, site: Site) -> bool:
    """Does the address lead on from iteration to iteration, by what all threads share?"""
    polynomial = scene.polynomial(site.access)
    return polynomial is not None and any(
        any(term.origin is Origin.ITERATION for term in monomial)
        and all(_is_shared(term) for term in monomial)
        for monomial, _ in polynomial
    )


def _is_shared(term: Term) -> bool:
    if term.origin is Origin.SPECIAL:
        return SPECIALS.get(str(term.value), _UNKNOWN)[0] is Variance.UNIFORM
    return term.origin in (Origin.ITERATION, Origin.PARAMETER)


def _is_tiled(scene: Scene, loop: Loop) -> bool:
    """Does the loop wait for other threads, as loops over tiles do, or write to global memory?"""
    cfg = scene.trace.cfg
    inside = set(cfg.indices(loop.blocks))
    stops = any(
        isa.effects(cfg.instructions[i].opcode, cfg.instructions[i].modifiers) & _STOPS
        for i in inside
    )
    return stops or any(
        s.is_global and s.shown.kind != "load" and s.index in inside for s in scene.sites
    )


def _finding(scene: Scene, alike: tuple[AlikeLoads, ...]) -> Draft:
    sites = [site for one in alike for site in one.group.sites]
    saves = _saved(alike)
    shares = gain(scene, saves)
    axes = _axes(scene)
    by_all = all(not _places(scene, site) for site in sites)  # a broadcast: a tile may gain nothing
    great = shares is not None and shares[0 if by_all else 1] >= _GAIN
    threads = prod(_block(scene, axes))
    asked = sum((s.shown.bytes or 0) * threads for one in alike for s in one.group.sites)
    different = sum(
        (s.shown.bytes or 0) * threads // one.threads for one in alike for s in one.group.sites
    )
    most = max(one.threads for one in alike)
    return scene.finding(
        shared_tile, "warning" if great else "note", scene.heaviest_first(sites),
        measure=f"{asked:,} bytes, of which {different:,} differ",
        what=f"Up to {most} threads of a block load the same elements: in each iteration, a block "
        f"of {threads} threads requests {asked:,} bytes by {each(sites)}, of which "
        f"{different:,} are different.{_assumed(scene, axes)}",
        advice=_advice(scene, alike, different),
        saves=saves, by_lanes=False, threads=most, bytes=asked, different=different,
        times=sites[0].times,
    )  # fmt: skip


def _assumed(scene: Scene, axes: frozenset[str]) -> str:
    if scene.block is not None:
        return ""
    shape = "x".join(str(size) for size in _block(scene, axes) if size > 1)
    return f" This assumes blocks of {shape} threads; `--block` sets another shape."


def _advice(scene: Scene, alike: tuple[AlikeLoads, ...], different: int) -> str:
    axes = _axes(scene)
    block = _block(scene, axes)
    loads = [(site, axes - _places(scene, site)) for one in alike for site in one.group.sites]
    lines = tile_lines(scene, loads, block)
    if lines is not None:
        often, name = lines.side, lines.counter
        return (
            f"Go through the loop in tiles of {often}: with `__shared__ {lines.declared};`, for "
            f"`t` of 0, {often}, … `{lines.loads}` `__syncthreads();` "
            f"`for (int {name} = 0; {name} < {often}; {name}++)` with `{lines.use}`, then "
            "`__syncthreads();`. All threads of a block have to take part, and what lies behind "
            f"the end is 0. A block then fetches {different:,} bytes for an iteration, once."
        )
    if len(axes) < 2 or all(missing == axes for _, missing in loads):
        return (
            "Go through the elements in tiles: each thread loads one into a `__shared__` array of "
            "`blockDim.x`, then `__syncthreads()`, then all use the tile, then `__syncthreads()` "
            f"again. A block then fetches {different:,} bytes for an iteration, once."
        )
    width = max(site.shown.bytes or 0 for one in alike for site in one.group.sites)
    side = block[0] if block[0] == block[1] else LANES
    return (
        f"Go through the loop in tiles: `__shared__` arrays of {side} x {side} elements "
        f"({side * side * width:,} bytes each) that the block loads together, then "
        f"`__syncthreads()`, then {side} iterations on them. A block then fetches each byte once."
    )


def _saved(alike: tuple[AlikeLoads, ...]) -> Saved:
    """What tiles save: loads that other threads make; each use is a pass through the banks."""
    saved = dict.fromkeys(("sectors", "lanes", "l2_bytes", "dram_bytes", "passes"), 0.0)
    for one in alike:
        times = one.group.times
        far = SECTOR * one.group.fetched * times * (1 - 1 / one.warps)
        saved["sectors"] += one.group.sectors * times * (1 - 1 / one.threads)
        for site in one.group.sites:
            saved["lanes"] += lanes(site.shown.bytes or 4) * times * (1 - 1 / one.threads)
        saved["l2_bytes"] += far
        saved["dram_bytes"] += far
        saved["passes"] -= len(one.group.sites) * times
    return saved
