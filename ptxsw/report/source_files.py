"""The one place that opens source files which a PTX text names.

`.file` is data: whoever wrote the PTX chose the name, and what is read here is printed, embedded in
pages and kept in CI logs. So only what looks like source is read, at most 4 MB of it, and only
below directories that the user named: that of the PTX, the working directory, `--source-root`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

MOST_BYTES = 4 << 20
_LONGEST_NAME = 4096  # of a path, on Linux

_SUFFIXES = frozenset({
    ".c", ".cc", ".cl", ".cpp", ".cu", ".cuf", ".cuh", ".cxx", ".f", ".f03", ".f08", ".f90", ".f95",
    ".for", ".h", ".hh", ".hpp", ".hxx", ".i", ".ii", ".inc", ".inl", ".ipp", ".jl", ".mojo",
    ".ptx", ".py", ".rs", ".tcc", ".tpp",
})  # fmt: skip


class SourceFiles:
    """The sources of one PTX text in `directory` (None: it came from standard input). Their names
    count from there, from the working directory and from `roots`."""

    def __init__(self, directory: str | None, roots: Sequence[str] = ()) -> None:
        here = _working_directory()
        near = [path for path in (directory or here, here) if path is not None]
        self._near, self._roots = near, tuple(roots)
        # Below the root directory lies the whole machine: it counts only where it was asked for.
        below = [path for path in map(os.path.realpath, near) if path != os.sep]
        self._allowed = (*below, *map(os.path.realpath, roots))
        self._paths: dict[str, str | None] = {}
        self._real: dict[str, str] = {}
        self._lines: dict[str, tuple[str, ...]] = {}
        self._refused: dict[str, str] = {}

    def path(self, name: str) -> str | None:
        """Where the file lies that `.file` calls so; None where none is to be read."""
        if name not in self._paths:
            self._paths[name] = self._found(name)
        return self._paths[name]

    def lines(self, name: str) -> tuple[str, ...]:
        """Its lines, as compilers count them; none where it is not to be read."""
        if self.path(name) is None:
            return ()
        real = self._real[name]
        if real not in self._lines:  # one file may have any number of names
            text = _read(real).decode("utf-8", "replace")
            self._lines[real] = tuple(line.removesuffix("\r") for line in text.split("\n"))
        return self._lines[real]

    def notes(self) -> tuple[str, ...]:
        """Which files are there and are not shown, and why."""
        return tuple(f"{name} is not shown: {reason}" for name, reason in self._refused.items())

    def _found(self, name: str) -> str | None:
        reasons = []
        for path in self._candidates(name):
            try:
                real = os.path.realpath(path)
                reason = self._objection(real)
            except (OSError, ValueError):  # it is not there, or no name at all
                continue
            if reason is None:
                self._real[name] = real
                return path
            reasons.append(reason)
        if reasons:
            self._refused[name] = reasons[0]
        return None

    def _candidates(self, name: str) -> Iterator[str]:
        """As it is, or seen from each place. Then by its last part beside the PTX and by its last
        parts below the roots: it may have been compiled on another machine."""
        if not _looks_like_source(name) or len(name) > _LONGEST_NAME:
            return
        yield from (os.path.join(place, name) for place in (*self._near, *self._roots))
        parts = [part for part in name.replace("\\", "/").split("/") if part]
        for place in self._near[:1]:
            yield os.path.join(place, parts[-1])
        for start in range(1, len(parts)):
            yield from (os.path.join(root, *parts[start:]) for root in self._roots)

    def _objection(self, real: str) -> str | None:
        """Why a file is not read. Raises OSError where there is none, ValueError for no name."""
        status = os.stat(real)
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if not any(_is_below(real, root) for root in self._allowed):
            return "it lies below neither the PTX, nor the working directory, nor a --source-root"
        if not _looks_like_source(real):
            return f"it leads to {real}, whose name is not that of a source"
        if status.st_size > MOST_BYTES:
            return f"it is larger than {MOST_BYTES >> 20} MB"
        return None


def _looks_like_source(name: str) -> bool:
    return PurePosixPath(name.replace("\\", "/")).suffix.lower() in _SUFFIXES


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(directory.rstrip(os.sep) + os.sep)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _read(path: str) -> bytes:
    """At most `MOST_BYTES` of what is still the regular file that was looked at; nothing where it
    is not. Never waits, as at a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        with open(descriptor, "rb") as file:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(MOST_BYTES) if regular else b""
    except OSError:
        return b""
