"""What the wrapper would do on this machine, and what is wrong with that."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata

from msgspec import Struct

from ptxsw import __version__
from ptxsw.build import compiler_caches, gcc
from ptxsw.build.environment import setting_problems, settings_directory
from ptxsw.cost import disassembly
from ptxsw.ptx.patterns import pattern
from ptxsw.toolchain import find, ptxas
from ptxsw.toolchain.cache import Cache
from ptxsw.toolchain.settings import VARIABLES, Settings, SettingsError
from ptxsw.toolchain.tuned import everything

_PREFIX = pattern(r'--ptxas-prefix="?(/[^"]*?/ptxas)(?="|\s|$)')


class Diagnosis(Struct, frozen=True):
    """One line of the diagnosis."""

    subject: str
    value: str
    good: bool = True


def examine(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """All that is examined, in the order in which to print them."""
    yield Diagnosis("ptxsw", f"{__version__}, Python {sys.version.split()[0]} ({sys.executable})")
    for package in ("z3-solver", "lark", "numpy"):
        yield _package(package)
    yield from _ptxas(environ)
    yield _nvdisasm(environ)
    first = shutil.which("ptxas", path=environ.get("PATH"))
    if first is not None:
        way = "`ptxsw exec -- COMMAND` or `ptxsw env TOOL` puts the wrapper before it"
        what = "the wrapper" if find.is_wrapper(first) else way
        yield Diagnosis("first on PATH", f"{first} ({what})")
    for variable in ("NVCC_APPEND_FLAGS", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        if value := environ.get(variable):
            yield _leads_to(variable, value)
    for variable in compiler_caches.outdated(environ, settings_directory(environ)):
        how = "made by another ptxsw or under other PTXSW_*: run `ptxsw env` again"
        yield Diagnosis(variable, how, good=False)
    if compiler_caches.is_outdated(environ, settings_directory(environ)):
        how = "its archive was made by another ptxsw, or with other files: run `ptxsw env` again"
        yield Diagnosis("sccache-dist", how, good=False)
    nvptx_as = gcc.real_nvptx_as(environ)
    if nvptx_as is not None:
        yield Diagnosis("GCC's real as", f"{nvptx_as.path} ({nvptx_as.origin})")
    yield from _settings(environ)


def _leads_to(variable: str, value: str) -> Diagnosis:
    """nvcc fails without the wrapper that it is told to start, Triton does without."""
    paths = _PREFIX.findall(value) if variable == "NVCC_APPEND_FLAGS" else [value]
    if all(os.path.exists(path) for path in paths):
        return Diagnosis(variable, value)
    how = f"it does not exist: run `ptxsw env` again, or `unset {variable}`"
    return Diagnosis(variable, f"{value} ({how})", good=False)


def _package(name: str) -> Diagnosis:
    try:
        return Diagnosis(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Diagnosis(name, "not installed", good=False)


def _ptxas(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    chosen = find.real_ptxas(environ)
    if chosen is None:
        advice = "set PTXSW_REAL_PTXAS to its path, or `pip install nvidia-cuda-nvcc`"
        yield Diagnosis("real ptxas", f"none found: {advice}", good=False)
    else:
        yield _version(chosen)
    for candidate in find.candidates(environ):
        if chosen is not None and candidate.path == chosen.path:
            break
        yield Diagnosis("passed over", f"{candidate.path} ({candidate.origin}) {candidate.problem}")


def _version(chosen: find.PossiblePtxas) -> Diagnosis:
    try:
        version = ptxas.version(chosen.path)
    except OSError as error:
        return Diagnosis("real ptxas", f"{chosen.path}: {error.strerror}", good=False)
    if not version:
        return Diagnosis("real ptxas", f"{chosen.path} does not report its version", good=False)
    return Diagnosis("real ptxas", f"{chosen.path} ({chosen.origin}), version {version}")


def _nvdisasm(environ: Mapping[str, str]) -> Diagnosis:
    """Without one, little is lost: `ptxsw.cost.disassembly` reads most code by itself."""
    try:
        return Diagnosis("nvdisasm", f"{disassembly.locate(environ)}: figures come from SASS")
    except disassembly.NoNvdisasm as error:
        lost = "no SASS in pages, and figures of rare instructions come from PTX"
        return Diagnosis("nvdisasm", f"{error}. Without it: {lost}")


def _settings(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    for name in sorted(environ):
        if name in VARIABLES:
            yield Diagnosis(name, environ[name])
    for problem in setting_problems(environ):
        yield Diagnosis("settings", problem, good=False)
    try:
        settings = Settings(environ, os.getcwd())
    except SettingsError:  # all of it has been said
        return
    if settings.disabled:
        yield Diagnosis("settings", "PTXSW_DISABLE is set: nothing is rewritten", good=False)
    yield _cache(settings.cache)
    yield _tuned(settings.tuned)
    for name, path in (("log", settings.log), ("reports", settings.report)):
        if path is not None and not _writable(path):
            yield Diagnosis(name, f"{path} cannot be written", good=False)


def _cache(directory: str | None) -> Diagnosis:
    if directory is None:
        return Diagnosis("cache", "off")
    cache = Cache(directory)
    if cache.problem is not None:
        return Diagnosis("cache", f"not used: {directory} {cache.problem}", good=False)
    if not _writable(directory):
        return Diagnosis("cache", f"{directory} cannot be written", good=False)
    return Diagnosis("cache", f"{directory}: {cache.tally()}")


def _tuned(path: str | None) -> Diagnosis:
    if path is None:
        return Diagnosis("tuned", "off")
    try:
        return Diagnosis("tuned", f"{path}: {len(everything(path))} results of ptxsw tune")
    except OSError as error:
        return Diagnosis("tuned", f"not used: {path}: {error.strerror}", good=False)
    except ValueError as error:
        return Diagnosis("tuned", f"not used: {error}", good=False)


def _writable(path: str) -> bool:
    """Can this be written, or made where it is not there yet?"""
    if os.path.exists(path):
        return os.access(path, os.W_OK)
    parent = os.path.dirname(os.path.abspath(path))
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    return os.path.isdir(parent) and os.access(parent, os.W_OK)
