"""Ways to spoil a rewritten text: each yields texts that are wrong, at several places if it can.

They work on the lines that code generation writes; where a scheme writes none of a kind, the
mutator yields nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Mutator = Callable[[str], Iterator[str]]

SHUFFLE = re.compile(
    r"shfl\.sync\.(?P<way>up|down)\.b32 (?P<dest>[^,]+), (?P<source>[^,]+), (?P<by>\d+), "
    r"(?P<clamp>\d+), (?P<mask>[^;]+);"
)
LANE = re.compile(r"(setp\.(lt|gt)\.or\.u32 [^,]+, %sw_lane, )(\d+)(, [^;]+;)")
PART = re.compile(r"(setp\.ne(?:\.or)?\.b32 %sw_part\d+, (%sw_mask\d+), )-1")
ROWS = re.compile(r"setp\.ne\.or\.b32 (%sw_part\d+), (%sw_mask\d+), -1, %sw_rows;")
WRAP = re.compile(r"(setp\.gt\.u(32|64) %sw_wrap\d+, %sw_idx\d+, )\d+;")
COPY = re.compile(r"mov\.b32 (%sw_src\d+), ([^;]+);")
LOAD = re.compile(r"^\s*ld\.global\.\S+\s+(%\w+), \[")
ANY_LOAD = re.compile(r"^\s*ld\.\S+\.f32\s+(%\w+), \[")


def _each(
    pattern: re.Pattern[str], text: str, new: Callable[[re.Match[str]], str]
) -> Iterator[str]:
    for found in pattern.finditer(text):
        yield text[: found.start()] + new(found) + text[found.end() :]


def _shuffle(found: re.Match[str], **changes: str) -> str:
    parts = {**found.groupdict(), **changes}
    return "shfl.sync.{way}.b32 {dest}, {source}, {by}, {clamp}, {mask};".format(**parts)


def farther(text: str) -> Iterator[str]:
    """delta one more"""
    return _each(SHUFFLE, text, lambda m: _shuffle(m, by=str(int(m["by"]) + 1)))


def nearer(text: str) -> Iterator[str]:
    """delta one less"""
    return _each(SHUFFLE, text, lambda m: _shuffle(m, by=str(int(m["by"]) - 1)))


def swapped(text: str) -> Iterator[str]:
    """up for down"""

    def other(m: re.Match[str]) -> str:
        if m["way"] == "up":
            return _shuffle(m, way="down", clamp="31")
        return _shuffle(m, way="up", clamp="0")

    return _each(SHUFFLE, text, other)


def corner_dropped(text: str) -> Iterator[str]:
    """lanes without a neighbour take a value all the same"""
    return _each(LANE, text, lambda m: m[1] + {"lt": "0", "gt": "31"}[m[2]] + m[4])


def partial_warp_dropped(text: str) -> Iterator[str]:
    """no test that all lanes are here"""
    return _each(PART, text, lambda m: m[1] + m[2])


def block_shape_dropped(text: str) -> Iterator[str]:
    """no test that rows do not wrap"""
    return _each(ROWS, text, lambda m: f"setp.ne.b32 {m[1]}, {m[2]}, -1;")


def overflow_guard_dropped(text: str) -> Iterator[str]:
    """no test that the index does not wrap"""
    return _each(WRAP, text, lambda m: f"{m[1]}{(1 << int(m[2])) - 1};")


def other_row(text: str) -> Iterator[str]:
    """the shuffle takes the value of another load"""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        copy = COPY.search(line)
        if copy is None:
            continue
        earlier = [m[1] for m in map(LOAD.match, lines[:at]) if m is not None]
        parameters = [m[1] for m in map(ANY_LOAD.match, lines[:at]) if m is not None]
        others = [name for name in (*parameters, *earlier) if name != copy[2]]
        if others:
            changed = line.replace(f", {copy[2]};", f", {others[-1]};")
            yield "\n".join([*lines[:at], changed, *lines[at + 1 :]])


def hoisted(text: str) -> Iterator[str]:
    """the shuffle stands before the load of its source"""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        shuffle = SHUFFLE.search(line)
        if shuffle is None:
            continue
        copy = next(n for n, other in enumerate(lines) if f"mov.b32 {shuffle['source']}," in other)
        load = next(n for n in range(copy, -1, -1) if LOAD.match(lines[n]))
        moved = [f"activemask.b32 {shuffle['mask']};", line]
        yield "\n".join([*lines[:load], *moved, *lines[load:at], *lines[at + 1 :]])


MUTATORS: dict[str, Mutator] = {
    m.__name__: m
    for m in (
        farther, nearer, swapped, corner_dropped, partial_warp_dropped, block_shape_dropped,
        overflow_guard_dropped, other_row, hoisted,
    )
}  # fmt: skip
