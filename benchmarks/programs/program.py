"""What a program of this folder is: a kernel, how it was compiled, and launches with numpy's
results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import Run, Size
from benchmarks.kernelgen.operators import Array

HERE = Path(__file__).parent

Results = dict[str, Array]


@dataclass(frozen=True)
class Program:
    """One kernel. `source` is the stem of the file in `cuda/`, for gcc-12 in `openacc/`, or in a
    folder that is named as its compiler. `sums`
    says how many iterations an unrolled loop stands for: the sums and products of floats (FADD,
    FMUL, FFMA) in one iteration of the source's loop; 0 where that is not told."""

    name: str
    source: str
    defines: Mapping[str, str]
    launches: tuple[Callable[[], Run], ...]
    compiler: str = field(default="nvcc", kw_only=True)  # or "clang", "gcc-12", "opencl", "numba"
    flags: tuple[str, ...] = field(default=(), kw_only=True)  # more of the compiler
    fused: bool = field(default=False, kw_only=True)  # products and sums, where nvcc can
    sums: int = field(default=0, kw_only=True)

    @property
    def entry(self) -> str:
        """The name of the kernel."""
        return f"{self.source}$_omp_fn$0" if self.compiler == "gcc-12" else self.source

    @property
    def path(self) -> Path:
        """Of the PTX."""
        return HERE / "ptx" / f"{self.name}.ptx"


def noise(shape: int | tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Positive numbers, the same for the same shape and seed."""
    random = np.random.default_rng(seed + np.prod(shape))
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 100, shape).astype(dtype)
    return (random.random(shape) + 0.1).astype(dtype)


def launched(
    grid: Size, block: Size, scalars: tuple[Any, ...], inputs: Results, outputs: Results,
    shared: int = 0,
) -> Run:  # fmt: skip
    """Arguments are scalars, inputs and outputs, in this order; an array that is both is an
    output, with an input of its name as what it holds before."""
    only = {name: array for name, array in inputs.items() if name not in outputs}
    blank = {name: np.full_like(array, 9) for name, array in outputs.items()}
    given = {name: inputs.get(name, blank[name]) for name in outputs}
    arrays = only | given
    flat = tuple(array.reshape(-1).copy() for array in arrays.values())
    expected = {name: array.reshape(-1) for name, array in outputs.items()}
    return Run(grid, block, (*scalars, *flat), tuple(arrays), expected, shared)
