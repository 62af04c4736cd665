"""Where in the source the instructions of a PTX text are from, by its `.loc` directives, and these
sources for a reader of the report.

A report may travel, so no name here is an absolute path: a file is called by as few of the last
parts of its path as tell it from the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Function, Loc, Module, Statement
from ptxsw.ptx.patterns import pattern
from ptxsw.report.source_files import SourceFiles

_MOST_CHARACTERS = 600_000  # of all sources together
_DEEPEST = 64  # parts of a path that are told


class SourcePlace(Struct, frozen=True):
    """Where in the source an instruction is from; the column is 0 where it is not known."""

    file: str
    line: int
    column: int


def source_places(trace: Trace) -> Mapping[int, SourcePlace]:
    """The place of each instruction behind a `.loc`. What was inlined from a header of the CUDA
    toolkit is placed where it was called."""
    instructions = {id(one): index for index, one in enumerate(trace.cfg.instructions)}
    return {
        instructions[id(statement)]: place
        for statement, place in _located(trace.module, trace.function)
        if id(statement) in instructions
    }


_TOOLKIT = pattern(r"(?:^|/)(?:cuda|nvidia|targets)\b")
_INLINED = pattern(r"inlined_at\s+(\d{1,18})\s+([1-9]\d{0,17})\s+(\d{1,18})(?!\d)", re.ASCII)


def place_of(module: Module, loc: Loc) -> SourcePlace:
    """The place that a `.loc` names; for what comes from a header of the toolkit, its caller's."""
    name = module.files.get(loc.file, f"file {loc.file}")
    toolkit = _TOOLKIT.search(name)
    if toolkit is not None and "/include/" in name[toolkit.end() :]:
        outer = _INLINED.search(module.source.text, loc.span.start, loc.span.end)
        if outer is not None:
            file, line, column = map(int, outer.groups())
            return SourcePlace(module.files.get(file, f"file {file}"), line, column)
    return SourcePlace(name, loc.line, loc.column)


def _located(module: Module, function: Function) -> Iterator[tuple[Statement, SourcePlace]]:
    """Each statement behind a `.loc`, with its place."""
    current: SourcePlace | None = None
    for statement in function.body.statements:
        if isinstance(statement, Loc):
            if statement.line > 0:  # 0: the compiler's own
                current = place_of(module, statement)
        elif current is not None:
            yield statement, current


# ---------------------------------------------------------------- the files


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
    located = {
        module.source.line(statement.span.start): place
        for function in module.functions
        for statement, place in _located(module, function)
    }
    paths = sorted({place.file for place in located.values()})
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
    origins = {ptx: (number[place.file], place.line) for ptx, place in located.items()}
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
