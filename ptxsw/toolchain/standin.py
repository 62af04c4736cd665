"""Putting the stand-in where build tools look for ptxas: a shadow toolkit, variables."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ptxsw.toolchain import compiler_caches, find
from ptxsw.toolchain.cache import key
from ptxsw.toolchain.gcc import NAME, VARIABLE, real_nvptx_as
from ptxsw.toolchain.script import write_script

MARKER = ".ptxsw-toolkit"  # in the top directory of every shadow toolkit: the real one's path


class ToolkitError(Exception):
    """A shadow toolkit that cannot be made; the message says why."""


def data_directory(environ: Mapping[str, str]) -> Path:
    """Where the script and shadow toolkits are kept."""
    base = environ.get("XDG_DATA_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or tempfile.gettempdir(), ".local", "share")
    return Path(base) / "ptxsw"


def settings_directory(environ: Mapping[str, str]) -> Path:
    """Where files are kept that tell compiler caches of the settings."""
    return data_directory(environ) / "settings"


def script(environ: Mapping[str, str]) -> Path:
    """The stand-in as a program called ptxas, written where it is not there yet."""
    return write_script(data_directory(environ) / "bin" / "ptxas")


# ---------------------------------------------------------------- shadow toolkits


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


def find_toolkit(environ: Mapping[str, str]) -> Path | None:
    """The CUDA toolkit that a build would use: named by the environment, or nvcc's own."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        toolkit = _unshadowed(Path(environ.get(variable) or "/nonexistent"))
        if toolkit is not None:
            return toolkit
    nvcc = shutil.which("nvcc", path=environ.get("PATH"))
    if nvcc is not None:
        toolkit = _toolkit_of(nvcc)
        if toolkit is not None:
            return toolkit
    return _unshadowed(Path("/usr/local/cuda"))


def _toolkit_of(nvcc: str) -> Path | None:
    """What nvcc says of itself: it may be a script that starts another one."""
    try:
        command = [nvcc, "--dryrun", "-c", "none.cu"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=20).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    here = re.search(r"^#\$ _HERE_=(.+)$", said, re.MULTILINE)
    return _unshadowed(Path(here[1]).parent) if here else None


def _unshadowed(cuda: Path) -> Path | None:
    marker = cuda / MARKER
    if marker.exists():
        cuda = Path(marker.read_text().strip())
    return cuda if (cuda / "bin" / "ptxas").exists() else None


def shadow(environ: Mapping[str, str]) -> Path | None:
    """A shadow of the toolkit that a build would use, made where it is not there yet; None
    where there is no toolkit. Raises ToolkitError or OSError."""
    cuda = find_toolkit(environ)
    if cuda is None:
        return None
    name = key(os.path.abspath(cuda).encode())[:12]
    return make_toolkit(cuda, data_directory(environ) / "toolkits" / name)


# ---------------------------------------------------------------- environments


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which any build meets the stand-in, and compiler caches know of it.
    Raises ToolkitError or OSError."""
    stand_in = script(environ)
    cuda = shadow(environ)
    first = cuda / "bin" if cuda is not None else stand_in.parent
    changed = {
        "NVCC_APPEND_FLAGS": _appended(environ, stand_in),
        "PATH": f"{first}{os.pathsep}{environ.get('PATH', os.defpath)}",
        "TRITON_PTXAS_PATH": str(stand_in),
        "TRITON_PTXAS_BLACKWELL_PATH": str(stand_in),
        **compiler_caches.variables(environ, settings_directory(environ)),
    }
    if cuda is not None:
        changed |= dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "NVHPC_CUDA_HOME"), str(cuda))
    return {**environ, **changed}


def _appended(environ: Mapping[str, str], stand_in: Path) -> str:
    flag = f"--ptxas-prefix={stand_in}"
    before = environ.get("NVCC_APPEND_FLAGS", "")
    return before if flag in before else f"{before} {flag}".strip()


def advice(tool: str, environ: Mapping[str, str]) -> str:
    """Lines for a shell that lead a tool to the stand-in, each with a sentence as a comment.

    Raises ValueError for a tool nobody knows, ToolkitError where a toolkit is needed.
    """
    stand_in = shlex.quote(str(script(environ)))
    if tool in ("ccache", "sccache"):
        return _caches_advice(environ)
    if tool == "nvcc":
        flags = shlex.quote(_appended(environ, script(environ)))
        sentence = "# nvcc starts the stand-in in front of its own ptxas."
        return f"{sentence}\nexport NVCC_APPEND_FLAGS={flags}\n{_caches_advice(environ)}"
    if tool == "triton":
        return (
            "# Triton takes the first for architectures below sm_90, the second from there on.\n"
            f"export TRITON_PTXAS_PATH={stand_in}\nexport TRITON_PTXAS_BLACKWELL_PATH={stand_in}\n"
        )
    if tool == "gcc":
        return _gcc_advice(environ)
    if tool not in _WITH_TOOLKIT:
        names = ", ".join(sorted((*_WITH_TOOLKIT, "ccache", "gcc", "nvcc", "sccache", "triton")))
        raise ValueError(f"no advice for {tool!r}; there is some for {names}")
    cuda = shadow(environ)
    if cuda is None:
        raise ToolkitError("no CUDA toolkit found: set CUDA_HOME")
    lines = _WITH_TOOLKIT[tool].format(cuda=shlex.quote(str(cuda)))
    return lines + (_caches_advice(environ) if tool in _CACHED else "")


def _caches_advice(environ: Mapping[str, str]) -> str:
    variables = compiler_caches.variables(environ, settings_directory(environ))
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return (
        "# This tells ccache and sccache the settings PTXSW_*; repeat it after changing one.\n"
        + "".join(exports)
    )


def _gcc_advice(environ: Mapping[str, str]) -> str:
    real = real_nvptx_as(environ)
    if real is None:
        raise ToolkitError(f"no {NAME} found: install GCC's nvptx offloading, or set {VARIABLE}")
    path = data_directory(environ) / "gcc" / "as"
    if shlex.quote(str(path)) != str(path):
        raise ToolkitError(f"{path}: GCC takes no such path in -B; set XDG_DATA_HOME to another")
    write_script(path, os.path.abspath(real.path), for_gcc=True)
    flag = f"-foffload-options=nvptx-none=-B{path.parent}"
    return (
        "# GCC compiles offloaded code when it links, with the `as` of this directory.\n"
        f'export LDFLAGS="${{LDFLAGS-}} {flag}"\n'
    )


_CACHED = ("clang", "cmake", "nvhpc")  # compilers in front of which a cache may be
_WITH_TOOLKIT = {
    "clang": (
        "# clang takes ptxas from the toolkit that it is given (or from --ptxas-path=).\n"
        'export CXXFLAGS="${{CXXFLAGS-}} --cuda-path="{cuda}\n'
    ),
    "nvhpc": (
        "# The NVHPC compilers take ptxas from this toolkit.\nexport NVHPC_CUDA_HOME={cuda}\n"
    ),
    "cmake": (
        "# CMake takes nvcc from the first, libraries from the second; configure again.\n"
        "export CUDACXX={cuda}/bin/nvcc\n"
        "export CUDAToolkit_ROOT={cuda}\n"
    ),
    "jax": (
        "# XLA looks for bin/ptxas in this directory.\n"
        'export XLA_FLAGS="${{XLA_FLAGS-}} --xla_gpu_cuda_data_dir="{cuda}\n'
    ),
}
