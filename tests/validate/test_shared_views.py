"""Where a lane may take what another has read from memory that is written: the same kernel with a
line in two places, and what each line makes of it."""

from __future__ import annotations

import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME as DEFAULT
from ptxsw.validate import Proved
from tests.validate.test_warp import PLAIN, judged

FIRST = "ld.global.f32 %f1, [%rd6];"
ASKED = "activemask.b32 %sw_mask;"
SECOND = "ld.global.f32 %f2, [%rd6+4];"
FAR = 1 << 20  # further than any thread of a block reaches

NEVER, FREE, RACE = None, Proved(), Proved(("no-lane-race",))

ABOVE = {
    "": FREE,
    "ld.global.f32 %f5, [%rd7];": FREE,
    "st.shared.f32 [%r2], %f5;": FREE,
    "st.global.f32 [%rd7+64], %f5;": RACE,  # another array, if lanes do not race
    # Stores side by side count as one, of all their bytes.
    "st.global.f32 [%rd7+64], %f5;\nst.global.f32 [%rd7+68], %f5;": RACE,
    "st.global.f32 [%rd7+64], %f5;\nst.global.f32 [%rd7+72], %f5;": RACE,
    "st.global.f32 [%rd7+68], %f5;\nst.global.u8 [%rd7+67], %r9;\n"
    "st.global.u8 [%rd7+66], %r9;": RACE,
    "st.global.f32 [%rd7+64], %f5;\nst.global.f32 [%rd6+68], %f5;": NEVER,
    "st.global.f32 [%rd6+64], %f5;\nst.global.f32 [%rd6+68], %f5;": NEVER,
    "st.global.f32 [%rd6], %f5;": NEVER,  # lane i + 1 need not have seen lane i's
    "st.global.f32 [%rd6+4], %f5;": NEVER,
    f"st.global.f32 [%rd6+{FAR}], %f5;": FREE,
    "st.global.f32 [%rd6], %f5;\nbar.sync 0;": FREE,
    "st.global.f32 [%rd6], %f5;\nbar.sync 1, 64;": NEVER,  # not of the whole block
    "st.global.f32 [%rd6], %f5;\nbar.warp.sync -1;": NEVER,
    "st.global.f32 [%rd6], %f5;\nmembar.gl;": NEVER,
    "membar.gl;": RACE,
    "ld.acquire.gpu.global.u32 %r9, [%rd7];": RACE,
    "red.global.add.u32 [%rd7], 1;": RACE,
    "red.global.add.u32 [%rd6], 1;": NEVER,
    "ld.global.u64 %rd9, [%rd7];\nst.global.f32 [%rd9], %f5;": NEVER,  # which array?
    "selp.b64 %rd9, %rd7, %rd6, %p1;\nst.global.f32 [%rd9], %f5;": NEVER,
}
BETWEEN = {
    "st.shared.f32 [%r2], %f5;": FREE,
    f"st.global.f32 [%rd6+{FAR}], %f5;": FREE,
    "st.global.f32 [%rd6], %f5;": NEVER,  # hits what the next lane has read
    "st.global.f32 [%rd6+8], %f5;": NEVER,
    "st.global.f32 [%rd7], %f5;": NEVER,
    "st.global.u8 [%rd6+7], %r9;": NEVER,
    "membar.gl;": NEVER,
    "bar.sync 0;": NEVER,
    "ld.acquire.gpu.global.u32 %r9, [%rd7];": NEVER,
}


def with_line(text: str, line: str, between: bool) -> str:
    """The line above the first load, or between the loads, and before lanes are asked for."""
    if not between:
        return text.replace(FIRST, f"{line}\n{FIRST}")
    at = ASKED if ASKED in text else SECOND
    return text.replace(at, f"{line}\n{at}", 1)


@pytest.mark.parametrize(
    ("line", "between", "answer"),
    [*((line, False, a) for line, a in ABOVE.items()), *((n, True, a) for n, a in BETWEEN.items())],
)
def test_a_line_beside_the_loads(line: str, between: bool, answer: Proved | None) -> None:
    texts = [with_line(text, line, between) for text in PLAIN]
    found = judged(*texts)
    assert found == answer if answer is not None else not isinstance(found, Proved)
    if answer == RACE:
        assert not isinstance(judged(*texts, assume=DEFAULT - {"no-lane-race"}), Proved)


