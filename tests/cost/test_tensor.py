"""Tensor cores: what they have to do, and at which rate; and waits for mbarriers, which are no
work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ptxsw as package
from ptxsw.cost.accesses import access_figures
from ptxsw.cost.account import Ends
from ptxsw.cost.counted import cannot_count
from ptxsw.cost.decide import dominates
from ptxsw.cost.tensor import TensorWork, constants, tensor_work
from ptxsw.emulator.run import emulate
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.report.prediction import Range, Stretch
from tests.command_line import ROOT, ptxsw
from tests.heads import head

needs_ptxas = pytest.mark.skipif(bool(cannot_count("sm_80")), reason="no ptxas")

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, \
{%r4,%r5}, {%f0,%f1,%f2,%f3};"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, \
{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, \
{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd2, %rd3, 1, 1, 1, \
0, 0;"
LOOP = """
    mov.u32 %r9, 0;
LOOP:
    {work}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r9, %r8;
    @%p1 bra LOOP;
    st.global.f32 [%rd1], %f0;
"""
WAIT = """
WAIT:
    mbarrier.{poll}.parity.shared.b64 %p2, [bar], %r9;
    @%p2 bra DONE;
    bra WAIT;
DONE:
"""


def kernel(body: str, arch: str = "sm_80") -> str:
    return f"""{head("8.7", arch)}
