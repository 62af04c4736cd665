"""Lanes of a warp that ask for more sectors than their bytes would fill: one question behind four
rules, each of which has one answer."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Rule, Scene, plural, rule, these
from ptxsw.findings.cost import Group, dense, groups, lost
from ptxsw.report.model import Finding

_FAR = 512  # bytes: a stride of this size is that of a row
_WASTE = 1.5  # times the sectors of adjacent lanes
_VECTOR = 16  # bytes of the widest access


def _spread(scene: Scene, wanted: Rule) -> Iterator[Group]:
    """The groups of accesses that waste sectors for one reason."""
    for group in groups(scene):
        if _wasteful(group) and _fault(group) is wanted and scene.lanes(group.sites[0]) > 1:
            yield group


def _wasteful(group: Group) -> bool:
    widest = max(site.shown.bytes or 0 for site in group.sites)
    if group.stride is not None and abs(group.stride) <= widest:
        return False  # lanes side by side, at worst misaligned
    return group.sectors >= _WASTE * group.dense


def _fault(group: Group) -> Rule:
    """Lanes that each go down a column, structs, scalars of one vector; or none of these."""
    if group.step is not None:
        return column
    if group.stride is None:
        return uncoalesced
    stride = abs(group.stride)
    if group.growth is not None and 0 < abs(group.growth) < stride:
        return column  # each lane walks through a chunk of its own
    several = len(set(group.offsets)) > 1
    if several and group.bytes == stride and stride <= _VECTOR and stride.bit_count() == 1:
        return scalar_accesses
    if stride >= _FAR and len(set(group.offsets)) < 3:
        return column
    return array_of_structs if several else uncoalesced


@rule("ptxsw-uncoalesced", "The lanes of a warp leave gaps between the elements they access.")
def uncoalesced(scene: Scene) -> Iterator[Finding]:
    for group in _spread(scene, uncoalesced):
        shown = group.sites[0].shown
        sectors, best = shown.sectors or 0, dense(shown.bytes or 0)
        apart = f"are {abs(group.stride):,} bytes apart" if group.stride else "are scattered"
        yield scene.finding(
            uncoalesced, "warning", group.indices,
            measure=f"{plural(sectors, 'sector')}, not {best}",
            what=f"The lanes of {these(group.sites)} {apart}, so a warp moves {sectors} sectors of "
            f"32 bytes where {best} would hold what it asks for.",
            advice="Let consecutive lanes access consecutive elements: store what is accessed "
            "together densely, or bring whole lines into shared memory and pick from there.",
            weight=lost(group) * group.times,
            sectors=sectors, best=best, stride=group.stride, times=group.times,
        )  # fmt: skip


@rule("ptxsw-array-of-structs", "Several accesses read or write the same structs, one field each.")
def array_of_structs(scene: Scene) -> Iterator[Finding]:
    for group in _spread(scene, array_of_structs):
        stride = abs(group.stride or 0)
        sectors = max(site.shown.sectors or 0 for site in group.sites)
        yield scene.finding(
            array_of_structs, "warning", group.indices,
            measure=f"{plural(group.sectors, 'sector')} for {group.bytes} of {stride} bytes a lane",
            what=f"The lanes of {these(group.sites)} are {stride} bytes apart. Together they use "
            f"{group.bytes} of these {stride} bytes, but each access by itself passes up to "
            f"{sectors} sectors of a warp.",
            advice=_advice_for_structs(group, stride),
            weight=lost(group) * group.times,
            sectors=group.sectors, bytes=group.bytes, stride=stride, times=group.times,
        )  # fmt: skip


def _advice_for_structs(group: Group, stride: int) -> str:
    apart = "Keep each field in an array of its own (a struct of arrays)"
    if stride % 8 == 0 and group.bytes > 8 and max(s.shown.bytes or 0 for s in group.sites) < 16:
        width = 16 if stride % 16 == 0 else 8
        return f"{apart}, or load the struct in vectors of {width} bytes (`float{width // 4}`)."
    return f"{apart}."


@rule("ptxsw-column", "The lanes of a warp are a whole row or chunk apart.")
def column(scene: Scene) -> Iterator[Finding]:
    for group in _spread(scene, column):
        shown = group.sites[0].shown
        sectors, best = shown.sectors or 0, dense(shown.bytes or 0)
        apart = f"{abs(group.stride):,}" if group.stride else f"`{group.step}`"
        yield scene.finding(
            column, "warning", group.indices,
            measure=f"{plural(sectors, 'sector')}, not {best}",
            what=f"The lanes of {these(group.sites)} are {apart} bytes apart{_walk(group)}, so "
            f"that every access moves {sectors} sectors where {best} would do.",
            advice=_advice_for_columns(group),
            weight=lost(group) * group.times,
            sectors=sectors, best=best, stride=group.stride or group.step, times=group.times,
        )  # fmt: skip


def _walk(group: Group) -> str:
    return ", and each walks through a chunk of its own" if _walks(group) else ""


def _walks(group: Group) -> bool:
    """Does each lane go on to what is next to its last elements?"""
    return bool(group.growth) and abs(group.growth or 0) <= group.bytes


def _advice_for_columns(group: Group) -> str:
    if _walks(group):
        return (
            "Let the lanes share a chunk: lane i takes elements i, i + 32, … of it. If each thread "
            "needs a whole row, store the array transposed, or load tiles through shared memory."
        )
    return (
        "Let `threadIdx.x` run along the rows, where elements are adjacent. To read rows and write "
        "columns, go through a tile in shared memory."
    )


_TYPES = {2: "uchar2", 4: "uchar4 or short2", 8: "float2", 16: "float4"}


@rule("ptxsw-scalar-accesses", "Adjacent elements of a thread are accessed one by one.")
def scalar_accesses(scene: Scene) -> Iterator[Finding]:
    for group in _spread(scene, scalar_accesses):
        stride = abs(group.stride or 0)
        kinds = len({site.shown.kind for site in group.sites})
        yield scene.finding(
            scalar_accesses, "warning", group.indices,
            measure=f"{plural(len(group.sites), 'access')}, not {kinds}",
            what=f"A thread makes {these(group.sites)} of {stride} adjacent bytes. Each passes "
            f"{group.sites[0].shown.sectors} sectors: {group.sectors} in all, where "
            f"{kinds * stride} would do.",
            advice=f"Access all {stride} bytes at once, as a vector ({_TYPES[stride]}); "
            "`ptxsw optimize --rewrites vectorize` does so where the address is aligned.",
            weight=lost(group) * group.times + (len(group.sites) - kinds) * group.times,
            sectors=group.sectors, bytes=stride, times=group.times,
        )  # fmt: skip
