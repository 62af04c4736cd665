"""The lines of a loop that goes through its elements in tiles.

for (k = 0; k < n; k++) sum += A[row * n + k] * B[k * m + col];

As[threadIdx.y][threadIdx.x] = A[row * n + t + threadIdx.x];
Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * m + col];
__syncthreads();
for (int k = 0; k < 16; k++) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
__syncthreads();
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ptxsw.findings.base import Scene, Site
from ptxsw.findings.cost import dense
from ptxsw.findings.index_reader import IndexReader, line_of, reader_of
from ptxsw.findings.subscripts import Subscript, addends, names_in, subscripts

_STEP = "t"  # where a tile begins


class TileLines(Struct, frozen=True):
    """Declarations of tiles, lines that load them, and the line that uses them, for `side`
    iterations; `counter` is the variable of the loop."""

    declared: str
    loads: str
    use: str
    counter: str
    side: int


class _Tile(Struct, frozen=True):
    declared: str
    load: str
    use: str


def tile_lines(
    scene: Scene, loads: Sequence[tuple[Site, frozenset[str]]], block: tuple[int, int, int]
) -> TileLines | None:
    """Of loads with the axes of the block along which all threads make them alike. None where the
    source does not tell, where the block is no line or square, or where the lanes that load a tile
    would lie apart."""
    at = line_of(scene, loads[0][0])
    x, y, z = block
    reader = reader_of(scene)
    if at is None or z > 1 or y not in (1, x) or _STEP in names_in(reader.body):
        return None
    text = re.sub(r"^for\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*", "", at[1])
    every = list(subscripts(text))
    counters = {n for one in every for n in names_in(one.index) if _counts(reader, n)}
    if len(counters) != 1:
        return None
    counter = counters.pop()
    tiles: dict[str, _Tile] = {}
    for one in every:
        if counter in names_in(one.index):
            tile = _tile(reader, loads, one, counter, block)
            if tile is None or tiles.setdefault(one.array, tile) != tile:
                return None
    for one in reversed(every):
        if one.array in tiles and counter in names_in(one.index):
            field = f".{_component(reader, one)}" if one.field else ""
            text = text[: one.start] + tiles[one.array].use + field + text[one.end :]
    if not tiles or _STEP in names_in(text):
        return None
    found = list(tiles.values())
    declared = "; __shared__ ".join(one.declared for one in found)
    return TileLines(declared, " ".join(one.load for one in found), text, counter, x)


def _counts(reader: IndexReader, name: str) -> bool:
    """Is it the variable of a loop?"""
    return name in reader.defined and not reader.defined[name]


def _tile(
    reader: IndexReader, loads: Sequence[tuple[Site, frozenset[str]]], one: Subscript,
    counter: str, block: tuple[int, int, int],
) -> _Tile | None:  # fmt: skip
    """The tile for a subscript, if one of the loads is its."""
    whole = reader.value(one.index, 0)
    if one.array not in reader.source.parameters or whole is None:
        return None
    for site, missing in loads:
        size = abs(site.shown.bytes or 0)
        step = _struct(reader, one) if one.field else size
        rest = reader.rest(site, one.array, whole, step) if step else None
        if rest is None or (rest and not one.field):
            continue
        across = block[1] > 1
        axis = "y" if across and "x" not in missing else "x"
        if across and len(missing) != 1:
            return None
        index = _with(one.index, counter, f"{_STEP} + threadIdx.{axis}")
        value = reader.value(index, 0)
        after = None if value is None else reader.sectors(site, value, step)
        if after is None or after > dense(step):
            return None
        return _written(reader, one, index, counter, axis, block)
    return None


def _struct(reader: IndexReader, one: Subscript) -> int:
    """Bytes of a struct of floats that is loaded as one vector; 0 for any other."""
    fields = _fields(reader, one)
    return 4 * len(fields) if len(fields) in (2, 4) else 0


def _fields(reader: IndexReader, one: Subscript) -> list[str]:
    """The members of the struct to which a parameter points, if all are floats."""
    declared = reader.source.declared[reader.source.parameters.index(one.array)]
    types = reader.source.members(declared)
    return list(types) if set(types.values()) == {"float"} else []


def _component(reader: IndexReader, one: Subscript) -> str:
    """The component of a vector in the place of a field."""
    return "xyzw"[_fields(reader, one).index(one.field)]


def _with(index: str, counter: str, by: str) -> str:
    """An index with a sum in the place of a variable."""
    alone = counter in addends(index)
    return re.sub(rf"\b{counter}\b", by if alone else f"({by})", index)


def _written(
    reader: IndexReader, one: Subscript, index: str, counter: str, axis: str,
    block: tuple[int, int, int],
) -> _Tile:  # fmt: skip
    side, name = block[0], f"{one.array}s"
    kind, array = reader.source.element(one.array), one.array
    if one.field:
        kind = f"float{len(_fields(reader, one))}"
        array = f"((const {kind} *){array})"
    if block[1] == 1:
        load = f"{name}[threadIdx.x] = {array}[{index}];"
        return _Tile(f"{kind} {name}[{side}]", load, f"{name}[{counter}]")
    use = f"[threadIdx.y][{counter}]" if axis == "x" else f"[{counter}][threadIdx.x]"
    return _Tile(
        f"{kind} {name}[{side}][{side}]",
        f"{name}[threadIdx.y][threadIdx.x] = {array}[{index}];", f"{name}{use}",
    )  # fmt: skip
