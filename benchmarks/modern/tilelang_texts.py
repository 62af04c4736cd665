"""Texts by TileLang 0.1.15 and nvcc, for three targets."""

# mypy: ignore-errors

import subprocess
import sys
from pathlib import Path

import tilelang
import tilelang.language as T

ROOT = Path(tilelang.__file__).parent


def product(m, n, k, stages):
    size, half = 4096, "float16"

    matrix = T.Tensor((4096, 4096), "float16")

    @T.prim_func
    def main(a: matrix, b: matrix, c: matrix):
        with T.Kernel(T.ceildiv(size, n), T.ceildiv(size, m), threads=128) as (x, y):
            left, right = T.alloc_shared((m, k), half), T.alloc_shared((k, n), half)
            sums = T.alloc_fragment((m, n), "float")
            T.clear(sums)
            for at in T.Pipelined(T.ceildiv(size, k), num_stages=stages):
                T.copy(a[y * m, at * k], left)
                T.copy(b[at * k, x * n], right)
                T.gemm(left, right, sums)
            T.copy(sums, c[y * m, x * n])

    return main


def make(folder, name, function, arch):
    target = {"kind": "cuda", "arch": arch}
    with tilelang.tvm.target.Target(target):
        source = tilelang.lower(function, target=target).kernel_source
    path = folder / f"tilelang_{name}_{arch.replace('_', '').rstrip('a')}.ptx"
    path.with_suffix(".cu").write_text(source)
    include = (f"-I{ROOT / 'src'}", f"-I{ROOT / '3rdparty/cutlass/include'}")
    command = ("nvcc", "-std=c++17", "-ptx", f"-arch={arch}", "-lineinfo", *include)
    subprocess.run([*command, path.with_suffix(".cu"), "-o", path], check=True)


def main(folder):
    for arch in ("sm_80", "sm_90a", "sm_100a"):
        make(folder, "f16_128x128x64", product(128, 128, 64, 3), arch)
        make(folder, "f16_s2_128x64x32", product(128, 64, 32, 2), arch)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
