"""Faults of ptxsw itself, each kept to the kernel that met it.

Whatever is wrong with the input is an error of the file (`errors`). All else that is raised while a
kernel is worked on is a fault of ours: the other kernels of the file know nothing of it. What is
told of it is what we need to find it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from ptxsw.ptx.cxx_names import readable
from ptxsw.ptx.documented import Documented
from ptxsw.ptx.errors import InvalidRequest, PtxError
from ptxsw.ptx.patterns import pattern

if TYPE_CHECKING:
    from ptxsw.ptx.ir import Function, Module

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOC = pattern(r"^[ \t]*\.loc\s+(\d+)\s+([1-9]\d*)", re.MULTILINE)
_STAGE = "ptxsw was at: "


def says(text: str) -> Meta:
    return Meta(description=text)


class Failure(Documented, frozen=True):
    """An internal error of ptxsw on a kernel, which stays as it was."""

    kernel: Annotated[str, says("Its name in the source.")]
    at: Annotated[str, says("The step that failed: the name of a rewrite, or of another step.")]
    error: Annotated[str, says("The exception and its message.")]
    code: Annotated[str, says("Place in ptxsw that raised it, as file:line.")]
    line: Annotated[int, Meta(ge=1), says("Line of the kernel in the PTX.")]
    source: Annotated[str | None, says("file:line of the source, from the kernel's first .loc.")]
    command: Annotated[str, says("A command that reproduces the failure.")]

    def __str__(self) -> str:
        return f"failed in {self.at}: {self.error} ({self.code})"


class KernelFailed(Exception):
    """A kernel that was not finished, where nothing can be done without it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What is done meanwhile, in case it fails. Of stages in one another the inner one counts."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{_STAGE}{name}")
        raise


def is_ours(error: Exception) -> bool:
    """Is an exception a fault of ours, rather than one of the input or of the machine?"""
    return not isinstance(error, PtxError | InvalidRequest | OSError | ImportError)


def failure(
    error: Exception, module: Module, function: Function, command: Sequence[str]
) -> Failure:
    """What is told of an exception that a kernel met; `command` are the words of one that meets it
    again."""
    if isinstance(error, KernelFailed):
        return error.failure
    import shlex  # seldom needed
    import traceback

    notes = (note for note in getattr(error, "__notes__", ()) if note.startswith(_STAGE))
    span = function.span
    loc = _LOC.search(module.source.text, span.start, span.end)
    source = None
    if loc is not None:
        file = int(loc[1])
        source = f"{module.files.get(file, f'file {file}')}:{loc[2]}"
    return Failure(
        readable(function.name) or function.name,
        next(notes, f"{_STAGE}the kernel").removeprefix(_STAGE),
        traceback.format_exception_only(error)[0].strip(),
        _raised_at(error),
        module.source.line(span.start),
        source,
        shlex.join("-" if word == "<stdin>" else word for word in command),
    )


def _raised_at(error: Exception) -> str:
    """The innermost line of ptxsw that an exception came through."""
    place = "?"
    at = error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            path = os.path.relpath(file, os.path.dirname(_PACKAGE)).replace(os.sep, "/")
            place = f"{path}:{at.tb_lineno}"
        at = at.tb_next
    return place


def told(file: str, failed: Failure) -> str:
    """A message for the user."""
    source = "" if failed.source is None else f" ({failed.source})"
    return (
        f"{file}:{failed.line}: {failed.kernel}{source}: {failed}\n"
        "  This is a bug in ptxsw. The kernel is left as it was. To reproduce it:\n"
        f"    {failed.command}\n"
    )
