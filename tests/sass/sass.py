"""PTX as ptxas assembles it and nvdisasm prints it, both from NVIDIA's wheels."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path

_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
_LABEL = re.compile(r"^(\.L_\w+):", re.MULTILINE)


def tool(name: str) -> Path:
    """A program from NVIDIA's wheels."""
    found = sorted(Path(sysconfig.get_path("purelib")).glob(f"nvidia/*/bin/{name}"))
    assert found, f"{name} is not installed; the dev extra has it"
    return found[-1]


@lru_cache(maxsize=256)
def disassembled(text: str, arch: str) -> str:
    """What nvdisasm prints of a text assembled for an architecture."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        source.write_text(text)
        run = (str(tool("ptxas")), f"-arch={arch}", str(source), "-o", str(cubin))
        done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        shown = (str(tool("nvdisasm")), "-c", str(cubin))
        return subprocess.run(shown, capture_output=True, text=True, timeout=120, check=True).stdout


def opcodes(text: str, arch: str) -> list[str]:
    """The instructions in order, with their modifiers: `BRA.CONV`. What only fills the end, `NOP`
    and a branch to itself, is left out.

    On sm_80 ptxas likes to leave loops by `@P0 CALL.REL.NOINC next; BRA again; next:`. Nothing is
    called there: such a jump is a "JUMP" here.
    """
    found: list[tuple[str, str]] = []
    label_at: dict[str, int] = {}
    for line in disassembled(text, arch).split("\n"):
        named = _LABEL.match(line)
        instruction = _LINE.search(line)
        if named is not None:
            label_at[named[1]] = len(found)
        elif instruction is not None and instruction[1] != "NOP":
            found.append((instruction[1], instruction[2]))
    kept: list[str] = []
    for number, (opcode, operands) in enumerate(found):
        target = label_at.get(operands.partition("(")[2].rstrip(") "))
        if opcode == "BRA" and target == number:
            continue
        over = opcode == "CALL.REL.NOINC" and target == number + 2
        kept.append("JUMP" if over else opcode)
    return kept


def counted(text: str, arch: str) -> Counter[str]:
    """How many there are of each; of branches with the first modifier."""
    return Counter(
        ".".join(op.split(".")[: 2 if op.startswith("BRA") else 1]) for op in opcodes(text, arch)
    )


def branches(text: str, arch: str) -> int:
    """Everything that may part the lanes of a warp, or waits for those that were parted."""
    kinds = counted(text, arch)
    return sum(n for kind, n in kinds.items() if re.match(r"BRA|BSSY|CALL|WARPSYNC|BRX|JMP", kind))
