"""A change of a CUDA kernel, tested without a GPU: it does what it did, and has no fault.

pip install pytest 'ptxsw[nvcc]', then: pytest examples/testing
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ptxsw
from ptxsw.toolchain.inputs import ptx_of
from ptxsw.toolchain.programs import places

AVERAGE = """
extern "C" __global__ void average(const float *a, float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3;
}
"""
SIMPLER = """
extern "C" __global__ void average(const float *a, float *b, int n)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i <= 0 || i >= n - 1)
        return;
    float left = a[i - 1], right = a[i + 1];
    b[i] = (left + a[i] + right) / 3;
}
"""
TURN = """
extern "C" __global__ void __launch_bounds__(1024) turn(const float *a, float *b, int n)
{
    __shared__ float tile[32][33];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = a[y * n + x];
    __syncthreads();
    b[y * n + x] = tile[x][y];
}
"""


@pytest.fixture
def ptx(tmp_path: Path) -> Callable[[str], str]:
    """Compiles CUDA to PTX, with the lines of the source."""
    if next(places("nvcc"), None) is None:
        pytest.skip("no nvcc: install a CUDA toolkit, or 'ptxsw[nvcc]'")

    def compiled(source: str) -> str:
        file = tmp_path / "kernel.cu"
        file.write_text(source)
        [ptx] = ptx_of(str(file), arch="sm_80")
        return ptx.text

    return compiled


def test_the_simpler_kernel_does_the_same(ptx: Callable[[str], str]) -> None:
    verdict = ptxsw.verify(ptx(AVERAGE), ptx(SIMPLER))
    assert isinstance(verdict, ptxsw.Proved), verdict


def test_an_off_by_one_is_found(ptx: Callable[[str], str]) -> None:
    wrong = SIMPLER.replace("i >= n - 1", "i >= n")
    verdict = ptxsw.verify(ptx(AVERAGE), ptx(wrong))
    assert isinstance(verdict, ptxsw.Different), verdict
    assert verdict.difference is not None  # with a launch that shows it


def test_the_transpose_has_no_data_race(ptx: Callable[[str], str]) -> None:
    [kernel] = ptxsw.check(ptx(TURN), select="data-race", block=(32, 32)).kernels
    assert kernel.verdicts["data-race"].verdict == "absent"
    unordered = TURN.replace("    __syncthreads();\n", "")
    [kernel] = ptxsw.check(ptx(unordered), select="data-race", block=(32, 32)).kernels
    assert kernel.verdicts["data-race"].verdict == "found"


def test_the_transpose_has_no_bank_conflict(ptx: Callable[[str], str]) -> None:
    report = ptxsw.check(ptx(TURN), select="bank-conflicts", block=(32, 32))
    assert [finding for kernel in report.kernels for finding in kernel.findings] == []
