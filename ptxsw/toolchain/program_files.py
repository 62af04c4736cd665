"""Files that are handed to a program: in memory where the system has such files, so that nothing is
left behind however this process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class ProgramFile(Protocol):
    """A file by the name that a program started with `descriptors` open has for it."""

    @property
    def path(self) -> str: ...

    @property
    def descriptors(self) -> tuple[int, ...]: ...

    def read(self) -> bytes:
        """What is in it now."""


@contextmanager
def program_file(content: bytes, name: str) -> Iterator[ProgramFile]:
    """A file for as long as the context lasts; `name` is its last part where it has one. Raises
    OSError."""
    if hasattr(os, "memfd_create"):
        yield from _in_memory(content)
    else:
        yield from _in_directory(content, name)


def _in_memory(content: bytes) -> Iterator[ProgramFile]:
    from ptxsw.toolchain.process import PrivateFile  # not for Windows

    file = PrivateFile(content)
    try:
        yield file
    finally:
        os.close(file.descriptor)


class _FileOfDirectory:
    descriptors: tuple[int, ...] = ()

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> bytes:
        with open(self.path, "rb") as file:
            return file.read()


def _in_directory(content: bytes, name: str) -> Iterator[ProgramFile]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        file = _FileOfDirectory(os.path.join(directory, name))
        with open(file.path, "wb") as written:
            written.write(content)
        yield file
