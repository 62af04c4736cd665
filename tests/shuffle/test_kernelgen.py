"""KernelGen: as many shuffles as the paper's Table 2, text that ptxas takes, equal results."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernelgen import operators
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.simt import launch
from ptxsw.toolchain.find import real_ptxas
from tests.parsed import parsed

PTX = Path(operators.__file__).parent / "ptx"

# Shuffles and loads. The paper's loads of matmul, matvec and sincos are of another compiler's
# unrolling; its sixth rewrite of whispering is a copy of a load that this compiler makes once.
TABLE_2 = {
    "divergence": (1, 6),
    "gameoflife": (6, 9),
    "gaussblur": (20, 25),
    "gradient": (1, 6),
    "jacobi": (6, 9),
    "lapgsrb": (12, 25),
    "laplacian": (2, 7),
    "matmul": (0, 14),
    "matvec": (0, 14),
    "sincos": (0, 4),
    "tricubic": (48, 67),
    "tricubic2": (48, 67),
    "uxx1": (3, 17),
    "vecadd": (0, 2),
    "wave13pt": (4, 14),
    "whispering": (5, 19),
}


def rewrite(name: str, folder: str = "") -> tuple[str, Result]:
    text = (PTX / folder / f"{name}.ptx").read_text()
    return text, optimize(text, Options(mode="force", scheme="paper"), f"{name}.ptx")


@pytest.mark.parametrize("name", TABLE_2)
def test_as_many_shuffles_as_the_paper(name: str) -> None:
    text, result = rewrite(name)
    (kernel,) = result.report.kernels
    assert (kernel.shuffles, kernel.loads) == TABLE_2[name]
    assert (result.text is text) == (kernel.shuffles == 0)


@pytest.mark.parametrize("name", TABLE_2)
def test_as_many_in_double_precision(name: str) -> None:
    _, result = rewrite(name, "double")
    (kernel,) = result.report.kernels
    assert kernel.shuffles == TABLE_2[name][0]


@pytest.mark.parametrize(
    "arch", [pytest.param("sm_75", marks=pytest.mark.slow), "sm_80",
             pytest.param("sm_90", marks=pytest.mark.slow)]
)  # fmt: skip
@pytest.mark.parametrize("name", [name for name, (count, _) in TABLE_2.items() if count])
def test_ptxas_takes_it(name: str, arch: str, tmp_path: Path) -> None:
    ptxas = real_ptxas(os.environ)
    if ptxas is None:
        pytest.skip("no ptxas on this machine")
    _, result = rewrite(name)
    path = tmp_path / f"{name}.ptx"
    path.write_text(result.text.replace(".target sm_80", f".target {arch}"))
    done = subprocess.run(
        [ptxas.path, f"-arch={arch}", path, "-o", tmp_path / "out.cubin"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("block", "seed"),
    [((32, 1, 1), None), ((33, 1, 1), 1), ((7, 1, 1), None), ((16, 4, 1), None), ((8, 4, 2), None)],
)
@pytest.mark.parametrize("name", ["jacobi", "gaussblur", "laplacian", "wave13pt", "whispering"])
def test_results_are_equal(name: str, block: tuple[int, int, int], seed: int | None) -> None:
    operator = operators.OPERATORS[name]
    text, result = rewrite(name)
    sizes = (40, 7, 7)[: operator.dims]
    arrays = operators.make_inputs(operator, sizes, np.dtype("f4"))
    scalars = operator.scalars
    args = [*sizes, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    before = launch(parsed(text), operator.entry, (1, 1, 1), block, args)
    after = launch(parsed(result.text), operator.entry, (1, 1, 1), block, args, seed=seed)
    for one, other in zip(before.buffers, after.buffers, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("block", [(32, 1, 1), (33, 1, 1), (16, 4, 1)])
@pytest.mark.parametrize("name", ["jacobi", "gaussblur", "wave13pt"])
def test_results_are_equal_in_double_precision(name: str, block: tuple[int, int, int]) -> None:
    operator = operators.OPERATORS[name]
    text, result = rewrite(name, "double")
    sizes = (40, 7, 7)[: operator.dims]
    arrays = operators.make_inputs(operator, sizes, np.dtype("f8"))
    scalars = operator.scalars
    args = [*sizes, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    before = launch(parsed(text), operator.entry, (1, 1, 1), block, args)
    after = launch(parsed(result.text), operator.entry, (1, 1, 1), block, args)
    for one, other in zip(before.buffers, after.buffers, strict=True):
        assert one.tobytes() == other.tobytes()


def test_neighbours_are_used_when_the_warp_is_whole() -> None:
    """jacobi in whole warps of one row: three full loads, and six that only edge lanes make."""
    operator = operators.OPERATORS["jacobi"]
    text, result = rewrite("jacobi")
    sizes = (34, 3)
    arrays = operators.make_inputs(operator, sizes, np.dtype("f4"))
    scalars = operator.scalars
    args = [*sizes, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    before = launch(parsed(text), operator.entry, (1, 1, 1), (32, 1, 1), args)
    after = launch(parsed(result.text), operator.entry, (1, 1, 1), (32, 1, 1), args)
    assert before.counters is not None and after.counters is not None
    assert before.counters.lane_loads == 9 * 32
    assert after.counters.lane_loads == 3 * 32 + 6
    assert after.counters.shuffles == 6
