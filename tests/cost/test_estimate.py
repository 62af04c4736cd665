"""Times of kernels that are known in closed form, on every GPU that is described.

Each is run as a launch, all the way from PTX: what comes out has to be within 10 % of the cited
bandwidth, throughput or latency.
"""

from __future__ import annotations

from functools import cache

import pytest

from ptxsw.cost.account import Account, Interval, exactly
from ptxsw.cost.estimate import Estimate, estimate
from ptxsw.cost.gpu import Gpu, gpus
from ptxsw.cost.launched import account
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.sampled import Sample, TooLong, sample
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch

GPUS = sorted(gpus().items())
ALL = pytest.mark.parametrize("gpu", [gpu for _, gpu in GPUS], ids=[name for name, _ in GPUS])
THREADS = 256
KIB = 1024


@cache
def kernel(body: str, shared: int = 0) -> Module:
    """A kernel of two pointers; `%rd1` and `%rd2` hold them, `%r4` the number of the thread."""
    buffer = f".shared .align 16 .b8 tile[{shared}];" if shared else ""
    return parse(f"""
.version 7.0
.target sm_70
.address_size 64
{buffer}
.visible .entry k(.param .u64 a, .param .u64 b)
{{
    .reg .f32 %f<400>;
    .reg .b32 %r<400>;
    .reg .b64 %rd<400>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    {body}
    ret;
}}
""")


@cache
def seen(body: str, blocks: int, threads: int, shared: int = 0) -> Sample:
    data = Data("zeros", 1 << 30)
    launch = Launch((blocks, 1, 1), (threads, 1, 1), (data, data))
    return sample(kernel(body, shared), "k", launch, 1000)


def time_of(found: Estimate, name: str) -> Interval:
    """Of one resource."""
    return next(resource.time for resource in found.resources if resource.name == name)


def run(gpu: Gpu, body: str, blocks: int, threads: int = THREADS, shared: int = 0) -> Estimate:
    found = seen(body, blocks, threads, shared)
    fits = occupancy(gpu.arch, block_threads=threads, registers=32, shared=shared)
    (function,) = kernel(body, shared).kernels
    return estimate(gpu, account(gpu, function, found, blocks, fits, shared, None))


def close(found: Interval, wanted: Interval) -> bool:
    """Are both ends within 10 %?"""
    return found.low == pytest.approx(wanted.low, rel=0.1) and found.high == pytest.approx(
        wanted.high, rel=0.1
    )


def seconds(gpu: Gpu, cycles: Interval) -> Interval:
    return cycles / (gpu.of("clock") * 1e6)


def addressed(stride: int) -> str:
    return f"""
    mul.wide.s32 %rd3, %r4, {stride};
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;"""


COPY = (
    addressed(16)
    + """
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
    st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};"""
)


@ALL
def test_a_copy_takes_the_bandwidth_of_memory(gpu: Gpu) -> None:
    blocks = 100_000
    found = run(gpu, COPY, blocks)
    wanted = exactly(32.0 * blocks * THREADS) / (gpu.of("dram_copy") * 1e9)
    assert found.bound == "dram"
    assert close(time_of(found, "dram"), wanted)
    assert found.time.low == time_of(found, "dram").low


@ALL
@pytest.mark.parametrize("stride", [8, 16, 32, 64])
def test_strided_loads_take_whole_sectors(gpu: Gpu, stride: int) -> None:
    """Of each sector so many bytes are wanted; all 32 are moved."""
    blocks = 20_000
    body = addressed(stride) + "ld.global.f32 %f1, [%rd4];"
    found = run(gpu, body, blocks)
    moved = exactly(float(min(stride, 32)) * blocks * THREADS)
    assert close(time_of(found, "dram"), moved / (gpu.of("dram_copy") * 1e9))


@ALL
def test_a_chain_of_products_takes_their_latency(gpu: Gpu) -> None:
    links = 300
    found = run(gpu, "fma.rn.f32 %f1, %f1, %f1, %f1;\n" * links, 1, 32)
    assert found.bound == "latency"
    assert close(time_of(found, "latency"), seconds(gpu, gpu.of("alu_latency") * links))


@ALL
def test_independent_products_take_their_pipe(gpu: Gpu) -> None:
    blocks, count = 50_000, 300
    body = "\n".join(f"fma.rn.f32 %f{n}, %f{n}, %f{n}, %f{n};" for n in range(1, count + 1))
    found = run(gpu, body, blocks)
    warps = blocks * THREADS / 32
    cycles = exactly(warps * count * 32) / gpu.of("fma") / gpu.of("sms")
    assert found.bound == "compute"
    assert close(time_of(found, "compute"), seconds(gpu, cycles))


