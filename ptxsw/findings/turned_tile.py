"""Copies that turn an array, through a tile in shared memory: both sides along rows.

out[x * height + y] = in[y * width + x];                        32 sectors

tile[threadIdx.y][threadIdx.x] = in[y * width + x];
__syncthreads();
out[(x0 + threadIdx.y) * height + y0 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];   4
"""

from __future__ import annotations

import re

from ptxsw.analysis.banks import bank_ways
from ptxsw.analysis.coalescing import LANES
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.index_reader import (
    READINGS,
    IndexReader,
    TriedLine,
    line_of,
    reader_of,
)
from ptxsw.findings.subscripts import Meaning, NameSum, Subscript, subscripts
from ptxsw.ptx.patterns import pattern

_THREAD = pattern(r"\bthreadIdx\s*\.\s*([xy])\b")
_SHORT = 60  # characters of a definition that is written out
_ASSIGNED = pattern(r"^([A-Za-z_]\w*\[.*\])\s*=(?!=)\s*(.+);$")


def through_tile(scene: Scene, site: Site) -> TriedLine | None:
    """The lines of a copy by a square block in which one side goes down columns, as a copy through
    a tile."""
    at, block = line_of(scene, site), scene.block or scene.assumed
    copy = None if at is None else _ASSIGNED.match(at[1])
    if copy is None or block is None or block[0] != block[1] or block[2] > 1:
        return None
    every = list(subscripts(copy[0]))
    if len(every) != 2 or every[0].start or every[1].start < copy.start(2):
        return None
    side, size = block[0], site.shown.bytes or 0
    stores = site.shown.kind == "store"
    turned = _turned(reader_of(scene), site, every[0] if stores else every[1])
    if turned is None or _ways(side, size) > 1:
        return None
    place, after = turned
    kind = reader_of(scene).source.element(every[0 if stores else 1].array)
    straight, across = "tile[threadIdx.y][threadIdx.x]", "tile[threadIdx.x][threadIdx.y]"
    if stores:
        lines = f"{straight} = {copy[2]}; __syncthreads(); {place} = {across};"
    else:
        value = copy[2][every[1].start - copy.start(2) :]
        rest = copy[2][: every[1].start - copy.start(2)] + straight
        rest += value[every[1].end - every[1].start :]
        lines = f"{across} = {place}; __syncthreads(); {copy[1]} = {rest};"
    text = f"__shared__ {kind} tile[{side}][{side + 1}]; {lines}"
    return TriedLine(text, site.shown.sectors or 0, after)


def _turned(reader: IndexReader, site: Site, one: Subscript) -> tuple[str, int] | None:
    """The subscript with `threadIdx.x` and `threadIdx.y` exchanged, and its sectors."""
    if one.field or one.array not in reader.source.parameters:
        return None
    size = site.shown.bytes or 0
    for reading in range(READINGS):
        index = reader.value(one.index, reading)
        if index is None or reader.rest(site, one.array, index, size) != 0:
            continue
        if any(map(reader.is_unknown, (name for names in index for name in names))):
            return None  # a loop would go over the tile, too
        after = reader.sectors(site, _exchanged(index), size)
        if after is None or 2 * after > (site.shown.sectors or 0):
            return None
        return f"{one.array}[{_written(one.index, reader.meaning(reading))}]", after
    return None


_OTHER = {"threadIdx.x": "threadIdx.y", "threadIdx.y": "threadIdx.x"}


def _exchanged(index: NameSum) -> NameSum:
    return {
        tuple(sorted(_OTHER.get(name, name) for name in names)): factor
        for names, factor in index.items()
    }


def _written(index: str, meaning: Meaning, depth: int = 3) -> str:
    """An index with the two exchanged, variables that hold them written out."""

    def out(match: re.Match[str]) -> str:
        known = meaning(match[0])
        inner = known
        if isinstance(known, str) and depth and len(known) <= _SHORT:
            inner = _written(known, meaning, depth - 1)
        if inner is None or isinstance(inner, int) or inner == known:
            return match[0]
        return inner if re.fullmatch(r"[\w.]+", inner) else f"({inner})"

    exchanged = _THREAD.sub(lambda m: f"threadIdx.{'y' if m[1] == 'x' else 'x'}", index)
    return re.sub(r"(?<![.\w])[A-Za-z_]\w*(?!\s*\.)\b", out, exchanged)


def _ways(side: int, size: int) -> int:
    """The conflicts of lanes that go down a column of the tile."""
    lanes = [(lane % side, lane // side) for lane in range(LANES)]
    return bank_ways(tuple((x * (side + 1) + y) * size for x, y in lanes), size)
