"""Compile the programs to PTX: `python -m benchmarks.programs.make [--with COMPILER]`.

With nvcc (the default), or those that clang or GCC's OpenACC writes (`benchmarks/kernelgen/make.py`
says what that takes). The PTX is committed, so that nothing else needs a compiler.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

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
    parser.add_argument("--with", dest="by", choices=("nvcc", "clang", "gcc-12"), default="nvcc")
    by = parser.parse_args().by
    compiler = shutil.which(by)
    if compiler is None:
        print(f"{by} is not on PATH; the committed PTX needs it only to be made anew")
        return 2
    for name in PROGRAMS if by == "nvcc" else ():
        _nvcc(compiler, Program(name, name, {}, ()))
    compile_ = {"nvcc": _nvcc, "clang": _clang, "gcc-12": _gcc}[by]
    for program in (MEMORY | LOADS | ADDRESSES | FLAT | STRAIGHT | UNOPTIMIZED).values():
        if program.compiler == by:
            compile_(compiler, program)
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


if __name__ == "__main__":
    sys.exit(main())
