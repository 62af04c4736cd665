"""What a user runs to find out why a kernel hangs: threads that wait for what nobody does are named
at once; threads that wait for what somebody does are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsw.simt import Deadlock, Runaway, launch
from ptxsw.verify.arguments import Data
from ptxsw.verify.differential import compare
from ptxsw.verify.launches import Launch
from tests.command_line import ptxsw
from tests.simt.programs import HERE, SEEDS, program

Args = list[Any]
SPINS = HERE / "ptx" / "spinning.ptx"


def words(count: int, value: int = 0) -> NDArray[np.uint32]:
    return np.full(count, value, np.uint32)


def run(kernel: str, args: Args, grid: int = 1, block: int = 40, **options: Any) -> Any:
    name = "spinning" if kernel in ("pair", "never", "bump") else "waiting"
    return launch(program(name), kernel, grid, block, args, **options).buffers


FOREVER: dict[str, tuple[Args, str]] = {
    "never": ([words(1), words(40)], r"line \d+: byte 0 of buffer 'never_param_0'"),
    "bump": ([words(1, 1), words(1)], r"line \d+: byte 0 of buffer 'bump_param_0'"),
    "bump2": ([words(1, 1), words(1)], r"line \d+: byte 0 of buffer 'bump2_param_0'"),
    "behind": ([words(1), words(40)], "buffer 'behind_param_0'; line .* barrier 0 waits for"),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", FOREVER)
def test_loops_that_nothing_ends(kernel: str, seed: int | None) -> None:
    """A flag that nobody sets, a lock that nobody gives back, before a barrier or not."""
    args, says = FOREVER[kernel]
    with pytest.raises(Deadlock, match=rf"thread \(0,0,0\) .* nothing changes .*{says}"):
        run(kernel, args, 2, seed=seed, limit=200_000)


COUNT = np.arange(40, dtype=np.uint32)
ENDS: dict[str, tuple[Args, Callable[[Any], bool]]] = {
    "pair": ([words(16), words(16)], lambda b: b[1].tolist() == list(range(17, 33))),
    "bump2": ([words(1), words(1)], lambda b: b[1][0] == 40),
    "chain": ([words(1), words(40)], lambda b: b[0][0] == 1),
    "patient": ([words(1), words(40), 2000], lambda b: b[1].all()),
    "parting": ([words(3), words(40)], lambda b: b[0][0] == 1),
    "ring": ([COUNT, words(40), 20], lambda b: (b[1][:20] == COUNT[:20] + 1).all()),
}


@pytest.mark.parametrize("seed", SEEDS[:4])
@pytest.mark.parametrize("kernel", ENDS)
def test_loops_that_somebody_ends(kernel: str, seed: int | None) -> None:
    """Lanes of one warp, locks, clocks, a ring of four slots between two warps."""
    args, right = ENDS[kernel]
    assert right(run(kernel, args, block=32 if kernel == "pair" else 40, seed=seed))


def test_a_lock_that_all_lanes_want() -> None:
    """Who has the lock waits for the others behind the loop: that does not keep it from going on.
    A ticket lock, too."""
    assert run("bump", [words(1), words(1)])[1][0] == 40
    assert run("ticket", [words(1), words(1), words(1)])[2][0] == 40


def test_a_count_with_a_poll() -> None:
    """The counter is in local memory."""
    assert run("counting", [words(1), words(40), 3000])[1][0] == 3000


@pytest.mark.parametrize("kernel", ["chain", "backwards"])
@pytest.mark.parametrize("seed", [None, 1])
def test_blocks_that_wait_for_blocks(kernel: str, seed: int | None) -> None:
    done = run(kernel, [words(5), words(200)], 5, seed=seed)
    assert done[1].tolist() == np.repeat(np.arange(5), 40).tolist()


def test_blocks_that_wait_for_blocks_that_have_not_begun() -> None:
    """No deadlock: on a GPU with room for more blocks it ends."""
    args = [words(5), words(200)]
    assert run("chain", args, 5, resident=128)[1][-1] == 4
    with pytest.raises(Runaway, match="waits for what 3 blocks that have not begun may change"):
        run("backwards", args, 5, resident=128, limit=200_000)


def test_something_changes_for_ever() -> None:
    with pytest.raises(Runaway, match="no end after 20000 steps"):
        run("toggling", [words(1), words(40)], limit=20_000)


@pytest.mark.parametrize("more", [(), ("--seed", "1")])
def test_what_the_command_line_says(more: tuple[str, ...]) -> None:
    given = ("--grid", "1", "--block", "64", "--arg", "zeros:1:u32", "--arg", "zeros:64:u32")
    done = ptxsw("run", SPINS, "--kernel", "never", *given, *more)
    said = done.stderr.decode()
    assert done.returncode == 2 and done.stdout == b""
    assert said.startswith(f"{SPINS}:") and "waits forever" in said
    assert "thread (0,0,0) of block (0,0,0) and 63 more: spins, and nothing changes what" in said
    assert "ld.volatile.global.u32" in said and "^" in said


def test_verify_says_why_a_launch_tells_nothing() -> None:
    module, args = program("spinning"), tuple(Data("zeros", 40, "u32") for _ in range(2))
    given = Launch((1, 1, 1), (40, 1, 1), args)
    [why] = compare(module, module, "never", [given]).skipped
    assert "spins, and nothing changes what it reads" in why
