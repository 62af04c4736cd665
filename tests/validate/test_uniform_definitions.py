"""To which votes all lanes come, since no branch before them parts the lanes: told from the second
text alone. Each pair has the same lines before the loop, or around it, in both texts."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.shuffle.looping import kernel
from tests.validate.test_waiting_lanes import AFTER, APART, BEFORE, written
from tests.validate.test_warp import judged

SKIP = "\n\t@%p3 bra PAST;\n"
PAST = "PAST:\n\tst.global.u32 [%rd4+8192], %r1;\n"

# %p3 decides whether lanes go past the loop.
ALIKE = {
    "a parameter": "setp.gt.u32 %p3, %r2, 900;",
    "what is lane's own elsewhere": "setp.gt.u32 %p3, %r1, 9;\n\t@%p3 add.u32 %r20, %r1, 1;\n"
    "\tsetp.gt.u32 %p3, %r2, 900;",
    "one of two constants": "mov.u32 %r20, 1;\n\tsetp.gt.u32 %p4, %r2, 900;\n"
    "\t@%p4 mov.u32 %r20, 2;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "one of two constants, by a branch": "mov.u32 %r20, 1;\n\tsetp.gt.u32 %p4, %r2, 900;\n"
    "\t@%p4 bra JOIN;\n\tmov.u32 %r20, 2;\nJOIN:\n\tsetp.eq.u32 %p3, %r20, 2;",
    "the number of the block": "mov.u32 %r20, %ctaid.x;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "memory that nobody writes": "ld.global.nc.u32 %r20, [%rd3];\n\tsetp.eq.u32 %p3, %r20, 2;",
    "a vote": "setp.gt.u32 %p4, %r1, 9;\n\tvote.sync.any.pred %p3, %p4, -1;",
    "a ballot": "setp.gt.u32 %p4, %r1, 9;\n\tvote.sync.ballot.b32 %r20, %p4, -1;\n"
    "\tsetp.eq.u32 %p3, %r20, 2;",
    "what the first lane has": "shfl.sync.idx.b32 %r20, %r1, 0, 31, -1;\n"
    "\tsetp.eq.u32 %p3, %r20, 2;",
    "what the first lane has, behind an arm": "setp.gt.u32 %p4, %r1, 9;\n\t@%p4 bra JOIN;\n"
    "\tmov.u32 %r1, 3;\nJOIN:\n"
    "\tshfl.sync.idx.b32 %r20, %r1, 0, 31, -1;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "the number of iterations": "mov.u32 %r20, 0;\nTURN:\n\tadd.u32 %r20, %r20, 1;\n"
    "\tsetp.lt.u32 %p4, %r20, %r2;\n\t@%p4 bra TURN;\n\tsetp.eq.u32 %p3, %r20, 2;",
}
APART_BY = {
    "the lane": "setp.gt.u32 %p3, %r1, 9;",
    "a row of the block": "mov.u32 %r20, %tid.y;\n\tsetp.gt.u32 %p3, %r20, 0;",
    "one of two constants, by lane": "mov.u32 %r20, 1;\n\tsetp.gt.u32 %p4, %r1, 9;\n"
    "\t@%p4 mov.u32 %r20, 2;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "one of two constants, by a branch": "mov.u32 %r20, 1;\n\tsetp.gt.u32 %p4, %r1, 9;\n"
    "\t@%p4 bra JOIN;\n\tmov.u32 %r20, 2;\nJOIN:\n\tsetp.eq.u32 %p3, %r20, 2;",
    "a lane's own before, and a parameter's in one arm": "setp.gt.u32 %p3, %r1, 9;\n"
    "\tsetp.gt.u32 %p4, %r2, 900;\n\t@%p4 bra JOIN;\n\tsetp.gt.u32 %p3, %r2, 9;\nJOIN:",
    "nothing": "setp.eq.u32 %p3, %r20, 2;",
    "nothing in one arm": "setp.gt.u32 %p4, %r2, 900;\n\t@%p4 bra JOIN;\n\tmov.u32 %r20, 2;\n"
    "JOIN:\n\tsetp.eq.u32 %p3, %r20, 2;",
    "memory that may be written": "ld.global.u32 %r20, [%rd3];\n\tsetp.eq.u32 %p3, %r20, 2;",
    "memory of each lane's own": "ld.global.nc.u32 %r20, [%rd5];\n\tsetp.eq.u32 %p3, %r20, 2;",
    "a vote of half the warp":
    "setp.gt.u32 %p4, %r1, 9;\n\tvote.sync.any.pred %p3, %p4, 65535;",
    "what another lane has, which may be missing":
    "shfl.sync.idx.b32 %r20, %r1, 9, 31, -1;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "what the first lanes of halves have":
    "shfl.sync.idx.b32 %r20, %r1, 0, 4127, -1;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "what the next lane has":
    "shfl.sync.down.b32 %r20, %r1, 1, 31, -1;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "a first lane that may have ended": "setp.gt.u32 %p4, %r1, 9;\n\t@%p4 ret;\n"
    "\tshfl.sync.idx.b32 %r20, %r1, 0, 31, -1;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "a first lane that may be elsewhere": "setp.gt.u32 %p4, %r1, 9;\n\t@%p4 bra DONE;\n"
    "\tshfl.sync.idx.b32 %r20, %r1, 0, 31, -1;\n\tsetp.eq.u32 %p3, %r20, 2;",
    "the number of iterations of each lane": "mov.u32 %r20, 0;\nTURN:\n\tadd.u32 %r20, %r20, 1;\n"
    "\tsetp.lt.u32 %p4, %r20, %r1;\n\t@%p4 bra TURN;\n\tsetp.eq.u32 %p3, %r20, 2;",
}  # fmt: skip


def both(ahead: str, behind: str) -> tuple[str, str]:
    return kernel(ahead + BEFORE + behind), written(ahead + AFTER + behind)


@pytest.mark.parametrize("name", ALIKE)
def test_all_lanes_come(name: str) -> None:
    assert isinstance(judged(*both(f"\t{ALIKE[name]}{SKIP}", PAST)), Proved)


@pytest.mark.parametrize("name", APART_BY)
def test_some_lanes_come(name: str) -> None:
    found = judged(*both(f"\t{APART_BY[name]}{SKIP}", PAST))
    assert APART in str(found)
    assert not isinstance(found, Proved)


# The loop in another one, whose %r20 counts iterations; or lanes leave it together otherwise.
AROUND = "\tmov.u32 %r20, 0;\nTURN:\n\t{first}\n"
AGAIN = """\t{last}
NEXT:
	add.u32 %r20, %r20, 1;
	setp.lt.u32 %p4, %r20, {count};
	@%p4 bra TURN;
