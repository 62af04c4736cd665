"""Compile the programs to PTX: `python -m benchmarks.programs.make [--with COMPILER]`.

With nvcc (the default), or those that clang (of CUDA and OpenCL) or GCC's OpenACC writes
(`benchmarks/kernelgen/make.py` says what that takes), or Numba (numba-cuda 0.30,
with nvidia-nvvm and nvidia-cuda-nvrtc 13.0). The PTX is committed, so that nothing else needs a
compiler.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.kernelgen.make import FLAGS, compile_with_clang, compile_with_gcc
from benchmarks.programs.addresses import ADDRESSES
from benchmarks.programs.cases import PROGRAMS
from benchmarks.programs.flat import FLAT
from benchmarks.programs.loads import LOADS
from benchmarks.programs.memory import MEMORY
from benchmarks.programs.program import HERE, Program
from benchmarks.programs.straight import STRAIGHT
from benchmarks.programs.unoptimized import UNOPTIMIZED


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the programs to PTX.")
    parser.add_argument("--with", dest="by", choices=tuple(_COMPILED), default="nvcc")
    by = parser.parse_args().by
    compiler = shutil.which(by)
    if compiler is None:
        print(f"{by} is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    for name in PROGRAMS if by == "nvcc" else ():
        _nvcc(compiler, Program(name, name, {}, ()))
    every = MEMORY | LOADS | ADDRESSES | FLAT | STRAIGHT | UNOPTIMIZED
    for program in every.values():
        if program.compiler in _COMPILED[by]:
            _COMPILED[by][program.compiler](compiler, program)
    return 0


def _nvcc(nvcc: str, program: Program) -> None:
    values = (f"-D{name}={value}" for name, value in program.defines.items())
    flags = [flag for flag in FLAGS if not (program.fused and flag.startswith("-fmad"))]
    source = f"{program.source}.cu"
    command = [nvcc, *flags, *program.flags, *values, source, "-o", str(program.path)]
    subprocess.run(command, cwd=HERE / "cuda", check=True)
    print(program.path.relative_to(HERE))


def _clang(clang: str, program: Program) -> None:
    source = HERE / "cuda" / f"{program.source}.cu"
    compile_with_clang(clang, source, program.path, *program.flags)
    print(program.path.relative_to(HERE))


def _gcc(gcc: str, program: Program) -> None:
    compile_with_gcc(gcc, HERE / "openacc" / f"{program.source}.c", program.path)
    print(program.path.relative_to(HERE))


def _opencl(clang: str, program: Program) -> None:
    source = HERE / "opencl" / f"{program.source}.cl"
    subprocess.run(
        [clang, *_OPENCL, source.name, "-o", program.path], cwd=source.parent, check=True
    )
    print(program.path.relative_to(HERE))


def _numba(numba: str, program: Program) -> None:
    """With the Python that Numba is installed in."""
    source = HERE / "numba" / f"{program.source}.py"
    subprocess.run(
        [Path(numba).with_name("python"), source.name, program.path], cwd=source.parent, check=True
    )
    print(program.path.relative_to(HERE))


_OPENCL = (
    "-x", "cl", "-cl-std=CL1.2", "-O3", "-ffp-contract=off", "--target=nvptx64-nvidia-cuda",
    "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-target-feature", "-Xclang", "+ptx70",
    "-S",
)  # fmt: skip
_COMPILED: Mapping[str, Mapping[str, Callable[[str, Program], None]]] = {
    "nvcc": {"nvcc": _nvcc},
    "clang": {"clang": _clang, "opencl": _opencl},
    "gcc-12": {"gcc-12": _gcc},
    "numba": {"numba": _numba},
}
"""What the programs of a compiler are compiled by, by the command that it takes."""


if __name__ == "__main__":
    sys.exit(main())
