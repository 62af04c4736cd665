"""What commands are given, as PTX texts and cubins: PTX, directories of it, CUDA sources, and what
nvcc has made of them: objects, libraries, executables. `-` is standard input, which the caller has
read: a text or one of the latter."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.text_files import COMPILED, decoded
from ptxsw.toolchain import programs

SOURCES = frozenset({".cu", ".cuh"})
STDIN, STDIN_NAME = "-", "<stdin>"
_ELF, _, _FATBIN = COMPILED
_CUBIN = 190  # e_machine of code for a GPU
_HEAD = 16  # bytes of the head of a container
_LOST = pattern(r"^Extracting (?:PTX|ELF) file.*?\d+: (\S+)", re.MULTILINE)


class UnreadableInput(Exception):
    """An input cannot be read; the message names it, and says what to do."""


class Ptx(Struct, frozen=True):
    """A text, the name to call it by, and the directory from which its `.file`s count; None for a
    text of standard input."""

    name: str
    text: str
    directory: str | None


class NamedCubin(Struct, frozen=True):
    """A cubin, and the name to call it by."""

    name: str
    data: bytes


def files_in(paths: Sequence[str]) -> tuple[str, ...]:
    """The files to read, each once: of a directory all PTX below it, in order."""
    files: list[str] = []
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            inside = sorted(str(each) for each in Path(path).rglob("*.ptx") if each.is_file())
            if not inside:
                raise UnreadableInput(
                    f"{path}: no PTX (*.ptx) below it; name sources, objects and libraries "
                    f"yourself: {Path(path) / '*.o'}"
                )
            files += inside
        else:
            files.append(path)
    return tuple(dict.fromkeys(files))


def ptx_of(
    path: str, arch: str | None = None, options: Sequence[str] = (), data: bytes | None = None
) -> tuple[Ptx, ...]:
    """The PTX of a file. `arch` and `options` are for the compiler of CUDA sources, `data` is what
    the file holds, where that was read. Raises UnreadableInput, OSError."""
    data = Path(path).read_bytes() if data is None else data
    directory = None if path == STDIN else str(Path(path).parent)
    if Path(path).suffix in SOURCES:
        name = f"{path}:{Path(path).stem}.ptx"
        return (Ptx(name, _compiled(path, arch, options), directory),)
    path = STDIN_NAME if path == STDIN else path
    if not is_binary(data):
        return (Ptx(path, _decoded(path, data), directory),)
    if _is_cubin(data):
        raise UnreadableInput(f"{path}: a cubin contains no PTX; --resources can check it")
    texts = [
        Ptx(f"{path}:{name}", _decoded(name, content), directory)
        for name, content in _extracted(path, data, "-xptx", ".ptx")
    ]
    if not texts:
        raise UnreadableInput(
            f"{path}: it contains no PTX; compile with "
            "-gencode arch=compute_80,code=[sm_80,compute_80], or use --resources"
        )
    return tuple(texts)


def cubins_of(path: str, data: bytes | None = None) -> tuple[NamedCubin, ...]:
    """The cubins of an object, a library or an executable; none of a text. `data` as for
    `ptx_of`. Raises UnreadableInput, OSError."""
    data = Path(path).read_bytes() if data is None else data
    if Path(path).suffix in SOURCES or not is_binary(data):
        return ()
    path = STDIN_NAME if path == STDIN else path
    if _is_cubin(data):
        return (NamedCubin(path, data),)
    return tuple(
        NamedCubin(f"{path}:{name}", content)
        for name, content in _extracted(path, data, "-xelf", ".cubin")
    )


def is_binary(data: bytes) -> bool:
    """Does this hold code that somebody has compiled?"""
    return data.startswith(COMPILED)


def _is_cubin(data: bytes) -> bool:
    return data.startswith(_ELF) and int.from_bytes(data[18:20], "little") == _CUBIN


def _decoded(name: str, data: bytes) -> str:
    try:
        return decoded(data.rstrip(b"\0"))
    except ValueError as error:
        raise UnreadableInput(f"{name}: neither PTX nor CUDA nor an object: {error}") from error


# ---------------------------------------------------------------- programs that are run

_TO_COMPILE = "install a CUDA toolkit, or `pip install 'ptxsw[nvcc]'`"
_NO_CUDA = "cannot find CUDA installation"  # as clang says it


def _compiled(path: str, arch: str | None, options: Sequence[str]) -> str:
    """A CUDA source as PTX with the lines of the source."""
    nvcc = next(programs.places("nvcc"), None)
    clang = None if nvcc is not None else next(programs.places("clang++"), None)
    if nvcc is None and clang is None:
        raise UnreadableInput(f"{path}: no nvcc and no clang++ found to compile it; {_TO_COMPILE}")
    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        out = str(Path(directory, "out.ptx"))
        if nvcc is not None:
            target = [f"-arch={arch}"] if arch else []
            command = [nvcc, "-lineinfo", "-ptx", *target, *options, path, "-o", out]
        else:
            assert clang is not None
            target = [f"--cuda-gpu-arch={arch}"] if arch else []
            command = [
                clang, "-x", "cuda", "--cuda-device-only", "-S", "-O3", "-gline-tables-only",
                *target, *options, path, "-o", out,
            ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0 or not Path(out).exists():
            said = (done.stderr + done.stdout).strip() or f"status {done.returncode}"
            if _NO_CUDA in said:
                said += f"\n{_TO_COMPILE}"
            raise UnreadableInput(f"{path}: {Path(command[0]).name} could not compile it:\n{said}")
        return _decoded(path, Path(out).read_bytes())


def _extracted(path: str, data: bytes, option: str, ending: str) -> Iterator[tuple[str, bytes]]:
    """What cuobjdump extracts of a kind, in the order of names. Where it would write several to one
    name, as it does for every shared library, each container of the file is read by itself."""
    with _file_of(path, data) as file:
        dumped, lost = _dumped(path, file, option, ending)
    if lost is None:
        yield from dumped
        return
    inside = tuple(_containers(data))
    if not inside:
        raise _overwritten(path, lost)
    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        for number, data in enumerate(inside, 1):
            part = Path(directory, f"{number}.fatbin")
            part.write_bytes(data)
            dumped, still = _dumped(path, part, option, ending)
            if still is not None:
                raise _overwritten(path, still)
            yield from ((f"{number}/{name}", each) for name, each in dumped)


@contextmanager
def _file_of(path: str, data: bytes) -> Iterator[Path]:
    """A file that holds these data: their own, or one for what came by standard input."""
    if Path(path).is_file():
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        file = Path(directory, "stdin")
        file.write_bytes(data)
        yield file


def _overwritten(path: str, name: str) -> UnreadableInput:
    return UnreadableInput(
        f"{path}: several members are called {name}, and cuobjdump keeps one; "
        "check the objects by themselves"
    )


def _dumped(
    path: str, file: Path, option: str, ending: str
) -> tuple[list[tuple[str, bytes]], str | None]:
    """What cuobjdump makes of a file, which messages call `path`; and a name that it wrote more
    than once."""
    try:
        program = programs.locate(
            "cuobjdump", "install nvidia-cuda-cuobjdump with pip, or a CUDA toolkit"
        )
    except programs.Missing as error:
        raise UnreadableInput(f"{path}: {error}") from error
    with tempfile.TemporaryDirectory(prefix="ptxsw-") as directory:
        done = subprocess.run(
            [program, option, "all", str(file.resolve())],
            cwd=directory, capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        names = _LOST.findall(done.stdout)
        paths = sorted(Path(directory).glob(f"*{ending}"))
        if done.returncode != 0 and not paths and "does not contain device code" not in done.stderr:
            said = done.stderr.strip() or f"status {done.returncode}"
            raise UnreadableInput(f"{path}: cuobjdump could not read it: {said}")
        files = [(each.name, each.read_bytes()) for each in paths]
    lost = next((name for name in names if names.count(name) > 1), None)
    return files, lost if len(names) > len(paths) else None


def _containers(data: bytes) -> Iterator[bytes]:
    """The containers of device code that lie in a file. Each has a head of 16 bytes: a number to
    know it by (4), its version (2), the size of the head (2), the size of what follows (8). NVIDIA
    does not document this; it was read off what nvcc 13.0 writes."""
    at = data.find(_FATBIN)
    while at >= 0:
        head = int.from_bytes(data[at + 6 : at + 8], "little")
        size = int.from_bytes(data[at + 8 : at + 16], "little")
        end = at + head + size
        if head >= _HEAD and end <= len(data):
            yield data[at:end]
        else:
            end = at + len(_FATBIN)
        at = data.find(_FATBIN, end)
