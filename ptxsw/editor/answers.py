"""What the command line answers about a file, read from the JSON that it prints.

The server asks the commands in a process of their own, so that it stays responsive, a check that
nobody waits for any longer can be ended, and an editor says exactly what a terminal says.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Struct

from ptxsw.report.model import SourceEdit


class EditorSettings(Struct, frozen=True, rename="camel"):
    """What a user may set in an editor; all else is read from the project's file. `command` starts
    ptxsw, `check` and `analyze` are more arguments of these commands."""

    command: tuple[str, ...] = (sys.executable, "-m", "ptxsw")
    check: tuple[str, ...] = ()
    analyze: tuple[str, ...] = ()


class FoundInFile(Struct, frozen=True):
    """A finding, at a line and column of the file `path`, both counted from 1. The path is as it
    is seen from where `check` was run."""

    path: str
    line: int
    column: int
    rule: str
    level: str
    measure: str
    what: str
    advice: str
    edits: tuple[SourceEdit, ...] = ()


class CheckAnswer(Struct, frozen=True):
    """What `check` prints. `problems` say what could not be read."""

    findings: tuple[FoundInFile, ...] = ()
    problems: tuple[str, ...] = ()


class ShownAccess(Struct, frozen=True):
    """An access to memory, as `analyze` prints it: sizes and strides are in bytes."""

    line: int  # of the PTX
    opcode: str
    space: str
    source: str | None = None  # FILE:LINE
    bytes: int | None = None
    index: str | None = None
    lane_stride: int | None = None
    sectors: float | None = None
    efficiency: float | None = None
    bank_conflicts: int | None = None
    uniform: bool = False


class ShownKernel(Struct, frozen=True):
    """A kernel with its accesses; `readable` is its C++ name."""

    name: str
    accesses: tuple[ShownAccess, ...] = ()
    readable: str | None = None


class AnalyzeAnswer(Struct, frozen=True):
    """What `analyze` prints."""

    kernels: tuple[ShownKernel, ...] = ()


class Failed(Exception):
    """A command gave no answer; the message is what it said instead."""


_Answer = TypeVar("_Answer", CheckAnswer, AnalyzeAnswer)


async def checked(path: str, settings: EditorSettings, directory: str) -> CheckAnswer:
    """What `check` says of a file, asked from a directory. Raises Failed."""
    arguments = ("check", path, "--format", "json", *settings.check)
    return await _asked(arguments, settings, directory, CheckAnswer)


async def analyzed(path: str, settings: EditorSettings, directory: str) -> AnalyzeAnswer:
    """What `analyze` says of a file, asked from a directory. Raises Failed."""
    arguments = ("analyze", path, "--format", "json", *settings.analyze)
    return await _asked(arguments, settings, directory, AnalyzeAnswer)


async def _asked(
    arguments: Sequence[str], settings: EditorSettings, directory: str, type_: type[_Answer]
) -> _Answer:
    try:
        process = await asyncio.create_subprocess_exec(
            *settings.command, *arguments, cwd=directory, env={**os.environ, "NO_COLOR": "1"},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Failed(f"{settings.command[0]} could not be started: {error}") from error
    try:
        printed, said = await process.communicate()
    except asyncio.CancelledError:  # saved anew, or closed: nobody waits for it
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the compiler that it may have started
        await process.wait()
        raise
    try:
        return msgspec.json.decode(printed, type=type_)
    except msgspec.DecodeError as error:
        words = said.decode(errors="replace").strip()
        raise Failed(words or f"ptxsw {arguments[0]} ended with {process.returncode}") from error
