"""The stand-in as a program: a script that a build finds in place of ptxas or GCC's assembler."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from ptxsw.build import gcc

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from ptxsw.build.shim import {0}; {0}()"
)
_ROOT = str(Path(__file__).parents[2])

_HEAD = """\
#!/bin/sh
# {name} with ptxsw in front. Written by ptxsw; it may be deleted and made again.
"""
_DEFAULT = '[ -n "${variable}" ] || export {variable}={real}\n'
_START = 'exec {python} -I -S -c {program} {root} "$@"\n'


def data_directory(environ: Mapping[str, str]) -> Path:
    """Where the script and shadow toolkits are kept."""
    base = environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or _temporary(), ".local", "share")
    return Path(base) / "ptxsw"


def _temporary() -> str:
    import tempfile  # imports more than all else here, and is seldom needed

    return tempfile.gettempdir()


def write_script(path: Path, real: str | None = None, *, for_gcc: bool = False) -> Path:
    """Writes the stand-in for ptxas, or GCC's assembler, as a script. `real` is the program to
    start unless `PTXSW_REAL_PTXAS` (`PTXSW_REAL_NVPTX_AS`) is set.

    The script is complete or not there, also for builds that run meanwhile. Raises OSError.
    """
    text = _text(real, for_gcc)
    if not path.is_symlink() and path.exists() and path.read_text() == text:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{os.getpid()}")
    private.write_text(text)
    private.chmod(0o755)
    private.replace(path)
    return path


def _text(real: str | None, for_gcc: bool) -> str:
    name, variable, entry = "ptxas", "PTXSW_REAL_PTXAS", "main"
    if for_gcc:
        name, variable, entry = gcc.NAME, gcc.VARIABLE, "nvptx_as"
    text = _HEAD.format(name=name)
    if real is not None:
        text += _DEFAULT.format(variable=variable, real=shlex.quote(real))
    return text + _START.format(
        python=shlex.quote(sys.executable),
        program=shlex.quote(_PROGRAM.format(entry)),
        root=shlex.quote(_ROOT),
    )
