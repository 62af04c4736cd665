"""What may stand between asking which lanes are here and shuffling among them, and copies of code
in which lanes of a warp meet."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.validate.test_halo import AFTER as HALO
from tests.validate.test_halo import BEFORE as ROW
from tests.validate.test_warp import AFTER, BEFORE, VERSIONED, WRAPPING, judged

FIRST = "ld.global.nc.f32 %f1, [%rd6];\n"
ASKED = "activemask.b32 %sw_mask;\n"
CALL = "{\n.param .b32 x;\nst.param.b32 [x], %r2;\ncall other, (x);\n}"
OTHER = ".func other(.param .b32 x)\n{\nexit;\n}\n"


def both(line: str) -> tuple[str, str]:
    """A line behind the first load, and behind the question who is here."""
    before, after = BEFORE.replace(FIRST, FIRST + line), AFTER.replace(ASKED, ASKED + line)
    if "call" not in line:
        return before, after
    return before.replace(".visible", f"{OTHER}.visible"), after.replace(
        ".visible", f"{OTHER}.visible"
    )


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("membar.cta;", True),
        ("st.volatile.global.f32 [%rd7], %f1;", True),
        ("red.global.add.u32 [%rd7], 1;", True),
        ("bar.sync 0;", True),
        ("bar.warp.sync -1;", True),
        ("shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;", True),
        ("bar.sync %r3;", False),  # another barrier in each lane
        ("bar.warp.sync %r2;", False),  # others to wait for in each lane
        ("shfl.sync.bfly.b32 %r9, %r2, 1, 31, %r2;", False),
        ("@%p2 bar.sync 0;", False),  # lanes that pass it would wait for those that do not
        ("@%p2 red.global.add.u32 [%rd7], 1;", False),
        (CALL, False),  # some lanes may not come back
    ],
)
def test_an_event_between_the_question_and_the_shuffle(line: str, right: bool) -> None:
    assert isinstance(judged(*both(f"setp.lt.u32 %p2, %r2, 5;\n{line}\n")), Proved) == right


BFLY = "shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;\n"
SECOND = "ld.global.nc.f32 %f2, [%rd6+4];\n"


def in_both_copies(line: str, branch: str = "@%sw_part bra SLOW;") -> bool:
    before = WRAPPING.replace(FIRST, FIRST + line)
    after = VERSIONED.replace("@%sw_part bra SLOW;\n", f"{branch}\n{line}")
    return isinstance(judged(before, after.replace("SLOW:\n", f"SLOW:\n{line}")), Proved)


@pytest.mark.parametrize(
    "line", [BFLY, "bar.warp.sync -1;\n", "vote.sync.any.pred %p2, %p1, -1;\n"]
)
def test_lanes_of_a_whole_warp_meet_in_one_copy(line: str) -> None:
    assert in_both_copies(line)


@pytest.mark.parametrize(
    ("line", "branch"),
    [
        ("bar.sync 0;\n", "@%sw_part bra SLOW;"),  # warps would meet at two barriers
        (BFLY, "@%sw_own bra SLOW;"),  # it holds for partial warps that a lane may have left
        (BFLY, "setp.gt.u32 %sw_own, %sw_lane, 3;\n@%sw_own bra SLOW;"),
    ],
)
def test_threads_that_would_meet_in_two_copies(line: str, branch: str) -> None:
    assert not in_both_copies(line, branch)


def test_no_two_copies_for_warps_that_may_be_partial() -> None:
    """Both copies load for themselves; lanes choose by a lane's number."""
    choice = "setp.gt.u32 %p2, %r2, 3;\n@%p2 bra OVER;\n{0}" + SECOND + "bra.uni ON;\nOVER:\n"
    choice += "{0}" + SECOND + "ON:\n"
    before = BEFORE.replace(SECOND, "{0}" + SECOND)
    texts = [before.replace("{0}", BFLY), BEFORE.replace(SECOND, choice.replace("{0}", BFLY))]
    assert not isinstance(judged(*texts), Proved)
    plain = [text.replace(BFLY, "") for text in texts]
    assert isinstance(judged(*plain), Proved)


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (BFLY, True),  # waits for lanes that are here
        ("vote.sync.any.pred %p2, %p1, -1;\n", True),
        ("bar.sync 0;\n", False),  # others may never come
        ("setp.lt.u32 %p2, %r2, 5;\n@%p2 shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;\n", False),
        ("shfl.sync.bfly.b32 %r9, %r2, 1, 31, %r2;\n", False),
    ],
)
def test_what_lies_beyond_the_warp_is_read_before_lanes_meet(line: str, right: bool) -> None:
    before = ROW.replace(FIRST, FIRST + line)
    after = HALO.replace(FIRST, FIRST + line)
    assert isinstance(judged(before, after), Proved) == right


REVERSED = "and.b32 %r5, %r2, -32;\nand.b32 %r6, %r2, 31;\nsub.s32 %r4, %r5, %r6;\n"


def reverse(text: str) -> str:
    """Lanes count down inside their row."""
    text = text.replace("mad.lo.u32 %r4, %r3, 64, %r2;\n", REVERSED)
    text = text.replace("mul.wide.u32 %rd5", "mul.wide.s32 %rd5")
    up = text.replace(
        "shfl.sync.down.b32 %f2, %sw_src, 1, 31", "shfl.sync.up.b32 %f2, %sw_src, 1, 0"
    )
    return up.replace("setp.gt.or.u32 %sw_own, %sw_lane, 30", "setp.lt.or.u32 %sw_own, %sw_lane, 1")


@pytest.mark.parametrize(
    ("find", "replace", "right"),
    [
        ("", "", True),
        ("and.b32 %r5, %r2, -32", "and.b32 %r5, %r2, -16", False),  # differs between lanes
        ("and.b32 %r6, %r2, 31", "and.b32 %r6, %r2, 15", False),
    ],
)
def test_what_rows_count_in_whole_warps_is_the_same_in_a_warp(
    find: str, replace: str, right: bool
) -> None:
    texts = [reverse(text).replace(find, replace) for text in (BEFORE, AFTER)]
    assert isinstance(judged(*texts), Proved) == right
