"""What the harness runs: a text, two launches for it, and what numpy makes of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernelgen import reference
from benchmarks.kernelgen.operators import OPERATORS, Array, Operator, make_inputs

HERE = Path(__file__).parent
DTYPES = {"float": np.float32, "double": np.float64}
BLOCK = 128
RAGGED = 40  # threads: one whole warp, and one of eight lanes
Size = tuple[int, int, int]


@dataclass(frozen=True)
class Run:
    """One launch and the results it is to have. `arrays` are the array arguments, in order."""

    grid: Size
    block: Size
    args: tuple[Any, ...]
    arrays: tuple[str, ...]
    expected: Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """One kernel. `runs(real)`: whole warps of one iteration each, then ragged blocks; `tiny(real)`
    is one ragged block, small enough for a fuzzed schedule."""

    name: str
    entry: str
    path: Callable[[str], Path]  # of the PTX, for "float" or "double"
    runs: Callable[[str], tuple[Run, Run]]
    tiny: Callable[[str], Run]
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


def _sized(
    operator: Operator, real: str, points: tuple[int, int, int], grid: Size, block: int
) -> Run:
    """A launch for so many interior points along i, j and k."""
    margin = 0 if operator.name == "matmul" else operator.low + operator.high
    sizes = tuple(n + margin for n in points[: len(operator.sizes)])
    arrays = make_inputs(operator, sizes, DTYPES[real])
    names = tuple(p for p in operator.params if p not in operator.scalars)
    args = (*sizes, *(operator.scalars.get(p, arrays.get(p)) for p in operator.params))
    return Run(grid, (block, 1, 1), args, names, reference.run(operator.name, arrays))


CASES: dict[str, Case] = {name: operator_case(each) for name, each in OPERATORS.items()}
