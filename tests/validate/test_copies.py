"""A block that stands a second time in the new text, for where a test fails."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.validate.stories import HEAD, START

ROUNDS = 10
LEAD = """
ld.global.f32 %f9, [%rd6+12];
st.global.f32 [%rd7+12], %f9;
"""
ROUND = """
ld.global.f32 %f1, [%rd6+{at}];
ld.global.f32 %f2, [%rd6+{behind}];
fma.rn.f32 %f3, %f1, %f2, %f9;
st.global.f32 [%rd7+{at}], %f3;
"""
BLOCK = "".join(ROUND.format(at=16 * n, behind=16 * n + 4) for n in range(ROUNDS))
FAST = BLOCK.replace(
    "ld.global.f32 %f1, [%rd6+0];\nld.global.f32 %f2, [%rd6+4];\n",
    "ld.global.v2.f32 {%f1, %f2}, [%rd6];\n",
)
TAIL = "st.global.f32 [%rd7+8], %f3;\n"
TEST = """
cvt.u32.u64 %r20, %rd1;
and.b32 %r21, %r20, 7;
setp.ne.s32 %p9, %r21, 0;
"""


def judged(*, lead: str = LEAD, slow: str = BLOCK, fast: str = FAST) -> Outcome:
    """The outcome for a block whose loads have become vectors where these are aligned."""
    before = LEAD + BLOCK + TAIL
    after = f"{TEST}{lead}@%p9 bra SLOW;\n{fast}bra.uni DONE;\nSLOW:\n{slow}DONE:\n{TAIL}"
    texts = [parse(HEAD.format(pointer="") + START + b + "ret;\n}\n") for b in (before, after)]
    (old, new) = ((text, text.kernels[0]) for text in texts)
    return validate(old, new)


def test_one_that_is_the_same_is_proved() -> None:
    assert isinstance(judged(), Proved)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[%rd6+64]", "[%rd6+60]"),
        ("[%rd7+144], %f3", "[%rd7+144], %f1"),
        ("fma.rn.f32 %f3, %f1, %f2, %f9;", "fma.rn.f32 %f3, %f1, %f2, %f1;"),
        ("fma.rn", "fma.rz"),
        ("ld.global.f32 %f1, [%rd6+0];", ""),
        ("st.global.f32 [%rd7+144], %f3;", ""),
        ("st.global.f32 [%rd7+144], %f3;", "@%p9 st.global.f32 [%rd7+300], %f3;"),
        (BLOCK, ""),
    ],
)
def test_one_that_is_changed_is_refused(right: str, wrong: str) -> None:
    assert right in BLOCK
    assert not isinstance(judged(slow=BLOCK.replace(right, wrong, 1)), Proved)
    if right in FAST:
        assert not isinstance(judged(fast=FAST.replace(right, wrong, 1)), Proved)


@pytest.mark.parametrize(
    "lead",
    [
        LEAD.replace("+12];", "+8];"),
        LEAD + "add.s64 %rd7, %rd7, 4;\n",  # the copy's own address
        LEAD + "mov.f32 %f9, 0f00000000;\n",  # read in the copy
        LEAD + "st.global.f32 [%rd6+64], %f9;\n",  # what the copy loads
        LEAD.replace("st.global", "st.global.cg").replace("+12], %f9", "+28], %f9"),
        "ld.global.f32 %f9, [%rd6+12];\n",  # a store is missing
    ],
)
def test_one_that_begins_with_something_else_is_refused(lead: str) -> None:
    assert not isinstance(judged(lead=lead), Proved)


def test_what_a_copy_sets_itself_may_differ_before() -> None:
    assert isinstance(judged(lead=LEAD + "mov.f32 %f1, 0f00000000;\n"), Proved)
    assert isinstance(judged(lead=LEAD + "ld.global.f32 %f1, [%rd6+64];\n"), Proved)


def test_one_that_is_written_in_another_way_is_proved() -> None:
    renamed = BLOCK.replace("%f1,", "%f11,")
    assert isinstance(judged(slow=renamed), Proved)
