"""Lanes of a warp that ask for more sectors than their bytes would fill: one question behind four
rules, each of which has one answer."""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.findings.base import Draft, Rule, Scene, each, plural, quarters, rule
from ptxsw.findings.cost import Group, dense, groups, lost
from ptxsw.findings.fields_apart import fields_apart, whole_struct
from ptxsw.findings.strides import OpenStride, open_stride
from ptxsw.findings.transposed_arrays import transposed, turned_index
from ptxsw.findings.turned_tile import through_tile

_FAR = 512  # bytes: a stride of this size is that of a row
_WASTE = 1.5  # times the sectors of adjacent lanes
_VECTOR = 16  # bytes of the widest access
_CHUNK = 64  # bytes: what is shorter may be a struct


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
    if group.stride is None or _has_vectors_only(group):
        return uncoalesced
    stride = abs(group.stride)
    if group.growth is not None and 0 < abs(group.growth) < stride:
        return column  # each lane walks through a chunk of its own
    several = len(set(group.offsets)) > 1
    if _is_chunk(group):
        return column
    if several and group.bytes == stride and stride <= _VECTOR and stride.bit_count() == 1:
        return scalar_accesses
    if stride >= (_FAR if len(set(group.offsets)) < 3 else 2 * _FAR):
        return column
    return array_of_structs if several else uncoalesced


def _is_chunk(group: Group) -> bool:
    """Does each lane access all elements of a long run of its own, one after the other?"""
    sizes = {site.shown.bytes for site in group.sites}
    stride = abs(group.stride or 0)
    return stride >= _CHUNK and group.bytes == stride and len(sizes) == 1


def _has_vectors_only(group: Group) -> bool:
    """Does each lane load all of its bytes by accesses that cannot be wider?"""
    narrowest = min(site.shown.bytes or 0 for site in group.sites)
    return group.stride is not None and narrowest >= _VECTOR and group.bytes == abs(group.stride)


@rule("ptxsw-uncoalesced", "The lanes of a warp leave gaps between the elements they access.")
def uncoalesced(scene: Scene) -> Iterator[Draft]:
    for group in _spread(scene, uncoalesced):
        yield from _uncoalesced(scene, uncoalesced, group)


def _uncoalesced(scene: Scene, of: Rule, group: Group) -> Iterator[Draft]:
    """What is said of lanes that are apart, whatever the reason."""
    chosen = open_stride(scene, group)
    shown = group.sites[0].shown
    sectors, best = shown.sectors or 0, dense(shown.bytes or 0)
    if chosen is not None:
        yield _open(scene, of, group, chosen)
        return
    vectors = _has_vectors_only(group)
    yield scene.finding(
        of, "note" if vectors else "warning", scene.heaviest_first(group.sites),
        measure=f"{plural(sectors, 'sector')}, not {best}",
        what=f"Uncoalesced: the lanes of {each(group.sites)} {_apart(group)}{_walk(group)}, so a "
        f"warp moves {sectors} sectors instead of {best}.",
        advice=_VECTORS if vectors else _advice(scene, of, group),
        saves=lost(group), cause=(group.stride, group.step, shown.lanes, best),
        sectors=sectors, best=best, stride=group.stride or group.step, times=group.times,
    )  # fmt: skip


_VECTORS = (
    "All bytes are used, but each access passes twice the sectors it needs: let lane i access "
    "vectors i and i + 32 rather than two adjacent ones."
)


def _open(scene: Scene, of: Rule, group: Group, chosen: OpenStride) -> Draft:
    """Both cases of a stride that may be 1."""
    shown = group.sites[0].shown
    name = chosen.parameter
    return scene.finding(
        of, "note", scene.heaviest_first(group.sites),
        measure=f"{plural(chosen.sectors, 'sector')} or {shown.sectors}",
        what=f"The distance between the lanes of {each(group.sites)} depends on `{name}`: if it is "
        f"1, a warp moves {plural(chosen.sectors, 'sector')}; if it is large, {shown.sectors}.",
        advice=f"If `{name}` is always 1, drop it. If it may be large, let the lanes run along the "
        "dimension in which elements are adjacent, or load tiles through shared memory.",
        weight=quarters(lost(group)),
        cause=("open", name),
        sectors=shown.sectors, best=chosen.sectors, stride=name, times=group.times,
    )  # fmt: skip


def _apart(group: Group) -> str:
    if group.stride:
        return f"are {abs(group.stride):,} bytes apart"
    return f"are `{group.step}` bytes apart" if group.step else "are scattered"


def _advice(scene: Scene, of: Rule, group: Group) -> str:
    stores = all(site.shown.kind != "load" for site in group.sites)
    line = _other_way_round(scene, group)
    if _walks(group):
        turned = f"{line}; or let" if line else "Let"
        stored = "" if line else "store the array transposed, or "
        return (
            f"{turned} the lanes share a chunk: lane i takes elements i, i + 32, … of it. If each "
            f"thread needs a whole row, {stored}load tiles through shared memory."
        )
    if tile := _through_tile(scene, group) if of is column and not line else "":
        return tile
    if of is column:
        return (
            f"{f'{line}; or let' if line else 'Let'} `threadIdx.x` run along the rows, where "
            f"elements are adjacent; or {'write' if stores else 'read'} rows, and transpose "
            "them in a shared-memory tile."
        )
    if tried := _fields(scene, group) or line:
        return f"{tried}."
    if stores:
        return "Let consecutive lanes store consecutive elements: collect them in shared memory."
    return (
        "Let consecutive lanes load consecutive elements: store what is loaded together densely, "
        "or bring whole lines into shared memory and pick from there."
    )


