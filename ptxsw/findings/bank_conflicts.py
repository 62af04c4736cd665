"""Lanes that want different words of one bank of shared memory wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.analysis.banks import bank_ways
from ptxsw.findings.base import Scene, Site, rule, these
from ptxsw.findings.cost import WAVEFRONT
from ptxsw.report.model import Finding

_PADS = 4  # elements by which rows may be padded


@rule("ptxsw-bank-conflicts", "Lanes want different words of one bank of shared memory.")
def bank_conflicts(scene: Scene) -> Iterator[Finding]:
    by_pattern: dict[object, list[Site]] = {}
    for site in scene.sites:
        if site.shown.space == "shared" and _ways(scene, site) > 1:
            array = (site.shown.index or "").partition("[")[0]
            key = (array, site.shown.lane_stride, site.shown.lanes, site.times)
            by_pattern.setdefault(key, []).append(site)
    for sites in by_pattern.values():
        yield _finding(scene, sites)


def _ways(scene: Scene, site: Site) -> int:
    """The most words of one bank that lanes want at a time: no more than lanes make the access."""
    ways = site.shown.bank_conflicts or 1
    return min(ways, scene.lanes(site)) if ways > 1 else 1


def _finding(scene: Scene, sites: list[Site]) -> Finding:
    ways = max(_ways(scene, site) for site in sites)
    stride = sites[0].shown.lane_stride
    apart = f"are {abs(stride):,} bytes apart and " if stride else ""
    return scene.finding(
        bank_conflicts, "warning", [site.index for site in sites],
        measure=f"{ways}-way conflict",
        what=f"The lanes of {these(sites)} {apart}want up to {ways} different words of one bank of "
        f"shared memory, so a warp passes the banks {ways} times, not once.",
        advice=_advice(scene, sites[0]),
        weight=sum(WAVEFRONT * _extra(scene, site) * site.times for site in sites),
        ways=ways, stride=stride, times=sites[0].times,
    )  # fmt: skip


def _extra(scene: Scene, site: Site) -> float:
    """Passes that conflicts add; where the stride changes from iteration to iteration, on
    average."""
    wide = max(1, (site.shown.bytes or 4) // 4)
    conflicts = [
        iteration.bank_conflicts for iteration in site.shown.iterations if iteration.bank_conflicts
    ]
    ways = sum(conflicts) / len(conflicts) if conflicts else _ways(scene, site)
    return (ways - 1) * wide


def _advice(scene: Scene, site: Site) -> str:
    permute = "`ptxsw optimize --rewrites bank-conflicts` permutes the words"
    if site.shown.iterations:
        return (
            "Let consecutive lanes work on consecutive words: halve the distance in each iteration "
            f"instead of doubling it. Or {permute}."
        )
    padding = _padding(scene, site)
    if padding is None:
        return f"Let consecutive lanes access consecutive words; {permute}."
    pitch, pad, ways = padding
    left = "" if ways == 1 else f", which leaves {ways}-way conflicts"
    return f"Pad each {pitch:,} bytes of the array to {pitch + pad:,}{left}; or {permute}."


def _padding(scene: Scene, site: Site) -> tuple[int, int, int] | None:
    """Bytes from row to row, how many more leave the fewest conflicts, and the ways of these."""
    size = site.shown.bytes or 4
    step = site.access.bits // 8
    factors: dict[str, int] = {}
    for monomial, factor in scene.polynomial(site.access) or ():
        if any(not scene.warps.uniform(term) for term in monomial):
            if len(monomial) != 1 or monomial[0].value not in scene.warps.places[0]:
                return None
            factors[monomial[0].value] = factor
    if not factors:
        return None
    row = max(factors, key=lambda name: abs(factors[name]))
    pitch = abs(factors[row])
    tried = []
    for pad in range(1, _PADS + 1):
        moved = {**factors, row: pitch + pad * max(step, size)}
        ways = max(
            bank_ways(
                tuple(
                    sum(factor * places[name][lane] for name, factor in moved.items())
                    for lane in range(len(places["%laneid"]))
                ),
                size,
            )
            for places in scene.warps.places
        )
        tried.append((ways, pad * max(step, size)))
    ways, pad = min(tried)
    return (pitch, pad, ways) if ways < (site.shown.bank_conflicts or 1) else None
