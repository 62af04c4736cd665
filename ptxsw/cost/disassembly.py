"""The instructions of a cubin: as nvdisasm prints them, or what counting needs of them, read from
their bits: starting nvdisasm takes a quarter of a second of CPU, more than ptxas itself for most
kernels.

    bits  0 to  8   the operation; 9 to 11 the form of its operands
    bits 12 to 15   the predicate before it: 7 for none, and whether it is negated
    bits 34 to 81   the distance of a branch in words of 4 bytes from the next instruction, signed;
                    from sm_90 on its lowest byte is in bits 16 to 23
    bits 73 to 75   the bytes that a load or store moves for each lane
    bits 87 to 90   the predicate among the operands of a branch

NVIDIA does not describe the encoding. The table was read off nvdisasm's output, and the tests hold
each line that comes from here against what nvdisasm says. What does not stand in the table is left
to nvdisasm. Its JSON (`-json`) is read; versions that print text only are refused.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import lru_cache
from struct import iter_unpack
from typing import Any, Final, NamedTuple

from ptxsw.cost.cubin import FunctionCode
from ptxsw.toolchain.programs import places, program_file

_BYTES: Final = 16  # of an instruction
_FIRST: Final = 75  # architectures whose encoding the tests compare
_LAST: Final = 121
_ALWAYS: Final = 7  # the predicate that is true

_OPCODES: Final = {
    0x002: "MOV", 0x003: "P2R", 0x004: "R2P", 0x005: "CS2R", 0x006: "VOTE", 0x007: "SEL",
    0x008: "FSEL", 0x009: "FMNMX", 0x00A: "FSET", 0x00B: "FSETP", 0x00C: "ISETP", 0x010: "IADD3",
    0x011: "LEA", 0x012: "LOP3", 0x013: "IABS", 0x014: "VABSDIFF", 0x016: "PRMT", 0x017: "IMNMX",
    0x019: "SHF", 0x01A: "SGXT", 0x01C: "PLOP3", 0x020: "FMUL", 0x021: "FADD", 0x023: "FFMA",
    0x024: "IMAD", 0x025: "IMAD", 0x026: "IDP", 0x027: "IMAD", 0x028: "DMUL", 0x029: "DADD",
    0x02A: "DSETP", 0x02B: "DFMA", 0x030: "HADD2", 0x031: "HFMA2", 0x036: "VIADD", 0x037: "IMMA",
    0x03B: "LDSM", 0x03C: "HMMA", 0x03E: "F2FP", 0x03F: "DMMA", 0x045: "I2FP", 0x046: "VIADDMNMX",
    0x048: "VIMNMX", 0x05A: "UI2F", 0x05C: "UF2I", 0x082: "UMOV", 0x086: "VOTEU", 0x087: "USEL",
    0x08C: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3", 0x097: "UIADD3", 0x099: "USHF",
    0x0A4: "UIMAD", 0x0A5: "UIMAD", 0x0A6: "UIMAD", 0x0B9: "ULDC", 0x0BD: "UFLO", 0x0BF: "UPOPC",
    0x0CA: "R2UR", 0x0CB: "CS2UR", 0x100: "FLO", 0x101: "BREV", 0x102: "FCHK", 0x105: "F2I",
    0x106: "I2F", 0x107: "FRND", 0x108: "MUFU", 0x109: "POPC", 0x110: "F2F", 0x111: "F2I",
    0x112: "I2F", 0x113: "FRND", 0x118: "NOP", 0x119: "S2R", 0x11A: "DEPBAR", 0x11C: "B2R",
    0x11D: "BAR", 0x141: "BSYNC", 0x142: "BREAK", 0x144: "CALL", 0x145: "BSSY", 0x146: "YIELD",
    0x147: "BRA", 0x148: "WARPSYNC", 0x149: "BRX", 0x14D: "EXIT", 0x150: "RET", 0x155: "BMOV",
    0x156: "BMOV", 0x15C: "BPT", 0x15D: "NANOSLEEP", 0x160: "TEX", 0x163: "TLD4", 0x166: "TLD",
    0x16F: "TXQ", 0x180: "LD", 0x181: "LDG", 0x182: "LDC", 0x183: "LDL", 0x184: "LDS", 0x185: "ST",
    0x186: "STG", 0x187: "STL", 0x188: "STS", 0x189: "SHFL", 0x18A: "ATOM", 0x18B: "ATOM",
    0x18C: "ATOMS", 0x18E: "RED", 0x18F: "CCTL", 0x192: "MEMBAR", 0x199: "SULD", 0x19D: "SUST",
    0x1A1: "MATCH", 0x1A3: "ATOMG", 0x1A8: "ATOMG", 0x1A9: "ATOMG", 0x1AB: "ERRBAR", 0x1AC: "LDCU",
    0x1AE: "LDGSTS", 0x1AF: "LDGDEPBAR", 0x1C2: "R2UR", 0x1C3: "S2UR", 0x1C4: "REDUX",
}  # fmt: skip
_SIZED: Final = frozenset({
    "LD", "LDC", "LDCU", "LDG", "LDGSTS", "LDL", "LDS", "ST", "STG", "STL", "STS",
})  # fmt: skip
_SIZES: Final = ("U8", "S8", "U16", "S16", "32", "64", "128")
_LINKED: Final = 0x143  # a call of what is linked later: the cubin has its name elsewhere
_DIRECT: Final = 0x9  # the form of a call whose target stands in the instruction
_COLLECTIVE: Final = 1 << 86  # of WARPSYNC from sm_90 on: a branch
_LOW: Final = 0xFFFF  # operation, form and predicate
_HIGH: Final = 7 << 73 - 64 | _COLLECTIVE >> 64  # size, and the branch of WARPSYNC


INSTALL = "`pip install 'ptxsw[sass]'` brings it"


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
        raise NoNvdisasm(f"no nvdisasm found; {INSTALL}")
    return path


def disassemble(
    cubin: bytes, nvdisasm: str | None = None, *, timeout: float | None = None
) -> dict[str, list[DisassembledLine]]:
    """The instructions of each function of a cubin, in order, padding included.

    `timeout` is in seconds. Raises NoNvdisasm, or subprocess.TimeoutExpired.
    """
    import json  # most code is read without nvdisasm

    program = nvdisasm or locate()
    done = run(program, cubin, timeout)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[0] if said else f"it ended with status {done.returncode}"
        raise NoNvdisasm(f"{program} cannot read this cubin ({reason}); install a newer one")
    try:
        functions = json.loads(done.stdout)[1]
        return {f["function-name"]: list(map(_printed, f["sass-instructions"])) for f in functions}
    except (ValueError, LookupError, TypeError) as error:
        raise NoNvdisasm(f"{program} prints JSON of another form: {error!r}") from error


def run(program: str, cubin: bytes, timeout: float | None) -> subprocess.CompletedProcess[bytes]:
    """What an nvdisasm prints of a cubin. Raises NoNvdisasm, or subprocess.TimeoutExpired."""
    with program_file(cubin, "input.cubin") as file:
        try:
            return subprocess.run(
                [program, "-json", file.path],
                capture_output=True,
                timeout=timeout,
                pass_fds=file.descriptors,
            )
        except OSError as error:
            raise NoNvdisasm(f"{program} cannot be run: {error.strerror}") from error


def _printed(given: Mapping[str, Any]) -> DisassembledLine:
    kinds = given.get("other-attributes") or {}
    return DisassembledLine(
        given.get("predicate", "").removeprefix("@"),
        given["opcode"],
        given.get("operands", ""),
        "control-flow" in kinds,
        "subroutine-call" in kinds,
    )


# ---------------------------------------------------------------- without it


def reads(arch: int) -> bool:
    """Is the encoding of sm_`arch` known?"""
    return _FIRST <= arch <= _LAST


def decoded(code: FunctionCode, arch: int) -> list[DisassembledLine] | None:
    """The instructions of a kernel for sm_`arch`, padding included; None where one is not known.
    Of opcodes there is the root, with the size that is moved; of operands those that steer."""
    if not reads(arch):
        return None
    routines = dict(code.routines)
    lines = []
    for number, (low, high) in enumerate(iter_unpack("<QQ", code.code[: len(code.code) & -_BYTES])):
        line = _usual(low & _LOW, high & _HIGH, arch)
        if line is None:
            line = _line(high << 64 | low, number * _BYTES, arch, routines)
        if line is None:
            return None
        lines.append(line)
    return lines


@lru_cache(maxsize=1 << 12)
def _usual(low: int, high: int, arch: int) -> DisassembledLine | None:
    """An instruction that is told by these bits of its two halves; None for what leads elsewhere,
    and for what is not known."""
    leads_elsewhere = _OPCODES.get(low & 0x1FF) in ("BRA", "CALL")
    return None if leads_elsewhere else _line(high << 64 | low, 0, arch, {})


def _line(word: int, at: int, arch: int, routines: Mapping[int, str]) -> DisassembledLine | None:
    """One instruction, which stands `at` bytes behind the start of its kernel."""
    operation = word & 0x1FF
    root = _OPCODES.get(operation)
    if operation == _LINKED:
        direct = word >> 8 & 0xF == _DIRECT
        return (
            DisassembledLine(_predicate(word), "CALL.ABS.NOINC", "", True, True) if direct else None
        )
    if operation == 0x035:
        root = "HFMA2.MMA" if arch < 100 else "IADD"
    predicate = _predicate(word)
    match root:
        case None:
            return None
        case "BRA":
            tests = word >> 87 & 15 != _ALWAYS or word >> 32 & 3
            target = _target(word, at, arch)
            return DisassembledLine(
                predicate, root, f"{'P,' if tests else ''}{target:#x}", True, False
            )
        case "CALL":
            if word >> 8 & 0xF != _DIRECT:
                return None
            target = _target(word, at, arch)
            called = routines.get(target)
            operands = f"{target:#x}" if called is None else f"`({called})"
            return DisassembledLine(predicate, "CALL.REL.NOINC", operands, True, called is not None)
        case "WARPSYNC" if arch >= 90 and word & _COLLECTIVE:
            return None
        case _ if root in _SIZED:
            size = word >> 73 & 7
            if size >= len(_SIZES):
                return None
            return DisassembledLine(predicate, f"{root}.{_SIZES[size]}", "", False, False)
    return DisassembledLine(predicate, root, "", False, False)


def _predicate(word: int) -> str:
    """What stands before an instruction: "!P0", or nothing."""
    negated, register = word >> 15 & 1, word >> 12 & 7
    return "" if (negated, register) == (0, _ALWAYS) else ("!" if negated else "") + f"P{register}"


def _target(word: int, at: int, arch: int) -> int:
    """Where a branch leads to, in bytes from the start of the kernel."""
    distance, bits = word >> 34 & (1 << 48) - 1, 48
    if arch >= 90:
        distance, bits = distance << 8 | word >> 16 & 0xFF, 56
    if distance >> (bits - 1):
        distance -= 1 << bits
    return at + _BYTES + 4 * distance
