"""ptxsw for the servers of sccache-dist, so that they run the wrapper in place of ptxas.

sccache takes a call of nvcc apart and sends its steps to servers, each with an archive of the
program and its libraries. It cannot pack a script, but its configuration may name an archive for
one. Ours holds all that the wrapper needs, under the paths that it has here.

What comes back is kept under what this machine has and asks for. So a server does a step only if
that is what was packed. Otherwise it declines: it leaves an output that sccache cannot read, and
takes for a fault of the server, so it does the step where the call came from.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ptxsw.build import compiler_caches
from ptxsw.build.script import program
from ptxsw.toolchain import find
from ptxsw.toolchain.settings import OFF, tuned_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from typing import NoReturn

PLACE = "/ptxsw"  # of our own files in the archive
_ROOT = Path(__file__).parents[2]
_PACKAGES = ("z3", "lark", "msgspec")  # what the wrapper imports
_LEFT_OUT = {"ensurepip", "idlelib", "lib2to3", "site-packages", "test", "tkinter", "turtledemo"}
_LEVEL = 4  # of compression: three times as fast as the usual one
_WITH_FILES = ("PTXSW_LOG", "PTXSW_REPORT")  # which a server cannot write
_SCRIPT = """\
#!/bin/sh
# ptxas with ptxsw in front, on a server of sccache-dist. Written by ptxsw.
if [ -z "${{PTXSW_PLAIN-}}" ] && {python} -I -S -c pass; then
    exec {python} -I -S -c {program} {root} "$0" "$@"
fi
for word; do
    [ "${{last-}}" != -o ] || {mkdir} "$word"
    last=$word
