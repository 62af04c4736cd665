"""Loops that all lanes go round together, driven by a vote: what is right is proved, what differs
from it by one detail is refused, and why. `tests/verify/test_uniform` does more kinds of damage."""

from __future__ import annotations

import pytest
from msgspec import Struct

from ptxsw.validate import Proved
from tests.shuffle.looping import kernel
from tests.validate.test_warp import judged

MORE = "\t.reg .pred %in, %go, %early;\n\t.reg .b32 %mask, %sent;\n"

# for (i = tid; i < n; i += threads) s += a[i]; out[tid] = s;
BEFORE = """
	mov.u32 %r10, %r1;
	mov.u64 %rd10, %rd5;
	setp.ge.u32 %p1, %r1, %r2;
	@%p1 bra AFTER;
LOOP:
	ld.global.nc.f32 %f2, [%rd10];
	add.f32 %f1, %f1, %f2;
	add.s64 %rd10, %rd10, %rd7;
	add.u32 %r10, %r10, %r5;
	setp.lt.u32 %p2, %r10, %r2;
	@%p2 bra LOOP;
AFTER:
	st.global.f32 [%rd4], %f1;
"""
AFTER = """
	mov.u32 %r10, %r1;
	mov.u64 %rd10, %rd5;
	setp.ge.u32 %p1, %r1, %r2;
	not.pred %in, %p1;
	vote.sync.any.pred %go, %in, -1;
	@!%go bra AFTER;
LOOP:
	@%in ld.global.nc.f32 %f2, [%rd10];
	@%in add.f32 %f1, %f1, %f2;
	add.s64 %rd10, %rd10, %rd7;
	add.u32 %r10, %r10, %r5;
	setp.lt.u32 %p2, %r10, %r2;
	and.pred %in, %in, %p2;
	vote.sync.any.pred %go, %in, -1;
	@%go bra LOOP;
AFTER:
	st.global.f32 [%rd4], %f1;
"""
LAST = "and.pred %in, %in, %p2;\n\tvote.sync.any.pred %go, %in, -1;"
ELSEWHERE = "the paths go to different places"
APART = "not all lanes come to a vote or shuffle that waits for all of them"


class Twin(Struct, frozen=True):
    """Lines of the second text that are other ones, and the reason why it is refused. `both`: in
    the first text as well."""

    name: str
    old: str
    new: str
    reason: str
    both: tuple[str, str] | None = None


TWINS = (
    Twin("half of the warp votes", LAST, LAST.replace("-1", "65535"), ELSEWHERE),
    Twin("half of the warp votes first", "%in, -1;\n\t@!%go", "%in, 65535;\n\t@!%go",
         "the mask of a vote is not the mask of the active lanes"),
    Twin("nobody votes", "vote.sync.any.pred %go, %in, -1;\n\t@!%go", "mov.pred %go, %in;\n\t@!%go",
         APART),
    Twin("nobody votes in the loop", LAST, LAST.replace("vote.sync.any.pred %go, %in, -1;",
         "mov.pred %go, %in;"), ELSEWHERE),
    Twin("the warp leaves with its first lane", LAST, LAST.replace(".any.", ".all."), ELSEWHERE),
    Twin("a lane that has left comes back", LAST,
         LAST.replace("and.pred %in, %in,", "mov.pred %in,"),
         "the second kernel reads bytes that the first does not read here"),
    Twin("lanes leave early", LAST,
         f"setp.lt.u32 %early, %r10, 64;\n\tand.pred %in, %in, %early;\n\t{LAST}", ELSEWHERE),
    Twin("lanes join late", "not.pred %in, %p1;", "setp.lt.u32 %in, %r1, 8;", ELSEWHERE),
    Twin("lanes that should go past it enter the loop", "not.pred %in, %p1;", "mov.pred %in, -1;",
         ELSEWHERE),
    Twin("a sum goes on in a lane that waits", "@%in add", "add", "a different value"),
    Twin("a lane that waits loads", "@%in ld", "ld", "second kernel reads bytes"),
    Twin("a lane ends in the loop", "@%in add", "@%p2 ret;\n\t@%in add", ELSEWHERE),
    Twin("a lane ends in both loops", "", "", ELSEWHERE,
         ("add.u32 %r10", "setp.gt.u32 %p9, %r10, 500;\n\t@%p9 ret;\n\tadd.u32 %r10")),
    Twin("some lanes come to the first vote", "not.pred %in, %p1;",
         "@%p1 bra AFTER;\n\tnot.pred %in, %p1;", APART),
    Twin("the vote is of something else", LAST, LAST.replace("%go, %in, -1", "%go, %p2, -1"),
         ELSEWHERE),
    Twin("when lanes leave it depends on memory", "\tld.global.u32", "\t@%in ld.global.u32",
         "when lanes leave a loop depends on memory that others may write",
         ("setp.lt.u32 %p2, %r10, %r2;",
          "ld.global.u32 %r11, [%rd3];\n\tsetp.lt.u32 %p2, %r10, %r11;")),
    Twin("lanes wait for each other in the loop", "", "", "bar.warp.sync is not in both kernels",
         ("setp.lt.u32", "bar.warp.sync -1;\n\tsetp.lt.u32")),
    Twin("a lane waits before the vote for what another writes", "", "",
         "a lane may wait for another in a loop before a vote of all lanes",
         ("mov.u32 %r10, %r1;",
          "SPIN:\n\tld.global.u32 %r12, [%rd3];\n\tsetp.eq.u32 %p5, %r12, %r1;\n"
          "\t@%p5 bra SPIN;\n\tmov.u32 %r10, %r1;")),
)  # fmt: skip


