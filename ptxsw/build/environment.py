"""The environment of a build that meets the wrapper, and what is wrong with the variables that
steer it.

Nothing changes but how ptxas is found. nvcc and clang are given the wrapper by the variables that
hold their options, so no path of ours reaches their objects, and nothing stays in a build directory
that is configured under `ptxsw exec`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from ptxsw.build import compiler_caches, gcc
from ptxsw.build.script import (
    EXPANDED,
    script_for,
    usable_directory,
    write_program,
    write_script,
)
from ptxsw.build.toolkit import shadow
from ptxsw.ptx.patterns import pattern
from ptxsw.toolchain import config, find
from ptxsw.toolchain.process import without_our_locale
from ptxsw.toolchain.settings import OFF, VARIABLES, Settings, SettingsError

NVCC_FLAGS = "NVCC_APPEND_FLAGS"
CLANG_FLAGS = "CCC_OVERRIDE_OPTIONS"
TRITON = {"TRITON_PTXAS_PATH": "ptxas", "TRITON_PTXAS_BLACKWELL_PATH": "ptxas-blackwell"}
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH")
_PATIENCE = 20.0  # seconds for nvcc
_PATHS = ("PTXSW_REPORT", "PTXSW_LOG", "PTXSW_CACHE", "PTXSW_TUNED")
_PROGRAMS = ("PTXSW_REAL_PTXAS", "PTXSW_REAL_NVPTX_AS")
_PREFIX = "PTXSW_"
_CLANG = pattern(r"clang-(?P<version>\d+)")  # what `clang` is a link to
_OF_GCC = pattern(r".*-accel-nvptx-none-gcc(-\d+)?")
_LEAST_CLANG = 13  # the first that can be told not to warn of options that it does not need
_RELATED = {"amdclang", "dpcpp", "hipcc", "icpx", "icx"}  # obey the same variable, by other numbers


def settings_directory(environ: Mapping[str, str]) -> Path:
    """Where files are kept that tell compiler caches of the settings. Raises OSError."""
    return usable_directory(environ) / "settings"


def script(environ: Mapping[str, str]) -> Path:
    """The wrapper as a program called ptxas, written where it is not there yet. Raises OSError."""
    return write_script(usable_directory(environ) / "bin" / "ptxas")


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which any build meets the wrapper, and compiler caches know of it. Raises
    OSError or ToolkitError."""
    environ = {**without_our_locale(environ), **absolute_paths(environ)}
    wrapper = script(environ)
    write_gcc_scripts(environ, wrapper.parent)
    changed = {
        "PATH": f"{wrapper.parent}{os.pathsep}{environ.get('PATH', os.defpath)}",
        **nvcc_variables(environ, wrapper),
        **clang_variables(environ),
        **triton_variables(environ),
        **compiler_caches.variables(environ, settings_directory(environ)),
        **project_variable(environ),
    }
    if any(find.on_path(name, environ) for name in ("nvc", "nvc++", "nvfortran")):
        cuda = shadow(environ)  # these compilers have no option for it
        changed |= {} if cuda is None else {"NVHPC_CUDA_HOME": str(cuda)}
    return {**environ, **changed}


