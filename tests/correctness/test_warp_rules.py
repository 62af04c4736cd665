"""Waits of warps and threads: masks, deadlocks, asynchronous copies, and what ptxas says itself."""

from __future__ import annotations

import os
from importlib import import_module

import pytest

from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from ptxsw.toolchain import find
from tests.heads import head

KERNEL = """
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n) {bound}
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .pred %p<4>;
    .shared .align 16 .b8 s[1024];
    mov.u32 %r1, %tid.x;
    ld.param.u32 %r2, [n];
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r3, s;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
{body}
    ret;
}}
"""


def proof(rule: str, body: str, *, bound: str = "", version: str = "8.0", target: str = "sm_80",
          block: tuple[int, int, int] | None = None) -> Proof | None:  # fmt: skip
    module = parse(head(version, target) + KERNEL.format(bound=bound, body=body))
    (function,) = module.kernels
    subject = Subject(module, function, Budget(10), block)
    code = import_module(f"ptxsw.correctness.{rule.replace('-', '_')}")
    return code.prove(subject) if code.occurs(subject) else None


def why(found: Proof | None) -> str:
    assert found is not None
    return found.unknown or "; ".join(suspect.why for suspect in found.open)


# ---------------------------------------------------------------- warp-mask

DOWN = "    shfl.sync.down.b32 %r6, %r1, 16, 31, -1;\n"


@pytest.mark.parametrize(
    ("condition", "block", "together"),
    [
        ("setp.lt.u32 %p1, %r1, 32;", (64, 1, 1), True),  # the first warp
        ("setp.lt.u32 %p1, %r1, 16;", (64, 1, 1), False),
        ("shr.u32 %r7, %r1, 5; setp.eq.u32 %p1, %r7, %r2;", (64, 1, 1), True),
        ("shr.u32 %r7, %r1, 4; setp.eq.u32 %p1, %r7, %r2;", (64, 1, 1), False),
        ("mov.u32 %r7, %tid.y; setp.eq.u32 %p1, %r7, 0;", (32, 4, 1), True),  # a row is a warp
        ("mov.u32 %r7, %tid.y; setp.eq.u32 %p1, %r7, 0;", (16, 4, 1), False),
        ("mov.u32 %r7, %tid.y; setp.lt.u32 %p1, %r7, 2;", (16, 4, 1), True),
        ("setp.lt.u32 %p1, %r1, 32;", None, False),
        ("ld.global.u32 %r7, [%rd1]; setp.lt.u32 %p1, %r7, %r1;", (64, 1, 1), False),
    ],
)
def test_lanes_that_a_condition_keeps_together(
    condition: str, block: tuple[int, int, int] | None, together: bool
) -> None:
    """Whole warps go one way, whatever a parameter is; no lane that has ended is read."""
    for body in (f"{condition}\n@%p1 bra L;\nret;\nL:\n{DOWN}", f"{condition}\n@!%p1 ret;\n{DOWN}"):
        found = proof("warp-mask", body, block=block)
        assert found is not None and (not found.open) is together


def test_whole_warps_that_come_together() -> None:
    found = proof("warp-mask", DOWN, block=(64, 1, 1))
    assert found is not None and not found.open and not found.condition


def test_a_block_that_nobody_declares_is_a_condition() -> None:
    found = proof("warp-mask", DOWN)
    assert found is not None and not found.open and found.condition == "blocks are whole warps"


def test_the_last_warp_of_48_threads_has_no_lane_16() -> None:
    assert "last warp" in why(proof("warp-mask", DOWN, block=(48, 1, 1)))


