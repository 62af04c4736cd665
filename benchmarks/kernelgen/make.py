"""Compile the operators to PTX: `python -m benchmarks.kernelgen.make [--with COMPILER] [NAME ...]`.

With nvcc (the default), with clang (the CUDA sources, no CUDA headers needed), or with GCC's
OpenACC (gcc-12, gcc-12-offload-nvptx, nvptx-tools; the sources in `openacc/`).

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
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("-arch=sm_80", "-fmad=false", "-ptx")


def names() -> list[str]:
    """The operators, by the names of their sources."""
    return sorted(path.stem for path in (HERE / "cuda").glob("*.cu"))


def path(name: str, real: str, compiler: str = "") -> Path:
    """Where a text is: `ptx/NAME.ptx`, `ptx/double/NAME.ptx`, `ptx/clang/double/NAME.ptx`, …"""
    return HERE / "ptx" / compiler / ("double" if real == "double" else "") / f"{name}.ptx"


def _define(real: str) -> tuple[str, ...]:
    return () if real == "float" else (f"-DREAL={real}",)


MEASURED = (
    "divergence", "gameoflife", "gaussblur", "gradient", "jacobi", "laplacian", "tricubic", "uxx1",
    "wave13pt",
)  # fmt: skip


def compile_as_measured(nvcc: str, name: str) -> Path:
    """Writes the text that stands for NVHPC's, for the oldest target that nvcc 13 has; returns its
    path. Raises subprocess.CalledProcessError."""
    out = path(name, "float", "nvhpc")
    command = [nvcc, "-arch=sm_75", "-DLITERAL=double", "-ptx", f"{name}.cu", "-o", str(out)]
    subprocess.run(command, cwd=HERE / "cuda", check=True)
    return out


CLANG = (
    "-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-device-only", "-nocudainc", "-nocudalib",
    "-O3", "-ffp-contract=off", "-S", "-include", str(HERE / "clang.h"),
)  # fmt: skip
GCC = (
    "-std=gnu11", "-O3", "-ffp-contract=off", "-fopenacc", "-foffload=nvptx-none",
    "-foffload-options=nvptx-none=-O3 -misa=sm_80 -mptx=7.0", "-foffload-options=nvptx-none=-lm",
    "-save-temps", "-shared", "-fPIC",
)  # fmt: skip


def compile_operator(compiler: str, by: str, name: str, real: str) -> Path:
    """Writes the text of an operator; returns its path. Raises subprocess.CalledProcessError."""
    if by == "nvcc":
        out, source = path(name, real), HERE / "cuda" / f"{name}.cu"
        command = [compiler, *FLAGS, *_define(real), source.name, "-o", str(out)]
        subprocess.run(command, cwd=source.parent, check=True)
    elif by == "clang":
        out = path(name, real, "clang")
        compile_with_clang(compiler, HERE / "cuda" / f"{name}.cu", out, *_define(real))
    else:
        out = path(name, real, "gcc")
        compile_with_gcc(compiler, HERE / "openacc" / f"{name}.c", out, *_define(real))
    return out


def compile_with_clang(clang: str, source: Path, out: Path, *defines: str) -> None:
    """Writes the text that clang makes of a CUDA source. Raises subprocess.CalledProcessError."""
    command = [clang, *CLANG, *defines, source.name, "-o", str(out)]
    subprocess.run(command, cwd=source.parent, check=True, stderr=subprocess.DEVNULL)


def compile_with_gcc(gcc: str, source: Path, out: Path, *defines: str) -> None:
    """Writes the text that GCC makes of an OpenACC source. Raises subprocess.CalledProcessError.

    PATH is cut, since nvptx-as would ask a ptxas found there, and new ones refuse sm_35.
    """
    name = source.stem
    with tempfile.TemporaryDirectory(prefix="ptxsw-") as folder:
        made = ("-dumpdir", f"{folder}/", source.name, "-o", f"{folder}/{name}.so")
        command = [gcc, *GCC, *defines, *made]
        subprocess.run(
            command, cwd=source.parent, check=True, env={"PATH": "/usr/bin:/bin"},
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        (ptx,) = Path(folder).glob("*mkoffload.s")
        out.write_text(ptx.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the operators to PTX.")
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    parser.add_argument("--with", dest="by", choices=("nvcc", "clang", "gcc-12"), default="nvcc")
    parser.add_argument("--as-measured", action="store_true", help="those of CC'23, with nvcc")
    asked = parser.parse_args()
    compiler = shutil.which(asked.by)
    if compiler is None:
        print(f"{asked.by} is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    if asked.as_measured:
        for name in asked.name or MEASURED:
            print(compile_as_measured(compiler, name).relative_to(HERE))
        return 0
    for name in asked.name or names():
        for real in ("float", "double"):
            print(compile_operator(compiler, asked.by, name, real).relative_to(HERE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
