"""What ccache and sccache have to know: what the wrapper is asked for, and by which ptxsw.

They keep an object under its source, its arguments and its compiler, and of the environment look at
next to nothing: neither at `PTXSW_*`, nor at `NVCC_APPEND_FLAGS`, nor at the ptxas that a compiler
starts. Found by experiment with ccache 4.7.5 and 4.14.2, sccache 0.4.0 and 0.16.0. Each has one
variable for such a case: ccache hashes the content of the files in `CCACHE_EXTRAFILES`, sccache the
value of `SCCACHE_C_CUSTOM_CACHE_BUSTER`.

What they are told is the same on every machine with this ptxsw and these settings, so that caches
can be shared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ptxsw import __version__
from ptxsw.toolchain import find
from ptxsw.toolchain.cache import blake2b, fingerprint, key
from ptxsw.toolchain.settings import Settings, tuned_file

EXTRA_FILES = "CCACHE_EXTRAFILES"
BUSTER = "SCCACHE_C_CUSTOM_CACHE_BUSTER"
PACKED = "packed.json"  # what an archive for servers of sccache-dist was made of
_PACKAGE = Path(__file__).parents[1]
_MARK = "ptxsw-"


def variables(environ: Mapping[str, str], directory: Path) -> dict[str, str]:
    """The variables that tell both caches, with what the user has in them. The file for ccache
    is written into `directory`, where it stays. Raises OSError."""
    state = _state_now(environ, directory)
    path = directory / _digest(state)
    if not path.exists():
        _write(path, state)
    others = [file for file in _extra_files(environ) if not _is_ours(file, directory)]
    words = [word for word in environ.get(BUSTER, "").split() if not word.startswith(_MARK)]
    return {
        EXTRA_FILES: os.pathsep.join([*others, str(path)]),
        BUSTER: " ".join([*words, _MARK + path.name]),
    }


def outdated(environ: Mapping[str, str], directory: Path) -> Iterator[str]:
    """Those of the variables that tell of other settings, or of another ptxsw."""
    now = _digest(_state_now(environ, directory))
    extra = _split(environ.get(EXTRA_FILES, ""))
    files = [Path(file).name for file in extra if _is_ours(file, directory)]
    words = [w[len(_MARK) :] for w in environ.get(BUSTER, "").split() if w.startswith(_MARK)]
    for variable, value in ((EXTRA_FILES, files), (BUSTER, words)):
        if any(each != now for each in value):
            yield variable


def contents(environ: Mapping[str, str], directory: Path, ptxas: str | None) -> dict[str, str]:
    """Names the content of all that the wrapper works with, but for the settings: ptxsw itself,
    what `tune` has measured, the ptxas of `PTXSW_REAL_PTXAS`, and the `ptxas` that is packed."""
    given = {"package": _package(directory), "tuned": _content(tuned_file(environ))}
    if environ.get("PTXSW_REAL_PTXAS"):
        given["ptxas"] = _content(environ["PTXSW_REAL_PTXAS"])
    if ptxas is not None:
        given["packed"] = _content(ptxas)
    return given


def agrees(environ: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Was a build told of the settings here, and of these contents?"""
    return _MARK + _digest(_state(environ, given)) in environ.get(BUSTER, "").split()


def packed(path: Path) -> dict[str, str]:
    """The `contents` of an archive for servers of sccache-dist, and the `paths` of its ptxas; empty
    if there is none."""
    import json

    try:
        given = dict(json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError):
        return {}
    return given if "paths" in given else {}


def is_outdated(environ: Mapping[str, str], directory: Path) -> bool:
    """Is there such an archive, and was it made of something else than what is here now?"""
    given = packed(directory / PACKED)
    now = contents(environ, directory, _packed_ptxas(given))
    return bool(given) and {**now, "paths": given["paths"]} != given


def _state_now(environ: Mapping[str, str], directory: Path) -> str:
    ptxas = _packed_ptxas(packed(directory / PACKED))
    return _state(environ, contents(environ, directory, ptxas))


def _packed_ptxas(given: Mapping[str, str]) -> str | None:
    return given["paths"].split(os.pathsep)[0] if given else None


def _state(environ: Mapping[str, str], given: Mapping[str, str]) -> str:
    """All that decides what the wrapper makes of a text, as lines."""
    try:
        settings = Settings(environ, os.getcwd())
    except ValueError as error:  # all files are left alone
        asked, mode = str(error), ""
    else:
        asked, mode = settings.asked(), "" if settings.disabled else settings.mode
    lines = [f"ptxsw {__version__} {given['package']}", asked]
    names = ("tuned", "ptxas", "packed") if mode == "auto" else ("ptxas", "packed")
    lines += [f"{name} {given[name]}" for name in names if name in given]
    return "".join(f"{line}\n" for line in lines)


def _write(path: Path, text: str) -> None:
    """Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{os.getpid()}")
    private.write_bytes(os.fsencode(text))
    private.replace(path)


def _digest(state: str) -> str:
    return key(os.fsencode(state))[:16]


def _package(directory: Path) -> str:
    """Names the content of ptxsw itself, which is read once for each state of its files: the name
    is kept in `directory`."""
    state = key(os.fsencode(_PACKAGE), fingerprint(str(_PACKAGE)).encode())
    path = directory / f"package-{state[:16]}"
    try:
        return path.read_text()
    except OSError:
        name = _read_package()
        with suppress(OSError):  # it is read again next time
            _write(path, name)
        return name


def _read_package() -> str:
    digest = blake2b(digest_size=8)
    for path in sorted(_PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(_PACKAGE)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _content(path: str | None) -> str:
    """Names the content of a file; "none" where it cannot be read."""
    try:
        return blake2b(Path(path or "").read_bytes(), digest_size=8).hexdigest()
    except OSError:
        return "none"


def _is_ours(path: str, directory: Path) -> bool:
    return Path(path).parent == directory


def _extra_files(environ: Mapping[str, str]) -> list[str]:
    """What ccache hashes already: the variable goes before its configuration, so whoever sets
    it has to take over what is there."""
    ccache = find.on_path("ccache", environ)
    if EXTRA_FILES in environ or ccache is None:
        return _split(environ.get(EXTRA_FILES, ""))
    import subprocess

    command = [ccache, "--get-config", "extra_files_to_hash"]
    try:
        done = subprocess.run(
            command, env=dict(environ), capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return _split(done.stdout.strip()) if done.returncode == 0 else []


def _split(paths: str) -> list[str]:
    return [path for path in paths.split(os.pathsep) if path]