done
exit 1
"""
"""Declines where this package cannot run: the output is a directory then."""


class PackingError(Exception):
    """An archive that cannot be made; the message says why."""


# ---------------------------------------------------------------- here


def pack(environ: Mapping[str, str], paths: Sequence[str], directory: Path) -> Path:
    """Writes an archive with the wrapper and the ptxas that has these paths into `directory`, and
    has compiler caches told of it from now on. Raises OSError or PackingError."""
    import compileall
    import json
    import tarfile

    mkdir = find.on_path("mkdir", environ)
    if mkdir is None:
        raise PackingError("no mkdir found on PATH")
    problem = find.PossiblePtxas(paths[0], "").problem
    if problem is not None:
        raise PackingError(f"{paths[0]} {problem}")
    directory.mkdir(parents=True, exist_ok=True)
    archive, private = directory / "ptxas.tar.gz", directory / f".ptxas.{os.getpid()}"
    compileall.compile_dir(f"{_ROOT}/ptxsw", quiet=2)  # or each job does it again
    contents = compiler_caches.contents(environ, directory, paths[0])
    given = json.dumps({**contents, "paths": os.pathsep.join(paths)})
    files = {path: path for path in _files(environ)}
    files |= {path: os.path.realpath(path) for path in ("/bin/sh", mkdir, *paths)}
    files |= {path: os.path.realpath(path) for path in _libraries(files.values(), environ)}
    try:
        with tarfile.open(private, "w:gz", compresslevel=_LEVEL) as tar:
            _fill(tar, files, {"ptxas": script(mkdir), "contents": given})
        private.replace(archive)
    finally:
        private.unlink(missing_ok=True)
    (directory / compiler_caches.PACKED).write_text(given)
    return archive


def _fill(tar: tarfile.TarFile, files: Mapping[str, str], texts: Mapping[str, str]) -> None:
    import io
    import tarfile

    for name, text in texts.items():
        entry = tarfile.TarInfo(f"{PLACE}/{name}".lstrip("/"))
        entry.size, entry.mode = len(text.encode()), 0o755
        tar.addfile(entry, io.BytesIO(text.encode()))
    for path, source in sorted(files.items()):
        _add(tar, path, source)


def _add(tar: tarfile.TarFile, path: str, source: str) -> None:
    """By hand: sccache rounds parts of seconds up, and then Python compiles its files again."""
    import tarfile

    entry, status = tarfile.TarInfo(path.lstrip("/")), os.lstat(source)
    entry.mode, entry.mtime = status.st_mode & 0o755, int(status.st_mtime)
    if os.path.islink(source):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(source)
        tar.addfile(entry)
        return
    entry.size = status.st_size
    with open(source, "rb") as file:
        tar.addfile(entry, file)


def script(mkdir: str) -> str:
    """What sccache starts on a server."""
    words = (sys.executable, program("sccache_dist", "act"), str(_ROOT), mkdir)
    python, text, root, mkdir = map(shlex.quote, words)
    return _SCRIPT.format(python=python, program=text, root=root, mkdir=mkdir)


def _files(environ: Mapping[str, str]) -> Iterator[str]:
    """All that the wrapper needs but programs and libraries, with the links that lead there."""
    import sysconfig
    from importlib.util import find_spec

    single = [sys.executable, os.path.join(sys.prefix, "pyvenv.cfg")]
    single.append(tuned_file(environ) or "")
    trees = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), f"{_ROOT}/ptxsw"]
    for name in _PACKAGES:
        spec = find_spec(name)
        trees += (spec and spec.submodule_search_locations) or ()
    for path in (*single, *(path for tree in dict.fromkeys(trees) for path in _below(tree))):
        while os.path.islink(path):
            yield path
            path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        if os.path.isfile(path):
            yield path


def _below(tree: str) -> Iterator[str]:
    for directory, names, files in os.walk(tree):
        names[:] = sorted(set(names) - _LEFT_OUT)
        yield from (os.path.join(directory, name) for name in files if not name.endswith(".a"))


def _libraries(paths: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """The libraries that programs and libraries load, as `ldd` finds them. Raises PackingError."""
    import subprocess

    command = ["ldd", *filter(_is_elf, map(os.path.realpath, paths))]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True)
    except OSError as error:
        raise PackingError(f"ldd: {error.strerror}") from error
    words = (line.split() for line in done.stdout.splitlines() if line.startswith("\t"))
    found = (next((word for word in line if word.startswith("/")), None) for line in words)
    return [path for path in dict.fromkeys(found) if path is not None and os.path.exists(path)]


def _is_elf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


# ---------------------------------------------------------------- on a server


def act() -> NoReturn:
    """Acts as ptxas with the arguments of this process, or declines; does not return."""
    if is_as_packed(os.environ, Path(PLACE, "contents")):
        from contextlib import suppress

        from ptxsw.build import shim

        os.environ["PTXSW_STRICT"] = "1"  # a fault here ends us, and may not come there
        with suppress(SystemExit):
            shim.main()
    os.environ["PTXSW_PLAIN"] = "1"
    os.execv("/bin/sh", ["sh", f"{PLACE}/ptxas", *sys.argv[1:]])


def is_as_packed(environ: Mapping[str, str], contents: Path) -> bool:
    """Would the machine that sent a call do the same with it, and want no files besides? `contents`
    is the file that names what was packed."""
    given = compiler_caches.packed(contents)
    if not given or any(environ.get(name, "").lower() not in OFF for name in _WITH_FILES):
        return False
    leads = any(leads_to(path, environ) for path in given["paths"].split(os.pathsep))
    return leads and compiler_caches.agrees(environ, given)


def leads_to(ptxas: str, environ: Mapping[str, str]) -> bool:
    """Would the wrapper take the ptxas of this path for the real one? Of `PATH`, all that nvcc puts
    first is in its toolkit; what comes after it may be of another machine."""
    chosen = environ.get("PTXSW_REAL_PTXAS")
    if chosen:
        return chosen == ptxas
    toolkit = os.path.dirname(os.path.dirname(ptxas))
    for directory in map(os.path.normpath, environ.get("PATH", "").split(os.pathsep)):
        if os.path.join(directory, "ptxas") == ptxas:
            return True
        if not directory.startswith(f"{toolkit}{os.sep}"):
            break
    return False
