"""Addresses as text: what compilers make of an index, read back as C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.driver import pipeline

ROOT = Path(__file__).parents[2]
KERNELGEN = ROOT / "benchmarks" / "kernelgen" / "ptx"
FIXTURES = ROOT / "tests" / "fixtures"
TESTS = Path(__file__).parent / "ptx"


@pytest.mark.parametrize(
    ("path", "kernel", "row", "address"),
    [
        (KERNELGEN / "jacobi.ptx", "jacobi", "A",
         "param_5[iter(BB0_2)*nctaid.x*param_0 + iter(BB0_4)*nctaid.z*ntid.x + ctaid.x*param_0"
         " + ctaid.z*ntid.x + param_0 + tid.x + 1]"),
        (KERNELGEN / "gcc" / "jacobi.ptx", "jacobi$_omp_fn$0", "B", "in_ar0[5][0]"),
        (TESTS / "banks.ptx", "bytes", "D", "tile[tid.x ^ 1]"),
        (TESTS / "banks.ptx", "bytes", "F", "tile[tid.x / 2]"),
        (TESTS / "histogram.ptx", "lane_bins", "B",
         "local[32*(param_1[ctaid.x*ntid.x + tid.x] % 64) + (tid.x % 32)]"),
        (TESTS / "csr.ptx", "csr_warp", "C",
         "param_4[param_2[32*iter(BB1_3) + (tid.x % 32)"
         " + param_1[(ctaid.x*ntid.x + tid.x) / 32]]]"),
        (FIXTURES / "nvcc_branches_G_sm_75.ptx", "branch", "A",
         "param_0[(ctaid.x*ntid.x + iter(BB1_3) + tid.x) % param_2]"),
        (FIXTURES / "nvcc_branches_G_sm_75.ptx", "branch", "B", "__local_depot1[iter(BB1_3)]"),
        (FIXTURES / "triton_softmax_sm_90.ptx", "softmax", "B", "global_smem[tid.x / 32 % 4]"),
    ],
)  # fmt: skip
def test_rows(path: Path, kernel: str, row: str, address: str) -> None:
    [found] = pipeline.analyze(path.read_text(), kernel=kernel).kernels
    assert {r.name: r.address for r in found.rows or ()}[row] == address
