"""Compile the programs to PTX with nvcc: `python -m benchmarks.programs.faults.make [NAME…]`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from benchmarks.programs.faults.cases import FAULTS, HERE, path

FLAGS = ("-arch=sm_90", "-fmad=false", "-lineinfo", "-ptx")
"""sm_90 is the first target for which a source can fix the shape of its blocks."""


def main() -> int:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    for name in sys.argv[1:] or FAULTS:
        for mended in (False, True):
            out = path(name, mended=mended)
            command = [nvcc, *FLAGS, *["-DMENDED"] * mended, f"{name}.cu", "-o", str(out)]
            subprocess.run(command, cwd=HERE / "cuda", check=True)
            text = out.read_text()
            out.write_text(_without_paths(text))
            print(out.relative_to(HERE))
    return 0


def _without_paths(text: str) -> str:
    """The text without the directories of this machine."""
    text = text.replace(f'"{HERE.resolve()}/cuda/', '"../cuda/')
    return re.sub(r'"/[^"]*/include/', '"/cuda/include/', text)


if __name__ == "__main__":
    sys.exit(main())
