"""Shadow toolkits: CUDA toolkits whose ptxas is the wrapper; all else links to the real one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ptxsw.build.script import usable_directory, write_script
from ptxsw.toolchain import find
from ptxsw.toolchain.cache import key

MARKER = ".ptxsw-toolkit"
"""In the top directory of every shadow toolkit: the real one's path."""

_PATIENCE = 20.0  # seconds for nvcc
_HERE = "#$ _HERE_="


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
    if find.is_wrapper(str(real)):
        raise ToolkitError(f"{real} is itself a wrapper of ptxsw")
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


def used_toolkit(environ: Mapping[str, str]) -> str | None:
    """The directory of the CUDA toolkit that a build would use: named by the environment, or
    nvcc's own. None where there is none."""
    return next(filter(None, _named(environ)), None) or _of_nvcc(environ) or _default()


def ptxas_of_nvcc(environ: Mapping[str, str]) -> list[str]:
    """The paths by which an nvcc may call the ptxas of its toolkit, which it names as it was called
    itself: first that of the nvcc on `PATH`. Empty where there is no toolkit."""
    toolkits = filter(None, [_of_nvcc(environ), *_named(environ), _default()])
    paths = [os.path.join(os.path.abspath(toolkit), "bin", "ptxas") for toolkit in toolkits]
    real = os.path.realpath(paths[0]) if paths else None
    same = [path for path in paths if os.path.realpath(path) == real]
    return list(dict.fromkeys([*same, *([real] if real else [])]))


def _named(environ: Mapping[str, str]) -> list[str | None]:
    return [_unshadowed(environ.get(variable)) for variable in ("CUDA_HOME", "CUDA_PATH")]


def _default() -> str | None:
    return _unshadowed("/usr/local/cuda")


def _of_nvcc(environ: Mapping[str, str]) -> str | None:
    """What nvcc says of itself: it may be a script that starts another one."""
    nvcc = find.on_path("nvcc", environ)
    if nvcc is None:
        return None
    try:
        done = subprocess.run(
            [nvcc, "--dryrun", "-c", "none.cu"],
            env=environ, capture_output=True, text=True, errors="replace", timeout=_PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in done.stderr.splitlines():
        if line.startswith(_HERE):
            return _unshadowed(os.path.dirname(line[len(_HERE) :]))
    return None


def _unshadowed(path: str | None) -> str | None:
    """The toolkit in a directory, or that of which it is a shadow."""
    if not path:
        return None
    marker = os.path.join(path, MARKER)
    if os.path.exists(marker):
        with open(marker, encoding="utf-8") as file:
            path = file.read().strip()
    return path if os.path.exists(os.path.join(path, "bin", "ptxas")) else None


def shadow(environ: Mapping[str, str]) -> Path | None:
    """A shadow of the toolkit that a build would use, made where it is not there yet; None
    where there is no toolkit. Raises ToolkitError or OSError."""
    cuda = used_toolkit(environ)
    if cuda is None:
        return None
    name = key(os.path.abspath(cuda).encode())[:12]
    return make_toolkit(Path(cuda), usable_directory(environ) / "toolkits" / name)
