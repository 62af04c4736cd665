"""The environment of a build that meets the wrapper: variables that lead to it, and what is wrong
with those that steer it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from ptxsw.build import compiler_caches
from ptxsw.build.gcc import NAME, VARIABLE, real_nvptx_as
from ptxsw.build.toolkit import ToolkitError, data_directory, shadow, write_script
from ptxsw.toolchain import find
from ptxsw.toolchain.settings import VARIABLES, Settings, SettingsError


def settings_directory(environ: Mapping[str, str]) -> Path:
    """Where files are kept that tell compiler caches of the settings."""
    return data_directory(environ) / "settings"


def script(environ: Mapping[str, str]) -> Path:
    """The stand-in as a program called ptxas, written where it is not there yet."""
    return write_script(data_directory(environ) / "bin" / "ptxas")


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which any build meets the stand-in, and compiler caches know of it. Raises
    ToolkitError or OSError."""
    stand_in = script(environ)
    told = compiler_caches.variables(environ, settings_directory(environ))
    cuda = shadow(environ)
    first = cuda / "bin" if cuda is not None else stand_in.parent
    changed = {
        "NVCC_APPEND_FLAGS": _appended(environ, stand_in),
        "PATH": f"{first}{os.pathsep}{environ.get('PATH', os.defpath)}",
        "TRITON_PTXAS_PATH": str(stand_in),
        "TRITON_PTXAS_BLACKWELL_PATH": str(stand_in),
        **told,
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


_PREFIX = "PTXSW_"


def setting_problems(environ: Mapping[str, str]) -> Iterator[str]:
    """Variables of ours that nobody reads, and values that make no sense, a sentence for each."""
    names = {name.removeprefix(_PREFIX): name for name in VARIABLES}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in (*VARIABLES, find.TRIED):
            from difflib import get_close_matches

            near = get_close_matches(name.removeprefix(_PREFIX), names, 1)
            meant = f"; did you mean {names[near[0]]}?" if near else ""
            yield f"{name} is not a variable of ptxsw{meant}"
    try:
        Settings(environ)
    except SettingsError as error:
        yield from error.problems