@pytest.mark.parametrize(("barrier", "proved"), [("bar.sync 0;", True), ("", False)])
def test_a_store_of_the_iteration_before(barrier: str, proved: bool) -> None:
    """Control comes from it to the loads."""

    def looping(text: str) -> str:
        text = text.replace(FIRST, f"mov.u32 %r5, 0;\nLOOP:\n{FIRST}")
        again = f"st.global.f32 [%rd6], %f3;\n{barrier}\nadd.u32 %r5, %r5, 1;\n"
        return text.replace(
            "END:", f"bar.sync 0;\n{again}setp.lt.u32 %p2, %r5, %r1;\n@%p2 bra LOOP;\nEND:"
        )

    assert isinstance(judged(*map(looping, PLAIN)), Proved) == proved


AGAIN = "add.f32 %f4, %f1, %f2;\n{0}ld.global.f32 %f6, [%rd6+4];\nadd.f32 %f2, %f4, %f6;\n"


@pytest.mark.parametrize(
    ("store", "stands", "answer"),
    [
        ("st.global.f32 [%rd7+64], %f5;\n", True, FREE),  # what is read again may be another value
        ("st.global.f32 [%rd7+64], %f5;\n", False, NEVER),  # so it is not what the lane has got
        (f"st.global.f32 [%rd6+{FAR}], %f5;\n", True, FREE),
        (f"st.global.f32 [%rd6+{FAR}], %f5;\n", False, FREE),
        ("st.global.f32 [%rd6+-64], %f5;\n", False, NEVER),  # another lane's hits it
    ],
)
def test_a_store_before_the_bytes_are_read_again(
    store: str, stands: bool, answer: Proved | None
) -> None:
    """The second load stands as it was, or takes what the lane has got from the next one."""
    before, after = (t.replace("sub.f32", AGAIN.replace("{0}", store) + "sub.f32") for t in PLAIN)
    if not stands:
        after = after.replace("ld.global.f32 %f6, [%rd6+4];", "mov.f32 %f6, %f2;")
    found = judged(before, after)
    assert found == answer if answer is not None else not isinstance(found, Proved)


@pytest.mark.parametrize(
    ("store", "stands", "answer"),
    [
        ("st.global.f32 [%rd7+128], %f5;\n", True, RACE),
        ("st.global.f32 [%rd7+128], %f5;\n", False, NEVER),
        ("st.global.f32 [%rd7+64], %f5;\n", False, NEVER),
        (f"st.global.f32 [%rd6+{FAR}], %f5;\n", False, RACE),
        ("st.global.f32 [%rd6+-64], %f5;\n", False, NEVER),
        ("st.global.f32 [%rd6+-64], %f5;\n", True, NEVER),  # behind another lane's, it is another
        ("st.global.u8 [%rd6+5], %r9;\n", True, NEVER),
        ("st.global.f32 [%rd7+68], %f5;\n", True, RACE),  # beside the first one
        ("st.global.f32 [%rd7+68], %f5;\n", False, NEVER),
        ("st.global.f32 [%rd7+60], %f5;\n", False, NEVER),
        ("st.global.u16 [%rd7+66], %r9;\n", False, NEVER),  # some of its bytes, another value
        ("st.global.u16 [%rd7+66], %r9;\n", True, RACE),
    ],
)
def test_a_store_behind_one_that_both_lanes_have_made(
    store: str, stands: bool, answer: Proved | None
) -> None:
    """Both have stored through another pointer before they load, as rows of a stencil do. What
    the lane reads again behind a second store is told by that, too."""
    above = "st.global.f32 [%rd7+64], %f5;"
    texts = [with_line(text, above, between=False) for text in PLAIN]
    before, after = (t.replace("sub.f32", AGAIN.replace("{0}", store) + "sub.f32") for t in texts)
    if not stands:
        after = after.replace("ld.global.f32 %f6, [%rd6+4];", "mov.f32 %f6, %f2;")
    found = judged(before, after)
    assert found == answer if answer is not None else not isinstance(found, Proved)
