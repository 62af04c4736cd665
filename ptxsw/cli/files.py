"""Files as the command line names them, and the errors it draws."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ptxsw.cli.terminal import write_exact
from ptxsw.ptx.errors import naming
from ptxsw.ptx.text_files import COMPILED, decoded, encoded

if TYPE_CHECKING:
    from ptxsw.report import Report
    from ptxsw.report.prediction_text import Prediction

BAD_INPUT = 2


class CommandError(Exception):
    """Bad input or usage; the message is for the user."""


def read(path: str) -> tuple[str, str]:
    """The text of a file, `-` for standard input, and the name under which to speak of it."""
    return _text(path, stdin() if path == "-" else _bytes(path))


def _text(path: str, data: bytes) -> tuple[str, str]:
    name = "<stdin>" if path == "-" else path
    try:
        return decoded(data), name
    except ValueError as error:
        raise CommandError(f"{name}: not a text file: {error}") from error


def read_kernels(path: str, arch: str | None = None) -> tuple[str, str]:
    """As `read`; but a CUDA source is compiled, for a target such as sm_90 where one is given, and
    of an object or a program the one PTX text is taken that it holds."""
    data = stdin() if path == "-" else _bytes(path)  # once: it may be a pipe
    if not path.endswith((".cu", ".cuh")) and not data.startswith(COMPILED):
        return _text(path, data)
    from ptxsw.toolchain.inputs import UnreadableInput, ptx_of

    try:
        texts = ptx_of(path, arch, data=data)
    except UnreadableInput as error:
        raise CommandError(str(error)) from error
    if len(texts) > 1:
        names = ", ".join(each.name.removeprefix(f"{path}:") for each in texts[:3])
        raise CommandError(
            f"{path}: it contains {len(texts)} PTX modules ({names}, …); extract one with "
            "`cuobjdump -xptx all`"
        )
    return texts[0].text, texts[0].name


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def stdin() -> bytes:
    """What comes by standard input. Raises CommandError where it is closed."""
    if sys.stdin is None:
        raise CommandError("standard input is closed")
    return sys.stdin.buffer.read()


def read_once(*paths: str | None) -> None:
    """Raises CommandError where more than one of these inputs is standard input."""
    if paths.count("-") > 1:
        raise CommandError("standard input can be read only once: name a file for the rest")


def apart(**outputs: str | None) -> None:
    """Raises CommandError where two of these options send their output to the same place."""
    taken: dict[str, str] = {}
    for option, path in outputs.items():
        name = f"--{option}"
        if path is None or path == os.devnull:
            continue
        if path in taken:
            place = "standard output" if path == "-" else path
            raise CommandError(f"{taken[path]} and {name} would both be written to {place}")
        taken[path] = name


@contextmanager
def written(path: str) -> Iterator[str]:
    """A private path beside `path` that is renamed to it if all goes well, and removed if not."""
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe is written as it is
        with naming(path):
            yield path
        return
    directory, name = os.path.split(path)
    if not os.path.isdir(directory or os.curdir):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    private = os.path.join(directory, f".{name}.{os.getpid()}")
    try:
        with naming(path, private):
            yield private
            os.replace(private, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(private)


def write(path: str, text: str) -> None:
    if path == "-":
        write_exact(sys.stdout, text)
        return
    with written(path) as private, open(private, "wb") as file:
        file.write(encoded(text))


def failed_kernels(report: Report | Prediction) -> Iterator[str]:
    """A message for each kernel that ptxsw could not finish."""
    from ptxsw.ptx.failures import told

    for kernel in report.kernels:
        if kernel.failed is not None:
            yield told(report.file, kernel.failed)


def end_if_failed(report: Report | Prediction) -> None:
    """Ends the program if ptxsw could not finish a kernel, and tells why."""
    messages = list(failed_kernels(report))
    sys.stderr.writelines(messages)
    if messages:
        sys.exit(BAD_INPUT)


def as_json(data: Any) -> str:
    """A value as JSON that is well-formed for every reader, and no command to a CI system that
    reads along."""
    import json

    from ptxsw.ptx.printable import tree, well_formed

    return json.dumps(tree(data, well_formed), indent=2).replace("##", "#\\u0023") + "\n"
