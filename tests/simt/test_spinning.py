"""Threads that wait for a word of memory in a loop: who waits for what comes gets on, and who waits
for what cannot come is told so at once."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.simt import Deadlock, Livelock, Runaway, launch
from tests.simt.programs import from_body, program

SPINNING = program("spinning")


def ints(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.zeros(count, np.int32)


def steps(kernel: str, *, grid: int = 1, block: int, buffers: tuple[int, int] = (32, 64)) -> int:
    """How many instructions of warps a launch takes; it must end."""
    done = launch(SPINNING, kernel, grid, block, [ints(count) for count in buffers])
    assert done.counters is not None
    return sum(done.counters.warp_instructions.values())


def test_a_flag_that_nobody_sets() -> None:
    said = r"never: thread \(0,0,0\) .* waits forever: line \d+: .* and 31 more: spins, and nothing"
    with pytest.raises(Deadlock, match=said) as caught:
        launch(SPINNING, "never", 1, 32, [ints(32), ints(32)])
    assert "ld.volatile.global.u32" in str(caught.value)  # at the load that it waits with
    assert isinstance(caught.value, Runaway)  # whoever bounds runs need not tell the two apart
    launch(SPINNING, "never", 1, 32, [np.full(32, 7, np.int32), ints(32)])


def test_blocks_that_do_not_run_yet_are_told_of() -> None:
    """They may set the flag: no deadlock."""
    said = (
        "waits for what 6 blocks that have not begun may change: .* nothing changes what it reads"
    )
    with pytest.raises(Runaway, match=said) as caught:
        launch(SPINNING, "never", 8, 32, [ints(32), ints(32)], resident=64)
    assert not isinstance(caught.value, Deadlock)


def test_an_empty_loop() -> None:
    with pytest.raises(Livelock):
        launch(from_body("L:\nbra L;"), "k", 1, 32, [np.zeros(1, np.uint32)])


def test_lanes_that_spin_soon_let_the_others_of_their_warp_by() -> None:
    assert steps("pair", block=32) < 10_000
    done = launch(SPINNING, "bump", 1, 4, [ints(1), ints(1)])
    assert [buffer.tolist() for buffer in done.buffers] == [[0], [4]]
    assert steps("bump", block=4, buffers=(1, 1)) < 20_000


def test_a_spin_and_a_barrier_that_wait_for_each_other() -> None:
    with pytest.raises(Deadlock) as caught:
        launch(SPINNING, "crossed", 1, 64, [ints(1), ints(1)])
    assert "thread (0,0,0) of block (0,0,0): spins, and nothing changes" in str(caught.value)
    assert "barrier 0 waits for threads of warps 0 of the block" in str(caught.value)


def test_warps_that_spin_by_turns_get_on() -> None:
    done = launch(SPINNING, "pingpong", 1, 64, [ints(1), ints(3)])
    assert [buffer.tolist() for buffer in done.buffers] == [[4], [0 + 2, 1 + 3, 2999]]


def test_what_is_changed_for_a_moment_is_no_spin() -> None:
    """The thread that waits may see the pulse, and does."""
    assert launch(SPINNING, "pulses", 1, 64, [ints(2), ints(1)]).buffers[0][1] == 1


def test_who_reads_the_clock_does_not_wait_for_ever() -> None:
    assert launch(SPINNING, "patient", 1, 32, [ints(1), ints(32)]).buffers[1].all()


def test_progress_is_told() -> None:
    told: list[int] = []
    launch(SPINNING, "pingpong", 1, 64, [ints(1), ints(3)], progress=told.append)
    assert len(told) > 2
    assert told == sorted(told)
