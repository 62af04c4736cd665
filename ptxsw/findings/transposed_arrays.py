"""Arrays of two dimensions stored the other way round, so that lanes lie side by side.

sum += a[i * n + k];        lanes in i: a row apart
sum += a[k * m + i];        of the transposed array: side by side
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ptxsw.analysis.address_text import AddressWriter, is_pointer
from ptxsw.analysis.coalescing import LANES, SECTOR
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.index_reader import (
    HEIGHTS,
    LANE,
    READINGS,
    IndexReader,
    TriedLine,
    Turned,
    line_of,
    reader_of,
    sectors_at,
    with_each,
)
from ptxsw.findings.subscripts import (
    NameSum,
    Subscript,
    addends,
    cast_of,
    factors,
    plus,
    product,
    subscripts,
)
from ptxsw.terms.node import Variance
from ptxsw.terms.origin import Origin
from ptxsw.terms.polynomial import Monomial, Polynomial
from ptxsw.terms.readings import is_lane_atom


def transposed(scene: Scene, site: Site) -> TriedLine | None:
    """The line of an access with arrays of two dimensions the other way round."""
    at = line_of(scene, site)
    if at is None:
        return None
    number, text = at
    sites = [s for s in scene.sites if s.is_global and (line_of(scene, s) or (0,))[0] == number]
    return with_each(text, lambda one: _turned(reader_of(scene), sites, one))


def _turned(reader: IndexReader, sites: Sequence[Site], one: Subscript) -> Turned | None:
    """A subscript `x * width + y` as `y * height + x`, if that is what the lanes need."""
    if one.field or one.array not in reader.source.parameters:
        return None
    for reading in range(READINGS):
        whole = reader.value(one.index, reading)
        parts = None if whole is None else _two_parts(reader, one.index, reading)
        mine = [s for s in sites if whole and _is_at(reader, s, one, whole)]
        if whole is None or parts is None or not mine:
            continue
        if _turns_too(reader, one, parts, reading) or _rows_count(reader, mine):
            return None
        return _counted(reader, mine, one, parts, reading)
    return None


def _rows_count(reader: IndexReader, mine: Sequence[Site]) -> bool:
    base = _base(reader.scene, mine[0])
    return base is None or _is_used_by_rows(reader.scene, base, mine)


def _base(scene: Scene, site: Site) -> Monomial | None:
    """The start of the array that is accessed."""
    polynomial = scene.polynomial(site.access)
    bases = [m for m, factor in polynomial or () if factor == 1 and is_pointer(m)]
    return bases[0] if len(bases) == 1 else None


def _is_used_by_rows(scene: Scene, base: Monomial, mine: Sequence[Site]) -> bool:
    """Do other accesses go along the rows of the array, which would go down columns then?"""
    return any(
        site.index not in {one.index for one in mine}
        and site.is_global
        and (polynomial := scene.polynomial(site.access)) is not None
        and base in polynomial.coefficients
        and abs(site.shown.lane_stride or LANES * SECTOR) <= (site.shown.bytes or 0)
        for site in scene.sites
    )


def _turns_too(reader: IndexReader, one: Subscript, parts: tuple[str, str], reading: int) -> bool:
    """Does the kernel access another array by the same two indices the other way round? It turns
    what it copies, and with both turned it would not."""
    far, near = (reader.value(part, reading) for part in parts)
    for other in subscripts(reader.body):
        several = addends(other.index)
        for part in several if other.array != one.array else ():
            row = [reader.value(factor, reading) for factor in factors(part)]
            rest = " + ".join(more for more in several if more is not part)
            if len(row) > 1 and near in row and rest and reader.value(rest, reading) == far:
                return True
    return False


def _is_at(reader: IndexReader, site: Site, one: Subscript, index: NameSum) -> bool:
    size = site.shown.bytes or 0
    return bool(size) and reader.rest(site, one.array, index, size) == 0


def _counted(
    reader: IndexReader, sites: Sequence[Site], one: Subscript, parts: tuple[str, str], reading: int
) -> Turned | None:
    far, near = parts
    height = _bound(reader, far) or reader.rows
    column, row = reader.value(near, reading), reader.value(far, reading)
    unnamed = height if height == reader.rows else ""
    stride: NameSum | None = {(height,): 1} if unnamed else reader.value(height, reading)
    if column is None or row is None or stride is None:
        return None
    index = plus(product(column, stride), row)
    after = [reader.sectors(s, index, s.shown.bytes or 0) for s in sites]
    before = max(site.shown.sectors or 0 for site in sites)
    most = max((count or before) for count in after)
    if 2 * most > before:
        return None
    plain = re.fullmatch(r"\w+", near)
    new = f"{cast_of(one.index)}{near if plain else f'({near})'} * {height} + {far}"
    return Turned(f"{one.array}[{new}]", before, most, unnamed)


def _two_parts(reader: IndexReader, index: str, reading: int) -> tuple[str, str] | None:
    """`x` and `y` of an index `x * width + y`, where lanes differ in `x` alone."""
    parts = addends(index)
    far = [part for part in parts if _varies(reader, part, reading)]
    near = [part for part in parts if part not in far]
    if len(far) != 1 or not near:
        return None
    over_lanes = [factor for factor in factors(far[0]) if _varies(reader, factor, reading)]
    widths = [factor for factor in factors(far[0]) if factor not in over_lanes]
    if len(over_lanes) != 1 or not widths:
        return None
    step = (reader.value(over_lanes[0], reading) or {}).get((LANE,))
    inside = over_lanes[0].strip("()") if over_lanes[0].count("(") == 1 else over_lanes[0]
    return (inside, " + ".join(near)) if step == 1 else None


def _varies(reader: IndexReader, part: str, reading: int) -> bool:
    """Does a part of an index differ from lane to lane?"""
    value = reader.value(part, reading)
    return value is None or any("threadIdx.x" in name for names in value for name in names)


def _bound(reader: IndexReader, far: str) -> str | None:
    """What the source compares an index with: `if (i < m)`, `if (i >= m) return`."""
    if not re.fullmatch(r"\w+", far):
        return None
    found = set(re.findall(rf"\b{far}\s*(?:<|>=)\s*(\w+)\s*(?:[)&|;])", reader.body))
    return found.pop() if len(found) == 1 else None


_MOST = 4  # parts of an index that anybody reads


def turned_index(scene: Scene, site: Site) -> TriedLine | None:
    """The index of an access to an array of two dimensions the other way round, as reports write
    indices: for kernels without a source."""
    polynomial, size = scene.polynomial(site.access), site.shown.bytes or 0
    if polynomial is None or not polynomial.is_whole or not size:
        return None
    steps = [(m, factor) for m, factor in polynomial if any(map(is_lane_atom, m))]
    base = _base(scene, site)
    if len(steps) != 1 or base is None or steps[0][1] % size:
        return None
    width = tuple(term for term in steps[0][0] if not is_lane_atom(term))
    far, near = _split(polynomial, base, width, steps[0][1], size)
    if not any(monomial for monomial, _ in near) or _turns_by_terms(scene, site, far, near):
        return None
    if _is_used_by_rows(scene, base, [site]):
        return None
    rows = scene.trace.terms.atom(HEIGHTS[0], 32, Variance.UNIFORM)
    index = near * Polynomial.atom(rows) + far
    after, before = sectors_at(scene, site, index * size), site.shown.sectors or 0
    if after is None or 2 * after > before:
        return None
    writer = AddressWriter(scene.unwrapped, scene.trace.function.name)
    if len(index.items) > _MOST:
        return None
    start = Polynomial.of([(base, 1)])
    text = writer.polynomial(start + index * size, size)
    return TriedLine(text, before, after, (writer.polynomial(start, 0),), HEIGHTS[0])


def _split(
    address: Polynomial, base: Monomial, width: Monomial, factor: int, size: int
) -> tuple[Polynomial, Polynomial]:
    """`far` and `near` of an address `base + size * (far * width + near)`, where elements of `size`
    bytes and rows of `factor * width` bytes."""
    near: list[tuple[Monomial, int]] = []
    far: list[tuple[Monomial, int]] = []
    for monomial, count in address:
        left = list(monomial)
        fits = count % factor == 0 and all(term in left for term in width)
        if fits and monomial:
            for term in width:
                left.remove(term)
            far.append((tuple(left), count // factor))
        elif monomial != base:
            near.append((monomial, count))
    return Polynomial.of(far), Polynomial.of(near) / size


def _turns_by_terms(scene: Scene, site: Site, far: Polynomial, near: Polynomial) -> bool:
    """As `_turns_too`, by what the PTX computes."""
    for other in scene.sites if site.shown.bytes else ():
        address, size = scene.polynomial(other.access), other.shown.bytes or 0
        base = _base(scene, other)
        if not other.is_global or address is None or base is None or not size:
            continue
        widths = {t for m, _ in address for t in m if t.origin is Origin.PARAMETER}
        for width in widths.difference(base):
            if _split(address, base, (width,), size, size) == (near, far):
                return True
    return False
