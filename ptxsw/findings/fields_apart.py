"""Structs taken apart: an array for each field, so that lanes lie side by side.

p[i].x += dt * p[i].u;      Particle *p: lanes 24 bytes apart
x[i] += dt * u[i];          float *x, *u
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ptxsw.findings.base import Scene, Site
from ptxsw.findings.index_reader import (
    LANE,
    READINGS,
    IndexReader,
    TriedLine,
    Turned,
    line_of,
    reader_of,
    with_each,
)
from ptxsw.findings.subscripts import Subscript, names_in, subscripts


class TriedFields(Struct, frozen=True):
    """The declarations of arrays for the fields of a struct, in place of which parameter, and the
    line with them."""

    declared: str
    instead: str
    line: TriedLine


def fields_apart(scene: Scene, site: Site) -> TriedFields | None:
    """The line of an access to structs with an array for each field."""
    at = line_of(scene, site)
    stride = abs(site.shown.lane_stride or 0)
    if at is None or not stride:
        return None
    number, text = at
    reader = reader_of(scene)
    sites = [s for s in scene.sites if s.is_global and (line_of(scene, s) or (0,))[0] == number]
    arrays = {one.array for one in subscripts(text) if one.field}
    used = [one for one in subscripts(reader.body) if one.field and one.array in arrays]
    if len(arrays) != 1 or reader.source.parameters.count(min(arrays)) != 1:
        return None
    new_names = _names(reader, used)
    tried = with_each(text, lambda one: _apart(reader, sites, one, stride, new_names))
    if tried is None:
        return None
    [array] = arrays
    instead = reader.source.declared[reader.source.parameters.index(array)]
    return TriedFields(_declared(reader, instead, new_names), instead, tried)


def whole_struct(scene: Scene, site: Site) -> str | None:
    """The line that loads a struct of floats as one vector."""
    at, stride = line_of(scene, site), abs(site.shown.lane_stride or 0)
    reader = reader_of(scene)
    for one in subscripts(at[1]) if at is not None and stride in (8, 16) else ():
        index = reader.value(one.index, 0)
        if not one.field or one.array not in reader.source.parameters or index is None:
            continue
        declared = reader.source.declared[reader.source.parameters.index(one.array)]
        types = reader.source.members(declared)
        names = all(name.isidentifier() for name in types)
        floats = names and set(types.values()) == {"float"} and 4 * len(types) == stride
        if floats and reader.rest(site, one.array, index, stride) is not None:
            vector = f"float{len(types)}"
            return f"{vector} v = ((const {vector} *){one.array})[{one.index}];"
    return None


def _declared(reader: IndexReader, instead: str, names: Mapping[str, str]) -> str:
    """The arrays that take the place of a pointer to structs."""
    types = reader.source.members(instead)
    if not types.keys() >= names.keys():
        return "`, `".join(names.values())
    const = "const " if "const" in names_in(instead) else ""
    by_type: dict[str, list[str]] = {}
    for field, kind in types.items():
        if field in names:
            by_type.setdefault(kind, []).append(f"*{names[field]}")
    return "; ".join(f"{const}{kind} {', '.join(some)}" for kind, some in by_type.items())


def _names(reader: IndexReader, used: Sequence[Subscript]) -> Mapping[str, str]:
    """What arrays of fields are called: as the fields, where that is no name yet."""
    taken = names_in(re.sub(r"\.\s*\w+", "", reader.body)) | set(reader.source.parameters)
    names = {one.field: f"{one.array}_{one.field}" for one in used}
    return {field: long if field in taken else field for field, long in names.items()}


def _apart(
    reader: IndexReader,
    sites: Sequence[Site],
    one: Subscript,
    stride: int,
    names: Mapping[str, str],
) -> Turned | None:
    if one.field not in names:
        return None
    for reading in range(READINGS):
        index = reader.value(one.index, reading)
        if index is None or index.get((LANE,)) != 1:
            continue
        rests = [(s, reader.rest(s, one.array, index, stride)) for s in sites]
        mine = [s for s, rest in rests if rest is not None and 0 <= rest < stride]
        if not mine:
            continue
        after = [reader.sectors(s, index, s.shown.bytes or 0) for s in mine]
        before = max(site.shown.sectors or 0 for site in mine)
        most = max((count or before) for count in after)
        if 2 * most <= before:
            return Turned(f"{names[one.field]}[{one.index}]", before, most)
    return None