"""
COUNTS = {
    "three": ("", "", "3"),
    "a parameter": ("", "", "%r2"),
    "the lane's own predicate is in the same register": (
        "setp.gt.u32 %p4, %r1, 9;\n\t@%p4 add.u32 %r21, %r1, 1;", "", "%r2",
    ),
    "all lanes leave by what all know": ("setp.eq.u32 %p3, %r20, %r2;\n\t@%p3 ret;", "", "3"),
    "the counter is sent by the first lane": (
        "", "shfl.sync.idx.b32 %r20, %r20, 0, 31, -1;", "3",
    ),
    "a vote says when": (
        "", "setp.gt.u32 %p3, %r1, %r20;\n\tvote.sync.any.pred %p3, %p3, -1;\n\t@%p3 bra TURN;",
        "3",
    ),
}  # fmt: skip
OWN_COUNTS = {
    "the lane": ("", "", "%r1"),
    "the lanes ahead": ("", "add.u32 %r20, %r20, %r1;", "900"),
    "some leave early": ("", "setp.gt.u32 %p3, %r1, %r20;\n\t@%p3 bra PAST;", "3"),
    "some go round it": ("setp.gt.u32 %p3, %r1, %r20;\n\t@%p3 bra NEXT;", "", "3"),
    "half a warp votes": (
        "", "setp.gt.u32 %p3, %r1, %r20;\n\tvote.sync.any.pred %p3, %p3, 65535;\n\t@%p3 bra PAST;",
        "3",
    ),
}  # fmt: skip


def nested(first: str, last: str, count: str) -> tuple[str, str]:
    """Lines at the start and at the end of each iteration, and up to what is counted."""
    again = AGAIN.replace("{last}", last).replace("{count}", count)
    return both(AROUND.replace("{first}", first), again + PAST)


@pytest.mark.parametrize("name", COUNTS)
def test_a_loop_around_that_all_lanes_leave_together(name: str) -> None:
    assert isinstance(judged(*nested(*COUNTS[name])), Proved)


@pytest.mark.parametrize("name", OWN_COUNTS)
def test_a_loop_around_that_lanes_leave_apart(name: str) -> None:
    found = judged(*nested(*OWN_COUNTS[name]))
    assert APART in str(found)
    assert not isinstance(found, Proved)
