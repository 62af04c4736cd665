"""The machine code of a text for a reader of the report, where ptxas and nvdisasm are at hand."""

from __future__ import annotations

import subprocess

from msgspec import Struct

from ptxsw.cost import sass
from ptxsw.cost.cubin import BadCubin
from ptxsw.cost.machine_code import MachineInstruction
from ptxsw.ptx.errors import PtxError
from ptxsw.toolchain.ptxas import AssemblyError, NoPtxas

_OLDEST = "sm_75"  # that every current ptxas knows
_SECONDS = 60.0  # for each program that is run
_REACHES_MEMORY = frozenset({"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "SULD", "SUST", "LDSM"})


class MachineLine(Struct, frozen=True):
    """One instruction of machine code."""

    kernel: str
    """As in the PTX."""
    address: int
    """In bytes from the start of the kernel."""
    text: str
    """As nvdisasm prints it."""
    line: int | None
    """That of its PTX, from 1; None where it has none."""
    memory: bool
    """Does it read or write memory?"""


class MachineCode(Struct, frozen=True):
    """All instructions of a text."""

    arch: str | None
    """The target; None without machine code."""
    lines: tuple[MachineLine, ...]
    """Kernel by kernel, by address."""
    note: str
    """What is missing and why, or empty."""


def machine_code(text: str, target: str | None) -> MachineCode:
    """What ptxas makes of a text for its target, or for sm_75 where it no longer knows that."""
    arch = (target or _OLDEST).replace("compute_", "sm_")
    problem = ""
    for one in dict.fromkeys((arch, _OLDEST)):
        try:
            code = sass.read(text, one, timeout=_SECONDS)
        except AssemblyError as error:
            problem = problem or f"ptxas rejects this PTX: {_first_line(error)}"
        except NoPtxas:
            return MachineCode(None, (), "No ptxas was found: pip install nvidia-cuda-nvcc.")
        except (BadCubin, PtxError, OSError) as error:
            return MachineCode(None, (), f"No machine code: {_first_line(error)}")
        except subprocess.TimeoutExpired:
            return MachineCode(None, (), f"ptxas took more than {_SECONDS:.0f} s.")
        else:
            return MachineCode(one, tuple(_lines(code)), code.note)
    return MachineCode(None, (), problem)


def _lines(code: sass.Sass) -> list[MachineLine]:
    return [
        MachineLine(
            kernel.name,
            instruction.address,
            _written(instruction),
            instruction.line,
            instruction.root in _REACHES_MEMORY or instruction.width is not None,
        )
        for kernel in code.kernels
        for instruction in kernel.instructions
        if instruction.root != "NOP"
    ]


def _written(instruction: MachineInstruction) -> str:
    guard = f"@{instruction.predicate} " if instruction.predicate else ""
    return f"{guard}{instruction.opcode} {instruction.operands}".rstrip()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
