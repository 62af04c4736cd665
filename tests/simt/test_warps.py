"""Shuffles, votes, divergence: lanes of a warp, whole and partial."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.simt import Fuzzing, Poisoned, Runaway, launch
from tests.simt.programs import SEEDS, from_body, program

WARPS = program("warps")
seeds = pytest.mark.parametrize("seed", SEEDS)


@seeds
def test_warp_sum(seed: int | None) -> None:
    data = np.random.default_rng(1).integers(0, 9, 160).astype(np.float32)
    out = np.zeros(6, np.float32)
    result = launch(WARPS, "warp_sum", 3, 64, [data, out, 160], seed=seed)
    padded = np.concatenate([data, np.zeros(32, np.float32)])
    assert np.array_equal(result.buffers[1], padded.reshape(-1, 32).sum(axis=1))


def take(values: list[int], lane: int, mode: str, by: int, width: int) -> int:
    """The CUDA programming guide's shuffles among `width` lanes."""
    first = lane // width * width
    if mode == "up":
        source = lane - by
        return values[source] if source >= first else values[lane]
    source = {"down": lane + by, "xor": lane ^ by, "idx": first + by % width}[mode]
    return values[source] if source < first + width else values[lane]


def test_shuffles() -> None:
    data = np.random.default_rng(2).integers(0, 1000, 64).astype(np.int32)
    result = launch(WARPS, "shuffles", 1, 64, [data, np.zeros((64, 8), np.int32)])
    for warp in (0, 32):
        values = data[warp : warp + 32].tolist()
        for lane in range(32):
            want = [
                take(values, lane, "up", 3, 32), take(values, lane, "down", 5, 32),
                take(values, lane, "xor", 1, 32), take(values, lane, "idx", 7, 32),
                take(values, lane, "up", 2, 8), take(values, lane, "down", 1, 16),
                take(values, lane, "idx", warp + lane + 1, 4), take(values, lane, "xor", 4, 8),
            ]  # fmt: skip
            assert result.buffers[1][warp + lane].tolist() == want


def test_votes() -> None:
    for size in (32, 45, 64):
        data = np.random.default_rng(size).integers(0, 9, size).astype(np.int32)
        result = launch(WARPS, "votes", 1, size, [data, np.zeros((size, 10), np.uint32)])
        for warp in range(0, size, 32):
            v = data[warp : warp + 32]
            lanes = np.arange(len(v))
            odd = int(((v & 1) << lanes).sum())
            full = (1 << len(v)) - 1
            for lane in lanes:
                want = [
                    int(((v > 3) << lanes).sum()), int((v == 5).any()), int((v < 9).all()),
                    int(((v == v[lane]) << lanes).sum()), full if (v == v[0]).all() else 0,
                    int((v == v[0]).all()), int(v.sum()), int(v.max()),
                    int(np.bitwise_xor.reduce(v)), odd if v[lane] & 1 else full,
                ]  # fmt: skip
                assert result.buffers[1][warp + lane].tolist() == want


@seeds
def test_votes_agree_with_their_masks_under_any_schedule(seed: int | None) -> None:
    """Groups may be smaller than a warp, but a lane always belongs to its own mask."""
    data = np.arange(40, dtype=np.int32) % 7
    result = launch(WARPS, "votes", 1, 40, [data, np.zeros((40, 10), np.uint32)], seed=seed)
    for thread, row in enumerate(result.buffers[1]):
        assert row[9] >> (thread & 31) & 1
        assert row[3] >> (thread & 31) & 1


