"""Atomic operations of one address: how many lanes make them, and which instructions are meant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from ptxsw.driver.checking import check
from ptxsw.report.model import Finding
from tests.command_line import ptxsw
from tests.heads import head

PTX = Path(__file__).parent / "ptx"
ADD = "red.global.add.f32 [%rd1], %f1;"
READ = """
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r9, [n];
    ld.param.f32 %f1, [x];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %ntid.y;
    mov.u32 %r6, %laneid;
    mov.u32 %r7, %ctaid.x;
    mad.lo.u32 %r8, %r7, %r4, %r1;
"""


def kernel(body: str, arch: str = "sm_80") -> str:
    return f"""{head("9.0", arch)}
.visible .entry k(.param .u64 p, .param .u32 n, .param .f32 x)
{{
    .reg .pred %p<9>;
    .reg .b32 %r<40>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    .shared .align 8 .b64 bar[8];
{READ}
{body}
DONE:
    ret;
}}
"""


def found(text: str, block: tuple[int, int, int] | None = None) -> Iterable[Finding]:
    report = check(text, block=block, select=["atomic-contention"], ptxas=False)
    return report.kernels[0].findings or ()


def lanes(condition: str, block: tuple[int, int, int] | None = None) -> int:
    """How many lanes are said to make an addition under a condition, in `%p1`; 1 if nothing is."""
    text = kernel(f"{condition}\n@!%p1 bra DONE;\n{ADD}")
    return max((finding.figures["lanes"] for finding in found(text, block)), default=1)


# rank of the thread in its block, as cooperative groups compute it
RANK = "mad.lo.u32 %r20, %r5, %r3, %r2; mad.lo.u32 %r20, %r20, %r4, %r1;"
ONE_THREAD = {
    "threadIdx.x == 0": "setp.eq.u32 %p1, %r1, 0;",
    "threadIdx.x == 255": "setp.eq.u32 %p1, %r1, 255;",
    "x == 0 && y == 0": "or.b32 %r20, %r1, %r2; setp.eq.u32 %p1, %r20, 0;",
    "threadIdx.x == blockDim.x - 1": "sub.u32 %r20, %r4, 1; setp.eq.u32 %p1, %r1, %r20;",
    "tile.thread_rank() == 0": f"{RANK} and.b32 %r20, %r20, 31; setp.eq.u32 %p1, %r20, 0;",
    "block.thread_rank() == 0": f"{RANK} setp.eq.u32 %p1, %r20, 0;",
    "i == n - 1": "sub.u32 %r20, %r9, 1; setp.eq.u32 %p1, %r8, %r20;",
    "laneid == n": "setp.eq.u32 %p1, %r6, %r9;",
    "elect.sync": "elect.sync %r20|%p1, 0xffffffff;",
}
MANY = {
    "all": ("setp.eq.u32 %p1, %r9, 0;", 32),
    "i < n": ("setp.lt.u32 %p1, %r8, %r9;", 32),
    "i != n": ("setp.ne.u32 %p1, %r8, %r9;", 32),
    "i % n == 0": ("rem.u32 %r20, %r8, %r9; setp.eq.u32 %p1, %r20, 0;", 32),
    "threadIdx.x >> n == 3": ("shr.u32 %r20, %r1, %r9; setp.eq.u32 %p1, %r20, 3;", 32),
    "threadIdx.x * n == 0": ("mul.lo.u32 %r20, %r1, %r9; setp.eq.u32 %p1, %r20, 0;", 32),
    "threadIdx.y == 0": ("setp.eq.u32 %p1, %r2, 0;", 32),
    "warp 7": ("shr.u32 %r20, %r1, 5; setp.eq.u32 %p1, %r20, 7;", 32),
    "a loaded value": ("ld.global.u32 %r20, [%rd1]; setp.eq.u32 %p1, %r20, %r9;", 32),
    "tile of 8": (f"{RANK} and.b32 %r20, %r20, 7; setp.eq.u32 %p1, %r20, 0;", 4),
    "threadIdx.x >= 1004": ("setp.ge.u32 %p1, %r1, 1004;", 20),
}


@pytest.mark.parametrize("name", ONE_THREAD)
def test_one_thread_meets_nobody(name: str) -> None:
    assert lanes(ONE_THREAD[name]) == 1


@pytest.mark.parametrize("name", MANY)
def test_lanes_that_meet_are_counted(name: str) -> None:
    condition, count = MANY[name]
    assert lanes(condition) == count


@pytest.mark.parametrize(
    ("name", "block", "count"),
    [
        ("threadIdx.x == 0", (1, 256, 1), 32),  # each row begins with such a thread
        ("threadIdx.x == 0", (16, 16, 1), 2),
        ("threadIdx.x == blockDim.x - 1", (16, 16, 1), 2),
        ("threadIdx.x == 255", (128, 1, 1), 1),
        ("x == 0 && y == 0", (8, 8, 4), 1),
        ("x == 0 && y == 0", (2, 2, 64), 8),
        ("tile.thread_rank() == 0", (7, 9, 1), 1),
    ],
)
def test_a_known_block_counts(name: str, block: tuple[int, int, int], count: int) -> None:
    assert lanes(ONE_THREAD[name], block) == count


def test_what_nvcc_makes_of_sums_by_one_lane() -> None:
    """The advice of this rule, followed by hand and with cooperative groups, and the ways to let
    one thread of a block add: nothing is left to advise."""
    done = ptxsw("check", PTX / "leader_atomic.ptx", PTX / "one_thread_atomic.ptx", "--no-ptxas")
    assert (done.returncode, done.stdout) == (0, b"no findings in 7 kernels of 2 files\n")


ASYNCHRONOUS = {
    "mbarrier.init.shared.b64 [bar], 32;": "sm_90",
    "mbarrier.arrive.shared.b64 _, [bar];": "sm_90",
    "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;": "sm_90",
    "mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;": "sm_90",
    "mbarrier.inval.shared.b64 [bar];": "sm_90",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];": "sm_90",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bar], [%rd1], 16, [bar];":
        "sm_90",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [bar], 16;": "sm_90",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r20], %r1, [%r21];": "sm_90",
    "red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes.shared::cluster.add.u32 "
    "[%r20], %r1, [%r21];": "sm_90",
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [bar], %rd1;": "sm_90a",
    "multimem.ld_reduce.relaxed.sys.global.add.u32 %r20, [%rd1];": "sm_90",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];": "sm_100a",
    "ld.volatile.global.u32 %r20, [%rd1];": "sm_80",
    "st.release.gpu.global.u32 [%rd1], %r1;": "sm_80",
}  # fmt: skip


@pytest.mark.parametrize("instruction", ASYNCHRONOUS)
def test_nothing_else_is_an_atomic_operation(instruction: str) -> None:
    """Hopper's and Blackwell's barriers and copies are made by whoever needs them."""
    assert not found(kernel(instruction, ASYNCHRONOUS[instruction]))


@pytest.mark.parametrize(
    ("instruction", "level"),
    [
        ("red.global.add.f32 [%rd1], %f1;", "warning"),
        ("atom.shared.add.f32 %f2, [bar], %f1;", "warning"),
        ("multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;", "warning"),
        # ptxas adds 32-bit integers of a warp before: see its REDUX and POPC.INC
        ("red.global.add.u32 [%rd1], %r1;", "note"),
        ("red.shared.add.u32 [bar], 1;", "note"),
        ("atom.shared.add.u32 %r20, [bar], 1; st.global.u32 [%rd1], %r20;", "note"),
        # but no maxima whose old value is used
        ("atom.global.max.s32 %r20, [%rd1], %r1;", "note"),
        ("atom.global.max.s32 %r20, [%rd1], %r1; st.global.u32 [%rd1], %r20;", "warning"),
        ("red.global.add.u64 [%rd1], %rd2;", "warning"),
        ("red.global.inc.u32 [%rd1], %r1;", "warning"),
    ],
)
def test_levels(instruction: str, level: str) -> None:
    arch = "sm_90" if "multimem" in instruction else "sm_80"
    assert [finding.level for finding in found(kernel(instruction, arch))] == [level]


@pytest.mark.parametrize(
    ("instruction", "level"),
    [
        ("red.shared.add.u32 [bar], 1;", "note"),
        ("ld.param.u32 %r20, [n]; red.global.add.u32 [%rd1], %r20;", "note"),
        ("red.global.add.u32 [%rd1], %r1;", "warning"),
        ("red.global.max.u32 [%rd1], 1;", "warning"),
    ],
)
def test_before_sm_80_ptxas_gathers_equal_addends(instruction: str, level: str) -> None:
    """It multiplies what all lanes add by their number: VOTEU and POPC, then one RED."""
    assert [finding.level for finding in found(kernel(instruction, "sm_75"))] == [level]


@pytest.mark.parametrize(
    "swap",
    [
        "atom.global.cas.b32 %r20, [%rd1], %r1, %r9;",
        "atom.global.exch.b32 %r20, [%rd1], %r1; st.global.b32 [%rd1+4], %r20;",
    ],
)
def test_a_swap_cannot_be_reduced(swap: str) -> None:
    assert not found(kernel(swap))


def test_of_values_that_are_exchanged_one_stays() -> None:
    [finding] = found(kernel("atom.shared.exch.b32 %r20, [bar], %r1;"))
    assert finding.advice == "Only one of the values survives: let one lane store it for its warp."


def test_a_flag_that_is_polled_is_no_table() -> None:
    """`while (*flag == 0);` with a volatile flag reads one element again and again, on purpose."""
    poll = "AGAIN: ld{}.global.u32 %r20, [%rd1+8]; setp.eq.u32 %p1, %r20, 0; @%p1 bra AGAIN;"
    rules = ["uniform-loads"]
    for strong in (".volatile", ".relaxed.gpu", ".acquire.gpu"):
        report = check(kernel(poll.format(strong)), select=rules, ptxas=False)
        assert not report.kernels[0].findings
    [found_plain] = check(kernel(poll.format("")), select=rules, ptxas=False).kernels
    assert [finding.rule for finding in found_plain.findings or ()] == ["ptxsw-uniform-loads"]
