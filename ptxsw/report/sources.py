"""The source files that the `.loc` directives of a PTX text name, for a reader of the report.

A report may travel, so no name here is an absolute path: a file is called by as few of the last
parts of its path as tell it from the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from ptxsw.ptx.ir import Loc, Module
from ptxsw.report.describe import SourcePlace, place_of
from ptxsw.report.source_files import SourceFiles

_MOST_CHARACTERS = 600_000  # of all sources together
_DEEPEST = 64  # parts of a path that are told


class SourceFile(Struct, frozen=True):
    """A source file. `lines` is empty where it cannot be read."""

    name: str
    lines: tuple[str, ...]


class Sources(Struct, frozen=True):
    """`origins` gives for a PTX line the number of its file in `files`, and the line there."""

    files: tuple[SourceFile, ...]
    origins: Mapping[int, tuple[int, int]]


def read_sources(module: Module, read: SourceFiles) -> Sources:
    """The sources of a module, as far as they may be shown."""
    located = dict(_located(module))
    paths = sorted({path for path, _ in located.values()})
    names = short_names(paths)
    room = _MOST_CHARACTERS
    files = []
    for path in paths:
        lines = read.lines(path)
        length = sum(map(len, lines))
        if length > room:
            lines, length = (), 0
        room -= length
        files.append(SourceFile(names[path], lines))
    number = {path: at for at, path in enumerate(paths)}
    origins = {ptx: (number[path], line) for ptx, (path, line) in located.items()}
    return Sources(tuple(files), origins)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """For each path as few of its last parts as tell it from the others."""
    parts = {
        path: PurePosixPath(path.replace("\\", "/")).parts[-_DEEPEST:] or (path,) for path in paths
    }
    names: dict[str, str] = {}
    left, count = parts, 1
    while left:
        ends = Counter(own[-count:] for own in parts.values())
        told = [p for p, own in left.items() if ends[own[-count:]] == 1 or count >= len(own) - 1]
        names |= {path: "/".join(parts[path][-count:]) for path in told}
        left = {path: own for path, own in left.items() if path not in names}
        count += 1
    return {path: names[path] for path in parts}


def _located(module: Module) -> Iterator[tuple[int, tuple[str, int]]]:
    """For the line of each instruction behind a `.loc` the path of its file and the line there."""
    for function in module.functions:
        current: SourcePlace | None = None
        for statement in function.body.statements:
            if isinstance(statement, Loc):
                if statement.line > 0:  # 0: the compiler's own
                    current = place_of(module, statement)
            elif current is not None:
                line = module.source.line(statement.span.start)
                yield line, (current.file, current.line)