@seeds
def test_halves_meet_again(seed: int | None) -> None:
    data = np.arange(64, dtype=np.int32) * 3
    result = launch(WARPS, "halves", 1, 64, [data, np.zeros(64, np.int32)], seed=seed)
    i = np.arange(64)
    want = np.where(i % 32 < 16, data[i ^ 1] * 2, data[i ^ 2] * 3) + data[i // 32 * 32]
    assert np.array_equal(result.buffers[1], want)


@seeds
@pytest.mark.parametrize("block", [32, 48, 128])
def test_loops_of_different_length(seed: int | None, block: int) -> None:
    def steps(v: int) -> int:
        count = 0
        while v != 1:
            if v <= 0:
                return -1
            v = 3 * v + 1 if v & 1 else v // 2
            count += 1
        return count

    data = np.arange(-2, 98, dtype=np.int32)
    grid = -(-100 // block)
    result = launch(WARPS, "collatz", grid, block, [data, np.zeros(100, np.int32), 100], seed=seed)
    assert result.buffers[1].tolist() == [steps(v) for v in data.tolist()]


@seeds
def test_switch(seed: int | None) -> None:
    data = np.random.default_rng(5).integers(0, 9, 64).astype(np.int32)
    result = launch(WARPS, "choose", 1, 64, [data, np.zeros(64, np.int32)], seed=seed)

    def choose(i: int, v: int) -> int:
        cases = {
            0: 5, 1: v * 31 + i + 7, 2: 7, 3: sum(k ^ v for k in range(i)), 4: i // 3,
            5: i % 7, 6: -i,
        }  # fmt: skip
        return cases.get(v, v)

    assert result.buffers[1].tolist() == [choose(i, v) for i, v in enumerate(data.tolist())]


@pytest.mark.parametrize("shape", [(32, 1, 1), (5, 7, 3), (16, 16, 1), (1, 40, 1)])
def test_lane_numbers(shape: tuple[int, int, int]) -> None:
    threads = shape[0] * shape[1] * shape[2]
    grid = (2, 1, 2)
    result = launch(WARPS, "which", grid, shape, [np.zeros((4 * threads, 4), np.int32)])
    t = np.arange(4 * threads) % threads
    lane = t % 32
    out = result.buffers[0].astype(np.int64) & 0xFFFFFFFF
    assert np.array_equal(out[:, 0], lane)
    assert np.array_equal(out[:, 1], (1 << lane) - 1)
    assert np.array_equal(out[:, 2], 2**32 - (1 << lane))
    assert (out[:, 3] == -(-threads // 32)).all()


def test_some_blocks_of_a_large_grid() -> None:
    module = from_body(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.y;\nmov.u32 %r2, %ctaid.x;\n"
        "mov.u32 %r3, %nctaid.x;\nmad.lo.u32 %r4, %r1, %r3, %r2;\nand.b32 %r5, %r4, 7;\n"
        "mul.wide.u32 %rd2, %r5, 4;\nadd.s64 %rd1, %rd1, %rd2;\n"
        "st.global.u32 [%rd1], %r4;\nret;"
    )
    result = launch(
        module, "k", (1 << 20, 1 << 10), 1, [np.zeros(8, np.uint32)],
        only=range(1 << 25, (1 << 25) + 3),
    )  # fmt: skip
    assert result.buffers[0].tolist() == [1 << 25, (1 << 25) + 1, (1 << 25) + 2, 0, 0, 0, 0, 0]


# ---------------------------------------------------------------- what is undefined

SHUFFLE = (
    "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd1, %rd1, %rd2;\n"
)


def test_a_lane_that_is_not_there_gives_poison() -> None:
    data = np.arange(32, dtype=np.int32)
    with pytest.raises(Poisoned, match=r"thread \(19,0,0\).*an undefined value is stored"):
        launch(WARPS, "beyond", 1, 32, [data, np.zeros(32, np.int32)])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("st.global.u32 [%rd1], %r5;", "is stored"),
        ("add.u32 %r6, %r5, 1;\nxor.b32 %r7, %r1, %r6;\nst.global.u32 [%rd1], %r7;", "is stored"),
        ("cvt.u64.u32 %rd3, %r5;\nld.global.u32 %r6, [%rd3];", "is an address"),
        ("setp.eq.u32 %p1, %r5, 1;\n@%p1 bra L;\nL:", "decides what happens"),
        ("atom.global.add.u32 %r6, [%rd1], %r5;", "is stored"),
        # Out of the warp: lane 31 has no lane 32 but gets its own value, lane 8 is inactive.
        (
            "setp.ne.u32 %p1, %r1, 8;\nmov.u32 %r2, 7;\n"
            "@%p1 shfl.sync.down.b32 %r2, %r1, 1, 31, 0xfffffeff;\nst.global.u32 [%rd1], %r2;",
            r"thread \(7,0,0\)",
        ),
    ],
)  # fmt: skip
def test_poison_is_reported(body: str, message: str) -> None:
    module = from_body(SHUFFLE + body + "\nret;")
    with pytest.raises(Poisoned, match=message):
        launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])


def test_poison_that_is_not_used_does_no_harm() -> None:
    """`selp` does not take it, a guarded move replaces it, arithmetic on it is forgotten."""
    module = from_body(
        SHUFFLE + "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r2, %r1, %r5, %p1;\n"
        "@!%p1 mov.u32 %r2, 99;\nmul.lo.u32 %r7, %r5, 3;\nst.global.u32 [%rd1], %r2;\nret;"
    )
    result = launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])
    assert result.buffers[0].tolist() == [*range(16), *[99] * 16]


def test_a_shuffle_defines_what_was_undefined() -> None:
    """Lanes may bring nothing as long as nobody takes it: GCC broadcasts from lane 0 so."""
    module = from_body(
        SHUFFLE + "setp.eq.u32 %p1, %r1, 0;\n@%p1 mov.u32 %r2, 7;\n"
        "shfl.sync.idx.b32 %r2, %r2, 0, 31, 0xffffffff;\nst.global.u32 [%rd1], %r2;\nret;"
    )
    result = launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])
    assert result.buffers[0].tolist() == [7] * 32


