"""What a user runs to find out why a kernel goes wrong on some GPU: undefined behaviour is named
where it happens."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.simt import MemoryFault, Poisoned, Race, Races, Undefined, launch
from tests.simt.programs import HERE, from_body, program

FLOATS, DOUBLES = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float64)
INTS = np.arange(256, dtype=np.int32)


def run(name: str, kernel: str, *args: Any, block: Any = 32, **options: Any) -> Any:
    return launch(program(name), kernel, 1, block, args, **options)


@pytest.mark.parametrize(
    ("name", "kernel", "reader"),
    [("broadcast_race", "last_writes", 30), ("broadcast_race_2", "second_last_writes", 31)],
)
def test_a_broadcast_read_and_a_write_by_one_of_its_readers(
    name: str, kernel: str, reader: int
) -> None:
    """All threads read one word, then one of them writes it: it races with the others."""
    with pytest.raises(Race, match=rf"a race with thread \({reader},0,0\) of block .*, line 20"):
        run(name, kernel, np.zeros(64, np.uint32), races=True)
    run(name, kernel, np.zeros(64, np.uint32), block=1, races=True)


@cache
def weakly(name: str) -> Module:
    """The program with weak accesses where it has volatile ones."""
    return parse((HERE / "ptx" / f"{name}.ptx").read_text().replace(".volatile", ""))


def test_readers_of_two_instructions() -> None:
    """The other warps have read first; lanes of the first warp, which read again, have met."""
    args = INTS, np.zeros(64, np.int32)
    said = r"thread \(0,0,0\) of .*: a race with thread \(6[23],0,0\) of .*, line 26"
    with pytest.raises(Race, match=said):
        launch(weakly("readers"), "displaced", 1, 64, args, races=True)
    launch(weakly("readers"), "ordered", 1, 64, args, races=True)


def test_a_word_that_all_have_added_to() -> None:
    """The last one to do so reads it: the others may still be at it."""
    args = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with pytest.raises(Race, match=r"thread \(31,0,0\) .*: a race with thread \(30,0,0\)"):
        launch(weakly("readers"), "added", 1, 32, args, races=True)
    launch(weakly("readers"), "added", 1, 1, args, races=True)


def test_volatile_accesses_are_no_race_but_have_no_order() -> None:
    for kernel, out in (("displaced", 64), ("added", 1)):
        found = Races()
        run(
            "readers",
            kernel,
            np.zeros(64, np.int32),
            np.zeros(out, np.int32),
            block=64,
            races=found,
        )
        assert {conflict.kind for conflict in found.conflicts} == {"strong"}
        assert "no order with thread" in str(found.conflicts[0].error)


def test_the_same_value_stored_by_rows_of_a_block_that_leaves_in_part() -> None:
    """Two rows store `s[x][3] = 1` in one instruction, the last one has returned: no race."""
    for block in ((2, 3), (2, 4), (2, 40)):
        lut = np.array([0, 5, 5], np.int32)
        done = run("early_return", "rows", lut, np.zeros(4), block=block, races=True)
        assert done.buffers[1].tolist() == [-7, -7, -7, 0]


def test_the_same_value_written_by_all_does_not_end_the_search() -> None:
    """`count = 0` by all threads; the race is between reading it and setting it anew."""
    with pytest.raises(Race, match=r"a race with .*, line"):
        run("same_value", "reduce_copy", INTS, INTS, 8, block=(32, 4), races=True)
    run("same_value", "reduce_copy", INTS, INTS, 8, block=(32, 4))


@pytest.mark.parametrize(("kernel", "more", "lane"), [("slide0", (), 8), ("slide", (0,), 0)])
def test_a_shuffle_whose_mask_leaves_its_lane_out(
    kernel: str, more: tuple[int, ...], lane: int
) -> None:
    said = rf"thread \({lane},0,0\) .*: shfl.sync.down.b32 with mask .* leaves this lane out"
    with pytest.raises(Undefined, match=said):
        run("lane_outside_mask", kernel, DOUBLES, DOUBLES, *more)
    run("lane_outside_mask", "slide", DOUBLES, DOUBLES, 0xFFFFFFFF)


def test_an_aligned_barrier_by_half_a_warp() -> None:
    said = "bar.sync by part of a warp, whose other lanes wait for it at line"
    with pytest.raises(Undefined, match=said):
        run("half_warp_barrier", "swap_even", FLOATS)


HALF = """
	.shared .align 4 .b8 tile[256];
	mov.u32 %r1, %tid.x;
	ld.param.u64 %rd1, [out];
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd1, %rd1, %rd2;
	and.b32 %r3, %r1, 31;
	setp.ge.u32 %p1, %r3, 16;
