"""Compile the operators to PTX with nvcc: `python -m benchmarks.kernelgen.make [NAME ...]`.

The PTX is committed, so that nothing else needs nvcc. `-fmad=false` keeps products and sums
apart: each operation is then one correctly rounded IEEE operation, which numpy has too, and the
references in `reference.py` can be compared bit for bit. Loads and addresses are the same with
and without it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("-arch=sm_80", "-fmad=false", "-ptx")


def names() -> list[str]:
    """The operators, by the names of their sources."""
    return sorted(path.stem for path in (HERE / "cuda").glob("*.cu"))


def compile_operator(nvcc: str, name: str, real: str) -> Path:
    """Writes `ptx/NAME.ptx` (float) or `ptx/double/NAME.ptx`; returns its path.

    Raises subprocess.CalledProcessError if nvcc refuses the source.
    """
    out = HERE / "ptx" / ("double" if real == "double" else "") / f"{name}.ptx"
    out.parent.mkdir(parents=True, exist_ok=True)
    define = () if real == "float" else (f"-DREAL={real}",)
    command = [nvcc, *FLAGS, *define, f"{name}.cu", "-o", str(out)]
    subprocess.run(command, cwd=HERE / "cuda", check=True)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the operators to PTX with nvcc.")
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    chosen = parser.parse_args().name or names()
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    for name in chosen:
        for real in ("float", "double"):
            print(compile_operator(nvcc, name, real).relative_to(HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
