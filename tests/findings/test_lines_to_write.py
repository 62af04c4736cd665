"""Lines that findings tell to write: put into the source in the place of what they are about, they
end the finding. What cannot be read, or would not help, is not told as a line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ptxsw.toolchain.inputs import ptx_of
from tests.command_line import ptxsw

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")

GEMV = """
__global__ void k(int m, int n, const double *a, const double *x, double *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[(size_t)i * n + k] * x[k];
    y[i] = sum;
}
"""
CHUNKS = """
__global__ void k(const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < 64; k++)
        out[i * 64 + k] = 2 * in[i * 64 + k];
}
"""
SWAPPED = """
__global__ void k(int h, int w, const float *a, float *c)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < h && col < w)
        c[row * w + col] = 2 * a[row * w + col];
}
"""
STRUCTS = """
struct Particle { float x, y, z, u, v, w; };
__global__ void k(int n, float dt, Particle *p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i].x += dt * p[i].u;
}
"""
TURNED = """
__global__ void __block_size__((32, 32, 1)) k(int w, int h, const float *in, float *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    out[x * h + y] = in[y * w + x];
}
"""
TURNED_LOADS = """
__global__ void __block_size__((16, 16, 1)) k(int w, int h, const double *in, double *out)
{
    int tx = threadIdx.x, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + threadIdx.y;
    out[y * w + x] = 2 * in[x * h + y];
}
"""
PARITY = """
__global__ void k(const float *in, float *out)
{
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    bool odd = t % 2;
    float v = in[i];
    if (odd)
        for (int k = 0; k < 64; k++)
            v = v * 1.5f - 0.25f;
    else
        for (int k = 0; k < 64; k++)
            v = __fsqrt_rn(v) + 0.125f;
    out[i] = v;
}
"""
SPARSE = """
__global__ void k(int n, const int *start, const float *value, float *out)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    float sum = 0;
    for (int j = start[row]; j < start[row + 1]; j++)
        sum += value[j];
    out[row] = sum;
}
"""


PRODUCT = """
__global__ void __block_size__((16, 16, 1))
k(int n, int m, const float *A, const float *B, float *C)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += A[row * n + k] * B[k * m + col];
    C[row * m + col] = sum;
}
"""
BODIES = """
struct Body { float x, y, z, m; };
__global__ void __block_size__((128, 1, 1)) k(int n, const Body *body, float *out)
{
    int i = blockIdx.x * 128 + threadIdx.x;
    float sum = 0, x = 0.5f * i;
    for (int j = 0; j < n; j++)
        sum += body[j].m * (body[j].x - x);
    out[i] = sum;
}
"""


def found(source: str, at: Path) -> list[dict[str, Any]]:
    file = at / "k.cu"
    file.write_text(source)
    done = ptxsw("check", file, "--arch", "sm_90", "--format", "json", "--no-ptxas")
    assert not done.stderr, done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


def lines(advice: str) -> list[str]:
    """The lines of source in an advice."""
    return [code for code in re.findall("`([^`]*)`", advice) if re.search(r"[;{)]$", code)]


def replaced(source: str, line: int, by: str) -> str:
    every = source.split("\n")
    every[line - 1] = by
    return "\n".join(every)


def of_fields(source: str, line: int, advice: str) -> str:
    declared, instead = re.findall("`([^`]*)` in place of `([^`]*)`", advice)[0]
    source = source.replace(instead, declared.replace(", *", ", float *"))
    return replaced(source, line, lines(advice)[-1])


def of_axes(source: str, line: int, advice: str) -> str:
    for number, one in zip((4, 5), re.findall(r"int [^;]*;", lines(advice)[0]), strict=True):
        source = replaced(source, number, one)
    return source


def of_warps(source: str, line: int, advice: str) -> str:
    index, loop = lines(advice)[:2]
    return replaced(replaced(source, line, loop), 4, index)


def of_parity(source: str, line: int, advice: str) -> str:
    return replaced(source, 5, lines(advice)[0])


def of_tiles(source: str, line: int, advice: str) -> str:
    """The loop goes over tiles."""
    declared, loads, barrier, *_ = lines(advice)
    [loop, use] = re.findall("`(for [^`]*)` with `([^`]*)`", advice)[0]
    [side] = re.findall(r"tiles of (\d+)", advice)
    every = f"for (int t = 0; t < n; t += {side}) {{ {loads} {barrier} {loop} {use} {barrier} }}"
    return replaced(replaced(source, line - 1, declared), line, every)


def of_line(source: str, line: int, advice: str) -> str:
    return replaced(source, line, lines(advice)[0].replace("rows", "4096"))


@pytest.mark.parametrize(
    ("source", "rule", "told", "mend"),
    [
        (GEMV, "column", "sum += a[(size_t)k * m + i] * x[k];", of_line),
        (CHUNKS, "column", "out[k * rows + i] = 2 * in[k * rows + i];", of_line),
        (
            SWAPPED, "swapped-axes",
            "int row = blockIdx.y * blockDim.y + threadIdx.y; "
            "int col = blockIdx.x * blockDim.x + threadIdx.x;", of_axes,
        ),
        (STRUCTS, "array-of-structs", "x[i] += dt * u[i];", of_fields),
        (
            TURNED, "column",
            "__shared__ float tile[32][33]; tile[threadIdx.y][threadIdx.x] = in[y * w + x]; "
            "__syncthreads(); out[(blockIdx.x * 32 + threadIdx.y) * h + (blockIdx.y * 32 + "
            "threadIdx.x)] = tile[threadIdx.x][threadIdx.y];", of_line,
        ),
        (
            TURNED_LOADS, "column",
            "__shared__ double tile[16][17]; tile[threadIdx.x][threadIdx.y] = "
            "in[(blockIdx.x * 16 + threadIdx.y) * h + (blockIdx.y * 16 + threadIdx.x)]; "
            "__syncthreads(); out[y * w + x] = 2 * tile[threadIdx.y][threadIdx.x];", of_line,
        ),
        (PARITY, "divergent-branch", "bool odd = t / 32 % 2;", of_parity),
        (
            SPARSE, "divergent-loop",
            "for (int j = start[row] + lane; j < start[row + 1]; j += 32)", of_warps,
        ),
        (
            PRODUCT, "shared-tile",
            "As[threadIdx.y][threadIdx.x] = A[row * n + t + threadIdx.x]; "
            "Bs[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * m + col];", of_tiles,
        ),
        (
            BODIES, "shared-tile",
            "bodys[threadIdx.x] = ((const float4 *)body)[t + threadIdx.x];", of_tiles,
        ),
    ],
    ids=[
        "gemv", "chunks", "swapped", "structs", "turned", "turned-loads", "parity", "sparse",
        "product", "bodies",
    ],
)  # fmt: skip
def test_the_line_ends_the_finding(
    source: str, rule: str, told: str, mend: Any, tmp_path: Path
) -> None:
    [first, *_] = found(source, tmp_path)
    assert first["rule"] == f"ptxsw-{rule}" and f"`{told}`" in first["advice"]
    mended = mend(source, first["line"], first["advice"])
    assert mended != source
    assert {each["level"] for each in found(mended, tmp_path)} <= {"note"}


ONE_VECTOR = """
struct Body { float x, y, z, m; };
__global__ void k(int n, const Body *b, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = b[i].x + b[i].y + b[i].z;
}
"""
TWO_LINES = """
__global__ void k(int n, const float *a, const float *b, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i * n + blockIdx.y];
    out[i + 4096] = b[i * n + blockIdx.y];
}
"""


def test_a_struct_of_floats_is_one_vector(tmp_path: Path) -> None:
    [first, *_] = found(ONE_VECTOR, tmp_path)
    assert first["advice"] == (
        "Load the struct at once: `float4 v = ((const float4 *)b)[i];` is one access of 16 "
        "sectors, not 3 of 16 each."
    )


def test_lines_that_have_the_same_fault_are_those_of_the_source(tmp_path: Path) -> None:
    [first, *_] = found(TWO_LINES, tmp_path)
    assert first["line"] == 5 and first["what"].endswith(" The same holds for line 6.")


USED_BY_ROWS = GEMV.replace("* x[k];", "* a[(size_t)k * n + i];")
MACRO = "#define AT(i, k) ((i) * n + (k))\n" + GEMV.replace("(size_t)i * n + k", "AT(i, k)")
POINTER = GEMV.replace("a[(size_t)i * n + k]", "row[k]").replace(
    "double sum = 0;", "const double *row = a + (size_t)i * n;\n    double sum = 0;"
)
FAR_STRUCTS = STRUCTS.replace("p[i]", "p[2 * i]")
OTHER_INDEX = STRUCTS.replace("p[i].x +=", "p[i ^ 1].x =").replace("p[i].u", "p[i ^ 1].u")


@pytest.mark.parametrize(
    "source", [USED_BY_ROWS, FAR_STRUCTS, OTHER_INDEX], ids=["rows", "far", "other"]
)
def test_what_would_not_help_is_no_line(source: str, tmp_path: Path) -> None:
    [first, *_] = found(source, tmp_path)
    assert not lines(first["advice"])


@pytest.mark.parametrize("source", [MACRO, POINTER], ids=["macro", "pointer"])
def test_what_cannot_be_read_is_told_as_the_index_of_the_ptx(source: str, tmp_path: Path) -> None:
    [first, *_] = found(source, tmp_path)
    assert "Store `a` transposed: `a[ctaid.x*ntid.x + " in first["advice"]
    assert "rows + tid.x]` moves 8 sectors an access, not 32" in first["advice"]


LAUNCHED = (
    PRODUCT.replace("__block_size__((16, 16, 1))\n", "")
    + """
void launch(int n, const float *A, const float *B, float *C)
{
    dim3 block(16, 16), grid(n / 16, n / 16);
    k<<<grid, block>>>(n, n, A, B, C);
}
"""
)


def test_the_report_says_what_check_says(tmp_path: Path) -> None:
    """With the names of the source, and in the block in which it launches the kernel."""
    (tmp_path / "k.cu").write_text(LAUNCHED)
    [ptx] = ptx_of(str(tmp_path / "k.cu"), "sm_90", ())
    (tmp_path / "k.ptx").write_text(ptx.text)
    done = ptxsw("check", tmp_path / "k.ptx", "--format", "json", "--no-ptxas")
    [first] = json.loads(done.stdout)["findings"]
    done = ptxsw("report", tmp_path / "k.ptx", "--format", "json")
    [kernel] = json.loads(done.stdout)["kernels"]
    assert kernel["block"] == [16, 16, 1]
    [one] = kernel["findings"]
    assert [one[key] for key in ("rule", "what", "advice", "gain", "weight")] == [
        first[key] for key in ("rule", "what", "advice", "gain", "weight")
    ]