"""
LEFT_OUT = {
    "a branch": "@%p1 bra OVER;\nbar.sync 0;\nOVER: st.global.u32 [%rd1], %r1;",
    "a guard": "@%p1 bar.sync 0;",
    "trips": "mov.u32 %r2, 0;\nLOOP: setp.gt.u32 %p2, %r2, %r3;\n@%p2 bra OVER;\nbar.sync 0;\n"
    "add.u32 %r2, %r2, 16;\nbra LOOP;\nOVER: st.global.u32 [%rd1], %r1;",
    "another iteration": "mov.u32 %r2, 0;\nLOOP: and.b32 %r4, %r2, 1;\nshr.u32 %r5, %r3, 4;\n"
    "setp.ne.u32 %p2, %r4, %r5;\n@%p2 bra NEXT;\nbarrier.sync.aligned 0;\n"
    "NEXT: add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 2;\n@%p3 bra LOOP;",
    "before a return": "@%p1 bra OVER;\nbar.sync 0;\nOVER: setp.eq.u32 %p2, %r1, 99;\n"
    "@%p2 st.global.u32 [%rd1], 1;\nexit;",
}
TAKEN = {
    "a return": "@%p1 ret;\nbar.sync 0;\nst.global.u32 [%rd1], %r1;",
    "a tail": "@%p1 bra OVER;\nbar.sync 0;\nst.global.u32 [%rd1], %r1;\nOVER: ret;",
    "a last store": "@!%p1 bra ON;\nst.global.u32 [%rd1], 7;\nbra OVER;\nON: bar.sync 0;\n"
    "st.global.u32 [%rd1], %r1;\nOVER: ret;",
    "a warp": "setp.ge.u32 %p2, %r1, 32;\n@%p2 bra OVER;\nbar.sync 1, 32;\n"
    "OVER: st.global.u32 [%rd1], %r1;",
    "not aligned": "@%p1 bra OVER;\nbarrier.sync 0;\nOVER: st.global.u32 [%rd1], %r1;",
}
schedules = pytest.mark.parametrize("seed", [None, *range(1, 9)])


@schedules
@pytest.mark.parametrize("body", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_barrier_that_lanes_leave_out(body: str, seed: int | None) -> None:
    """Whichever lanes run first: those that leave it out may have ended when the others come."""
    with pytest.raises(Undefined, match=r"(bar|barrier)\.sync.* by part of a warp"):
        launch(from_body(HALF + body + "\nret;"), "k", 1, 64, [np.zeros(64, np.int32)], seed=seed)


@schedules
@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
def test_a_barrier_that_lanes_need_not_take(body: str, seed: int | None) -> None:
    """Lanes return early; other warps have nothing to do with it; it is not aligned."""
    launch(from_body(HALF + body + "\nret;"), "k", 1, 64, [np.zeros(64, np.int32)], seed=seed)


def test_lanes_that_have_ended_are_waited_for_by_nobody() -> None:
    with pytest.raises(Poisoned, match=r"thread \(39,0,0\) .* an undefined value is stored"):
        run("half_warp_barrier", "tail_sync", FLOATS, 40, block=64)  # behind the barrier: `s[40]`


SHARED = """
	.shared .align 4 .b8 tile[256];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	mad.lo.u32 %r3, %r1, 4, %r2;
	ld.param.u64 %rd1, [out];
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd1, %rd1, %rd2;
	setp.lt.u32 %p1, %r1, 16;
	@%p1 st.shared.u32 [%r3], %r1;
	bar.sync 0;
