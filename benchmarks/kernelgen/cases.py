"""What the harness runs: a text, two launches for it, and what numpy makes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernelgen import reference
from benchmarks.kernelgen.operators import OPERATORS, Array, Operator, make_inputs
from ptxsw.simt.run import LaunchResult

HERE = Path(__file__).parent
DTYPES = {"float": np.float32, "double": np.float64}
BLOCK = 128
RAGGED = 40  # threads: one whole warp, and one of eight lanes
Size = tuple[int, int, int]
# Interior points along i, j and k, by dimensions or name; of matmul nx, ny and nl.
LARGE: dict[int | str, Size] = {
    2: (6144, 4096, 1), 3: (384, 256, 256), "matmul": (2048, 2048, 256), "matvec": (32768, 768, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One launch and the results it is to have. `arrays` are the array arguments, in order,
    `shared` the bytes of dynamic shared memory, `placed` further arrays at addresses that
    structures hold."""

    grid: Size
    block: Size
    args: tuple[Any, ...]
    arrays: tuple[str, ...]
    expected: Mapping[str, Array]
    shared: int = 0
    placed: Mapping[str, tuple[int, Array]] = field(default_factory=dict)

    @property
    def memory(self) -> dict[int, Array]:
        """The arrays at addresses, as `launch` takes them."""
        return dict(self.placed.values())

    def wrong(self, done: LaunchResult) -> str | None:
        """The first array that a launch has not left as expected, if there is one."""
        for name, expected in self.expected.items():
            if name in self.placed:
                found = done.memory[self.placed[name][0]]
            else:
                found = done.buffers[self.arrays.index(name)]
            if found.tobytes() != expected.tobytes():
                return name
        return None


@dataclass(frozen=True)
class Case:
    """One kernel. `runs(real)`: whole warps of one iteration each, then ragged blocks; `tiny(real)`
    is one ragged block, small enough for a fuzzed schedule; `large(real, block, share)` is what a
    GPU is timed on, in so many threads a block, or a share of it, without numpy's results."""

    name: str
    entry: str
    path: Callable[[str], Path]  # of the PTX, for "float" or "double"
    runs: Callable[[str], tuple[Run, Run]]
    tiny: Callable[[str], Run]
    large: Callable[[str, int, float], Run]
    tolerance: int = 0  # units in the last place
    reals: tuple[str, ...] = ("float", "double")


def operator_path(name: str, real: str) -> Path:
    return HERE / "ptx" / ("double" if real == "double" else "") / f"{name}.ptx"


def operator_case(operator: Operator) -> Case:
    """The case of a KernelGen operator."""
    return Case(
        operator.name,
        operator.entry,
        lambda real: operator_path(operator.name, real),
        lambda real: (_run(operator, real, BLOCK), _run(operator, real, RAGGED)),
        lambda real: _tiny_run(operator, real),
        lambda real, block, share: _large_run(operator, real, block, share),
        reference.TOLERANCE.get(operator.name, 0),
    )


def _run(operator: Operator, real: str, block: int) -> Run:
    """Two blocks' worth of points along i, three or four along the others; in ragged blocks a few
    points are left for a second iteration of some lanes."""
    points = 2 * block + (0 if block % 32 == 0 else 5)
    sizes = (points, 4, 11) if operator.name == "matmul" else (points, 4, 3)
    grid = (4, 1, 2) if len(operator.sizes) == 2 or operator.name == "matmul" else (3, 4, 2)
    return _sized(operator, real, sizes, (2, 1, 1) if operator.name == "matvec" else grid, block)


def _tiny_run(operator: Operator, real: str) -> Run:
    """One block, in which some lanes make two iterations along i and all make two along j."""
    points = (RAGGED + 5, 2, 5 if operator.name == "matmul" else 1)
    return _sized(operator, real, points, (1, 1, 1), RAGGED)


def _large_run(operator: Operator, real: str, block: int, share: float) -> Run:
    """Each array has 100 MB (in float), more than a second-level cache; each thread one point."""
    whole = LARGE.get(operator.name, LARGE[operator.dims])
    i, j, k = (max(round(n * share), 1) for n in whole)
    grid = (j, 1, -(-i // block))
    if operator.dims == 3:
        grid = (k, j, -(-i // block))
    elif operator.name == "matvec":
        grid = (-(-i // block), 1, 1)
    return _sized(operator, real, (i, j, k), grid, block, expect=False)


def _sized(
    operator: Operator,
    real: str,
    points: tuple[int, int, int],
    grid: Size,
    block: int,
    *,
    expect: bool = True,
) -> Run:
    """A launch for so many interior points along i, j and k."""
    margin = 0 if operator.name == "matmul" else operator.low + operator.high
    sizes = tuple(n + margin for n in points[: len(operator.sizes)])
    arrays = make_inputs(operator, sizes, DTYPES[real])
    names = tuple(p for p in operator.params if p not in operator.scalars)
    args = (*sizes, *(operator.scalars.get(p, arrays.get(p)) for p in operator.params))
    expected = reference.run(operator.name, arrays) if expect else {}
    return Run(grid, (block, 1, 1), args, names, expected)


CASES: dict[str, Case] = {name: operator_case(each) for name, each in OPERATORS.items()}
