"""PTX as ptxas assembles it and nvdisasm prints it, both from NVIDIA's wheels."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

from ptxsw.cost import sass
from ptxsw.cost.machine_code import BYTES, MachineInstruction


def tool(name: str) -> str:
    """A program from NVIDIA's wheels."""
    found = sorted(Path(sysconfig.get_path("purelib")).glob(f"nvidia/*/bin/{name}"))
    assert found, f"{name} is not installed; the dev extra has it"
    return str(found[-1])


def disassembled(text: str, arch: str) -> str:
    """What nvdisasm prints of a text assembled for an architecture."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        source.write_text(text)
        run = (tool("ptxas"), f"-arch={arch}", str(source), "-o", str(cubin))
        done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        shown = (tool("nvdisasm"), "-c", str(cubin))
        return subprocess.run(shown, capture_output=True, text=True, timeout=120, check=True).stdout


@lru_cache(maxsize=256)
def instructions(text: str, arch: str) -> tuple[MachineInstruction, ...]:
    """The machine code of all kernels of a text, what only fills the end left out."""
    made = sass.read(
        text, arch, lines=False, ptxas=tool("ptxas"), disassembler=tool("nvdisasm"), timeout=120
    )
    assert not made.note, made.note
    return tuple(i for kernel in made.kernels for i in kernel.instructions)


def opcodes(text: str, arch: str) -> list[str]:
    """The instructions in order, with their modifiers: `BRA.CONV`; `NOP` is left out.

    On sm_80 ptxas likes to leave loops by `@P0 CALL.REL.NOINC next; BRA again; next:`. Nothing is
    called there: such a jump is a "JUMP" here.
    """
    found = [i for i in instructions(text, arch) if i.opcode != "NOP"]
    return ["JUMP" if _leaves_a_loop(i) else i.opcode for i in found]


def _leaves_a_loop(i: MachineInstruction) -> bool:
    return i.opcode == "CALL.REL.NOINC" and i.operands == hex(i.address + 2 * BYTES)


def counted(text: str, arch: str) -> Counter[str]:
    """How many there are of each; of branches with the first modifier."""
    return Counter(
        ".".join(op.split(".")[: 2 if op.startswith("BRA") else 1]) for op in opcodes(text, arch)
    )


def branches(text: str, arch: str) -> int:
    """Everything that may part the lanes of a warp, or waits for those that were parted."""
    kinds = counted(text, arch)
    return sum(n for kind, n in kinds.items() if re.match(r"BRA|BSSY|CALL|WARPSYNC|BRX|JMP", kind))
