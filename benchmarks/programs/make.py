"""Compile the programs to PTX with nvcc: `python -m benchmarks.programs.make`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.kernelgen.make import FLAGS
from benchmarks.programs.cases import HERE, PROGRAMS
from benchmarks.programs.memory import MEMORY


def main() -> int:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    for name in PROGRAMS:
        _compile(nvcc, f"{name}.cu", {}, HERE / "ptx" / f"{name}.ptx")
    for program in MEMORY.values():
        _compile(nvcc, f"{program.entry}.cu", program.defines, program.path)
    return 0


def _compile(nvcc: str, source: str, defines: Mapping[str, str], out: Path) -> None:
    values = (f"-D{name}={value}" for name, value in defines.items())
    command = [nvcc, *FLAGS, *values, source, "-o", str(out)]
    subprocess.run(command, cwd=HERE / "cuda", check=True)
    print(out.relative_to(HERE))


if __name__ == "__main__":
    sys.exit(main())
