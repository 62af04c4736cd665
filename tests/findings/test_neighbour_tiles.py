"""Tiles for neighbours: what the threads of a block ask for, and what of it differs. Kernels with a
tile, or whose reuse is inside a thread, are left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ptxsw.driver.checking import check
from ptxsw.report.model import Finding
from ptxsw.toolchain.inputs import ptx_of

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")

SOURCE = """
__global__ void __block_size__((32, 8, 1)) box(int w, const float *in, float *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float s = 0;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            s += in[(y + j) * w + x + i];
    out[y * w + x] = s;
}
__global__ void __block_size__((256, 1, 1)) taps(const float *in, float *out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float s = 0;
    for (int k = 0; k < 9; k++)
        s += in[i + k];
    out[i] = s;
}
__global__ void __block_size__((32, 8, 1)) cross(int w, const float *in, float *out)
{
    int i = (blockIdx.y * 8 + threadIdx.y + 1) * w + blockIdx.x * 32 + threadIdx.x + 1;
    out[i] = in[i] + in[i - 1] + in[i + 1] + in[i - w] + in[i + w];
}
__global__ void __block_size__((32, 8, 1)) tiled(int w, const float *in, float *out)
{
    __shared__ float t[10][34];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (int j = threadIdx.y; j < 10; j += 8)
        for (int i = threadIdx.x; i < 34; i += 32)
            t[j][i] = in[(blockIdx.y * 8 + j) * w + blockIdx.x * 32 + i];
    __syncthreads();
    float s = 0;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            s += t[threadIdx.y + j][threadIdx.x + i];
    out[y * w + x] = s;
}
__global__ void __block_size__((256, 1, 1)) inside(int w, const float *in, float *out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float a = in[i], b = in[w + i], c = in[2 * w + i], d = in[3 * w + i], e = in[4 * w + i];
    out[i] = a * b + b * c + c * d + d * e + a * e;
}
__global__ void __block_size__((32, 8, 1)) blocked(int w, const float *in, float *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = (blockIdx.y * 8 + threadIdx.y) * 4;
    float c[6];
    for (int j = 0; j < 6; j++)
        c[j] = in[(y + j) * w + x];
    for (int j = 0; j < 4; j++)
        out[(y + j) * w + x] = c[j] + c[j + 1] + c[j + 2];
}
__global__ void __block_size__((256, 1, 1))
weights(int n, const float *a, const float *w, float *out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float s = 0;
    for (int k = 0; k < 8; k++)
        s += w[k] * a[k * n + i];
    out[i] = s;
}
__global__ void __block_size__((256, 1, 1)) clamped(int n, const float *in, float *out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    out[i] = in[max(i - 2, 0)] + in[max(i - 1, 0)] + in[i] + in[min(i + 1, n)] + in[min(i + 2, n)];
}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """What the rule finds, by the name of the kernel."""
    file = tmp_path_factory.mktemp("tiles") / "k.cu"
    file.write_text(SOURCE.replace("__global__", 'extern "C" __global__'))
    [ptx] = ptx_of(str(file), "sm_90", ())
    report = check(ptx.text, select="shared-tile,neighbour-loads", ptxas=False)
    return {kernel.name: list(kernel.findings or ()) for kernel in report.kernels}


@pytest.mark.parametrize(
    ("name", "loads", "asked", "different"),
    [
        ("box", 9, 9 * 256 * 4, (32 + 2) * (8 + 2) * 4), ("taps", 9, 9 * 256 * 4, 264 * 4),
        ("cross", 5, 5 * 256 * 4, (34 * 10 - 4) * 4),
    ],
)  # fmt: skip
def test_bytes_of_a_block(
    name: str, loads: int, asked: int, different: int, found: dict[str, list[Finding]]
) -> None:
    [one] = [f for f in found[name] if f.rule == "ptxsw-shared-tile"]
    assert one.measure == f"{asked:,} bytes, of which {different:,} differ"
    assert f"by {loads} loads" in one.what and f"tile of {different:,} bytes" in one.advice
    assert not [f for f in found[name] if f.rule != one.rule]  # one cause once


@pytest.mark.parametrize("name", ["tiled", "inside", "blocked", "weights", "clamped"])
def test_no_tile_where_it_helps_none(name: str, found: dict[str, list[Finding]]) -> None:
    assert "ptxsw-shared-tile" not in {f.rule for f in found[name]}


FEW_ROWS = """
extern "C" __global__ void __block_size__((32, 4, 1))
k(int n, const float *A, const float *x, float *y)
{
    int row = blockIdx.x * 4 + threadIdx.y;
    float s = 0;
    for (int k = threadIdx.x; k < n; k += 32)
        s += A[row * n + k] * x[k];
    atomicAdd(&y[row], s);
}
"""


@pytest.mark.parametrize(("rows", "count"), [(4, 0), (16, 1)])
def test_a_few_threads_are_worth_no_tile(rows: int, count: int, tmp_path: Path) -> None:
    """Four warps, each with a row of a matrix, load the same vector: the first-level cache does."""
    (tmp_path / "k.cu").write_text(
        FEW_ROWS.replace("32, 4", f"32, {rows}").replace("* 4", f"* {rows}")
    )
    [ptx] = ptx_of(str(tmp_path / "k.cu"), "sm_90", ())
    report = check(ptx.text, select="shared-tile", ptxas=False)
    assert len(report.kernels[0].findings or ()) == count
