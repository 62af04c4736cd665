"""Barriers, shared memory and atomics, under converging and fuzzed schedules."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxsw.ptx.errors import Unsupported
from ptxsw.simt import Deadlock, MemoryFault, Poisoned, Race, Trap, launch
from tests.simt.programs import SEEDS, from_body, program

BLOCKS = program("blocks")
seeds = pytest.mark.parametrize("seed", SEEDS)


@seeds
@pytest.mark.parametrize(("size", "n"), [(64, 300), (96, 96), (256, 1000), (33, 60)])
def test_reduction(seed: int | None, size: int, n: int) -> None:
    data = np.arange(n, dtype=np.int32) * 7 % 100
    blocks = -(-n // size)
    # The kernel halves the block size, so it adds up the largest power of two only when even.
    result = launch(
        BLOCKS, "reduce_shared", blocks, size, [data, np.zeros(blocks, np.int32), n], seed=seed,
        races=True,
    )  # fmt: skip
    padded = np.concatenate([data, np.zeros(blocks * size - n, np.int32)]).reshape(blocks, size)
    want = []
    for row in padded:
        part, step = row.copy(), size // 2
        while step:
            part[:step] += part[step : 2 * step]
            step //= 2
        want.append(part[0])
    assert result.buffers[1].tolist() == want


def test_race_is_found() -> None:
    data, out = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    with pytest.raises(Race, match=r"reduce_racy: thread .* a race with thread .*, line \d+"):
        launch(BLOCKS, "reduce_racy", 1, 64, [data, out], races=True)


@seeds
def test_transpose(seed: int | None) -> None:
    data = np.random.default_rng(1).random((20, 20), np.float32)
    result = launch(
        BLOCKS,
        "transpose",
        (2, 2),
        (16, 16),
        [data, np.zeros_like(data), 20],
        seed=seed,
        races=True,
    )
    assert np.array_equal(result.buffers[1], data.T)


@seeds
def test_histogram(seed: int | None) -> None:
    data = np.random.default_rng(2).integers(0, 256, 500).astype(np.uint8)
    result = launch(
        BLOCKS, "histogram", 3, 80, [data, np.zeros(64, np.uint32), 500], seed=seed, races=True
    )
    assert np.array_equal(result.buffers[1], np.bincount(data & 63, minlength=64))


@seeds
def test_atomics(seed: int | None) -> None:
    threads = 2 * 48
    i = np.arange(threads)
    s = np.array([0, 0, -1, 0, 0], np.int32)
    u = np.zeros(3 + threads, np.uint32)
    result = launch(
        BLOCKS, "atomics", 2, 48, [s, u, np.zeros(2, np.float32), np.zeros(1, np.uint64)], seed=seed
    )
    s, u, f, w = result.buffers
    cleared = np.bitwise_or.reduce(1 << (i % 31))
    assert s.tolist() == [
        (50 - i).min(), (i - 7).max(), ~cleared, 31, np.bitwise_xor.reduce(i * 77),
    ]  # fmt: skip
    down = 0
    for _ in range(threads):
        down = 9 if down == 0 or down > 9 else down - 1
    assert u[:3].tolist() == [threads % 10, down, 2 * threads]
    assert sorted(u[3:]) == list(range(0, 2 * threads, 2))
    assert f.tolist() == [threads / 2, (i * 37 % 101).max() * 0.25]
    assert w.tolist() == [threads << 33]


@seeds
def test_spin_lock_makes_progress(seed: int | None) -> None:
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    result = launch(BLOCKS, "spin_lock", 1, 8, [lock, counter], seed=seed)
    assert result.buffers[0][0] == 0
    assert result.buffers[1][0] == 8


@seeds
def test_barrier_reductions(seed: int | None) -> None:
    for low, high in ((-4, 90), (-9, 95), (1, 9)):
        data = np.random.default_rng(3).integers(low, high, 70).astype(np.int32)
        result = launch(BLOCKS, "counts", 1, 70, [data, np.zeros(70, np.int32)], seed=seed)
        want = 4 * int((data > 0).sum()) + 2 * bool((data > -5).all()) + bool((data > 90).any())
        assert (result.buffers[1] == want).all()


@seeds
def test_named_barriers(seed: int | None) -> None:
    result = launch(BLOCKS, "producer", 1, 64, [np.zeros(96, np.int32), 3], seed=seed)
    want = [(31 - lane) * 10 + r for r in range(3) for lane in range(32)]
    assert result.buffers[0].tolist() == want


def test_dynamic_shared_memory() -> None:
    data = np.arange(40, dtype=np.float32)
    result = launch(BLOCKS, "rotate", 1, 40, [data, data * 0], shared=160)
    assert np.array_equal(result.buffers[1], np.roll(data, -5))
    with pytest.raises(MemoryFault, match=r"past the 144 bytes of shared memory"):
        launch(BLOCKS, "rotate", 1, 40, [data, data * 0], shared=144)


def test_module_variables() -> None:
    result = launch(BLOCKS, "variables", 1, 12, [np.zeros(12, np.int32)])
    weights, table = [3, -1, 4, 1], [[1, 2], [3, 4], [5, 6]]
    assert result.buffers[0].tolist() == [weights[t & 3] * table[t % 3][t & 1] for t in range(12)]
    assert result.variables["ticket"].view(np.int32).tolist() == [42]


@seeds
def test_deadlock_says_who_waits_where(seed: int | None) -> None:
    with pytest.raises(Deadlock) as caught:
        launch(BLOCKS, "never", 1, 32, [np.zeros(32, np.int32)], seed=seed)
    text = str(caught.value)
    assert "never: thread (0,0,0) of block (0,0,0): waits forever" in text
    assert "shfl.sync.idx.b32 with mask 0xffffffff waits for lanes 16, 17" in text
    assert "barrier 0 waits for threads of warps 0 of the block" in text


def test_assertion() -> None:
    data = np.array([1, 2, 9, 3], np.int32)
    launch(BLOCKS, "checked", 1, 4, [data, 10])
    with pytest.raises(Trap, match=r"thread \(2,0,0\).*blocks.cu:\d+: assertion `in\[thread"):
        launch(BLOCKS, "checked", 1, 4, [data, 9])


def test_exited_threads_are_not_waited_for() -> None:
    module = from_body(
        "mov.u32 %r1, %tid.x;\n"
        "setp.gt.u32 %p1, %r1, 40;\n@%p1 exit;\n"
        "bar.sync 0;\nld.param.u64 %rd1, [out];\nmul.wide.u32 %rd2, %r1, 4;\n"
        "add.s64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r1;\nret;"
    )
    result = launch(module, "k", 1, 96, [np.zeros(96, np.uint32)])
    assert result.buffers[0].tolist() == [*range(41), *[0] * 55]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("st.global.u32 [%rd1+64], %r1;", r"4 bytes past the end of buffer 'out'"),
        ("st.global.u32 [%rd1+-8], %r1;", r"8 bytes before buffer 'out'"),
        ("st.global.u32 [%rd1+2], %r1;", r"not aligned to 4 bytes"),
        ("ld.global.u32 %r2, [%rd1+4096];", r"4036 bytes past the end of buffer 'out'"),
        ("mov.u64 %rd2, 0; ld.global.u32 %r2, [%rd2];", r"no buffer is near this address"),
        ("mov.u64 %rd2, 7; ld.u8 %r2, [%rd2];", r"no buffer is near this address"),
        ("mov.u64 %rd2, out; st.u32 [%rd2], %r1;", r"buffer 'parameters' is read-only"),
        ("ld.shared.u32 %r2, [%rd1];", r"not in shared memory"),
    ],
)
def test_memory_faults(body: str, message: str) -> None:
    module = from_body(f"mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [out];\n{body}\nret;")
    with pytest.raises(MemoryFault, match=message) as caught:
        launch(module, "k", 1, 4, [np.zeros(16, np.uint32)])
    text = str(caught.value)
    assert re.match(r"<ptx>:10:\d+: k: thread \(0,0,0\) of block \(0,0,0\): (ld|st)", text)
    assert "at 0x" in text


def test_buffers_at_given_addresses() -> None:
    """An index that wraps from 2^31 - 1 to -2^31 reads 16 GiB apart."""
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nadd.s32 %r2, %r1, 2147483640;\n"
        "mul.wide.s32 %rd2, %r2, 4;\nadd.s64 %rd2, %rd1, %rd2;\nld.global.u32 %r3, [%rd2];\n"
        "add.u32 %r3, %r3, 1;\nst.global.u32 [%rd2], %r3;\nret;"
    )
    base, words = 1 << 40, np.arange(16, dtype=np.uint32)
    high, low = base + 4 * (2**31 - 8), base - 4 * 2**31
    result = launch(module, "k", 1, 16, [base], memory={high: words[:8], low: words[8:]})
    assert result.memory[high].tolist() == list(range(1, 9))
    assert result.memory[low].tolist() == list(range(9, 17))
    with pytest.raises(MemoryFault, match=r"thread \(8,0,0\).*no buffer is near"):
        launch(module, "k", 1, 16, [base], memory={high: words[:8]})
    with pytest.raises(Unsupported, match="overlap"):
        launch(module, "k", 1, 16, [base], memory={base: words, base + 8: words})
    with pytest.raises(Unsupported, match="no buffer can be at 0x1000"):
        launch(module, "k", 1, 16, [base], memory={0x1000: words})


@seeds
def test_asynchronous_copies(seed: int | None) -> None:
    data = np.random.default_rng(1).integers(0, 99, (3, 32, 4)).astype(np.int32)
    result = launch(
        program("copies"), "staged", 1, 32, [data, np.zeros(32, np.int32), 3, 0], seed=seed,
        races=True,
    )  # fmt: skip
    arrived = data.copy()
    arrived[1, :, 2:] = 0  # in the first round the last 8 bytes are zeros
    want = (arrived * [1, 3, 5, 7]).sum(axis=2).sum(axis=0)[::-1]
    assert np.array_equal(result.buffers[1], want)


def test_a_copy_nobody_waits_for_has_not_arrived() -> None:
    data = np.ones((1, 32, 4), np.int32)
    with pytest.raises(Poisoned, match="an undefined value is stored"):
        launch(program("copies"), "staged", 1, 32, [data, np.zeros(32, np.int32), 1, 1])
