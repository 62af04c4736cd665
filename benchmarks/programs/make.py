"""Compile the programs to PTX with nvcc: `python -m benchmarks.programs.make`."""

from __future__ import annotations

import shutil
import subprocess
import sys

from benchmarks.kernelgen.make import FLAGS
from benchmarks.programs.cases import HERE, PROGRAMS


def main() -> int:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    for name in PROGRAMS:
        out = HERE / "ptx" / f"{name}.ptx"
        command = [nvcc, *FLAGS, f"{name}.cu", "-o", str(out)]
        subprocess.run(command, cwd=HERE / "cuda", check=True)
        print(out.relative_to(HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