"""


@pytest.mark.parametrize(
    ("body", "thread"),
    [
        ("ld.shared.u32 %r4, [%r3];", 16),
        ("ld.shared.u32 %r4, [%r3+60];", 1),
        ("ld.shared.u32 %r4, [%r3];\n@!%p1 mov.u32 %r4, 7;", None),
        ("ld.shared.u32 %r4, [%r3];\nst.shared.u32 [%r3+128], %r4;\n"
         "ld.shared.u8 %r4, [%r3+131];", 16),
        ("atom.shared.add.u32 %r4, [%r3], 1;", 16),
        ("red.shared.add.u32 [%r3], 1;\nld.shared.u32 %r4, [%r3];", 16),
    ],
)  # fmt: skip
def test_shared_memory_that_nobody_has_written(body: str, thread: int | None) -> None:
    """It may be read and moved about, but not decide what is seen from outside."""
    module = from_body(f"{SHARED}{body}\nst.global.u32 [%rd1], %r4;")
    if thread is None:
        done = launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])
        assert done.buffers[0].tolist() == [*range(16), *[7] * 16]
        return
    with pytest.raises(Poisoned, match=rf"thread \({thread},0,0\) .*: an undefined value"):
        launch(module, "k", 1, 32, [np.zeros(32, np.uint32)])


@pytest.mark.parametrize(
    ("kernel", "args", "says"),
    [
        ("words", (np.zeros(64, np.uint8), INTS, 3), "ld.global.u32 .*: not aligned to 4 bytes"),
        ("quad", (FLOATS, FLOATS, 1), "not aligned to 16 bytes"),
        ("quad3", (FLOATS, FLOATS), "not aligned to 16 bytes"),
        ("shmix", (FLOATS, DOUBLES), "st.shared.f64 .*: not aligned to 8 bytes"),
    ],
)
def test_misaligned_accesses(kernel: str, args: tuple[Any, ...], says: str) -> None:
    with pytest.raises(MemoryFault, match=says):
        run("misaligned", kernel, *args, block=4, shared=1024)


def test_a_call_by_another_name() -> None:
    """`.alias other, second;`: 2 * x, which the table of functions does to odd threads."""
    done = run("alias", "zoo", FLOATS, np.zeros(64, np.float32), 3)
    x = np.array([10, 20, 30, 40] * 8)
    by_table = np.where(np.arange(32) % 2 == 0, x + 1, 2 * x)
    sums = FLOATS[:32] + FLOATS[1:33] + 2 * by_table + 2 * x
    assert np.array_equal(done.buffers[1][:32], sums.astype(np.float32))


THROWS = """.version 8.0
.target sm_80
.address_size 64
.extern .func throw_it () .noreturn;
.func back () .noreturn { ret; }
.visible .entry k(.param .u64 out) {
	.reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	setp.gt.u32 %p1, %r1, 3;
	@%p1 bra BAD;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r1;
	ret;
BAD:
	call throw_it;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""


@pytest.mark.parametrize("name", ["throw_it", "back"])
def test_a_call_that_does_not_return_ends_the_path(name: str) -> None:
    text = THROWS.replace("call throw_it", f"call {name}")
    done = launch(parse(text), "k", 1, 32, [np.full(8, 9, np.uint32)])
    assert done.buffers[0].tolist() == [0, 1, 2, 3, 9, 9, 9, 9]


def test_local_memory_that_nobody_wrote() -> None:
    """Half of an array is set: the other half may be read, but not be told."""
    body = """
    .local .align 8 .b8 window[8];
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, window;
    st.local.u32 [%rd2], 7;
    ld.local.v2.u32 {%r1, %r2}, [%rd2];
    st.global.u32 [%rd1], %rX;
    """
    for register, defined in (("1", True), ("2", False)):
        module = from_body(body.replace("%rX", f"%r{register}"))
        if defined:
            assert launch(module, "k", 1, 1, [np.zeros(1, np.uint32)]).buffers[0][0] == 7
            continue
        with pytest.raises(Poisoned, match="an undefined value is stored"):
            launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])


@pytest.mark.parametrize("pragma", ['.pragma "used_bytes_mask 0x1";', ""])
def test_a_pragma_tells_which_bytes_of_a_load_are_used(pragma: str) -> None:
    """Numba copies whole words of which one byte was written."""
    body = f"""
    .local .align 8 .b8 window[8];
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, window;
    st.local.u8 [%rd2], 1;
    {pragma}
    ld.local.u32 %r1, [%rd2];
    and.b32 %r1, %r1, 255;
    st.global.u32 [%rd1], %r1;
    """
    module = from_body(body)
    if pragma:
        assert launch(module, "k", 1, 1, [np.zeros(1, np.uint32)]).buffers[0][0] == 1
        return
    with pytest.raises(Poisoned, match="an undefined value is stored"):
        launch(module, "k", 1, 1, [np.zeros(1, np.uint32)])