def test_a_vote_may_name_lanes_that_a_block_does_not_have() -> None:
    vote = "    vote.sync.ballot.b32 %r6, 1, -1;\n"
    found = proof("warp-mask", vote, block=(48, 1, 1))
    assert found is not None and not found.open


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("    setp.lt.u32 %p1, %r1, 20;\n    @!%p1 bra L;\n", "some lanes never reach it"),
        ("    setp.ge.u32 %p1, %r1, %r2;\n    @%p1 ret;\n", "may be read"),
    ],
)
def test_lanes_that_part(before: str, words: str) -> None:
    behind = "L:\n    st.shared.u32 [%r5], %r6;\n"
    assert words in why(proof("warp-mask", before + DOWN + behind, block=(64, 1, 1)))


def test_a_branch_that_all_lanes_share_parts_nobody() -> None:
    before = "    setp.ge.u32 %p1, %r2, 7;\n    @%p1 bra L;\n"
    found = proof("warp-mask", before + DOWN + "L:\n", block=(64, 1, 1))
    assert found is not None and not found.open


def test_masks_of_some_lanes_stay_open() -> None:
    half = DOWN.replace("-1;", "0xffff;")
    assert "0xffff names some lanes only" in why(proof("warp-mask", half, block=(32, 1, 1)))
    asked = "    activemask.b32 %r7;\n" + DOWN.replace("-1;", "%r7;")
    assert "computed" in why(proof("warp-mask", asked, block=(32, 1, 1)))


TILE = """
    and.b32 %r6, %r1, {lanes};
    mov.u32 %r7, 255;
    shl.b32 %r7, %r7, %r6;
"""
EIGHT = TILE.format(lanes=24)
SHUFFLE = "    shfl.sync.bfly.b32 %r8, %r1, 1, {segments}, %r7;\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (EIGHT + "    bar.warp.sync %r7;\n", ""),
        (EIGHT + "    bar.warp.sync %r7;\n    bar.warp.sync %r7;\n", ""),
        (TILE.format(lanes=16) + "    bar.warp.sync %r7;\n", "its mask is computed"),
        (EIGHT + SHUFFLE.format(segments=0x181F), ""),  # in eight lanes
        (EIGHT + SHUFFLE.format(segments=0x1F), "it may read lanes beyond its mask"),
    ],
)  # fmt: skip
def test_a_mask_of_the_own_tile(body: str, said: str) -> None:
    assert said in why(proof("warp-mask", body, block=(64, 1, 1)))
    assert bool(said) == bool(why(proof("warp-mask", body, block=(64, 1, 1))))


@pytest.mark.parametrize(("other", "absent"), [(7, True), (8, False)])
def test_a_tile_orders_its_own_lanes(other: int, absent: bool) -> None:
    body = (
        EIGHT
        + f"""
    st.shared.u32 [%r5], %r1;
    bar.warp.sync %r7;
    xor.b32 %r8, %r4, {4 * other};
    add.u32 %r8, %r8, %r3;
    ld.shared.u32 %r8, [%r8];
"""
    )
    found = proof("data-race", body, block=(64, 1, 1))
    assert found is not None and (not found.open and not found.unknown) == absent


# ---------------------------------------------------------------- deadlock


def test_a_plain_barrier_leans_on_who_comes_to_it() -> None:
    found = proof("deadlock", "    bar.sync 0;\n")
    assert found is not None and not found.open and found.needs == {"divergent-barrier"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    bar.sync 1, 64;\n", "it waits for 64 threads"),
        ("    bar.arrive 1, 64;\n", "arrive at this barrier"),
        ("    barrier.sync %r2;\n", "its number varies"),
        ("L: ld.volatile.global.u32 %r6, [%rd1];\n    setp.eq.u32 %p1, %r6, 0;\n"
         "    @%p1 bra L;\n", "a loop waits for what line 18 reads"),
        ("L: atom.global.cas.b32 %r6, [%rd1], 0, 1;\n    setp.ne.u32 %p1, %r6, 0;\n"
         "    @%p1 bra L;\n", "a loop waits for what line 18 reads"),
    ],
)  # fmt: skip
def test_waits_that_are_not_followed(body: str, words: str) -> None:
    assert words in why(proof("deadlock", body))


