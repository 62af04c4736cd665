"""The lines of `ptxsw env TOOL`: they lead one build tool to the wrapper."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from ptxsw.build import compiler_caches, sccache_dist
from ptxsw.build.environment import (
    nvcc_variables,
    project_variable,
    script,
    settings_directory,
    triton_variables,
)
from ptxsw.build.gcc import NAME, VARIABLE, real_nvptx_as
from ptxsw.build.script import script_for, write_script
from ptxsw.build.toolkit import ToolkitError, ptxas_of_nvcc, shadow


def advice(tool: str, environ: Mapping[str, str]) -> str:
    """Lines for a shell that lead a tool to the wrapper, each with a sentence as a comment.

    Raises ValueError for a tool nobody knows, ToolkitError where a toolkit is needed.
    """
    wrapper = script(environ)
    if tool in ("ccache", "sccache"):
        return _caches_advice(environ)
    if tool == "sccache-dist":
        return _servers_advice(environ, wrapper)
    if tool == "nvcc":
        sentence = "# nvcc starts the wrapper in front of its own ptxas."
        variables = nvcc_variables(environ, wrapper)
        if not variables:
            raise ToolkitError("this nvcc takes no --ptxas-prefix: use `ptxsw toolkit`")
        return f"{sentence}\n{_exports(variables)}{_caches_advice(environ)}"
    if tool == "triton":
        return _triton_advice(environ)
    if tool == "gcc":
        return _gcc_advice(environ)
    if tool not in _WITH_TOOLKIT:
        others = ("ccache", "gcc", "nvcc", "sccache", "sccache-dist", "triton")
        names = ", ".join(sorted((*_WITH_TOOLKIT, *others)))
        raise ValueError(f"no advice for {tool!r}; there is some for {names}")
    cuda = shadow(environ)
    if cuda is None:
        raise ToolkitError("no CUDA toolkit found: set CUDA_HOME")
    lines = _WITH_TOOLKIT[tool].format(cuda=shlex.quote(str(cuda)))
    return lines + (_caches_advice(environ) if tool in _CACHED else "")


def _caches_advice(environ: Mapping[str, str]) -> str:
    variables = compiler_caches.variables(environ, settings_directory(environ))
    variables |= project_variable(environ)
    sentence = "# This tells ccache and sccache the settings PTXSW_*; repeat it after changing one."
    return f"{sentence}\n{_exports(variables)}"


def _servers_advice(environ: Mapping[str, str], wrapper: Path) -> str:
    """Lines of sccache's own configuration; what they name is packed."""
    chosen = environ.get("PTXSW_REAL_PTXAS")
    paths = [os.path.abspath(chosen)] if chosen else ptxas_of_nvcc(environ)
    if not paths:
        raise ToolkitError("no CUDA toolkit found: set CUDA_HOME")
    directory = settings_directory(environ)
    try:
        archive = sccache_dist.pack(environ, paths, directory)
    except (sccache_dist.PackingError, OSError) as error:
        why = f"{directory}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise ToolkitError(f"nothing is packed for sccache-dist: {why}") from error
    quoted = {"wrapper": json.dumps(str(wrapper)), "archive": json.dumps(str(archive))}
    return _SERVERS.format(**quoted, place=sccache_dist.PLACE)


def _exports(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _triton_advice(environ: Mapping[str, str]) -> str:
    variables = triton_variables(environ)
    if not variables:
        raise ToolkitError(
            "no Triton found in the Python on PATH: activate its environment, or set "
            "TRITON_PTXAS_PATH to the ptxas that it uses"
        )
    sentence = "# Triton takes the first for targets below sm_100, the second from there on."
    return f"{sentence}\n{_exports(variables)}"


def _gcc_advice(environ: Mapping[str, str]) -> str:
    real = real_nvptx_as(environ)
    if real is None:
        raise ToolkitError(f"no {NAME} found: install GCC's nvptx offloading, or set {VARIABLE}")
    assembler = os.path.abspath(real.path)
    path = script_for(environ, "gcc", "as", assembler)
    if shlex.quote(str(path)) != str(path):
        raise ToolkitError(f"{path}: GCC takes no such path in -B; set XDG_DATA_HOME to another")
    write_script(path, assembler, for_gcc=True)
    flag = f"-foffload-options=nvptx-none=-B{path.parent}"
    return (
        "# GCC compiles offloaded code when it links, with the `as` of this directory.\n"
        f'export LDFLAGS="${{LDFLAGS-}} {flag}"\n'
    )


_SERVERS = """\
# The configuration of sccache needs these lines once: servers of sccache-dist then run ptxsw, too.
# After a change of ptxsw, of the CUDA toolkit, or of what `ptxsw tune` has measured, make the
# archive again by the same command; then run `sccache --stop-server`.
[[dist.toolchains]]
type = "path_override"
compiler_executable = {wrapper}
archive = {archive}
archive_compiler_executable = "{place}/ptxas"
"""
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
