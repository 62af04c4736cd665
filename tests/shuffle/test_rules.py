"""The rules of `legal`, each in both directions: a kernel that is refused and why, and its
neighbour without the detail that made it wrong, which is rewritten and runs as before."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.report.model import Kernel
from ptxsw.rewrites.base import TOGETHER
from ptxsw.simt import launch
from tests.heads import head
from tests.parsed import parsed

PTX = Path(__file__).parent / "ptx"

REFUSED = {
    "volatile_load": "ld.volatile.global.f32 is a volatile access",
    "barrier_between": "bar.sync (line N) is between the two loads",
    "store_between": "st.global.f32 (line N) between the two loads may change it",
    "atomic_between": "atom.global.add.u32 (line N) is between the two loads",
    "source_in_if": "the source load is not on every path to this load, and a loop lies between",
    "csr": "the address depends on load(csr_param_0 + (%ctaid.x * %ntid.x + %tid.x) << 0x2), "
    "load(csr_param_0 + (0x1 + %ctaid.x * %ntid.x + %tid.x) << 0x2), "
    "which differs from lane to lane",
    "after_varying_loop": "the address depends on last iter($L__BB6_1), "
    "which differs from lane to lane",
    "own_store_before": "st.global.u32 (line N) before the source may write the same array",
    "fence_between": "membar.gl (line N) is between the two loads",
    "other_type": "the loads fill registers of different widths",
    "store_on_the_way": "st.global.f32 (line N) between the two loads may change it",
    "acquire_between": "a loop lies between the two loads",
}
# No lane within reach has made these loads: no load is refused.
WITHOUT_SOURCE = ("far", "columns", "loop_between")

NOTHING = {
    "load-elimination": "no load reads bytes that this thread has loaded or stored before",
    "uniform-loops": "it has no loop that lanes may leave in different iterations",
    "shuffle": "no load reads bytes that another lane of the warp has just loaded",
}
"""What rewrites that were named say of a kernel in which they have nothing to do."""

ALLOWED = {
    "plain_load": -1,
    "barrier_before": 1,
    "barrier_between_read_only": 1,
    "shared_store_between": 1,
    "store_apart": 1,
    "source_above_if": 1,
    "uniform_row": 1,
    "after_uniform_loop": -1,
    "store_before_barrier": 1,
    "near_enough": 31,
    "masked_index": 1,
    "reversed_rows": 1,
    "pairs": 1,
    "doubles": 1,
    "longs": 2,
    "shorts": 1,
    "bytes": 1,
    "other_sign": 1,
    "vectors": 1,
}


@cache
def rewritten(name: str) -> tuple[str, Result, dict[str, Kernel]]:
    text = (PTX / f"{name}.ptx").read_text()
    result = optimize(text, Options(mode="force", rewrites=TOGETHER), f"{name}.ptx")
    return text, result, {kernel.name: kernel for kernel in result.report.kernels}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    kernel = rewritten("refusals")[2][name]
    assert (kernel.shuffles, kernel.copies) == (0, 0)
    refusals = [r for r in kernel.refusals or () if r.reason not in NOTHING.values()]
    reasons = [re.sub(r"line \d+", "line N", r.reason) for r in refusals]
    assert reasons == [REFUSED[name]]


@pytest.mark.parametrize("name", WITHOUT_SOURCE)
def test_no_source_in_reach(name: str) -> None:
    kernel = rewritten("refusals")[2][name]
    assert (kernel.shuffles, kernel.copies) == (0, 0)
    assert {r.rewrite: r.reason for r in kernel.refusals or ()} == NOTHING


def test_every_kernel_is_judged_here() -> None:
    assert set(rewritten("refusals")[2]) == {*REFUSED, *WITHOUT_SOURCE}
    assert set(rewritten("allowed")[2]) == set(ALLOWED)


def test_nothing_to_rewrite_leaves_the_text_alone() -> None:
    text, result, _ = rewritten("refusals")
    assert result.text is text


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    kernel = rewritten("allowed")[2][name]
    deltas = [rewrite.delta for rewrite in kernel.rewrites or ()]
    assert deltas == ([1, 2] if name == "bytes" else [ALLOWED[name]])


def arguments(name: str) -> list[object]:
    u = np.random.default_rng(7).random(8192, dtype=np.float32)
    v = np.zeros(8192, np.float32)
    if name == "uniform_row":
        return [np.array([5, 700], np.int32), u, v]
    if name == "store_before_barrier":
        return [u, 4096]
    if name == "doubles":
        return [u.astype(np.float64), v.astype(np.float64)]
    if name in ("longs", "shorts", "bytes", "other_sign"):
        return [u.view(np.uint8), v]
    extra: dict[str, list[object]] = {
        "plain_load": [70],
        "source_above_if": [9],
        "after_uniform_loop": [np.float32(40.0)],
        "reversed_rows": [4000],
    }
    return [u, v, *extra.get(name, [])]


@pytest.mark.parametrize("block", [(32, 1), (33, 1), (7, 1), (16, 16), (32, 2), (24, 3)])
@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_runs_as_before(name: str, block: tuple[int, int]) -> None:
    text, result, _ = rewritten("allowed")
    if name == "shared_store_between":  # threads read what the one beside them has written
        block = (2 * block[0], block[1])
    before = launch(parsed(text), name, 2, block, arguments(name))
    after = launch(parsed(result.text), name, 2, block, arguments(name))
    for one, other in zip(before.buffers, after.buffers, strict=True):
        assert one.tobytes() == other.tobytes()


def test_strict_needs_no_lockstep_outside_loops() -> None:
    text, _, _ = rewritten("allowed")
    result = optimize(text, Options(mode="force", assume=frozenset()))
    rewrites = {k.name: k.shuffles for k in result.report.kernels}
    assert rewrites["plain_load"] == 1
    assert all(
        not rewrite.proof.assumptions
        for kernel in result.report.kernels
        for rewrite in kernel.rewrites or ()
    )


def test_assumed_indices_do_not_wrap() -> None:
    text, _, _ = rewritten("allowed")
    result = optimize(text, Options(mode="force", assume=frozenset({"no-index-wrap"})))
    kernel = next(k for k in result.report.kernels if k.name == "pairs")
    (rewrite,) = kernel.rewrites or ()
    assert rewrite.proof.status == "assumed"
    assert rewrite.proof.assumptions == ("no-index-wrap",)
    assert "%sw_wrap" not in result.text


@pytest.mark.parametrize(
    ("version", "target", "reason"),
    [
        ("6.1", "sm_60", "PTX 6.1 has no activemask; it needs .version 6.2"),
        ("6.4", "sm_20", "the target sm_20 has no shuffle"),
    ],
)
def test_old_modules_are_left_alone(version: str, target: str, reason: str) -> None:
    text, _, _ = rewritten("allowed")
    old = text.replace(".version 9.0", f".version {version}").replace("sm_80", target)
    result = optimize(old, Options(mode="force", rewrites=TOGETHER))
    assert result.text is old
    reasons = {r.reason for k in result.report.kernels for r in k.refusals or ()}
    assert reason in reasons and reasons - {reason} <= {*NOTHING.values()}


def test_auto_keeps_shuffles_for_a_measurement() -> None:
    text, _, _ = rewritten("allowed")
    result = optimize(text)
    assert result.text is text
    for kernel in result.report.kernels:
        reasons = {r.reason for r in kernel.refusals or ()}
        if kernel.name == "masked_index":  # whose loads do not look coalesced: ptxas is asked
            assert any("no clear gain" in r or "is not known" in r for r in reasons)
        else:
            assert reasons and all(r.endswith("; force rewrites it") for r in reasons)


def test_spent_budget_leaves_the_kernel_alone() -> None:
    text, _, _ = rewritten("allowed")
    result = optimize(text, Options(mode="force", budget_s=0.0))
    assert result.text is text
    reasons = {r.reason for k in result.report.kernels for r in k.refusals or ()}
    assert reasons <= {"the symbolic run took more than 0 s"}


OWN_ADDRESS = (
    head("7.0", "sm_70")
    + """.visible .entry chase(.param .u64 from, .param .u64 to)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 8;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.u64 %rd5, [%rd4];
	ld.global.nc.u64 %rd4, [%rd4+8];
	add.s64 %rd6, %rd4, %rd5;
	add.s64 %rd2, %rd2, %rd3;
	st.global.u64 [%rd2], %rd6;
	ret;
}
"""
)


def test_a_load_over_its_own_address_is_refused() -> None:
    """The corner load would find its address overwritten by the shuffle."""
    options = Options(mode="force", rewrites=("shuffle",))
    (kernel,) = optimize(OWN_ADDRESS, options).report.kernels
    assert [r.reason for r in kernel.refusals or ()] == ["the load overwrites its own address"]
    other = OWN_ADDRESS.replace("%rd4, [%rd4+8]", "%rd7, [%rd4+8]").replace("%rd4, %rd5", "%rd7, 1")
    assert optimize(other, options).report.kernels[0].shuffles == 1


BOTH_SIGNS = (
    head("7.0", "sm_70")
    + """.visible .entry both(.param .u64 from, .param .u64 to, .param .u32 first)
{
	.reg .f32 %f<8>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [first];
	mov.u32 %r2, %tid.x;
	add.s32 %r3, %r1, %r2;
	mul.wide.s32 %rd3, %r3, 4;
	mul.wide.u32 %rd7, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd8, %rd1, %rd7;
	ld.global.nc.f32 %f1, [%rd4];
	ld.global.nc.f32 %f2, [%rd4+4];
	ld.global.nc.f32 %f4, [%rd8+4096];
	ld.global.nc.f32 %f5, [%rd8+4100];
	sub.f32 %f3, %f1, %f2;
	sub.f32 %f6, %f4, %f5;
	add.f32 %f3, %f3, %f6;
	mul.wide.u32 %rd5, %r2, 4;
	add.s64 %rd6, %rd2, %rd5;
	st.global.f32 [%rd6], %f3;
	ret;
}
"""
)


def test_signed_and_unsigned_indices_have_tests_of_their_own() -> None:
    """One register extended both ways: it may wrap as one and not as the other."""
    text = optimize(BOTH_SIGNS, Options(mode="force")).text
    assert text.count("shfl.sync") == 2
    pointer = 1 << 40
    values = np.random.default_rng(5).random(1 << 12, dtype=np.float32)
    for first in ((1 << 31) - 16, (1 << 32) - 16, 0):
        reached = {(first + lane) % (1 << 32) for lane in range(32)}
        signed = {index - (1 << 32) if index >> 31 else index for index in reached}
        pages = sorted({(pointer + 4 * index) >> 12 for index in reached | signed})
        pages = sorted({page + more for page in pages for more in (-1, 0, 1, 2)})
        memory = {page << 12: values[:1024] * (page % 89) for page in pages}
        outcomes = []
        for version in (BOTH_SIGNS, text):
            out = np.zeros(32, np.float32)
            args = [np.uint64(pointer), out, np.uint32(first)]
            result = launch(parsed(version), "both", 1, 32, args, memory=memory)
            outcomes.append(result.buffers[0].tobytes())
        assert outcomes[0] == outcomes[1]
