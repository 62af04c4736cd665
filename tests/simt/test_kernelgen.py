"""The KernelGen operators against numpy formulas, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernelgen import operators, reference
from ptxsw.parser import parse
from ptxsw.simt import LaunchResult, launch

PTX = Path(operators.__file__).parent / "ptx"
GEOMETRIES = [((3, 2, 2), (64, 1, 1)), ((2, 3, 2), (16, 5, 1)), ((1, 2, 1), (48, 1, 1))]


def sizes_of(name: str) -> tuple[int, ...]:
    if name == "matmul":
        return (37, 9, 16)
    if name == "matvec":
        return (64, 19)
    return {3: (37, 9, 7), 2: (37, 19)}[operators.OPERATORS[name].dims]


def run(
    name: str, dtype: str, grid: tuple[int, ...], block: tuple[int, ...], seed: int | None = None
) -> tuple[dict[str, operators.Array], dict[str, operators.Array], LaunchResult]:
    """What the kernel leaves behind, and what the formulas give."""
    operator = operators.OPERATORS[name]
    folder = PTX if dtype == "f4" else PTX / "double"
    module = parse((folder / f"{name}.ptx").read_text())
    sizes = sizes_of(name)
    arrays = operators.make_inputs(operator, sizes, np.dtype(dtype))
    scalars = operator.scalars
    args = [*sizes, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    result = launch(module, operator.entry, grid, block, args, seed=seed, races=seed == 3)
    names = [p for p in operator.params if p not in scalars]
    return dict(zip(names, result.buffers, strict=True)), reference.run(name, arrays), result


def assert_equal(name: str, got: operators.Array, want: operators.Array) -> None:
    tolerance = reference.TOLERANCE.get(name, 0)
    if tolerance == 0:
        assert np.array_equal(got, want)
    else:
        assert (np.abs(got - want) <= tolerance * np.spacing(np.abs(want))).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", sorted(operators.OPERATORS))
def test_operator(name: str, dtype: str) -> None:
    for grid, block in GEOMETRIES:
        got, wanted, _ = run(name, dtype, grid, block)
        for output, want in wanted.items():
            assert_equal(name, got[output], want)


@pytest.mark.parametrize("name", ["jacobi", "gaussblur", "laplacian", "vecadd"])
def test_operator_under_fuzzed_schedules(name: str) -> None:
    for seed in range(4):
        got, wanted, _ = run(name, "f4", (1, 1, 1), (48, 1, 1), seed)
        for output, want in wanted.items():
            assert_equal(name, got[output], want)


def test_loads_are_counted() -> None:
    """jacobi loads nine values for each interior point and passes no load by."""
    _, _, result = run("jacobi", "f4", (17, 1, 1), (64, 1, 1))
    counters = result.counters
    assert counters is not None
    points = 35 * 17
    assert counters.lane_loads == 9 * points
    # 35 points of a row: a full warp and one of three lanes.
    assert counters.warp_loads == 9 * 17 * 2
    assert counters.warp_instructions["load.global"] == counters.warp_loads
    assert counters.warp_instructions["store.global"] == 17 * 2
    assert counters.shuffles == 0