def absolute_paths(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that name files or directories from here on: `make -C` would have each
    directory get its own."""
    given = {name: environ.get(name, "") for name in (*_PATHS, *_PROGRAMS)}
    return {
        name: os.path.abspath(path)
        for name, path in given.items()
        if path.lower() not in OFF and (name in _PATHS or os.sep in path)
    }


def project_variable(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that names the settings of the project in this directory, if the wrapper reads
    any of them."""
    path = config.of_build(environ, os.getcwd())
    try:
        is_read = path is not None and "skip" in config.read(path)
    except (OSError, ValueError):  # the wrapper says so
        is_read = True
    if path is None or not is_read:
        return {config.VARIABLE: ""} if environ.get(config.VARIABLE) else {}
    return {config.VARIABLE: path}


def nvcc_variables(environ: Mapping[str, str], wrapper: Path) -> dict[str, str]:
    """The variable that has nvcc start the wrapper in front of its own ptxas. Empty where an nvcc
    that a build may call does not know the option, which no help lists, or where nvcc's shell would
    not take the wrapper's name as it stands."""
    compilers = {find.on_path("nvcc", environ), environ.get("CUDACXX")}
    compilers |= {
        os.path.join(environ[name], "bin", "nvcc") for name in _TOOLKITS if environ.get(name)
    }
    if not EXPANDED.isdisjoint(str(wrapper)):
        return {}
    if not all(_knows_prefix(nvcc, environ) for nvcc in compilers if nvcc and os.path.exists(nvcc)):
        return {}
    flag = f"--ptxas-prefix={wrapper}"
    if shlex.quote(flag) != flag:  # nvcc hands it to a shell as it stands
        flag = f'--ptxas-prefix="{wrapper}"'
    before = environ.get(NVCC_FLAGS, "")
    return {NVCC_FLAGS: before if flag in before else f"{before} {flag}".strip()}


def _knows_prefix(nvcc: str, environ: Mapping[str, str]) -> bool:
    """Does an nvcc take `--ptxas-prefix`?"""
    import subprocess

    command = [nvcc, "--dryrun", "--ptxas-prefix=ptxas", "-c", "none.cu"]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"nknown option" not in done.stderr


def clang_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that gives every clang the wrapper, and, since clang takes the directory above
    the first ptxas of `PATH` for a toolkit, the one that it would have taken. Empty where there is
    no clang, or one that would warn of an option that it does not need."""
    names = {name for directory in _directories(environ) for name in find.listed(directory)}
    versions = [int(match["version"]) for match in map(_CLANG.fullmatch, names) if match]
    before = environ.get(CLANG_FLAGS, "")
    if not versions or min(versions) < _LEAST_CLANG or names & _RELATED or "--ptxas-path" in before:
        return {}  # the last: this is a build within a build, or the user has chosen
    toolkit = _toolkit_of_clang(environ)
    real = None if toolkit is None else os.path.join(toolkit, "bin", "ptxas")
    path = script_for(environ, "clang", "ptxas", real or "")
    wrapper = write_script(path, real, for_clang=True)
    words = ["#", "+--start-no-unused-arguments", f"+--ptxas-path={wrapper}",
             "+--end-no-unused-arguments"]  # fmt: skip
    if toolkit is not None:
        words.append(f"^--cuda-path={toolkit}")
    if any(" " in word for word in words):  # which the variable cannot hold
        return {}
    return {CLANG_FLAGS: " ".join([*words, *before.removeprefix("#").split()])}


def _toolkit_of_clang(environ: Mapping[str, str]) -> str | None:
    """The toolkit that clang finds by the first ptxas on `PATH`, if that is one."""
    ptxas = find.on_path("ptxas", environ)
    if ptxas is None:
        return None
    above, directory = os.path.split(os.path.dirname(os.path.realpath(ptxas)))
    is_toolkit = os.path.isdir(os.path.join(above, "nvvm", "libdevice"))
    return above if directory == "bin" and is_toolkit else None


def write_gcc_scripts(environ: Mapping[str, str], directory: Path) -> None:
    """Has GCC's compilers for nvptx take their assembler from us: one that is called by its name
    finds them on `PATH`, where `directory` is to be the first, and there is no variable for their
    options. Raises OSError."""
    assembler = gcc.real_nvptx_as(environ)
    compilers = {} if assembler is None else _compilers_of_gcc(environ, str(directory))
    for name in filter(_OF_GCC.fullmatch, find.listed(str(directory))):
        if name not in compilers:
            (directory / name).unlink(missing_ok=True)
    if assembler is None or not compilers:
        return
    path = script_for(environ, "gcc", "as", assembler.path)
    option = f"-B{write_script(path, assembler.path, for_gcc=True).parent}"
    for name, compiler in compilers.items():
        words = f"exec {shlex.quote(compiler)} {shlex.quote(option)}"
        write_program(directory / name, f'#!/bin/sh\n# Written by ptxsw exec.\n{words} "$@"\n')


def _compilers_of_gcc(environ: Mapping[str, str], besides: str) -> dict[str, str]:
    """The path of each of GCC's compilers for nvptx on `PATH`, but for what is in one directory."""
    compilers: dict[str, str] = {}
    for place in _directories(environ):
        for name in filter(_OF_GCC.fullmatch, find.listed(place)):
            if place != besides:
                compilers.setdefault(name, os.path.join(place, name))
    return compilers


def triton_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that have Triton start the wrapper in front of its own ptxas, or of that which
    the user has chosen. Empty where no Triton is found: it goes on with its own then."""
    own = _programs_of_triton(environ)
    changed = {}
    for variable, name in TRITON.items():
        brought = [os.path.join(own, one) for one in (name, "ptxas")] if own is not None else []
        chosen = environ.get(variable)
        real = next(filter(os.path.exists, [*([chosen] if chosen else ()), *brought]), None)
        if real is not None and not find.is_wrapper(real):
            path = script_for(environ, "triton", "ptxas", real)
            changed[variable] = str(write_script(path, real))
    return changed


def _programs_of_triton(environ: Mapping[str, str]) -> str | None:
    """The directory of the programs that Triton brings: that of the first Python on `PATH`, or of
    the one that runs us."""
    import sys

    pythons = [find.on_path(name, environ) for name in ("python", "python3")]
    for python in (*pythons, sys.executable):
        prefix = Path(python or "/").parents[1] if python else None
        for packages in sorted(prefix.glob("lib/python3.*/*-packages")) if prefix else ():
            directory = packages / "triton" / "backends" / "nvidia" / "bin"
            if (directory / "ptxas").exists():
                return str(directory)
    return None


def _directories(environ: Mapping[str, str]) -> Iterator[str]:
    yield from dict.fromkeys(filter(None, environ.get("PATH", "").split(os.pathsep)))


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
        Settings(environ, os.getcwd())
    except SettingsError as error:
        yield from error.problems
