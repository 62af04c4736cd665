"""Loads of neighbours in a block, as in stencils: a tile with its border holds what several threads
load.

    sum += k[j][i] * in[(y + j) * w + x + i];       25 loads by each of 256 threads, of
                                                    (32 + 4) x (8 + 4) different elements

The addresses of all threads of a block are counted, with numbers far apart in the place of what
only the run knows. What one thread loads twice counts once: that needs no tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from random import Random

from msgspec import Struct

from ptxsw.analysis.coalescing import SECTOR
from ptxsw.cost.resource_demand import lanes
from ptxsw.findings.base import Draft, Rule, Saved, Scene, Site, each
from ptxsw.findings.cost import gain
from ptxsw.findings.loop_work import is_plain_load
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial

_AXES = ("%tid.x", "%tid.y", "%tid.z")
_FEW = 4  # loads of a thread that are worth a tile
_TIMES = 3  # as many bytes as differ
_MOST = 64  # loads that are counted
_GAIN = 0.05  # of the kernel's bound, or it is a note


class Neighbours(Struct, frozen=True):
    """Loads of one array by the threads of a block: bytes that they ask for in all, and those of
    them that differ."""

    sites: tuple[Site, ...]
    threads: int
    asked: int
    different: int


def neighbour_tiles(
    scene: Scene, rule: Rule, block: tuple[int, int, int], known: frozenset[int]
) -> Iterator[Draft]:
    """Findings about loads of neighbours, but for the accesses at `known` positions."""
    for sites in _together(scene, known):
        found = _counted(scene, sites, block)
        if found is not None and found.asked >= _TIMES * found.different:
            yield _finding(scene, rule, found, block)


def _together(scene: Scene, known: frozenset[int]) -> Iterator[tuple[Site, ...]]:
    """Loads from one array in one loop, of elements of one size."""
    several: dict[object, list[Site]] = {}
    cfg = scene.trace.cfg
    for site in scene.sites:
        polynomial = scene.polynomial(site.access)
        if polynomial is None or not site.is_global or site.index in known:
            continue
        bases = [m for m, n in polynomial if n == 1 and m and _is_base(m[0]) and len(m) == 1]
        if not _fits_any_block(scene, polynomial):
            continue
        if is_plain_load(site) and len(bases) == 1 and _is_by_place(scene, polynomial):
            loop = cfg.loop_of.get(cfg.block_of[site.index])
            several.setdefault((loop, bases[0], site.shown.bytes), []).append(site)
    for sites in several.values():
        if _FEW <= len(sites) <= _MOST:
            yield tuple(sites)


def _fits_any_block(scene: Scene, polynomial: Polynomial) -> bool:
    """Is the block known, or does the kernel compute its indices for any?"""
    known = scene.block is not None or scene.assumed is not None
    return known or any(term.value == "%ntid.x" for term in polynomial.atoms)


def _is_base(term: Term) -> bool:
    return term.origin is Origin.PARAMETER and term.width == 64


def _is_by_place(scene: Scene, polynomial: Polynomial) -> bool:
    """Does nothing but the place of a thread in its block differ over threads?"""
    return all(
        scene.warps.uniform(term) or (term.kind is op.ATOM and term.value in _AXES)
        for monomial, _ in polynomial
        for term in monomial
        if term.value not in _AXES
    )


def _counted(scene: Scene, sites: Sequence[Site], block: tuple[int, int, int]) -> Neighbours | None:
    """None where the loads of a thread go to too few places, or not to another for each thread."""
    size = sites[0].shown.bytes or 0
    sums = [p for s in sites if (p := scene.polynomial(s.access)) is not None]
    starts = {tuple(_steps(one, block)) for one in sums}
    everywhere = all(
        step for start in starts for step, side in zip(start[1:], block, strict=True) if side > 1
    )
    if not size or len(starts) < _FEW or not everywhere:
        return None
    x, y, z = block
    places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    different = {
        start + dx * i + dy * j + dz * k for start, dx, dy, dz in starts for i, j, k in places
    }
    asked = len(starts) * len(places) * size
    return Neighbours(tuple(sites), len(places), asked, len(different) * size)


def _steps(polynomial: Polynomial, block: tuple[int, int, int]) -> Iterator[int]:
    """Where the first thread of a block loads, and what the address grows by along its axes."""
    sizes = dict(zip(("%ntid.x", "%ntid.y", "%ntid.z"), block, strict=True))
    for axis in (None, *_AXES):
        yield sum(
            factor * prod(_number(term, sizes) for term in monomial if term.value != axis)
            for monomial, factor in polynomial
            if _axis_of(monomial) == axis
        )


def _axis_of(monomial: Monomial) -> object:
    axes = [term.value for term in monomial if term.value in _AXES]
    return axes[0] if axes else None


def _number(term: Term, sizes: dict[str, int]) -> int:
    """In the place of what only the run knows."""
    known = sizes.get(str(term.value))
    return known if known is not None else Random(term.id).randrange(10_000, 1_000_000) * SECTOR


def _finding(scene: Scene, rule: Rule, found: Neighbours, block: tuple[int, int, int]) -> Draft:
    saves = _saved(scene, found)
    shares = gain(scene, saves)
    great = shares is not None and shares[0] >= _GAIN
    assumed = ""
    if scene.block is None:
        shape = "x".join(str(size) for size in block if size > 1)
        assumed = f" This assumes blocks of {shape} threads; `--block` sets another shape."
    return scene.finding(
        rule, "warning" if great else "note", scene.heaviest_first(found.sites),
        measure=f"{found.asked:,} bytes, of which {found.different:,} differ",
        what=f"Neighbouring threads load the same elements: a block of {found.threads} threads "
        f"requests {found.asked:,} bytes by {each(found.sites)}, of which {found.different:,} are "
        f"different.{assumed}",
        advice="Load the part of the array that a block needs, with its border, into a "
        f"`__shared__` tile of {found.different:,} bytes, each element once, then "
        "`__syncthreads()`, and read the neighbours there"
        + ("." if great else ". Where the L1 cache does not bound the kernel, it gains little."),
        saves=saves, by_lanes=False, threads=found.threads, bytes=found.asked,
        different=found.different, times=found.sites[0].times,
    )  # fmt: skip


def _saved(scene: Scene, found: Neighbours) -> Saved:
    """What a tile saves in the first-level cache, which holds what neighbours load; each use is a
    pass through the banks, and so is each store to the tile."""
    times, size = found.sites[0].times, found.sites[0].shown.bytes or 4
    left = found.different / found.asked  # of the loads
    count = len(found.sites)
    sectors = sum(site.shown.sectors or 0 for site in found.sites)
    return {
        "sectors": (1 - left) * sectors * times,
        "lanes": (1 - left) * count * lanes(size) * times,
        "passes": -(1 + left) * count * max(1, size // 4) * times,
    }