def test_local_memory_may_hold_what_is_undefined() -> None:
    """It stays undefined there, until it is overwritten."""
    body = (
        ".local .b32 kept[2];\n" + SHUFFLE + "mov.u64 %rd3, kept;\n"
        "st.local.v2.u32 [%rd3], {%r5, %r1};\nsetp.lt.u32 %p1, %r1, 3;\n"
        "@%p1 st.local.u32 [%rd3], 5;\nld.local.v2.u32 {%r6, %r7}, [%rd3];\n"
    )
    with pytest.raises(Poisoned, match=r"thread \(3,0,0\)"):
        launch(
            from_body(body + "st.global.u32 [%rd1], %r6;\nret;"), "k", 1, 32,
            [np.zeros(32, np.uint32)],
        )  # fmt: skip
    module = from_body(body + "st.global.u32 [%rd1], %r7;\nret;")
    result = launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])
    assert result.buffers[0].tolist() == list(range(32))


def test_registers_written_on_one_side_only() -> None:
    module = from_body(
        SHUFFLE + "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra L;\nmov.u32 %r5, 1;\nL:\n"
        "st.global.u32 [%rd1], %r5;\nret;"
    )
    with pytest.raises(Poisoned, match=r"thread \(0,0,0\)"):
        launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])


@seeds
def test_one_lane_is_elected(seed: int | None) -> None:
    body = (
        SHUFFLE + "mov.u32 %r3, 0;\nelect.sync %r2|%p1, 0x00ffffff;\n"
        "@%p1 mov.u32 %r3, 100;\nadd.u32 %r3, %r3, %r2;\nst.global.u32 [%rd1], %r3;\nret;"
    )
    result = launch(from_body(body), "k", 1, 24, [np.zeros(24, np.uint32)], seed=seed)
    out = result.buffers[0].tolist()
    leader = min(out)
    assert out == [leader + 100 * (lane == leader) for lane in range(24)]


# ---------------------------------------------------------------- schedules

UNIFORM = (
    SHUFFLE + "mov.u32 %r2, 0;\nmov.u32 %r3, 0;\nL:\n"
    "activemask.b32 %r4;\nadd.u32 %r3, %r3, 1;\nadd.u32 %r2, %r2, 1;\n"
    "setp.le.u32 %p1, %r2, %r1;\n@%p1 bra L;\nst.global.u32 [%rd1], %r4;\nret;"
)


def test_converging_activemask() -> None:
    """In iteration i the lanes from i on are left."""
    result = launch(from_body(UNIFORM), "k", 1, 32, [np.zeros(32, np.uint32)])
    assert result.buffers[0].tolist() == [2**32 - 2**lane for lane in range(32)]


def test_fuzzing_splits_groups() -> None:
    seen = set()
    for seed in range(20):
        result = launch(from_body(UNIFORM), "k", 1, 32, [np.zeros(32, np.uint32)], seed=seed)
        masks = result.buffers[0].tolist()
        assert all(mask >> lane & 1 for lane, mask in enumerate(masks))
        # Lanes in one group are in the same iteration: nobody who has left is named.
        assert all(mask % 2**lane == 0 for lane, mask in enumerate(masks))
        seen.add(tuple(masks))
    assert len(seen) > 5


def test_iterations_may_merge_on_request() -> None:
    """Then a group names lanes that are in another iteration of the loop."""
    body = (
        SHUFFLE + "mov.u32 %r2, 0;\nL:\nadd.u32 %r2, %r2, 1;\n"
        "shl.b32 %r5, %r2, 0;\nactivemask.b32 %r4;\nshfl.sync.bfly.b32 %r6, %r2, 0, 31, %r4;\n"
        "match.any.sync.b32 %r7, %r2, %r4;\nsetp.ne.u32 %p2, %r7, %r4;\n@%p2 bra D;\n"
        "setp.lt.u32 %p1, %r2, 12;\n@%p1 bra L;\nst.global.u32 [%rd1], %r4;\nret;\nD:\n"
        "mov.u32 %r8, 12345;\nst.global.u32 [%rd1], %r8;\nret;"
    )
    module = from_body(body)

    def mixed(merge: bool) -> bool:
        for seed in range(40):
            schedule = Fuzzing(seed, merge, split=1.0, merge=0.9)
            out = launch(module, "k", 1, 8, [np.zeros(8, np.uint32)], schedule=schedule)
            if 12345 in out.buffers[0]:
                return True
        return False

    assert mixed(True)
    assert not mixed(False)


def test_endless_loops_end() -> None:
    counts = from_body("mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nbra L;")
    with pytest.raises(Runaway, match="no end after"):
        launch(counts, "k", 1, 32, [np.zeros(1, np.uint32)], limit=10000)


def test_schedules_repeat() -> None:
    data = np.zeros(32, np.uint32)
    first, second = (launch(from_body(UNIFORM), "k", 1, 32, [data], seed=3) for _ in range(2))
    assert np.array_equal(first.buffers[0], second.buffers[0])
