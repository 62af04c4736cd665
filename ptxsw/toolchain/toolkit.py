"""Shadow toolkits: CUDA toolkits whose ptxas is the stand-in; all else links to the real one."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ptxsw.toolchain import find
from ptxsw.toolchain.cache import key
from ptxsw.toolchain.process import Running
from ptxsw.toolchain.script import data_directory, write_script

MARKER: Final = ".ptxsw-toolkit"
"""In the top directory of every shadow toolkit: the real one's path."""

_PATIENCE: Final = 20.0  # seconds for nvcc


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


class ToolkitSearch:
    """Looks for the CUDA toolkit that a build would use: named by the environment, or nvcc's own,
    which is asked meanwhile."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        named = (environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH"))
        self._named = next((path for path in map(_unshadowed, named) if path is not None), None)
        self._nvcc = None
        nvcc = find.on_path("nvcc", environ) if self._named is None else None
        if nvcc is not None:
            with contextlib.suppress(OSError):
                self._nvcc = Running(nvcc, [nvcc, "--dryrun", "-c", "none.cu"], environ)

    def found(self) -> Path | None:
        """The toolkit. To be asked once."""
        if self._named is not None:
            return self._named
        return self._of_nvcc() or _unshadowed("/usr/local/cuda")

    def _of_nvcc(self) -> Path | None:
        """What nvcc says of itself: it may be a script that starts another one."""
        if self._nvcc is None:
            return None
        try:
            done = self._nvcc.finish_within(_PATIENCE)
        except OSError:
            return None
        said = done.stderr.decode(errors="replace") if done is not None else ""
        here = re.search(r"^#\$ _HERE_=(.+)$", said, re.MULTILINE)
        return _unshadowed(os.path.dirname(here[1])) if here else None


def _unshadowed(path: str | None) -> Path | None:
    """The toolkit in a directory, or that of which it is a shadow."""
    if not path:
        return None
    cuda = Path(path)
    marker = cuda / MARKER
    if marker.exists():
        cuda = Path(marker.read_text().strip())
    return cuda if (cuda / "bin" / "ptxas").exists() else None


def shadow(search: ToolkitSearch, environ: Mapping[str, str]) -> Path | None:
    """A shadow of the toolkit that a build would use, made where it is not there yet; None
    where there is no toolkit. Raises ToolkitError or OSError."""
    cuda = search.found()
    if cuda is None:
        return None
    name = key(os.path.abspath(cuda).encode())[:12]
    return make_toolkit(cuda, data_directory(environ) / "toolkits" / name)
