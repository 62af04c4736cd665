"""Programs of a CUDA toolkit: finding them beside a ptxas, on PATH, or in a Python package, and
the files that are handed to them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ptxsw.toolchain import find


class Missing(Exception):
    """A program is not there; the message says what to install."""


def places(name: str, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """The paths of a program, best first: where a ptxas can be found, on PATH, in packages."""
    environ = os.environ if environ is None else environ
    seen = set[str]()
    for directory in _directories(name, environ):
        path = os.path.join(directory, name)
        if directory not in seen and os.path.isfile(path) and os.access(path, os.X_OK):
            yield path
        seen.add(directory)


def _directories(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Where to look, one after the other: most programs lie beside the first ptxas, and looking
    through packages takes time."""
    for candidate in find.candidates(environ):
        yield os.path.dirname(os.path.realpath(candidate.path))
    on_path = find.on_path(name, environ)
    if on_path is not None:
        yield os.path.dirname(on_path)
    for root in filter(None, sys.path):
        for path in Path(root, "nvidia").glob(f"*/bin/{name}"):
            yield str(path.parent)


def locate(name: str, advice: str) -> str:
    """The path of a program. Raises Missing, with the advice."""
    path = next(places(name), None)
    if path is None:
        raise Missing(f"no {name} found; {advice}")
    return path


class ProgramFile(NamedTuple):
    """A file: its path for a program that is started with these descriptors open, and a function
    that reads it, which gives nothing where the program has removed it."""

    path: str
    descriptors: tuple[int, ...]
    read: Callable[[], bytes]


@contextmanager
def program_file(content: bytes, name: str) -> Iterator[ProgramFile]:
    """A file for as long as the context lasts, with this `name` where it is not in memory. Raises
    OSError."""
    if hasattr(os, "memfd_create"):
        from ptxsw.toolchain.process import PrivateFile  # not for Windows

        file = PrivateFile(content)
        try:
            yield ProgramFile(file.path, (file.descriptor,), file.read)
        finally:
            os.close(file.descriptor)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        path = Path(directory, name)
        path.write_bytes(content)
        yield ProgramFile(str(path), (), lambda: path.read_bytes() if path.exists() else b"")
