"""Why the lanes of a warp ask for more sectors than their bytes would fill: the one question behind
four rules, each of which has one answer."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Scene
from ptxsw.findings.cost import dense
from ptxsw.findings.groups import Group, groups

COLUMN, STRUCTS, SCALARS, SPARSE = "column", "structs", "scalars", "sparse"

_FAR = 512  # bytes: a stride of this size is that of a row
_WASTE = 1.5  # times the sectors of adjacent lanes
_VECTOR = 16  # bytes of the widest access


def spread(scene: Scene, wanted: str) -> Iterator[Group]:
    """The groups of accesses that waste sectors for one reason."""
    for group in groups(scene):
        if _wasteful(group) and reason(group) == wanted and scene.lanes(group.sites[0]) > 1:
            yield group


def _wasteful(group: Group) -> bool:
    widest = max(site.shown.bytes or 0 for site in group.sites)
    if group.stride is not None and abs(group.stride) <= widest:
        return False  # lanes side by side, at worst misaligned
    through = sum(site.shown.sectors or 0 for site in group.sites)
    return through >= _WASTE * sum(dense(site.shown.bytes or 0) for site in group.sites)


def reason(group: Group) -> str:
    """Lanes that each go down a column, structs, scalars of one vector; or none of these."""
    if group.step is not None:
        return COLUMN
    if group.stride is None:
        return SPARSE
    stride = abs(group.stride)
    if group.growth is not None and 0 < abs(group.growth) < stride:
        return COLUMN  # each lane walks through a chunk of its own
    several = len(set(group.offsets)) > 1
    if several and group.bytes == stride and stride <= _VECTOR and stride.bit_count() == 1:
        return SCALARS
    if stride >= _FAR and len(set(group.offsets)) < 3:
        return COLUMN
    return STRUCTS if several else SPARSE
