"""Assembling PTX with the real ptxas, and what it says about the code it made."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.text_files import encoded
from ptxsw.toolchain import find
from ptxsw.toolchain.programs import program_file


class Resources(Struct, frozen=True):
    """What one kernel needs of the hardware; sizes in bytes per thread."""

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


class Assembly(Struct, frozen=True):
    """A cubin and what ptxas said about it."""

    cubin: bytes
    resources: tuple[Resources, ...]
    messages: str


class AssemblyError(Exception):
    """ptxas refused a text; the message is its own."""


class NoCodeForTarget(AssemblyError):
    """This ptxas makes no code for a target, as those of CUDA 13 for none before sm_75."""


class NoPtxas(Exception):
    """There is no ptxas on this machine."""


def locate() -> str:
    """The path of the real ptxas. Raises NoPtxas, with the places looked at."""
    path = find.real_ptxas(os.environ)
    if path is not None:
        return path.path
    looked = [f"{c.path} ({c.origin}) {c.problem}" for c in find.candidates(os.environ)]
    places = "; ".join(looked) or "nothing on PATH, no CUDA toolkit, no wheel"
    raise NoPtxas(
        f"no ptxas found: {places}. Set PTXSW_REAL_PTXAS, or install nvidia-cuda-nvcc with pip."
    )


def assemble(
    ptx: str,
    arch: str,
    *,
    ptxas: str | None = None,
    options: Sequence[str] = (),
    name: str = "input.ptx",
    timeout: float | None = None,
) -> Assembly:
    """Assembles a text for an architecture such as "sm_80".

    `timeout` is in seconds. Raises NoPtxas, AssemblyError (NoCodeForTarget where it does not know
    the architecture), or subprocess.TimeoutExpired.
    """
    arguments = (f"-arch={arch}", "-v", *options)
    status, cubin, messages = run(ptxas or locate(), ptx, arguments, name, timeout)
    if _UNKNOWN in messages:
        raise NoCodeForTarget(
            f"ptxas does not support {arch}: name one that does in PTXSW_REAL_PTXAS, or "
            "another target with --arch"
        )
    if status != 0 or not cubin:
        raise AssemblyError(messages.strip() or f"ptxas ended with status {status}")
    return Assembly(cubin, tuple(resources(messages)), messages)


def run(
    program: str, ptx: str, arguments: Sequence[str], name: str, timeout: float | None
) -> tuple[int, bytes, str]:
    """The status of a ptxas that is given a text, the cubin that it wrote, and what it said of the
    file `name`. Raises OSError or subprocess.TimeoutExpired."""
    source_file = program_file(encoded(ptx), "input.ptx")
    with source_file as source, program_file(b"", "output.cubin") as output:
        done = subprocess.run(
            [program, *arguments, source.path, "-o", output.path],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            pass_fds=source.descriptors + output.descriptors,
        )
        cubin = output.read()
    return done.returncode, cubin, (done.stdout + done.stderr).replace(source.path, name)


class OlderText(NamedTuple):
    """A text that says to be of the version that a ptxas knows: its own was `later`."""

    text: str
    later: str
    known: str


def older_text(text: str, error: AssemblyError) -> OlderText | None:
    """What to ask ptxas about where it refuses a text for its version: what else is new in that, it
    will refuse. None where it refuses it for another reason, or where places would change."""
    versions = _TOO_NEW.search(str(error))
    if versions is None or len(versions[1]) != len(versions[2]):
        return None
    line = rf"(?m)^(\s*\.version\s+){re.escape(versions[1])}\b"
    older = re.sub(line, rf"\g<1>{versions[2]}", text, count=1)
    return OlderText(older, versions[1], versions[2])


def version(ptxas: str) -> str:
    """ "13.0.88", or an empty text where `--version` says nothing of the kind. Raises OSError."""
    done = subprocess.run([ptxas, "--version"], capture_output=True, text=True, errors="replace")
    match = re.search(r"\bV(\d+(?:\.\d+)+)", done.stdout)
    return match[1] if match else ""


_TOO_NEW = pattern(r"Unsupported \.version (\S+); current version is '([^']+)'")
_UNKNOWN = "is not defined for option 'gpu-name'"
_COMPILING = pattern(r"Compiling entry function '([^']+)'")
_PROPERTIES = pattern(r"Function properties for (\S+)")
_STACK = pattern(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = pattern(r"Used (\d+) registers")


def resources(messages: str) -> Iterator[Resources]:
    """The figures that `ptxas -v` prints for each kernel."""
    kernel, function = "", ""
    sizes = (0, 0, 0)
    for line in messages.splitlines():
        if match := _COMPILING.search(line):
            kernel, sizes = match[1], (0, 0, 0)
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif (match := _STACK.search(line)) and function == kernel:
            sizes = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and kernel:
            stack, stores, loads = sizes
            yield Resources(kernel, int(match[1]), stack, stores, loads)
            kernel = ""
