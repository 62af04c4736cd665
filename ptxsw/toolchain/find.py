"""Finding the real ptxas, and never ourselves."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

# Set for the programs that the wrapper starts: the ptxas it took for the real one. Meeting it
# again means that this one led back to a wrapper.
TRIED = "PTXSW_TRIED"

_MARK = b"ptxsw"  # occurs near the top of every script that leads to the wrapper
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT", "NVHPC_CUDA_HOME")
_DEFAULT_TOOLKIT = "/usr/local/cuda"


class PossiblePtxas:
    """A place where a ptxas may be, and why it was looked at."""

    def __init__(self, path: str, origin: str) -> None:
        self.path: Final = path
        self.origin: Final = origin

    @property
    def problem(self) -> str | None:
        """Why it cannot be used, or None."""
        if not os.path.exists(self.path):
            return "does not exist"
        if os.path.isdir(self.path) or not os.access(self.path, os.X_OK):
            return "is not executable"
        if is_wrapper(self.path):
            return "is the wrapper itself"
        return None


def is_wrapper(path: str) -> bool:
    """Is this a script that starts ptxsw? (The real ptxas is a binary of many megabytes.)"""
    try:
        with open(path, "rb") as file:
            head = file.read(2048)
    except OSError:
        return False
    return head.startswith(b"#!") and _MARK in head


def split_prefix(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name of the real ptxas, and its arguments, where nvcc calls us as its
    `--ptxas-prefix`: `wrapper ptxas ARGUMENTS`. Else None and all arguments."""
    if arguments and os.path.basename(arguments[0]) == "ptxas":
        return arguments[0], list(arguments[1:])
    return None, list(arguments)


def candidates(environ: Mapping[str, str], prefix: str | None = None) -> Iterator[PossiblePtxas]:
    """All places to look at, best first. An answer in `PTXSW_REAL_PTXAS` is the only one."""
    chosen = environ.get("PTXSW_REAL_PTXAS")
    if chosen:
        yield PossiblePtxas(chosen, "PTXSW_REAL_PTXAS")
        return
    if prefix is not None and os.sep in prefix:
        yield PossiblePtxas(prefix, "the command that nvcc gave")
    for directory in environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(directory or ".", "ptxas")
        if os.path.exists(path):
            yield PossiblePtxas(path, "PATH")
    for variable in _TOOLKITS:
        if environ.get(variable):
            yield PossiblePtxas(os.path.join(environ[variable], "bin", "ptxas"), variable)
    for directory in _nvhpc(environ):
        yield PossiblePtxas(os.path.join(directory, "bin", "ptxas"), "NVHPC")
    yield PossiblePtxas(os.path.join(_DEFAULT_TOOLKIT, "bin", "ptxas"), _DEFAULT_TOOLKIT)
    for path in _wheels():
        yield PossiblePtxas(path, "the nvidia-cuda-nvcc package")


def real_ptxas(environ: Mapping[str, str], prefix: str | None = None) -> PossiblePtxas | None:
    """The ptxas to run, or None."""
    tried = {os.path.realpath(path) for path in environ.get(TRIED, "").split(os.pathsep) if path}
    for candidate in candidates(environ, prefix):
        if candidate.problem is None and os.path.realpath(candidate.path) not in tried:
            return candidate
    return None


def on_path(name: str, environ: Mapping[str, str]) -> str | None:
    """The first program of a name on `PATH`. (`shutil.which`, without what `shutil` imports.)"""
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory or os.curdir, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def remember(environ: Mapping[str, str], path: str) -> dict[str, str]:
    """The environment in which to start `path` as the real ptxas."""
    tried = environ.get(TRIED, "")
    return {**environ, TRIED: f"{tried}{os.pathsep}{path}" if tried else path}


def _nvhpc(environ: Mapping[str, str]) -> Iterator[str]:
    """CUDA directories of an NVHPC installation, the newest first."""
    root = environ.get("NVHPC")
    if not root:
        return
    for pattern in ((root,), (root, "Linux_x86_64"), (root, "Linux_aarch64")):
        base = os.path.join(*pattern)
        for version in sorted(listed(base), key=_version_key, reverse=True):
            cuda = os.path.join(base, version, "cuda")
            yield cuda
            for inner in sorted(listed(cuda), key=_version_key, reverse=True):
                yield os.path.join(cuda, inner)


def _version_key(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".") if part.isdigit())


def _wheels() -> Iterator[str]:
    """ptxas in the Python packages of the interpreter that runs us. They are found by hand,
    since `site` may not have run yet."""
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    roots = [*sys.path, os.path.join(sys.prefix, "lib", library, "site-packages")]
    venv = os.path.dirname(os.path.dirname(sys.executable))
    roots.append(os.path.join(venv, "lib", library, "site-packages"))
    for root in dict.fromkeys(roots):
        nvidia = os.path.join(root, "nvidia")
        names = listed(nvidia)
        for name in sorted(names, reverse=True):
            if (name.startswith("cu") and name[2:].isdigit()) or name == "cuda_nvcc":
                path = os.path.join(nvidia, name, "bin", "ptxas")
                if os.path.exists(path):
                    yield path


def listed(directory: str) -> list[str]:
    """The names in a directory; none where it cannot be read."""
    try:
        return os.listdir(directory)
    except OSError:
        return []
