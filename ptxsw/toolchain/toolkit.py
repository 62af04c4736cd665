"""Shadow toolkits: CUDA toolkits whose ptxas is the stand-in; all else links to the real one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ptxsw.toolchain import find
from ptxsw.toolchain.cache import key
from ptxsw.toolchain.script import data_directory, write_script
from ptxsw.toolchain.toolkit_search import MARKER, ToolkitSearch


class ToolkitError(Exception):
    """A shadow toolkit that cannot be made; the message says why."""


def make_toolkit(cuda: Path, destination: Path) -> Path:
    """Makes `destination` a toolkit that is `cuda` but for `bin/ptxas`; does so again where it
    is one already. Raises ToolkitError."""
    cuda, destination = Path(os.path.abspath(cuda)), Path(os.path.abspath(destination))
    real = cuda / "bin" / "ptxas"
    if (cuda / MARKER).exists():
        raise ToolkitError(f"{cuda} is a shadow toolkit; name the real one")
    if not real.exists():
        raise ToolkitError(f"{cuda} is not a CUDA toolkit: there is no bin/ptxas")
    if find.is_stand_in(str(real)):
        raise ToolkitError(f"{real} is a stand-in itself")
    if os.path.realpath(destination) == os.path.realpath(cuda):
        raise ToolkitError("the shadow cannot be the toolkit itself")
    if destination.exists() and not (destination / MARKER).exists():
        if not destination.is_dir() or any(destination.iterdir()):
            raise ToolkitError(f"{destination} exists and is not a shadow toolkit")
    elif (destination / MARKER).exists() and (destination / "bin").is_symlink():
        raise ToolkitError(f"{destination / 'bin'} is a link, which ptxsw did not make")
    (destination / "bin").mkdir(parents=True, exist_ok=True)
    (destination / MARKER).write_text(f"{cuda}\n")
    _link_all(cuda, destination, {"bin", MARKER})
    _link_all(cuda / "bin", destination / "bin", {"ptxas"})
    write_script(destination / "bin" / "ptxas", str(real))
    return destination


def _link_all(source: Path, destination: Path, but: set[str]) -> None:
    """Links everything in `source`, and removes links to what is gone."""
    names = set(os.listdir(source)) - but
    for entry in destination.iterdir():
        if entry.is_symlink() and entry.name not in names | but:
            entry.unlink()
    for name in sorted(names):
        link, target = destination / name, source / name
        if link.is_symlink() and os.readlink(link) == str(target):
            continue
        private = destination / f".{name}.{os.getpid()}"
        private.symlink_to(target)
        private.replace(link)


def shadow(search: ToolkitSearch, environ: Mapping[str, str]) -> Path | None:
    """A shadow of the toolkit that a build would use, made where it is not there yet; None
    where there is no toolkit. Raises ToolkitError or OSError."""
    cuda = search.found()
    if cuda is None:
        return None
    name = key(os.path.abspath(cuda).encode())[:12]
    return make_toolkit(Path(cuda), data_directory(environ) / "toolkits" / name)
