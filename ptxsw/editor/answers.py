"""What `ptxsw check` answers about a file, read from the JSON that it prints.

The server asks it in a process of its own, so that it stays responsive, a check that nobody waits
for any longer can be ended, and an editor says exactly what a terminal says. One process compiles
a file and runs its kernels once, for findings and hovers alike.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress

import msgspec
from msgspec import Struct

from ptxsw.report.model import SourceEdit


class EditorSettings(Struct, frozen=True, rename="camel"):
    """What a user may set in an editor; all else is read from the project's file. `command` starts
    ptxsw, `check` are more arguments of that command."""

    command: tuple[str, ...] = (sys.executable, "-m", "ptxsw")
    check: tuple[str, ...] = ()


class FoundInFile(Struct, frozen=True):
    """A finding, at a line and column of the file `path`, both counted from 1. The path is as it
    is seen from where `check` was run. What is no rule's says why a file could not be checked."""

    path: str
    line: int
    column: int
    rule: str
    level: str
    what: str
    advice: str
    edits: tuple[SourceEdit, ...] = ()


class ShownAccess(Struct, frozen=True):
    """An access to memory: sizes and strides are in bytes."""

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
    """A kernel with its accesses; `readable` is its C++ name, `block` the shape of the blocks for
    which the accesses are described."""

    name: str
    accesses: tuple[ShownAccess, ...] = ()
    readable: str | None = None
    block: tuple[int, int, int] | None = None


class CheckAnswer(Struct, frozen=True):
    """What `check` prints. `problems` say what could not be read."""

    findings: tuple[FoundInFile, ...] = ()
    kernels: tuple[ShownKernel, ...] = ()
    problems: tuple[str, ...] = ()


class Failed(Exception):
    """A command gave no answer; the message is what it said instead."""


async def checked(path: str, settings: EditorSettings, directory: str) -> CheckAnswer:
    """What `check` says of a file, asked from a directory. Raises Failed."""
    arguments = ("check", path, "--format", "json", "--accesses", *settings.check)
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
        return msgspec.json.decode(printed, type=CheckAnswer)
    except msgspec.DecodeError as error:
        words = said.decode(errors="replace").strip()
        raise Failed(words or f"ptxsw check ended with {process.returncode}") from error
