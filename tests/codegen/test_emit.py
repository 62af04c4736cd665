"""Rewritten texts, held byte for byte, taken by ptxas, and run beside the originals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxsw.codegen.builder import fresh_prefix
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.toolchain.find import real_ptxas
from tests.heads import head
from tests.parsed import parsed

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(GOLDEN.glob("*.in.ptx"))
SMALL = [case for case in CASES if not case.name.startswith("jacobi")]


def name_of(case: Path) -> str:
    return case.name.partition(".")[0]


def text_of(case: Path) -> str:
    return case.read_bytes().decode()


def rewrite(text: str) -> str:
    return optimize(text, Options(mode="force", scheme="paper")).text


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_golden(case: Path, golden: Callable[[Path, str], None]) -> None:
    golden(case.with_name(f"{name_of(case)}.out.ptx"), rewrite(text_of(case)))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_ptxas_takes_it(case: Path, tmp_path: Path) -> None:
    ptxas = real_ptxas(os.environ)
    if ptxas is None:
        pytest.skip("no ptxas on this machine")
    path = tmp_path / "case.ptx"
    text = rewrite(text_of(case)).replace("sm_70", "sm_80")
    path.write_bytes(text.encode("ascii", errors="ignore"))
    done = subprocess.run(
        [ptxas.path, "-arch=sm_80", path, "-o", tmp_path / "out"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("threads", [128, 40, 5])
@pytest.mark.parametrize("case", SMALL, ids=name_of)
def test_runs_as_before(case: Path, threads: int) -> None:
    text = text_of(case)
    kernel = name_of(case) if name_of(case) != "crlf" else "row"
    threads = 128 if kernel == "segments" else threads  # so many have its blocks
    data = np.random.default_rng(3).random(4096, dtype=np.float32)
    out = np.zeros(4096, np.float32)
    extra: dict[str, list[Any]] = {"pointers": [data], "copy": [data, out, np.uint32(17)]}
    before = launch(parsed(text), kernel, 1, threads, extra.get(kernel, [data, out]))
    after = launch(parse(rewrite(text)), kernel, 1, threads, extra.get(kernel, [data, out]))
    for one, other in zip(before.buffers, after.buffers, strict=True):
        assert one.tobytes() == other.tobytes()


def test_names_are_new() -> None:
    assert fresh_prefix("mov.u32 %r1, %r2;") == "%sw_"
    assert fresh_prefix("mov.u32 %sw_1, %sw1_2;") == "%sw2_"


WRAP = (
    head("7.0", "sm_70")
    + """.visible .entry wrap(.param .u64 from, .param .u64 to, .param .u32 first)
{
	.reg .f32 %f<4>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<7>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [first];
	mov.u32 %r2, %tid.x;
	add.s32 %r3, %r1, %r2;
	mul.wide.s32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f32 %f1, [%rd4];
	ld.global.nc.f32 %f2, [%rd4+4];
	sub.f32 %f3, %f1, %f2;
	mul.wide.u32 %rd5, %r2, 4;
	add.s64 %rd6, %rd2, %rd5;
	st.global.f32 [%rd6], %f3;
	ret;
}
"""
)


def run_wrapping(text: str) -> bytes:
    """32 lanes whose signed index passes 2^31 - 1 in the middle of the warp. Both ends of the
    8 GiB on either side of the pointer are mapped, with different values."""
    pointer, first = 1 << 36, (1 << 31) - 16
    values = np.random.default_rng(5).random(128, dtype=np.float32)
    memory = {pointer + 4 * first: values[:64], pointer - (4 << 31): values[64:]}
    out = np.zeros(32, np.float32)
    result = launch(
        parsed(text), "wrap", 1, 32, [np.uint64(pointer), out, np.uint32(first)], memory=memory
    )
    return result.buffers[0].tobytes()


def test_an_index_that_wraps_inside_a_warp() -> None:
    text = rewrite(WRAP)
    assert "shfl.sync.down" in text and "%sw_wrap1" in text
    assert run_wrapping(text) == run_wrapping(WRAP)


def test_without_the_guard_it_would_be_wrong() -> None:
    assumed = Options(mode="force", assume=frozenset({"no-index-wrap"}))
    assert run_wrapping(optimize(WRAP, assumed).text) != run_wrapping(WRAP)
