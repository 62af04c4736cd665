"""Builds of real tools, plain and under `ptxsw exec`: they end alike, and leave alike behind.

Each build is made in one directory, since compilers write paths into objects. Of two sources, one
has nothing to rewrite, and the other has bank conflicts that `auto` mends. All tests are slow.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).parents[2]
PTXSW = [sys.executable, "-m", "ptxsw", "exec", "--"]
pytestmark = pytest.mark.slow

SAME = """\
__global__ void scale(float *o, const float *u, float a) {
  o[blockIdx.x * blockDim.x + threadIdx.x] = a * u[blockIdx.x * blockDim.x + threadIdx.x];
}
"""
FLIP = """\
__global__ void __launch_bounds__(1024) flip(float *o, const float *u) {
  __shared__ float s[32][32];
  s[threadIdx.y][threadIdx.x] = u[threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  o[threadIdx.y * 32 + threadIdx.x] = s[threadIdx.x][threadIdx.y];
}
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES CUDA)
add_library(k STATIC same.cu flip.cu)
set_target_properties(k PROPERTIES CUDA_ARCHITECTURES "75;80;90")
target_compile_options(k PRIVATE -lineinfo)
"""
SETUP = """\
import subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class Cuda(build_ext):
    def build_extension(self, extension):
        self.compiler.src_extensions.append(".cu")
        for source in extension.sources:
            subprocess.run(["nvcc", "-arch=sm_80", "-Xcompiler=-fPIC", "-c", source,
                            "-o", source + ".o"], check=True)

setup(name="p", ext_modules=[Extension("k", ["same.cu", "flip.cu"])], cmdclass={"build_ext": Cuda})
"""
OFFLOADED = """\
int main(void) {
  float a[100], b[100];
  for (int i = 0; i < 100; i++) b[i] = i;
#pragma acc parallel loop copyin(b) copyout(a)
#pragma omp target teams distribute parallel for map(to: b) map(from: a)
  for (int i = 1; i < 99; i++) a[i] = b[i - 1] + b[i + 1];
  return a[3] != 6;
}
"""
PLAIN_CLANG = """\
extern "C" __attribute__((global)) void scale(float *o, float a) { o[0] = a * o[1]; }
"""
TRITON = """\
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def add(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)

source = ASTSource(fn=add, signature={"x": "*fp32", "y": "*fp32", "n": "i32", "block": "constexpr"},
                   constexprs={"block": 128})
for arch in 80, 90:
    made = triton.compile(source, target=GPUTarget("cuda", arch, 32))
    open(f"add{arch}.cubin", "wb").write(made.asm["cubin"])
