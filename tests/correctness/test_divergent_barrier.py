"""BlockBarriers that all living threads of a block reach, and some of which that is not proved."""

from __future__ import annotations

import pytest

from ptxsw.correctness import divergent_barrier
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof
from ptxsw.emulator.budget import Budget
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module

HEAD = """.version 8.0
.target sm_80
.address_size 64
FUNCTIONS
.visible .entry k(.param .u32 n, .param .u64 out)
{
	.reg .pred %p<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>;
	.shared .align 4 .b8 tile[4096];
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [n];
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	shr.u32 %r7, %r4, 1;
	mov.u32 %r5, 0;
	setp.ge.u32 %p1, %r1, %r2;
	setp.ge.u32 %p2, %r3, %r2;
	and.b32 %r6, %r1, 31;
	setp.eq.u32 %p3, %r6, 0;
"""
"""%p1 varies in the block, %p2 does not, %r5 is 0, %r7 half of the block."""


def module(body: str, functions: str = "") -> Module:
    return parse(HEAD.replace("FUNCTIONS", functions) + body + "\nret;\n}\n")


def proof(
    body: str, block: tuple[int, int, int] | None = None, functions: str = ""
) -> tuple[Subject, Proof]:
    text = module(body, functions)
    subject = Subject(text, text.kernels[0], Budget(10.0), block)
    return subject, divergent_barrier.prove(subject)


def why(body: str, block: tuple[int, int, int] | None = None, functions: str = "") -> str:
    """What stands in the way; "" if it is proved."""
    _, said = proof(body, block, functions)
    return said.unknown or "; ".join(suspect.why for suspect in said.open)


TREE = """LOOP:
@%p1 bra NEXT;
st.shared.u32 [tile], %r1;
NEXT:
bar.sync 0;
shr.u32 %r7, %r7, 1;
setp.ne.u32 %p4, %r7, 0;
@%p4 bra LOOP;"""

ROUNDS = """LOOP:
add.u32 %r5, %r5, 1;
HERE
setp.lt.u32 %p5, %r5, %r2;
@%p5 bra LOOP;"""


PROVED = {
    "straight": "bar.sync 0;",
    "an early exit before": "@%p1 ret;\nbar.sync 0;",
    "a branch of the block": "@%p2 bra OVER;\nbar.sync 0;\nOVER:",
    "a branch of threads before": "@%p1 bra OVER;\nst.shared.u32 [tile], %r1;\nOVER:\nbar.sync 0;",
    "a tree of partial sums": TREE,
    "a loop": ROUNDS.replace("HERE", "bar.sync 0;"),
    "every fourth iteration": ROUNDS.replace(
        "HERE",
        "and.b32 %r9, %r5, 3;\nsetp.ne.u32 %p6, %r9, 0;\n@%p6 bra OVER;\nbar.sync 0;\nOVER:",
    ),
    "an inner loop without a barrier": ROUNDS.replace(
        "HERE", "mov.u32 %r9, 0;\nIN: add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p6, %r9, %r1;\n"
        "@%p6 bra IN;\nbar.sync 0;",
    ),
    "an end in a loop": ROUNDS.replace("HERE", "bar.sync 0;\n@%p1 ret;"),
    "an arm of threads before the last test of a loop": ROUNDS.replace(
        "HERE", "bar.sync 0;\n@%p1 bra OVER;\nst.shared.u32 [tile], %r1;\nOVER:"
    ) + "\nbar.sync 0;",
    "any": "bar.red.or.pred %p5, 0, %p1;\nbar.red.popc.u32 %r9, 0, %p1;",
    "until all agree": "LOOP:\nbar.red.or.pred %p5, 0, %p1;\n@%p5 bra LOOP;\nbar.sync 0;",
    "trap": "@!%p1 bra OVER;\ntrap;\nOVER: bar.sync 0;",
}  # fmt: skip


@pytest.mark.parametrize("name", PROVED)
def test_threads_meet(name: str) -> None:
    assert why(PROVED[name]) == ""