def test_a_barrier_for_the_whole_block_by_count() -> None:
    found = proof("deadlock", "    bar.sync 0, 64;\n", block=(64, 1, 1))
    assert found is not None and not found.open


def test_a_loop_that_walks_a_list_waits_for_nobody() -> None:
    walk = """
L:  ld.global.u64 %rd1, [%rd1];
    st.global.u32 [%rd2], %r1;
    setp.ne.u64 %p1, %rd1, 0;
    @%p1 bra L;
"""
    assert proof("deadlock", walk) is None
    search = walk.replace("    st.global.u32 [%rd2], %r1;\n", "")
    assert proof("deadlock", search) is None  # another place each time
    spin = search.replace("%rd1, [%rd1]", "%rd1, [%rd2]")
    assert "a loop waits for what line 19 reads" in why(proof("deadlock", spin))


def test_a_vote_of_the_block_ends_a_loop_that_works() -> None:
    """All go round together; but what nobody writes, nobody should ask for again and again."""
    vote = "    ld.shared.u32 %r6, [%r5];\n    setp.ne.u32 %p1, %r6, 0;\n"
    vote += "    bar.red.or.pred %p2, 0, %p1;\n    @%p2 bra L;\n"
    found = proof("deadlock", "L: st.shared.u32 [%r5], %r2;\n" + vote)
    assert found is not None and not found.open
    assert "a loop waits" in why(proof("deadlock", "L:\n" + vote))


# ---------------------------------------------------------------- async-wait

COPY = "    cp.async.ca.shared.global [%r5], [%rd1], 4;\n    cp.async.commit_group;\n"
USE = "    ld.shared.u32 %r6, [%r5];\n"
WAIT = "    cp.async.wait_group {};\n"


def test_data_that_nobody_waited_for() -> None:
    assert "line 20 may touch what line 18 copies" in why(proof("async-wait", COPY + USE))


def test_a_wait_that_covers_the_copy() -> None:
    found = proof("async-wait", COPY + WAIT.format(0) + USE)
    assert found is not None and not found.open and found.needs == {"data-race"}


def test_a_wait_that_leaves_the_last_group_out() -> None:
    assert "may touch" in why(proof("async-wait", COPY + WAIT.format(1) + USE))
    two = COPY + COPY.replace("[%r5]", "[%r5+512]") + WAIT.format(1)
    found = proof("async-wait", two + USE)
    assert found is not None and not found.open
    assert "may touch" in why(proof("async-wait", two + USE.replace("[%r5]", "[%r5+512]")))


def test_a_group_that_was_not_committed_is_not_waited_for() -> None:
    early = COPY.splitlines(keepends=True)[0] + WAIT.format(0) + USE
    assert "may touch" in why(proof("async-wait", early))
    whole = COPY.splitlines(keepends=True)[0] + "    cp.async.wait_all;\n" + USE
    found = proof("async-wait", whole)
    assert found is not None and not found.open


def test_the_source_must_not_be_written_meanwhile() -> None:
    over = "    st.global.u32 [%rd1], %r1;\n"
    assert "may touch" in why(proof("async-wait", COPY + over))
    other = over.replace("%rd1", "%rd2")
    found = proof("async-wait", COPY + other)
    assert found is not None and not found.open


RING = """
    mov.u32 %r7, 0;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra E;
L:  add.u32 %r6, %r7, 1;
    and.b32 %r6, %r6, 1;
    shl.b32 %r6, %r6, 9;
    add.u32 %r6, %r5, %r6;
    cp.async.ca.shared.global [%r6], [%rd1], 4;
    cp.async.commit_group;
    cp.async.wait_group {left};
    and.b32 %r8, %r7, 1;
    shl.b32 %r8, %r8, 9;
    add.u32 %r8, %r5, %r8;
    ld.shared.u32 %r8, [%r8];
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, %r2;
    @%p1 bra L;
E:
"""


