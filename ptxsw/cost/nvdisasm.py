"""Finding nvdisasm, and what it says about a cubin.

Its JSON (`-json`) is read; versions that print text only are refused.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from ptxsw.toolchain.programs import places, program_file


class NoNvdisasm(Exception):
    """There is no nvdisasm that can read this cubin; the message says what to do."""


class DisassembledLine(NamedTuple):
    """One instruction: `predicate` such as "!P0" or empty, operands without blanks. `control` is
    true of branches, calls, exits and what gathers lanes; `call` of calls that return."""

    predicate: str
    opcode: str
    operands: str
    control: bool
    call: bool


def locate(environ: Mapping[str, str] | None = None) -> str:
    """The path of nvdisasm: beside a ptxas that can be found, on PATH, in a Python package.
    Raises NoNvdisasm."""
    path = next(places("nvdisasm", environ), None)
    if path is None:
        raise NoNvdisasm("no nvdisasm found; install nvidia-cuda-nvdisasm with pip")
    return path


def disassemble(
    cubin: bytes, nvdisasm: str | None = None, *, timeout: float | None = None
) -> dict[str, list[DisassembledLine]]:
    """The instructions of each function of a cubin, in order, padding included.

    `timeout` is in seconds. Raises NoNvdisasm, or subprocess.TimeoutExpired.
    """
    import json  # most code is read without nvdisasm

    program = nvdisasm or locate()
    with program_file(cubin, "input.cubin") as file:
        command = [program, "-json", file.path]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=timeout, pass_fds=file.descriptors
            )
        except OSError as error:
            raise NoNvdisasm(f"{program} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[0] if said else f"it ended with status {done.returncode}"
        raise NoNvdisasm(f"{program} cannot read this cubin ({reason}); install a newer one")
    try:
        functions = json.loads(done.stdout)[1]
        return {f["function-name"]: list(map(_line, f["sass-instructions"])) for f in functions}
    except (ValueError, LookupError, TypeError) as error:
        raise NoNvdisasm(f"{program} prints JSON of another form: {error!r}") from error


def _line(given: Mapping[str, Any]) -> DisassembledLine:
    kinds = given.get("other-attributes") or {}
    return DisassembledLine(
        given.get("predicate", "").removeprefix("@"),
        given["opcode"],
        given.get("operands", ""),
        "control-flow" in kinds,
        "subroutine-call" in kinds,
    )
