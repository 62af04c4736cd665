"""The source files that the `.loc` directives of a PTX text name, for a reader of the report.

A report may travel, so no name here is an absolute path: a file is called by as few of the last
parts of its path as tell it from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from ptxsw.ir import Loc, Module
from ptxsw.report.describe import SourcePlace, place_of

_MOST_CHARACTERS = 600_000  # of all sources together
_SUFFIXES = frozenset(
    {".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".f90", ".h", ".hpp", ".hxx", ".inl", ".py"}
)
"""A `.file` may name anything. Only what looks like source is copied into a report."""


class SourceFile(Struct, frozen=True):
    """A source file. `lines` is empty where it cannot be read."""

    name: str
    lines: tuple[str, ...]


class Sources(Struct, frozen=True):
    """`origins` gives for a PTX line the number of its file in `files`, and the line there."""

    files: tuple[SourceFile, ...]
    origins: Mapping[int, tuple[int, int]]


def read_sources(module: Module, directory: Path | None) -> Sources:
    """The sources of a module. Relative names are looked for in `directory`; None reads nothing."""
    located = dict(_located(module))
    paths = sorted({path for path, _ in located.values()})
    names = short_names(paths)
    room = _MOST_CHARACTERS
    files = []
    for path in paths:
        text = "" if directory is None else _text(path, directory)
        if len(text) > room:
            text = ""
        room -= len(text)
        files.append(SourceFile(names[path], tuple(text.splitlines())))
    number = {path: at for at, path in enumerate(paths)}
    origins = {ptx: (number[path], line) for ptx, (path, line) in located.items()}
    return Sources(tuple(files), origins)


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """For each path as few of its last parts as tell it from the others."""
    parts = {path: PurePosixPath(path.replace("\\", "/")).parts or (path,) for path in paths}
    names: dict[str, str] = {}
    for path, own in parts.items():
        others = [p for other, p in parts.items() if other != path]
        count = 1
        while count < len(own) - 1 and any(p[-count:] == own[-count:] for p in others):
            count += 1
        names[path] = "/".join(own[-count:])
    return names


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


def _text(path: str, directory: Path) -> str:
    """The text of a file, or nothing."""
    if PurePosixPath(path).suffix.lower() not in _SUFFIXES:
        return ""
    for place in (directory / path, directory / PurePosixPath(path).name):
        try:
            return place.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            continue
    return ""