.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 128, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r8, [n];
{body}
    ret;
}}
"""


def said(*arguments: object) -> str:
    done = ptxsw("predict", *arguments)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout.decode()


def asynchronous(more: str = "") -> str:
    """A loop whose tensor work nobody knows how long it is waited for."""
    return kernel(LOOP.format(work=WGMMA + more), "sm_90a")


def test_the_upper_end_is_open(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(asynchronous())
    text = said(tmp_path / "k.ptx", "--no-rewrites")
    assert re.search(
        r"loop LOOP, line \d+: at least \d.* cycles; not modelled: waits for wgmma", text
    )
    given = (tmp_path / "k.ptx", "--no-rewrites", "--format", "json")
    data = json.loads(said(*given), parse_constant=pytest.fail)
    [stretch] = data["kernels"][0]["stretches"]
    assert stretch["time"]["low"] > 0 and stretch["time"]["high"] is None
    assert stretch["likely"]["high"] is None and stretch["expected"] is None
    assert all(load["time"]["high"] is not None for load in stretch["resources"])


def test_the_page_says_so_too(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(asynchronous())
    done = ptxsw("report", tmp_path / "k.ptx", "--html", tmp_path / "k.html")
    assert done.returncode == 0, done.stderr.decode()
    page = (tmp_path / "k.html").read_text()
    assert re.search(
        r"one iteration of LOOP, at least [\d.]+ cycles; not modelled: waits for wgmma", page
    )


def test_nothing_is_called_slower_or_faster(tmp_path: Path) -> None:
    """Ten times the work beside the tensor cores: that is not ten times the time."""
    (tmp_path / "a.ptx").write_text(asynchronous())
    (tmp_path / "b.ptx").write_text(asynchronous("fma.rn.f32 %f5, %f5, %f6, %f7;" * 400))
    for one, other in (("a", "b"), ("b", "a")):
        text = said(tmp_path / f"{one}.ptx", "--against", tmp_path / f"{other}.ptx",
                    "--no-rewrites")  # fmt: skip
        assert (
            "the other version in the loop LOOP: but the bounds overlap; not modelled: waits"
            in text
        )
        assert "times as long" not in text


def test_effects_of_rewrites_leave_it_open(tmp_path: Path) -> None:
    twice = "ld.global.f32 %f5, [%rd1+8]; ld.global.f32 %f6, [%rd1+8]; add.f32 %f0, %f5, %f6;"
    (tmp_path / "k.ptx").write_text(asynchronous(twice))
    text = said(tmp_path / "k.ptx", "--rewrites")
    assert re.search(r"load-elimination +1 change: at least .*, at most open -> open cycles", text)


def bounds(text: str, gpu: str) -> tuple[Stretch, Range]:
    """Of the loop, and of how long a warp waits, with the one warp of each block that fits."""
    answer = package.predict(text, gpu=gpu, block=32, rewrites=False)
    [stretch] = answer.kernels[0].stretches
    return stretch, next(load.time for load in stretch.resources if load.name == "latency")


@needs_ptxas
@pytest.mark.parametrize("work", [MMA, WMMA], ids=["mma", "wmma"])
def test_machine_code_says_how_long_tensor_cores_take(work: str) -> None:
    """By the stalls between products that depend on each other: 24 cycles or more for each."""
    text = kernel(LOOP.format(work=work * 20)).replace(".reqntid 128", ".reqntid 32")
    stretch, waits = bounds(text, "a100")
    assert stretch.unmodelled == () and stretch.time.high is not None
    warps = package.predict(text, gpu="a100", rewrites=False).kernels[0].occupancy
    assert warps is not None and waits.high is not None
    assert 20 * 24 <= waits.high * warps.warps < 20 * 80
    assert stretch.time.high >= waits.high


def test_without_machine_code_it_stays_open() -> None:
    stretch, _ = bounds(kernel(LOOP.format(work=MMA)), "v100")
    assert stretch.unmodelled == ("the latency of mma",) and stretch.time.high is None


def test_waits_for_an_mbarrier_are_no_time_of_the_warp() -> None:
    """Who arrives there says how long they are."""
    text = kernel(LOOP.format(work=WAIT.format(poll="try_wait")), "sm_90")
    stretch, _ = bounds(text, "h100")
    assert stretch.unmodelled == ("waits for mbarriers",) and stretch.time.high is None


def test_the_gate_asks_for_more_than_a_smaller_sum() -> None:
    """The busiest resource, or the tensor cores, may hide all of it."""
    before, less_of_others = Ends(100.0, 180.0), Ends(100.0, 150.0)
    assert dominates(less_of_others, before)
    assert not dominates(Ends(100.0, 150.0, True), Ends(100.0, 180.0, True))
    assert dominates(Ends(80.0, 160.0, True), Ends(100.0, 180.0, True))
    assert not dominates(Ends(80.0, 190.0, True), Ends(100.0, 180.0, True))


@pytest.mark.parametrize("poll", ["try_wait", "test_wait"])
def test_a_wait_is_never_the_loop(poll: str) -> None:
    """A warp that waits in a loop of tiles works on tiles; one that only waits has no loop."""
    wait, tile = WAIT.format(poll=poll), "ld.global.f32 %f1, [%rd1+16]; add.f32 %f0, %f0, %f1;"
    nested = package.predict(kernel(LOOP.format(work=wait + tile), "sm_90"), rewrites=False)
    [stretch] = nested.kernels[0].stretches
    assert stretch.label == "LOOP"
    assert "l1" in {load.name for load in stretch.resources if load.time.high}
    alone = package.predict(kernel(f"mov.u32 %r9, 0; {wait}", "sm_90"), rewrites=False)
    assert [stretch.label for stretch in alone.kernels[0].stretches] == [None]
    busy = package.predict(kernel(f"mov.u32 %r9, 0; {wait.replace('WAIT:', 'WAIT: ' + tile)}",
                                  "sm_90"), rewrites=False)  # fmt: skip
    assert [stretch.label for stretch in busy.kernels[0].stretches] == ["WAIT"]


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_targets_keep_their_suffix(arch: str, tmp_path: Path) -> None:
    """`setmaxnreg` is for targets with a suffix alone: without it, ptxas makes nothing of it."""
    text = kernel("setmaxnreg.dec.sync.aligned.u32 40;" + LOOP.format(work=""), arch)
    (tmp_path / "k.ptx").write_text(text.replace("8.7", "8.8"))
    answer = said(tmp_path / "k.ptx", "--no-rewrites")
    assert f" represents {arch}; --gpu selects another" in answer
    assert "no machine code" not in answer and "machine code and registers" not in answer
    assert re.search(r"occupancy \d+ %: \d+ blocks of 128 threads, limited by", answer)


# ---------------------------------------------------------------- how much work, at which rate

WIDE = 8 << 24 | 32 << 17 | 1 << 4  # M 128, N 256, sums in f32
WORK = [
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {},{},{},{};", "f16_f32", 2048, 0),
    ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {},{},{},{};", "f16_f16", 2048, 0),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {},{},{},{};", "tf32", 1024, 0),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {},{},{},{};", "f64", 256, 0),
    ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {},{},{},{};", "i8", 4096, 0),
    ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {},{},{},{};", "b1", 32768, 0),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {},{},{},{};", "f8_f32", 4096, 0),
    (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
        ".f32.e2m1.e2m1.f32.ue4m3 {},{},{},{};",
        "f4", 8192, 0,
    ),
    ("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {},{},{},{},%r1,0;", "bf16", 2048, 0),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {},{},{},{};", "f16_f16", 4096, 0),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {},{},{},{};", "i8", 4096, 0),
    # of a quarter of a group of four warps: B, and A where it is in shared memory, too
    (
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "f16_f32", 64 * 128 * 16 / 4, (64 + 128) * 16 * 2 / 4,
    ),
    (
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%f1}, {%r1}, %rd2, 1, 1, 1;",
        "f8_f32", 64 * 64 * 32 / 4, 64 * 32 / 4,
    ),
    (
        f"tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, {WIDE}, %p1;",
        "f16_f32", 128 * 256 * 16, (128 + 256) * 16 * 2,
    ),
    (
        f"tcgen05.mma.cta_group::2.kind::f8f6f4 [%r1], [%r2], %rd2, {16 << 24 | 32 << 17}, %p1;",
        "f8_f16", 256 * 256 * 32 / 2, 256 * 32 / 2,
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%r1], %rd1, %rd2, "
        f"{1 << 27 | 16 << 17}, [%r3], [%r4], %p1;",
        "f4", 128 * 128 * 64, (128 + 128) * 32,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rate", "count", "shared"), WORK)
def test_the_work_of_an_instruction(text: str, rate: str, count: float, shared: float) -> None:
    [function] = parse(kernel(text.replace("{}", "{%f1}"), "sm_100a")).kernels
    found = [tensor_work(i, constants(build(function.body))) for i in function.body.instructions]
    assert [work for work in found if work is not None] == [TensorWork(rate, count, shared)]


@pytest.mark.parametrize(
    ("gpu", "types", "cycles"),
    [("a100", "f32.f16.f16.f32", 2), ("rtx-4090", "f32.f16.f16.f32", 8),
     ("rtx-4090", "f16.f16.f16.f16", 4), ("l40s", "f32.f16.f16.f32", 4),
     ("h100", "f32.f16.f16.f32", 1),
     ("v100", "f32.f16.f16.f32", 4)],
)  # fmt: skip
def test_the_lower_end_is_work_over_rate(gpu: str, types: str, cycles: float) -> None:
    """16 * 8 * 16 multiply-adds; sums of 32 bits take twice as long on GeForce cards."""
    work = "".join(MMA.replace("f32.f16.f16.f32", types) for _ in range(20))
    answer = package.predict(kernel(LOOP.format(work=work)), gpu=gpu, rewrites=False)
    [stretch] = answer.kernels[0].stretches
    assert stretch.resources[0].name == "tensor" or gpu == "h100"
    [tensor] = [load for load in stretch.resources if load.name == "tensor"]
    assert tensor.time.low == 20 * cycles
    assert gpu == "h100" or stretch.time.low == 20 * cycles


def test_a_descriptor_that_is_not_known_is_named() -> None:
    text = LOOP.format(work="tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r8, %p1;")
    answer = package.predict(kernel(text, "sm_100a"), rewrites=False)
    [stretch] = answer.kernels[0].stretches
    assert stretch.unmodelled == (
        "waits for tcgen05", "the shape of tcgen05.mma.cta_group::1.kind::f16",
    )  # fmt: skip


def test_tensor_memory_is_no_global_memory() -> None:
    text = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2]; st.global.u32 [%rd1], %r1;"
    module = parse(kernel(text, "sm_100a"))
    trace = emulate(module, module.kernels[0])
    assert [trace.cfg.instructions[at].opcode for at in access_figures(trace, None)] == ["st"]
    [loop] = package.predict(kernel(text, "sm_100a"), rewrites=False).kernels[0].stretches
    assert loop.unmodelled == ("the memory of tcgen05.ld",)


@needs_ptxas
@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("triton_product_sm_80", 8),  # four times 16 * 8 * 16, 1024 a cycle
        ("triton_product_sm_90", 4),  # 2048 a cycle at best
    ],
)
def test_loops_that_triton_makes(text: str, cycles: float) -> None:
    answer = package.predict((ROOT / f"tests/fixtures/{text}.ptx").read_text(), rewrites=False)
    loops = [loop for loop in answer.kernels[0].stretches if loop.label is not None]
    works = [load.time for loop in loops for load in loop.resources if load.name == "tensor"]
    assert [work.low for work in works if work.high] == [cycles]
    assert answer.kernels[0].occupancy is not None
