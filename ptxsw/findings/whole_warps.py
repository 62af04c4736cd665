"""Lines by which whole warps go one way, in place of lanes.

    if (t % 2)                                      if (t / 32 % 2)

    for (k = start[i]; k < start[i + 1]; k++)       int i = (…) / 32, lane = threadIdx.x % 32;
                                                    for (k = start[i] + lane; …; k += 32)

Each is tried: the condition has to be the same for all lanes of a warp, and the bounds of the loop
have to be read from one address, once 32 lanes have one index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptxsw.analysis.coalescing import LANES
from ptxsw.findings.base import Scene, Site
from ptxsw.findings.index_reader import (
    LANE,
    LONGEST,
    READINGS,
    IndexReader,
    reader_of,
)
from ptxsw.findings.subscripts import NameSum, names_in, subscripts
from ptxsw.ptx.patterns import pattern
from ptxsw.terms import op
from ptxsw.terms.node import Term
from ptxsw.terms.substitution import substitute

_PARITY = pattern(r"\b(threadIdx\s*\.\s*x|[A-Za-z_]\w*)(\s*[%&]\s*)(?=\w)")
_LOOP = pattern(
    r"for\s*\(\s*((?:unsigned\s+)?(?:int|long|size_t|unsigned|auto)\s+)?([A-Za-z_]\w*)\s*=\s*([^;]+);"
    r"\s*\2\s*<\s*([^;]+);\s*(?:\+\+\s*\2|\2\s*\+\+|\2\s*\+=\s*1)\s*\)"
)


def branch_of_warps(scene: Scene, line: int, condition: Term | None) -> str:
    """The line that decides a branch, so that whole warps take a side; empty where none is known.
    It is that of the branch, or that of a variable in it."""
    if condition is None or not scene.warps.uniform(_by_warps(scene, condition)):
        return ""
    reader = reader_of(scene)
    for text in _deciding(reader, scene.source.line(line)):
        new = _PARITY.sub(lambda match: _shared(reader, match), text)
        if new != text and len(new) <= LONGEST:
            return new
    return ""


def _by_warps(scene: Scene, condition: Term) -> Term:
    """A condition with the number of a warp in place of that of a thread."""
    terms = scene.trace.terms

    def leaf(node: Term) -> Term | None:
        if node.kind is not op.ATOM or node.value != "%tid.x":
            return None
        return terms.udiv(node, terms.const(LANES, node.width))

    return substitute(terms, condition, leaf)


def _deciding(reader: IndexReader, line: str) -> Iterator[str]:
    """A line with a condition, and those that set the variables in it."""
    inside = line[line.index("(") :] if "if" in names_in(line) and "(" in line else line
    yield line
    for one in reader.body.split("\n"):
        if any(re.search(rf"\b{name}\s*=(?!=)", one) for name in names_in(inside)):
            yield one.strip()


def _shared(reader: IndexReader, match: re.Match[str]) -> str:
    """`t % ` as `t / 32 % `, where `t` is the place of a thread."""
    for reading in range(READINGS):
        value = reader.value(match[1], reading)
        if value is not None and value.get((LANE,)) == 1:
            return f"{match[1]} / {LANES}{match[2]}"
    return match[0]


# ---------------------------------------------------------------- loops


def loop_of_warps(scene: Scene, line: int, loads: Sequence[Site]) -> tuple[str, str] | None:
    """The line that sets an index and the line of the loop whose bounds are read there, for a warp
    with one index in place of a lane; None where these are not known."""
    reader, text = reader_of(scene), scene.source.line(line)
    loop = _LOOP.search(text)
    index = None if loop is None else _common_index(reader, loop, loads)
    if loop is None or index is None or "lane" in names_in(reader.body):
        return None
    kind, name, first, end = loop[1] or "", loop[2], loop[3].strip(), loop[4].strip()
    new = f"for ({kind}{name} = {first} + lane; {name} < {end}; {name} += {LANES})"
    [written] = reader.defined[index]
    return f"int {index} = ({written}) / {LANES}, lane = threadIdx.x % {LANES};", new


def _common_index(reader: IndexReader, loop: re.Match[str], loads: Sequence[Site]) -> str | None:
    """The variable by which the bounds of a loop are read, if all loads on which it depends are
    those, and one for all lanes with one index."""
    bounds = [one for text in (loop[3], loop[4]) for one in subscripts(text)]
    names = {name for one in bounds for name in names_in(one.index) if name in reader.defined}
    if len(names) != 1 or len(reader.defined[index := names.pop()]) != 1:
        return None
    values = [(one, reader.value(one.index, 0)) for one in bounds]
    read = [
        site
        for site in loads
        if any(
            value is not None
            and reader.rest(site, one.array, value, site.shown.bytes or 1) == 0
            and _is_one(reader, site, value, reader.value(index, 0))
            for one, value in values
        )
    ]
    return index if read and len(read) == len(loads) else None


def _is_one(reader: IndexReader, site: Site, value: NameSum, index: NameSum | None) -> bool:
    """Do lanes with one index read one element? Then what is left without it has no lanes."""
    if index is None or index.get((LANE,)) != 1:
        return False
    left = {names: n - index.get(names, 0) for names, n in value.items()}
    uniform = {names: n for names, n in left.items() if n}
    return reader.sectors(site, uniform, site.shown.bytes or 1) == 1
