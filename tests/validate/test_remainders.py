"""Shuffles behind a loop that has counted, in a loop for what it has left over: an index there is
one of two, and a test of it holds until the first loop is gone round again."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.validate.stories import Twin as T
from tests.validate.test_warp import HEAD, ROWS, START, judged, twin

COUNTED = """
mov.u32 %r5, 0;
mov.f32 %f6, 0f00000000;
setp.lt.u32 %p2, %r1, 8;
@%p2 bra REST;
MANY:
ld.global.f32 %f5, [%rd7];
add.f32 %f6, %f6, %f5;
add.u32 %r5, %r5, 4;
setp.lt.u32 %p3, %r5, {bound};
@%p3 bra MANY;
REST:
mad.lo.u32 %r6, %r5, %r1, %r2;
add.s32 %r7, %r6, 1;
"""
TEST = """
add.s32 %sw_index, %r7, -2147483648;
setp.gt.u32 %sw_wrap, %sw_index, 4294967294;
"""
PLACE = """
mul.wide.s32 %rd8, %r7, 4;
add.s64 %rd9, %rd3, %rd8;
mov.u32 %r8, 0;
TURN:
"""
LOADS = """
ld.global.f32 %f1, [%rd9+-4];
ld.global.f32 %f2, [%rd9];
"""
SHUFFLE = """
ld.global.f32 %f1, [%rd9+-4];
mov.b32 %sw_src, %f1;
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
setp.gt.or.u32 %sw_own, %sw_lane, 30, %sw_part;
or.pred %sw_own, %sw_own, %sw_wrap;
shfl.sync.down.b32 %f2, %sw_src, 1, 31, %sw_mask;
@%sw_own ld.global.f32 %f2, [%rd9];
"""
AGAIN = """
sub.f32 %f3, %f2, %f1;
st.global.f32 [%rd7], %f3;
add.s64 %rd9, %rd9, 4096;
add.u32 %r8, %r8, 1;
setp.lt.u32 %p4, %r8, %r1;
@%p4 bra TURN;
"""
END = """
st.global.f32 [%rd7+4], %f6;
END:
ret;
}
"""


def once(loads: str, test: str = "", rows: str = "") -> str:
    counted = COUNTED.format(bound="%r1")
    return f"{HEAD}{rows}{START}{counted}{test}{PLACE}{loads}{AGAIN}{END}"


BEFORE, AFTER = once(LOADS), once(SHUFFLE, TEST, ROWS)

TWINS = (
    T("no test", "or.pred %sw_own, %sw_own, %sw_wrap;\n", ""),
    T("a test of the lane alone", "%sw_index, %r7,", "%sw_index, %r2,"),
    T("a test of what was counted", "%sw_index, %r7,", "%sw_index, %r5,"),
    T("a test of the next index", "-2147483648;", "-2147483647;"),
    T("a test that is never true", "4294967294;", "4294967295;"),
    T("a test of the opposite", "or.pred %sw_own", "xor.pred %sw_own"),
    T("another lane", "%sw_src, 1, 31", "%sw_src, 2, 31"),
    T("another count in each lane", "%sw_src, %f1", "%sw_src, %r8"),
)


def test_what_two_ways_have_counted_is_kept() -> None:
    result = judged(BEFORE, AFTER)
    assert isinstance(result, Proved)
    assert set(result.assumptions) == {"lockstep-iterations", "no-lane-race"}


@pytest.mark.parametrize("of", TWINS, ids=lambda t: t.name)
def test_what_is_wrong_is_refused(of: T) -> None:
    assert not isinstance(judged(BEFORE, twin(of, AFTER)), Proved)


def test_lanes_that_count_on_their_own() -> None:
    """How often they went round differs from lane to lane, and so does the row of each."""
    before, after = (t.replace("%r5, %r1;\n@%p3", "%r5, %r2;\n@%p3") for t in (BEFORE, AFTER))
    assert before != BEFORE
    assert not isinstance(judged(before, after), Proved)


def nested(loads: str, before: str = "", behind: str = "", rows: str = "") -> str:
    """The same in a loop that counts further in each iteration. A test `behind` is of the iteration
    that is over."""
    start = "mov.u32 %r9, 0;\nmov.u32 %r10, %r1;\nsetp.eq.u32 %sw_wrap, %r9, 0;\nOUTER:\n"
    iteration = f"{COUNTED.format(bound='%r10')}{before}{PLACE}{loads}{AGAIN}{behind}"
    more = "add.u32 %r10, %r10, 64;\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p5, %r9, 4;\n"
    return f"{HEAD}{rows}{START}{start}{iteration}{more}@%p5 bra OUTER;\n{END}"


def test_a_test_of_an_earlier_iteration_is_out_of_date() -> None:
    old = nested(LOADS).replace("setp.eq.u32 %sw_wrap, %r9, 0;\n", "")
    assert isinstance(judged(old, nested(SHUFFLE, TEST, rows=ROWS)), Proved)
    assert not isinstance(judged(old, nested(SHUFFLE, behind=TEST, rows=ROWS)), Proved)


# ---------------------------------------------------------------- columns without a test

SHORT = """
add.u32 %r5, %r2, 1;
cvt.u64.u32 %rd8, %r5;
shl.b64 %rd8, %rd8, 2;
add.s64 %rd9, %rd3, %rd8;
"""
UP = """
ld.global.nc.f32 %f1, [%rd9+4];
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
setp.lt.or.u32 %sw_own, %sw_lane, 2, %sw_part;
shfl.sync.up.b32 %f2, %f1, 2, 0, %sw_mask;
@%sw_own ld.global.nc.f32 %f2, [%rd9+-4];
"""
DIFFERENCE = "\nsub.f32 %f3, %f2, %f1;\nst.global.f32 [%rd7], %f3;\nEND:\nret;\n}\n"
NARROW = (
    HEAD + START + SHORT + "ld.global.nc.f32 %f1, [%rd9+4];\nld.global.nc.f32 %f2, [%rd9+-4];"
    + DIFFERENCE,
    HEAD + ROWS + START + SHORT + UP + DIFFERENCE,
)  # fmt: skip


def test_a_column_is_no_less_than_the_lane() -> None:
    """In lane 2 and above `%tid.x - 1` is no less than 0: so it is widened as it stands."""
    assert judged(*NARROW) == Proved()


@pytest.mark.parametrize(
    "of",
    [
        T("one lane too many", "%sw_lane, 2, %sw_part", "%sw_lane, 1, %sw_part"),
        T("rows may wrap", "%sw_mask, -1, %sw_rows", "%sw_mask, -1, %p1"),
        T("lanes may be missing", "setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;",
          "mov.pred %sw_part, %sw_rows;"),
        T("a lane nearer", "%f1, 2, 0,", "%f1, 1, 0,"),
    ],
    ids=lambda t: t.name,
)  # fmt: skip
def test_a_column_that_may_be_less(of: T) -> None:
    assert not isinstance(judged(NARROW[0], twin(of, NARROW[1])), Proved)


# ---------------------------------------------------------------- what lanes have counted apart

COUNT = """
mov.u32 %r5, 0;
MANY:
add.u32 %r5, %r5, 4;
setp.lt.u32 %p3, %r5, %r10;
@%p3 bra MANY;
"""
OUTER = """
OUTER:
{0}
add.u32 %r10, %r10, 64;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p5, %r9, {1};
@%p5 bra OUTER;
"""
SKIPPED = """
OUTER:
setp.ne.u32 %p4, %r9, 0;
setp.ge.and.u32 %p4, %r2, 9, %p4;
@%p4 bra SKIP;
{0}
SKIP:
{1}
add.u32 %r10, %r10, 64;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p5, %r9, %r1;
@%p5 bra OUTER;
"""
KEPT = "mov.b32 %sw_src, %r5;\n"
MORE = "mul.lo.u32 %r5, %r5, %r2;\n"
ALIKE = """
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
setp.gt.or.u32 %sw_own, %sw_lane, 30, %sw_part;
shfl.sync.down.b32 %sw_near, %sw_src, 1, 31, %sw_mask;
setp.ne.b32 %sw_wrap, %sw_near, %sw_src;
not.pred %sw_own, %sw_own;
and.pred %sw_wrap, %sw_wrap, %sw_own;
@%sw_wrap mov.u32 %r6, 0;
"""
ONE = "mov.u32 %r6, 1;\n"
STORED = "st.global.u32 [%rd7], %r6;\nst.global.u32 [%rd7+4], %r5;\n"
BEGIN = START + "mov.u32 %r9, 0;\nmov.u32 %r10, %r1;\n"


@pytest.mark.parametrize(
    ("around", "right"),
    [
        ("{0}", True),
        (OUTER.replace("{1}", "%r2"), False),  # each lane leaves in an iteration of its own
    ],
)
def test_another_lane_has_counted_the_same(around: str, right: bool) -> None:
    """The second text writes a 0 where the next lane's count is another one."""
    behind = f"BEHIND:\n{ONE}"
    old = f"{HEAD}{BEGIN}{around.replace('{0}', COUNT + MORE)}{behind}{STORED}END:\nret;\n}}\n"
    new = f"{HEAD}{ROWS}{BEGIN}{around.replace('{0}', COUNT + KEPT + MORE)}{behind}{ALIKE}{STORED}"
    assert isinstance(judged(old, new + "END:\nret;\n}\n"), Proved) == right


def test_another_lane_may_have_counted_in_an_earlier_iteration() -> None:
    """Some lanes count in the first iteration alone, and all of them meet behind the count."""
    old = SKIPPED.replace("{0}", COUNT + MORE).replace("{1}", ONE + STORED)
    new = SKIPPED.replace("{0}", COUNT + KEPT + MORE).replace("{1}", ONE + ALIKE + STORED)
    begin = BEGIN + "mov.u32 %r5, 0;\n"
    first = f"{HEAD}{begin}{old}END:\nret;\n}}\n"
    second = f"{HEAD}{ROWS}{begin}mov.b32 %sw_src, 0;\n{new}END:\nret;\n}}\n"
    assert not isinstance(judged(first, second), Proved)