"""


class Recipe(Struct, frozen=True):
    """How to build: programs and packages that it needs, files, commands for a shell. `{jobs}` is
    a number."""

    needs: tuple[str, ...]
    files: dict[str, str]
    script: str
    rewrites: bool = True  # flip.cu is in it


def make(options: str) -> Recipe:
    """nvcc by make, with options."""
    makefile = f"all: same.o flip.o\n%.o: %.cu\n\tnvcc {options} -c $< -o $@\n"
    files = {"Makefile": makefile, "same.cu": SAME, "flip.cu": FLIP}
    return Recipe(("nvcc", "make"), files, "make -s -j{jobs}")


KEPT = "--keep --keep-dir ."  # a name of a temporary file is part of that of an -rdc module
THREE = " ".join(f"-gencode=arch=compute_{n},code=sm_{n}" for n in (75, 80, 90))
GCC = "gcc -O2 {} offloaded.c -w -foffload=nvptx-none -foffload-options=-Wa,--no-verify -o k.out"
RECIPES = {
    "make": make("-arch=sm_80"),
    "make, three targets, threads": make(f"{THREE} --threads 3"),
    "make, rdc, keep": make(f"-arch=sm_80 -rdc=true {KEPT}"),
    "make, lineinfo": make("-arch=sm_80 -lineinfo"),
        "options file": Recipe(
        ("nvcc",), {"options": "-arch=sm_80 -c\n", "same.cu": SAME, "flip.cu": FLIP},
        "nvcc --options-file options same.cu -o same.o; nvcc -optf options flip.cu -o flip.o",
    ),
    "cmake and ninja": Recipe(
        ("nvcc", "cmake", "ninja"), {"CMakeLists.txt": CMAKE, "same.cu": SAME, "flip.cu": FLIP},
        "cmake -G Ninja -S . -B b >/dev/null && ninja -C b -j{jobs} >/dev/null; "
        "cp b/CMakeFiles/k.dir/*.o .; rm -r b",
    ),
    "setup.py": Recipe(
        ("nvcc",), {"setup.py": SETUP, "same.cu": SAME, "flip.cu": FLIP},
        f"{sys.executable} setup.py -q build_ext && rm -rf build",
    ),
    "bubblewrap": Recipe(
        ("nvcc", "bwrap"), {"same.cu": SAME, "flip.cu": FLIP},
        "for f in same flip; do "
        "bwrap --unshare-pid --dev-bind / / nvcc -arch=sm_80 -c $f.cu -o $f.o; done",
    ),
    "ccache": Recipe(
        ("nvcc", "ccache"), {"same.cu": SAME, "flip.cu": FLIP},
        "for f in same flip; do ccache nvcc -arch=sm_80 -c $f.cu -o $f.o; done",
    ),
    "sccache": Recipe(
        ("nvcc", "sccache"), {"same.cu": SAME, "flip.cu": FLIP},
        "export SCCACHE_SERVER_PORT=47391; "
        "SCCACHE_START_SERVER=1 SCCACHE_NO_DAEMON=1 sccache 2>/dev/null & sleep 1; "
        "for f in same flip; do sccache nvcc -arch=sm_80 -c $f.cu -o $f.o; done; "
        "sccache --stop-server >/dev/null; wait",
    ),
    "Triton": Recipe(
        ("triton",), {"add.py": TRITON}, f"{sys.executable} add.py && rm -rf __pycache__", False
    ),
    "OpenACC": Recipe(
        ("gcc", "nvptx-none-as"), {"offloaded.c": OFFLOADED}, GCC.format("-fopenacc"), False
    ),
    "OpenMP": Recipe(
        ("gcc", "nvptx-none-as"), {"offloaded.c": OFFLOADED}, GCC.format("-fopenmp"), False
    ),
    "clang": Recipe(
        ("clang++",), {"same.cu": PLAIN_CLANG},
        "clang++ -x cuda --cuda-device-only --cuda-gpu-arch=sm_75 -nocudainc -nocudalib "
        "-Wno-unknown-cuda-version -c same.cu -o same.o", False,
    ),
}  # fmt: skip


class Built(Struct, frozen=True):
    """What a build said, and the files that it left, without names that are others each time."""

    status: int
    stderr: str
    files: dict[str, bytes]
    left: int  # temporary files


Run = Callable[..., Built]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Builds a recipe in a directory that is empty but for its files."""

    def built(recipe: Recipe, *, under_exec: bool, jobs: int = 2, cache: str = "cache") -> Built:
        place, temporary = tmp_path / "project", tmp_path / "tmp"
        for directory in (place, temporary):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        for name, text in recipe.files.items():
            (place / name).write_text(text)
            os.utime(place / name, (1e9, 1e9))  # which -lineinfo writes into objects
        mark = f"mark-{os.getpid()}"
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "TMPDIR": str(temporary),
            "PYTHONPATH": str(ROOT), "PTXSW_CACHE": str(tmp_path / cache), "PTXSW_MARK": mark,
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        command = ["sh", "-c", recipe.script.format(jobs=jobs)]
        done = subprocess.run(
            [*PTXSW, *command] if under_exec else command,
            cwd=place, env=environ, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert not _with(mark), "a process is left"
        stderr = "\n".join(line for line in done.stderr.split("\n") if "PTXSW_MARK" not in line)
        contents = {p.name: _plain(p.read_bytes()) for p in place.rglob("*") if p.is_file()}
        left = len(list(temporary.iterdir()))
        return Built(done.returncode, _plain(stderr.encode()).decode(), contents, left)

    return built


def _plain(data: bytes) -> bytes:
    """Without the numbers of processes that are in names of temporary files."""
    data = re.sub(rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}", b"tmpxft_", data)
    return re.sub(rb"cc[0-9A-Za-z]{6}\b", b"cc______", data)


def _with(mark: str) -> list[str]:
    """The processes that have a variable of this value."""
    left = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                left.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return left


@pytest.mark.parametrize("name", RECIPES)
def test_a_build_ends_as_it_would_without_us(name: str, run: Run) -> None:
    recipe = RECIPES[name]
    missing = [n for n in recipe.needs if shutil.which(n) is None and find_spec(n) is None]
    if missing:
        pytest.skip(f"no {missing[0]}")
    plain = run(recipe, under_exec=False)
    if plain.status != 0:
        pytest.skip(f"the plain build fails: {plain.stderr[-200:]}")
    again = run(recipe, under_exec=False)
    if plain != again:
        names = [name for name in plain.files if plain.files[name] != again.files[name]]
        pytest.skip(f"each plain build is another: {names or again.stderr}")
    made = run(recipe, under_exec=True)
    assert (made.status, made.stderr, made.left) == (plain.status, plain.stderr, plain.left)
    assert made.files.keys() == plain.files.keys()
    different = {file for file in plain.files if plain.files[file] != made.files[file]}
    assert all(file.startswith("flip") for file in different)
    assert bool(different) is recipe.rewrites
    assert run(recipe, under_exec=True) == made  # what is remembered
    assert run(recipe, under_exec=True, jobs=1, cache="other") == made