def test_a_ring_of_two_buffers() -> None:
    found = proof("async-wait", RING.format(left=1))
    assert found is not None and not found.open
    assert "may touch" in why(proof("async-wait", RING.format(left=2)))


OTHERS = """
    xor.b32 %r6, %r1, 1;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r3, %r6;
    ld.shared.u32 %r7, [%r6];
"""


def test_a_barrier_is_no_wait() -> None:
    """Behind it others read what the thread copies, which only its own wait makes sure of."""
    behind = "    bar.sync 0;\n" + OTHERS
    found = proof("async-wait", COPY + behind, block=(64, 1, 1))
    assert "threads may access the same byte at lines 18 and 25" in why(found)
    found = proof("async-wait", COPY + WAIT.format(0) + behind, block=(64, 1, 1))
    assert found is not None and not found.open and not found.unknown


TAIL = """
    mov.u32 %r7, 0;
L:  add.u32 %r8, %r7, 1;
    setp.ge.u32 %p1, %r8, %r2;
    @%p1 bra W;
    and.b32 %r6, %r8, 1;
    shl.b32 %r6, %r6, 9;
    add.u32 %r6, %r5, %r6;
    cp.async.ca.shared.global [%r6], [%rd1], 4;
{early}
W:
{late}
    cp.async.wait_group 1;
    bar.sync 0;
    xor.b32 %r6, %r1, 1;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r3, %r6;
    and.b32 %r8, %r7, 1;
    shl.b32 %r8, %r8, 9;
    add.u32 %r6, %r6, %r8;
    ld.shared.u32 %r6, [%r6];
    bar.sync 0;
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, %r2;
    @%p1 bra L;
"""
COMMIT = "    cp.async.commit_group;"


def test_the_last_iteration_of_a_pipeline_has_to_commit_too() -> None:
    """Else it waits for one group too few: the other buffer is still copied to."""
    whole = proof("async-wait", TAIL.format(early="", late=COMMIT), block=(64, 1, 1))
    assert whole is not None and not whole.open and not whole.unknown
    tail = proof("async-wait", TAIL.format(early=COMMIT, late=""), block=(64, 1, 1))
    assert "threads may access the same byte" in why(tail)


def test_bulk_copies_are_not_followed() -> None:
    bulk = "    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 16;\n"
    found = proof("async-wait", bulk, version="8.3", target="sm_90")
    assert "is not followed" in why(found)


# ---------------------------------------------------------------- ptxas-warning

BUDGET = "    setmaxnreg.dec.sync.aligned.u32 24;\n"


@pytest.mark.skipif(find.real_ptxas(os.environ) is None, reason="no ptxas")
def test_a_budget_that_ptxas_ignores() -> None:
    found = proof("ptxas-warning", BUDGET, version="8.7", target="sm_90a")
    assert found is not None
    (fault,) = found.faults
    assert (fault.level, fault.measure, fault.index) == ("warning", "C7508", 7)
    assert "unable to determine register count at entry" in fault.what
    mended = proof(
        "ptxas-warning", BUDGET, version="8.7", target="sm_90a",
        bound=".maxntid 128, 1, 1\n.minnctapersm 1",
    )  # fmt: skip
    assert mended is not None and not mended.faults


def test_kernels_without_such_instructions_are_not_assembled() -> None:
    assert proof("ptxas-warning", "") is None


def test_a_loop_that_nothing_ends() -> None:
    """The word was loaded once, in front of it."""
    spin = "    ld.volatile.global.u32 %r6, [%rd1];\nL:\n    setp.eq.u32 %p1, %r6, 0;\n"
    assert "nothing ends the loop" in why(proof("deadlock", "L: bra L;\n"))
    register = "    setp.eq.u32 %p1, %r2, 0;\nL:\n    add.u32 %r6, %r6, 1;\n    @%p1 bra L;\n"
    assert "nothing ends the loop" in why(proof("deadlock", register))
    assert proof("deadlock", spin + "    add.u32 %r6, %r6, 1;\n    @%p1 bra L;\n") is None
