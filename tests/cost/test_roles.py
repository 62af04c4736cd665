"""What roles of warps do, and that they do it beside each other."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from ptxsw.cost.account import Account, Interval, exactly
from ptxsw.cost.roles import of_block
from ptxsw.driver.prediction import predict
from ptxsw.report.cost_model import Role, RoleLoop
from ptxsw.report.prediction import Kernel
from ptxsw.report.warp_roles import named
from tests.command_line import ptxsw
from tests.specialised import BY_THREAD, specialised, wrapping

L2 = 5120 / 132  # bytes a cycle and multiprocessor of an H100, at most
TILE = 24576


@cache
def predicted(text: str) -> Kernel:
    [kernel] = predict(text, rewrites=False).kernels
    return kernel


def roles(text: str) -> dict[tuple[int, ...], Role]:
    return {role.warps: role for role in predicted(text).roles}


def loops(text: str) -> tuple[RoleLoop, RoleLoop]:
    """The loop that loads, and the one that multiplies."""
    found = roles(text)
    [[load], [multiply]] = found[(4,)].loops, found[(0, 1, 2, 3)].loops
    return load, multiply


def test_each_role_has_its_loop_and_its_work() -> None:
    load, multiply = loops(specialised())
    assert (load.label, load.work, load.registers) == ("LOADS", ("loads by TMA",), 40)
    assert (multiply.label, multiply.work, multiply.registers) == ("MULTIPLIES", ("wgmma",), 232)
    assert load.bytes == (TILE, TILE) and multiply.bytes is None
    assert roles(specialised())[5, 6, 7] == Role((5, 6, 7), (), ())


@pytest.mark.parametrize("stages", [1, 3, 8])
def test_bytes_on_the_way_are_those_of_all_stages(stages: int) -> None:
    load, multiply = loops(specialised(stages=stages))
    assert (load.stages, load.on_the_way, load.barriers) == (stages, stages * TILE, stages)
    assert (multiply.stages, multiply.on_the_way, multiply.barriers) == (None, None, stages)


def test_what_nothing_says_is_not_known() -> None:
    load, _ = loops(specialised(size="%size"))
    assert (load.bytes, load.on_the_way, load.stages) == (None, None, 3)
    load, _ = loops(specialised(next_stage="add.s32 %stage, %stage, 1;"))
    assert (load.bytes, load.on_the_way, load.stages) == ((TILE, TILE), None, None)


def test_an_unrolled_loop_fills_several_barriers_in_turn() -> None:
    """Two tiles an iteration: the ring is as long, but no instruction goes round it by itself."""
    again = specialised(stages=2)
    start, end = again.index("WAIT1:"), again.index("add.u32 %r9, %r9, 1;")
    turn = again[start:end]
    other = turn.replace("WAIT1", "WAIT3").replace("[%r13", "[%r15").replace("%r13]", "%r15]")
    address = "shl.b32 %r11, %stage, 3; add.u32 %r15, %r12, %r11;"
    load, multiply = loops(again[:end] + address + other + again[end:])
    assert load.bytes == (2 * TILE, 2 * TILE)
    assert (load.on_the_way, load.barriers, load.tiles) == (2 * TILE, 2, 2)
    assert load.stages is None and multiply.tiles == 1
    assert load.at_least == pytest.approx(2 * TILE / L2, abs=0.01)


@pytest.mark.parametrize(("wgmma", "longest"), [(4, "LOADS"), (40, "MULTIPLIES")])
def test_a_block_takes_as_long_as_its_longest_role(
    wgmma: int, longest: str, tmp_path: Path
) -> None:
    """Four warps share 64 * 128 * 16 multiply-adds of each wgmma, 2048 a cycle."""
    load, multiply = loops(specialised(wgmma=wgmma))
    tensor = wgmma * 64 * 128 * 16 / 2048
    assert load.at_least == pytest.approx(TILE / L2, abs=0.01)
    assert multiply.at_least == tensor
    (tmp_path / "k.ptx").write_text(specialised(wgmma=wgmma))
    told = ptxsw("predict", tmp_path / "k.ptx", "--no-rewrites").stdout.decode()
    most = max(load.at_least or 0.0, multiply.at_least)
    assert (
        "    for each tile that passes their mbarriers, a block takes as long as the longest: "
        f"at least {most:.4g} cycles, the loop {longest}\n"
    ) in told


def test_one_warp_of_a_role_waits_alone() -> None:
    """The latency of a loop of one warp is hidden by that warp of other blocks alone."""
    kernel = predicted(specialised())
    by_label = {stretch.label: stretch for stretch in kernel.stretches}
    assert kernel.occupancy is not None
    waits = {
        label: next(r.time.low for r in by_label[label].resources if r.name == "latency")
        for label in ("LOADS", "MULTIPLIES")
    }
    text = specialised(BY_THREAD).replace("setp.lt.u32 %p2, %r1, 128;", "setp.ne.u32 %p2, %r8, 0;")
    other = predicted(text)
    assert not other.roles
    of_all = {s.label: s for s in other.stretches}["LOADS"].resources
    shared = next(r.time.low for r in of_all if r.name == "latency")
    assert waits["LOADS"] == pytest.approx(8 * shared)


def test_what_one_thread_issues_is_not_done_by_each_warp() -> None:
    account = Account(
        instructions=exactly(10), l2_bytes=exactly(1000), passes=exactly(4), sectors=exactly(3),
        tensor={("wgmma", "f16_f32"): exactly(8), ("tcgen05", "f16_f32"): exactly(9)},
    )  # fmt: skip
    whole = of_block(account, 4)
    assert whole.instructions == exactly(40) and whole.sectors == exactly(12)
    assert whole.l2_bytes == Interval(1000, 4000) and whole.passes == Interval(4, 16)
    assert whole.tensor == {
        ("wgmma", "f16_f32"): exactly(32), ("tcgen05", "f16_f32"): Interval(9, 36),
    }  # fmt: skip


def test_roles_are_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(specialised())
    told = ptxsw("predict", tmp_path / "k.ptx", "--no-rewrites").stdout.decode()
    assert "  warp roles, running concurrently\n    warps 0 to 3: loop MULTIPLIES in line " in told
    assert (
        ": loads by TMA, 24,576 bytes an iteration, waits for 3 mbarriers, 3 stages, at most "
        "73,728 bytes on the way, 40 registers a thread, at least 633.6 cycles a block\n"
    ) in told
    assert "    warps 5 to 7: no loop of their own\n" in told
    analysis = ptxsw("analyze", tmp_path / "k.ptx").stdout.decode()
    assert "Warp roles, running concurrently" in analysis and "wgmma, waits for 3" in analysis
    given = ptxsw("analyze", tmp_path / "k.ptx", "--format", "json").stdout
    assert [role["warps"] for role in json.loads(given)["kernels"][0]["roles"]] == [
        [0, 1, 2, 3], [4], [5, 6, 7],
    ]  # fmt: skip


def test_a_loop_has_the_same_line_everywhere() -> None:
    """That of the first of its instructions in the text, wherever it is entered."""
    kernel = predicted(specialised())
    lines = {stretch.label: stretch.line for stretch in kernel.stretches}
    assert {loop.label: loop.line for role in kernel.roles for loop in role.loops} == lines


def test_names_of_warps() -> None:
    assert named((0,)) == "0" and named((4, 5)) == "4, 5"
    assert named((0, 1, 2, 3, 7)) == "0 to 3, 7"


def test_loops_that_share_no_barrier_go_round_for_themselves() -> None:
    """Those that are waited for lie 72 bytes behind those that copies fill."""
    before, wait, after = specialised().partition("WAIT2:")
    load, multiply = loops(before + wait + after.replace("[%r13]", "[%r13+72]", 1))
    assert load.tiles == 1 and multiply.tiles is None


def test_a_ring_of_another_length_is_another_ring() -> None:
    text = specialised(next_stage="STEP").replace("STEP", wrapping(4), 1)
    load, multiply = loops(text.replace("STEP", wrapping(3)))
    assert (load.stages, load.tiles, multiply.barriers, multiply.tiles) == (4, 1, 3, 1)