def _other_way_round(scene: Scene, group: Group) -> str:
    """A line for arrays that are stored the other way round, where it was tried."""
    [first] = scene.heaviest_first(group.sites)[:1]
    site = next(site for site in group.sites if site.index == first)
    tried = transposed(scene, site) or turned_index(scene, site)
    if tried is None:
        return ""
    arrays = " and ".join(f"`{name}`" for name in tried.arrays)
    rows = f" (`{tried.rows}`: how many rows there are)" if tried.rows else ""
    return (
        f"Store {arrays} transposed: `{tried.text}` moves {plural(tried.after, 'sector')} an "
        f"access, not {tried.before}{rows}"
    )


def _through_tile(scene: Scene, group: Group) -> str:
    """The lines of a copy that turns an array, through a tile, where they were tried."""
    tried = through_tile(scene, group.sites[0]) if len(group.sites) == 1 else None
    if tried is None:
        return ""
    guarded = any(view.conditions for view in group.sites[0].access.variants)
    bounds = ", outside of every `if`, whose condition then applies to the new places" * guarded
    return (
        f"Transpose it in a shared-memory tile: `{tried.text}` moves "
        f"{plural(tried.after, 'sector')} on both sides, not {tried.before} (`__syncthreads()` is "
        f"for the whole block{bounds})."
    )


def _walk(group: Group) -> str:
    return ", and each walks through its own chunk" if _walks(group) else ""


def _walks(group: Group) -> bool:
    """Does each lane go on to what is next to its last elements?"""
    grows = bool(group.growth) and abs(group.growth or 0) <= group.bytes
    return grows or _is_chunk(group)


@rule("ptxsw-column", "The lanes of a warp are a whole row or chunk apart.")
def column(scene: Scene) -> Iterator[Draft]:
    for group in _spread(scene, column):
        yield from _uncoalesced(scene, column, group)


@rule(
    "ptxsw-array-of-structs", "Several accesses read or write one field each of the same structs."
)
def array_of_structs(scene: Scene) -> Iterator[Draft]:
    for group in _spread(scene, array_of_structs):
        stride = abs(group.stride or 0)
        sectors = max(site.shown.sectors or 0 for site in group.sites)
        yield scene.finding(
            array_of_structs, "warning", scene.heaviest_first(group.sites),
            measure=f"{plural(group.sectors, 'sector')} for {group.bytes} of {stride} bytes a lane",
            what=f"Structs of {stride} bytes: {each(group.sites)} use {group.bytes} of the "
            f"{stride} bytes of a lane, but each access by itself passes up to {sectors} sectors "
            "of a warp.",
            advice=_advice_for_structs(scene, group, stride),
            saves=lost(group), cause=stride,
            sectors=group.sectors, bytes=group.bytes, stride=stride, times=group.times,
        )  # fmt: skip


def _advice_for_structs(scene: Scene, group: Group, stride: int) -> str:
    if whole := _whole_struct(scene, group, stride):
        return whole
    apart = _fields(scene, group) or "Keep each field in a separate array (a struct of arrays)"
    width = 16 if stride % 16 == 0 else 8
    widest = max(site.shown.bytes or 0 for site in group.sites)
    if stride % 8 == 0 and group.bytes > 8 and widest < width:
        kind = "double2" if widest == 8 else f"float{width // 4}"
        return f"{apart}, or load the struct in vectors of {width} bytes (`{kind}`)."
    return f"{apart}."


def _whole_struct(scene: Scene, group: Group, stride: int) -> str:
    """The line that loads a struct of floats at once, where it is one vector."""
    loads = all(site.shown.kind == "load" for site in group.sites)
    line = whole_struct(scene, group.sites[0]) if loads and stride in (8, 16) else None
    if line is None:
        return ""
    sectors = plural(dense(stride), "sector")
    return (
        f"Load the struct at once: `{line}` is one access of {sectors}, not {len(group.sites)} of "
        f"{max(site.shown.sectors or 0 for site in group.sites)} each."
    )


def _fields(scene: Scene, group: Group) -> str:
    """Arrays for the fields of a struct and the line that uses them, where it was tried."""
    [first] = scene.heaviest_first(group.sites)[:1]
    tried = fields_apart(scene, next(site for site in group.sites if site.index == first))
    if tried is None:
        return ""
    return (
        f"Keep each field in a separate array (`{tried.declared}` in place of "
        f"`{tried.instead}`): `{tried.line.text}` moves {plural(tried.line.after, 'sector')} an "
        f"access, not {tried.line.before}"
    )


_TYPES = {2: "uchar2", 4: "uchar4 or short2", 8: "float2", 16: "float4"}


@rule("ptxsw-scalar-accesses", "A thread accesses adjacent elements one by one.")
def scalar_accesses(scene: Scene) -> Iterator[Draft]:
    for group in _spread(scene, scalar_accesses):
        stride = abs(group.stride or 0)
        kinds = len({site.shown.kind for site in group.sites})
        fewer = (len(group.sites) - kinds) * group.times
        rewrite = (
            "; `ptxsw optimize --rewrites vectorize` does so"
            if scene.works("vectorize")
            else ", where the address is aligned"
        )
        yield scene.finding(
            scalar_accesses, "warning", scene.heaviest_first(group.sites),
            measure=f"{plural(len(group.sites), 'access')}, not {kinds}",
            what=f"Adjacent bytes one by one: {each(group.sites)} of {stride} adjacent bytes of a "
            f"thread pass {group.sectors} sectors instead of {kinds * stride}.",
            advice=f"Access all {stride} bytes at once, as a vector ({_TYPES[stride]}){rewrite}.",
            saves={**lost(group), "instructions": fewer, "lsu": fewer},
            cause=(stride, group.sites[0].shown.row),
            sectors=group.sectors, bytes=stride, times=group.times,
        )  # fmt: skip
