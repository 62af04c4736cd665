"""Files that are handed to a program: in memory where the system has such files, so that nothing is
left behind however this process ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


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