def written(body: str) -> str:
    return kernel(body).replace("\t.reg .f32", f"{MORE}\t.reg .f32", 1)


def test_right() -> None:
    assert judged(kernel(BEFORE), written(AFTER)) == Proved(loops=1)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_wrong(twin: Twin) -> None:
    before, after = BEFORE, AFTER
    if twin.both is not None:
        before, after = (text.replace(*twin.both, 1) for text in (before, after))
    if twin.old:
        assert after.count(twin.old) == 1
        after = after.replace(twin.old, twin.new)
    found = judged(kernel(before), written(after))
    assert twin.reason in str(found)
    assert not isinstance(found, Proved)


# ---------------------------------------------------------------- shuffles of all lanes

SHARED = """
	ld.global.nc.f32 %f3, [%rd10+4];
	add.f32 %f1, %f1, %f3;
"""
SENT = """
	vote.sync.ballot.b32 %mask, %in, -1;
	setp.ne.or.b32 %early, %mask, -1, %rows;
	setp.gt.or.u32 %early, %laneid, 30, %early;
	and.pred %early, %early, %in;
	mov.b32 %sent, %f2;
	shfl.sync.down.b32 %f3, %sent, 1, 31, -1;
	@%early ld.global.nc.f32 %f3, [%rd10+4];
	@%in add.f32 %f1, %f1, %f3;
"""
ROWS = """
	.reg .pred %rows;
	.reg .b32 %x, %y;
	mov.u32 %x, %ntid.y;
	mov.u32 %y, %ntid.z;
	or.b32 %x, %x, %y;
	setp.ne.u32 %rows, %x, 1;
	mov.u32 %x, %ntid.x;
	and.b32 %x, %x, 31;
	setp.ne.and.u32 %rows, %x, 0, %rows;
"""
DAMAGE = {
    "a ballot of another predicate": ("%mask, %in,", "%mask, %p2,"),
    "active lanes for the ballot": ("vote.sync.ballot.b32 %mask, %in, -1", "activemask.b32 %mask"),
    "lanes that wait are counted": ("ballot.b32 %mask, %in", "ballot.b32 %mask, %rows"),
    "partial warps": ("setp.ne.or.b32 %early, %mask, -1, %rows;", "mov.pred %early, %rows;"),
    "rows may wrap": ("%mask, -1, %rows", "%mask, -1, %p9"),
    "the last lane": ("%laneid, 30,", "%laneid, 31,"),
    "a lane that waits loads": ("and.pred %early, %early, %in;", ""),
    "two lanes on": ("%sent, 1, 31", "%sent, 2, 31"),
    "the mask is that of some": ("%sent, 1, 31, -1", "%sent, 1, 31, %mask"),
}


def sharing() -> tuple[str, str]:
    first = BEFORE.replace("\tadd.s64 %rd10", f"{SHARED}\tadd.s64 %rd10", 1)
    second = ROWS + AFTER.replace("\tadd.s64 %rd10", f"{SENT}\tadd.s64 %rd10", 1)
    return kernel(first), written(second)


def test_a_shuffle_of_all_lanes() -> None:
    assert judged(*sharing()) == Proved(loops=1)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_shuffle_that_is_spoilt(name: str) -> None:
    first, second = sharing()
    old, new = DAMAGE[name]
    assert second.count(old) == 1
    assert not isinstance(judged(first, second.replace(old, new)), Proved)


def test_a_vote_in_a_loop_that_lanes_leave_apart() -> None:
    """One block that lanes go round, each as often as it wants: they come to it, but not equally
    often."""
    before = BEFORE.replace("@%p1 bra AFTER;", "")
    again = "\tsetp.lt.u32 %p2, %r10, %r2;"
    asked = before.replace(again, f"\tvote.sync.any.pred %go, %p1, -1;\n{again}")
    assert APART in str(judged(kernel(before), written(asked)))
