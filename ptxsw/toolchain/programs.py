"""Finding the programs of a CUDA toolkit: beside a ptxas, on PATH, in a Python package."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ptxsw.toolchain import find


class Missing(Exception):
    """A program is not there; the message says what to install."""


def places(name: str, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """The paths of a program, best first: where a ptxas can be found, on PATH, in packages."""
    environ = os.environ if environ is None else environ
    beside = [os.path.dirname(os.path.realpath(c.path)) for c in find.candidates(environ)]
    on_path = shutil.which(name, path=environ.get("PATH", ""))
    if on_path is not None:
        beside.append(os.path.dirname(on_path))
    packages = [Path(root, "nvidia") for root in sys.path if root]
    beside += [str(path.parent) for root in packages for path in root.glob(f"*/bin/{name}")]
    for directory in dict.fromkeys(beside):
        path = os.path.join(directory, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            yield path


def locate(name: str, advice: str) -> str:
    """The path of a program. Raises Missing, with the advice."""
    path = next(places(name), None)
    if path is None:
        raise Missing(f"no {name} found; {advice}")
    return path