OPEN = {
    "one arm": ("@%p1 bra OVER;\nbar.sync 0;\nOVER:\nbar.sync 0;", "depends on %tid.x"),
    "a guard": ("@%p1 bar.sync 0;", "depends on %tid.x"),
    "two arms": (
        "@%p3 bra ONE;\nbar.sync 0;\nbra OVER;\nONE: bar.sync 0;\nOVER: bar.sync 0;",
        "depends on %tid.x",
    ),
    "a loop by thread": (
        "LOOP: add.u32 %r5, %r5, 1;\nbar.sync 0;\nsetp.lt.u32 %p5, %r5, %r1;\n@%p5 bra LOOP;\n"
        "bar.sync 0;",
        "depends on %tid.x",
    ),
    "a value from memory": (
        "ld.shared.u32 %r9, [tile];\nsetp.eq.u32 %p5, %r9, 0;\n@%p5 bra OVER;\nbar.sync 0;\n"
        "OVER: bar.sync 0;",
        "is loaded from memory",
    ),
    "the votes of some": (
        "LOOP:\nbar.red.or.pred %p5, 1, 64, %p1;\n@%p5 bra LOOP;\nbar.sync 0;",
        "who meets at the barrier of some threads",
    ),
    "some threads": ("bar.sync 1, 64;", "who meets at the barrier of some threads"),
    "an inner barrier for some": (
        ROUNDS.replace("HERE", "@%p1 bra OVER;\nbar.sync 0;\nOVER:"), "depends on %tid.x"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_threads_may_part(name: str) -> None:
    body, reason = OPEN[name]
    assert reason in why(body)


def test_the_lanes_of_one_warp_share_what_is_uniform() -> None:
    body = "ld.shared.u32 %r9, [tile];\nshfl.sync.idx.b32 %r9, %r9, 0, 31, -1;\n"
    body += "setp.eq.u32 %p5, %r9, 0;\n@%p5 bra OVER;\nbar.sync 0;\nOVER: bar.sync 0;"
    assert why(body) != ""
    assert why(body, (64, 1, 1)) != ""
    assert why(body, (32, 1, 1)) == ""


def test_a_barrier_of_the_whole_block_may_give_its_count() -> None:
    assert why("bar.sync 1, 64;", (64, 1, 1)) == ""
    assert why("bar.sync 1, 64;", (128, 1, 1)) != ""
    assert why("bar.arrive 1, 64;\nbar.sync 1, 64;", (64, 1, 1)) != ""


def test_functions_may_hold_barriers() -> None:
    waits = ".func f()\n{\nbar.sync 0;\nret;\n}\n"
    assert why("call f;\nbar.sync 0;", None, waits) == ""
    assert why("@%p1 call f;\nbar.sync 0;", None, waits) != ""
    circle = ".func f()\n{\nbar.sync 0;\ncall f;\nret;\n}\n"
    assert "line 7 calls f, which may have barriers" in why("call f;", None, circle)
    adds = ".func f()\n{\n.reg .b32 %r<3>;\nadd.u32 %r1, %r1, 1;\nret;\n}\n"
    assert why("call f;\nbar.sync 0;", None, adds) == ""


def test_a_suspect_names_barrier_and_branch() -> None:
    subject, said = proof("@%p1 bra OVER;\nbar.sync 0;\nOVER:\nbar.sync 0;")
    (suspect,) = said.open
    assert suspect.other is not None
    assert [subject.line(at) for at in (suspect.index, suspect.other)] == [20, 19]


@pytest.mark.parametrize("inside", ["bar.sync 0;", "LOOP:\nbar.sync 0;\n@%p3 bra LOOP;"])
def test_who_goes_past_a_barrier_and_on_has_not_ended(inside: str) -> None:
    """Although the thread ends some time later."""
    past = f"@%p1 bra OVER;\n{inside}\nOVER:\nst.global.u32 [%rd1], %r1;"
    assert "depends on %tid.x" in why(past)
    early = f"@%p1 bra OVER;\n{inside}\nst.global.u32 [%rd1], %r1;\nOVER:"
    assert "depends on" not in why(early.replace("@%p3", "@%p2"))


def test_lanes_that_leave_a_loop_with_a_barrier_one_by_one() -> None:
    leave = "LOOP:\nbar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p5, %r5, %r1;\n@%p5 bra LOOP;"
    assert "depends on %tid.x" in why(leave + "\nst.global.u32 [%rd1], %r1;")