@ALL
@pytest.mark.parametrize("ways", [1, 2, 4, 8, 16, 32])
def test_bank_conflicts_take_passes(gpu: Gpu, ways: int) -> None:
    """With a stride of so many words as many lanes share a bank."""
    blocks, count = 10_000, 100
    body = (
        f"and.b32 %r5, %r3, 31; mov.u32 %r6, tile; mad.lo.s32 %r5, %r5, {4 * ways}, %r6;"
        + "".join(f"ld.shared.f32 %f{n}, [%r5];" for n in range(1, count + 1))
    )
    found = run(gpu, body, blocks, THREADS, 4 * KIB)
    warps = blocks * THREADS / 32
    cycles = exactly(warps * count * ways * 128) / gpu.of("shared") / gpu.of("sms")
    assert close(time_of(found, "shared"), seconds(gpu, cycles))
    assert ways <= 2 or found.bound == "shared"


@ALL
def test_chasing_pointers_takes_the_latency_of_memory(gpu: Gpu) -> None:
    """Each address is known when the load before it is done, and each is in another sector."""
    links = 200
    step = "ld.global.u64 %rd4, [%rd3]; add.s64 %rd3, %rd3, %rd4; add.s64 %rd3, %rd3, 4096;\n"
    found = run(gpu, "mov.u64 %rd3, %rd1;\n" + step * links, 1, 32)
    assert found.bound == "latency"
    assert close(time_of(found, "latency"), seconds(gpu, gpu.of("dram_latency") * links))


@ALL
def test_chasing_pointers_in_a_cache_takes_its_latency(gpu: Gpu) -> None:
    links = 300
    load = "ld.global.nc.u64 %rd4, [%rd3]; add.s64 %rd3, %rd3, %rd4;\n"
    iterations = f"mov.u32 %r9, 0;\nmov.u64 %rd3, %rd1;\nL:\n{load}add.s32 %r9, %r9, 1;\n"
    iterations += f"setp.lt.s32 %p1, %r9, {links};\n@%p1 bra L;"
    found = run(gpu, ".reg .pred %p1;\n" + iterations, 1, 32)
    once = gpu.of("l1_latency") + gpu.of("alu_latency")
    assert close(time_of(found, "latency"), seconds(gpu, once * links))


# ---------------------------------------------------------------- the interval itself


def test_the_ends_are_the_busiest_and_the_sum() -> None:
    gpu = dict(GPUS)["a100"]
    asked = Account(
        blocks=1e6,
        resident=8,
        dram_bytes=exactly(1e9),
        l2_bytes=exactly(2e9),
        instructions=exactly(1e7),
    )
    found = estimate(gpu, asked)
    times = [resource.time for resource in found.resources]
    assert found.time.low == max(time.low for time in times)
    assert found.time.high == sum(time.high for time in times)
    assert found.bound == "dram"


def test_what_is_expected_overlaps_the_more_the_more_blocks_there_are() -> None:
    """One block by itself: the sum. Many: the busiest."""
    gpu = dict(GPUS)["a100"]
    alone, four, many = (
        estimate(
            gpu,
            Account(blocks=1e6, resident=resident, dram_bytes=exactly(1e9), l2_bytes=exactly(1e9)),
        )
        for resident in (1, 4, 1000)
    )
    assert alone.expected > four.expected > many.expected
    busiest, rest = (resource.time for resource in alone.resources[:2])
    for found, share in ((alone, 1.0), (four, 0.25), (many, 0.001)):
        low, high = busiest.low + share * rest.low, busiest.high + share * rest.high
        assert found.expected == pytest.approx((low * high) ** 0.5)


def test_what_is_likely_lies_in_the_bounds_and_is_not_wide() -> None:
    gpu = dict(GPUS)["a100"]
    found = estimate(gpu, Account(blocks=1e6, resident=8, dram_bytes=Interval(1e9, 8e9)))
    assert found.time.low <= found.likely.low <= found.likely.high <= found.time.high
    assert found.likely.width <= 2.5 + 1e-9


def test_few_blocks_leave_multiprocessors_idle() -> None:
    gpu = dict(GPUS)["a100"]
    few = estimate(gpu, Account(blocks=1, resident=1, instructions=exactly(1e6)))
    many = estimate(gpu, Account(blocks=108, resident=1, instructions=exactly(1e6)))
    assert few.time.low == pytest.approx(108 * many.time.low)


def test_a_last_round_that_is_not_full_may_take_as_long_as_a_full_one() -> None:
    gpu = dict(GPUS)["a100"]
    found = estimate(gpu, Account(blocks=109, resident=1, instructions=exactly(1e6)))
    compute = time_of(found, "compute")
    clock = gpu.of("clock")
    assert compute.high / compute.low == pytest.approx(2 * 108 / 109 * clock.high / clock.low)


def test_a_block_without_end_is_given_up() -> None:
    with pytest.raises(TooLong) as error:
        seen("L:\nadd.s32 %r4, %r4, 1;\nbra L;", 1, 32)
    assert str(error.value) == (
        "k: a block executes more than 1048576 instructions: predict a smaller launch"
    )
