"""Rows that begin in the middle of a sector: a warp needs one sector more than its bytes fill."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.coalescing import SECTOR
from ptxsw.findings.base import Draft, Saved, Scene, quarters, rule, these
from ptxsw.findings.cost import Group, dense, groups
from ptxsw.terms import op
from ptxsw.terms.node import Variance
from ptxsw.terms.origin import Origin

_ROW = 128  # bytes: a smaller step is no row


@rule("ptxsw-misaligned-rows", "Rows begin in the middle of a sector.")
def misaligned_rows(scene: Scene) -> Iterator[Draft]:
    for group in groups(scene):
        size = group.sites[0].shown.bytes or 0
        if abs(group.stride or 0) != size or scene.lanes(group.sites[0]) <= 1:
            continue
        pitch = _pitch(scene, group)
        if pitch is not None:
            yield _uneven(scene, group, pitch)
        elif _shifted(group):
            yield _late(scene, group)


def _pitch(scene: Scene, group: Group) -> int | None:
    """Bytes from row to row, where that is a number which is no multiple of a sector."""
    for monomial, factor in scene.polynomial(group.sites[0].access) or ():
        uniform = all(t.variance is not Variance.LANE and t.kind is op.ATOM for t in monomial)
        counts = len(monomial) == 1 and (
            monomial[0].origin is Origin.ITERATION or monomial[0].value in _INDICES
        )
        if uniform and counts and abs(factor) >= _ROW and factor % SECTOR:
            by_blocks = monomial[0].value == "%ctaid.x"
            return None if by_blocks and _is_of_block(scene, group, abs(factor)) else abs(factor)
    return None


def _is_of_block(scene: Scene, group: Group, pitch: int) -> bool:
    """Is it what the threads of a block access, one after the other? Then no array has such rows,
    and the block is what is uneven (`idle_lanes`)."""
    return (
        scene.block is not None
        and group.stride == pitch // scene.block[0]
        and (pitch % scene.block[0] == 0)
    )


_INDICES = frozenset({f"{name}.{axis}" for name in ("%tid", "%ctaid") for axis in "xyz"})


def _shifted(group: Group) -> bool:
    """Are all accesses of the group past the start of a sector by as much?"""
    phases = {(site.shown.phase or 0) % SECTOR for site in group.sites}
    return len(phases) == 1 and phases != {0}


def _uneven(scene: Scene, group: Group, pitch: int) -> Draft:
    padded = -(-pitch // SECTOR) * SECTOR
    return scene.finding(
        misaligned_rows, "warning", scene.heaviest_first(group.sites),
        measure=f"rows of {pitch:,} bytes",
        what=f"The rows that {these(group.sites)} run{_s(group)} through are {pitch:,} bytes long, "
        "not a multiple of 32. Most of them begin inside a sector and touch one more sector.",
        advice=f"Pad the rows to {padded:,} bytes (`cudaMallocPitch` does), or more.",
        saves={"sectors": _extra(group)["sectors"]}, weight=quarters(_extra(group)), cause=pitch,
        by_lanes=False,
        pitch=pitch, padded=padded, times=group.times,
    )  # fmt: skip


def _late(scene: Scene, group: Group) -> Draft:
    phase = (group.sites[0].shown.phase or 0) % SECTOR
    best = dense(group.sites[0].shown.bytes or 0)
    stencil = _is_stencil(scene)
    return scene.finding(
        misaligned_rows, "note" if stencil else "warning", scene.heaviest_first(group.sites),
        measure=f"{best + 1} sectors, not {best}",
        what=f"A warp begins {these(group.sites)} {phase} bytes after the start of a sector, so "
        f"it needs {best + 1} sectors instead of {best}. This assumes that arrays and rows "
        "begin at multiples of 32 bytes.",
        advice="Some accesses of a stencil must be misaligned. Pad what is in front of the rows, "
        "so that the most frequent accesses begin at a multiple of 32 bytes."
        if stencil
        else f"Move the start of the data to a multiple of 32 bytes: pad what is in front of it by "
        f"{SECTOR - phase} bytes.",
        saves=_extra(group), cause="stencil" if stencil else None, by_lanes=False,
        phase=phase, times=group.times,
    )  # fmt: skip


def _extra(group: Group) -> Saved:
    more = group.times * len({o // SECTOR for o in group.offsets})
    return {"sectors": more, "l2_bytes": SECTOR * more}


def _is_stencil(scene: Scene) -> bool:
    """Does the kernel access one array with several starts, or arrays with several shifts?"""
    starts: dict[str, set[int]] = {}
    for site in scene.sites:
        dense_row = site.shown.lane_stride == site.shown.bytes
        if site.is_global and site.shown.index and dense_row:
            array = site.shown.index.partition("[")[0]
            starts.setdefault(array, set()).add((site.shown.phase or 0) % SECTOR)
    shifts = set().union(*starts.values()) - {0}
    return len(shifts) > 1 or any(len(phases) > 1 for phases in starts.values())


def _s(group: Group) -> str:
    return "s" if len(group.sites) == 1 else ""
