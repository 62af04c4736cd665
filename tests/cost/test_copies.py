"""Asynchronous copies: what cp.async asks of global memory, the bytes of bulk copies and TMA. And
dynamic shared memory, and texts for a later ptxas."""

from __future__ import annotations

import re

import pytest

from ptxsw.cost.accesses import access_figures
from ptxsw.cost.account import Interval, exactly
from ptxsw.cost.bulk_copies import bulk_bytes
from ptxsw.cost.counted import cannot_count
from ptxsw.cost.tensor import constants
from ptxsw.driver.prediction import predict
from ptxsw.emulator.run import emulate
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from tests.command_line import ptxsw
from tests.cost.test_tensor import LOOP, MMA, kernel

needs_ptxas = pytest.mark.skipif(bool(cannot_count("sm_80")), reason="no ptxas")

COPY = """
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 4;
    mov.u32 %r3, buffer;
    add.u32 %r4, %r3, %r2;
    mul.wide.u32 %rd2, %r1, STRIDE;
    add.u64 %rd3, %rd1, %rd2;
    CONDITION cp.async.cg.shared.global [%r4], [%rd3], 16;
"""


@pytest.mark.parametrize(
    ("stride", "condition", "sectors", "passes"),
    [
        (16, "", 16, 4),
        (4096, "", 32, 4),
        (4096, "setp.lt.u32 %p1, %r1, 8; @%p1", 8, 1),
        (0, "", 1, 4),
    ],
)
def test_both_sides_of_a_copy(stride: int, condition: str, sectors: int, passes: int) -> None:
    """16 bytes of each lane; in shared memory they lie side by side."""
    text = kernel(COPY.replace("STRIDE", str(stride)).replace("CONDITION", condition))
    module = parse(text.replace(".shared .align 8 .b64 bar", ".shared .align 16 .b8 buffer[4096]"))
    trace = emulate(module, module.kernels[0])
    [figures] = access_figures(trace, (128, 1, 1)).values()
    assert (figures.sectors, figures.wavefronts) == (exactly(sectors), exactly(passes))


LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], {}, [bar];"
TENSOR = """cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1],
    [%rd1, {%r2, %r3}], [bar];"""
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 512;"
TENSOR_STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];"
WAITED = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};"
BRANCH = "setp.eq.u32 %p1, %r1, 0; @%p1 bra SKIP; {} SKIP: {}"


@pytest.mark.parametrize(
    ("text", "least", "most", "unknown"),
    [
        (LOAD.format(4096), 4096, 4096, 0),
        (LOAD.format("%r9"), 0, 0, 1),
        (WAITED.format(8192) + TENSOR, 8192, 8192, 0),
        (WAITED.format(8192) + TENSOR + LOAD.format(1024), 8192, 8192, 0),  # each byte once
        (WAITED.format("%r9") + TENSOR + LOAD.format(1024), 1024, 1024, 1),
        (TENSOR, 0, 0, 1),
        (STORE + TENSOR_STORE, 512, 512, 1),
        (LOAD.format(4096).replace("bytes ", "bytes.multicast::cluster "), 0, 4096, 0),
        (BRANCH.format(LOAD.format(64), LOAD.format(32)), 96, 96, 0),
        ("wgmma.fence.sync.aligned;" + LOAD.format(4096), 1024, 1024, 0),
        (MMA + LOAD.format(4096), 1024, 1024, 0),  # shared by the four warps of the block
    ],
)
def test_bytes_of_bulk_copies(text: str, least: int, most: int, unknown: int) -> None:
    cfg = build(parse(kernel(text, "sm_90a")).kernels[0].body)
    found = bulk_bytes(cfg, cfg.order, constants(cfg), 128)
    assert (found.bytes, len(found.unmodelled)) == (Interval(least, most), unknown)
    assert all(name.startswith("the bytes of cp.async.bulk") for name in found.unmodelled)


def test_bytes_of_a_block_of_unknown_size() -> None:
    cfg = build(parse(kernel(MMA + LOAD.format(4096), "sm_90a")).kernels[0].body)
    assert bulk_bytes(cfg, cfg.order, constants(cfg), None).bytes == Interval(128, 4096)


def test_what_a_loop_copies_bounds_it() -> None:
    """The second-level cache of an H100 gives 5120 bytes a cycle to 132 multiprocessors."""
    text = LOOP.format(work=WAITED.format(32768) + TENSOR)
    [loop] = predict(kernel(text, "sm_90a"), rewrites=False).kernels[0].stretches
    assert loop.resources[0].name == "l2"
    assert loop.time.low == pytest.approx(32768 / (5120 / 132))


# ---------------------------------------------------------------- dynamic shared memory

DYNAMIC = """
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, dynamic;
    add.u32 %r4, %r3, %r2;
    ld.shared.f32 %f1, [%r4+40000];
    st.global.f32 [%rd1], %f1;
"""


def dynamic() -> str:
    text = kernel(DYNAMIC)
    return text.replace(".visible", ".extern .shared .align 16 .b8 dynamic[];\n.visible", 1)


@needs_ptxas
def test_dynamic_shared_memory_is_what_accesses_show() -> None:
    """128 threads, so that the last one reads up to byte 40000 + 512."""
    [kernel] = predict(dynamic(), rewrites=False).kernels
    assert kernel.occupancy is not None
    assert kernel.occupancy.shared - (kernel.figures.shared or 0 if kernel.figures else 0) == 40512
    assert any("40512 bytes, judging by the accesses" in note for note in kernel.notes)


@needs_ptxas
def test_dynamic_shared_memory_is_what_is_given() -> None:
    [kernel] = predict(dynamic(), shared=100_000, rewrites=False).kernels
    assert kernel.occupancy is not None and kernel.occupancy.limiter == "shared"
    assert kernel.occupancy.shared >= 100_000
    assert not any("accesses show" in note for note in kernel.notes)


def test_two_sizes_are_one_too_many() -> None:
    done = ptxsw("predict", "-", "--shared", "1", "--launch", "spec.json", stdin=b"")
    assert done.returncode == 2
    assert b"--shared and --launch exclude each other: use one of them" in done.stderr


# ---------------------------------------------------------------- a later ptxas


@needs_ptxas
def test_a_text_for_a_later_ptxas_has_machine_code() -> None:
    """What is new in a version is rarely used; where it is, ptxas refuses the text all the same."""
    text = re.sub(r"\.version \d+\.\d+", ".version 9.9", kernel(LOOP.format(work=MMA)), count=1)
    prediction = predict(text, rewrites=False)
    assert any("this ptxas does not know 9.9" in note for note in prediction.notes)
    [one] = prediction.kernels
    assert one.figures is not None and one.figures.source == "SASS"
