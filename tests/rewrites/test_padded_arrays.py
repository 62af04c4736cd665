"""Bank conflicts: a granule of nothing behind each row of an array, where that beats exchanges."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.changes.permutation import Permutation
from ptxsw.driver.pipeline import Result
from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.validate import Outcome, Proved, Unproved, validate
from tests.parsed import parsed
from tests.rewrites.pair import kernel, new_lines, rewritten

pytestmark = pytest.mark.usefixtures("no_ptxas")

COLUMNS = """
    .shared .align 4 .b8 tile[4096];
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, tile;
    mad.lo.u32 %r5, %r3, 128, %r4;
    mad.lo.u32 %r6, %r2, 4, %r5;
    mad.lo.u32 %r7, %r2, 128, %r4;
    st.shared.b32 [%r6], %r2;
    st.shared.b32 [%r6+1024], %r3;
    st.shared.b32 [%r6+2048], %r2;
    st.shared.b32 [%r6+3072], %r3;
    bar.sync 0;
    ld.shared.b32 %r8, [%r7];
    ld.shared.b32 %r9, [%r7+36];
    ld.shared.b32 %r10, [%r7+72];
    add.u32 %r11, %r8, %r9;
    add.u32 %r12, %r11, %r10;
    mad.lo.u32 %r13, %r3, 32, %r2;
    mul.wide.u32 %rd6, %r13, 4;
    add.s64 %rd7, %rd2, %rd6;
    st.global.b32 [%rd7], %r12;
"""
PADDED = Permutation((5,), 124, (), ("tile",), padded=True)


def columns(size: int = 4096) -> str:
    """A tile of 32 x 32 words is stored by rows and read by columns, in blocks of 32 x 8."""
    text = kernel(COLUMNS.replace("4096", str(size)))
    return text.replace("\n{", "\n.reqntid 32, 8, 1\n{", 1)


def made(text: str, **options: object) -> Result:
    return rewritten("bank-conflicts", text, **options)


def proof(before: str, after: str, permutation: Permutation = PADDED, **how: object) -> Outcome:
    old, new = parse(before), parse(after)
    return validate((old, old.kernels[0]), (new, new.kernels[0]), shared_layout=permutation, **how)  # type: ignore[arg-type]


def run(text: str) -> bytes:
    memory = {1 << 40: np.zeros(64, "u4"), 1 << 44: np.zeros(256, "u4")}
    done = launch(parsed(text), "k", 1, (32, 8), (1 << 40, 1 << 44, 64), memory=memory)
    return done.memory[1 << 44].tobytes()


def test_rows_further_on_take_no_instruction() -> None:
    text = columns()
    assert new_lines(text, made(text)) == [
        ".shared .align 4 .b8 tile[4224];",
        "mov.u32 %sw_array1, tile;",
        "sub.s32 %sw_distance1, %r6, %sw_array1;",
        "shr.s32 %sw_row1, %sw_distance1, 7;",
        "mad.lo.s32 %sw_padded1, %sw_row1, 4, %r6;",
        "st.shared.b32 [%sw_padded1], %r2;",
        "st.shared.b32 [%sw_padded1+1056], %r3;",
        "st.shared.b32 [%sw_padded1+2112], %r2;",
        "st.shared.b32 [%sw_padded1+3168], %r3;",
        "sub.s32 %sw_distance2, %r7, %sw_array1;",
        "shr.s32 %sw_row2, %sw_distance2, 7;",
        "mad.lo.s32 %sw_padded2, %sw_row2, 4, %r7;",
        "ld.shared.b32 %r8, [%sw_padded2];",
        "ld.shared.b32 %r9, [%sw_padded2+36];",
        "ld.shared.b32 %r10, [%sw_padded2+72];",
    ]


def test_it_gives_the_same() -> None:
    text = columns()
    assert run(text) == run(made(text).text)


def test_what_may_leave_its_row_is_computed() -> None:
    """36 bytes on from any word of a row may be the next one."""
    text = columns().replace("[%r7+36]", "[%r6+36]")
    found = new_lines(text, made(text))
    assert "add.s32 %sw_distance3, %sw_distance1, 36;" in found
    assert "ld.shared.b32 %r9, [%sw_padded3+36];" in found
    assert run(text) == run(made(text).text)


def test_a_pointer_before_its_array() -> None:
    """Its accesses lie in the array: its row is counted as a signed number."""
    text = columns().replace(
        "mad.lo.u32 %r5, %r3, 128, %r4;",
        """
        add.s32 %r14, %r4, -256;
        mad.lo.u32 %r5, %r3, 128, %r14;
    """,
    )
    for number in (3072, 2048, 1024):
        text = text.replace(f"[%r6+{number}]", f"[%r6+{number + 256}]")
    text = text.replace("[%r6]", "[%r6+256]")
    result = made(text)
    assert "st.shared.b32 [%sw_padded1+264], %r2;" in new_lines(text, result)
    assert run(columns()) == run(text) == run(result.text)
    wrong = result.text.replace("shr.s32 %sw_row1", "shr.u32 %sw_row1")
    assert not isinstance(proof(text, wrong), Proved)


def test_it_rests_on_an_assumption() -> None:
    text = columns()
    good = made(text).text
    assert "mad.lo.s32" not in made(text, assume=frozenset()).text
    assert isinstance(proof(text, good), Proved)
    assert isinstance(proof(text, good, assume=()), Unproved)


def test_not_where_a_launch_has_sized_dynamic_memory_beside_it() -> None:
    text = columns().replace("\tbar.sync 0;", "\tst.shared.b32 [more], %r2;\n\tbar.sync 0;")
    text = text.replace(".visible", ".extern .shared .align 4 .b8 more[];\n.visible", 1)
    assert "%sw_padded" not in made(text).text


def test_not_beyond_the_limit() -> None:
    assert "%sw_padded" in made(columns(40960)).text
    assert "%sw_padded" not in made(columns(49152)).text


def test_a_size_that_is_no_whole_row() -> None:
    text = columns(4100)
    assert ".shared .align 4 .b8 tile[4356];" in new_lines(text, made(text))


# ---------------------------------------------------------------- what the proof must catch


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%sw_distance2, 7;", "%sw_distance2, 6;"),
        ("%sw_distance2, 7;", "%sw_distance2, 8;"),
        ("%sw_row2, 4, %r7;", "%sw_row2, 8, %r7;"),
        ("%sw_row2, 4, %r7;", "%sw_row2, 4, %r6;"),
        ("[%sw_padded1+1056]", "[%sw_padded1+1024]"),
        ("[%sw_padded1+1056]", "[%sw_padded1+1060]"),
        ("[%sw_padded2+36]", "[%sw_padded2+40]"),
        ("sub.s32 %sw_distance1, %r6, %sw_array1", "add.s32 %sw_distance1, %r6, 0"),
        ("st.shared.b32 [%sw_padded1], %r2", "st.shared.b32 [%r6], %r2"),
        ("[%sw_padded2+36]", "[%sw_padded1+36]"),
        ("tile[4224]", "tile[4220]"),
        ("tile[4224]", "tile[4096]"),
    ],
)
def test_wrong_texts_are_not_proved(right: str, wrong: str) -> None:
    text = columns()
    good = made(text).text
    assert isinstance(proof(text, good), Proved)
    assert good.count(right) == 1
    bad = good.replace(right, wrong)
    assert not isinstance(proof(text, bad), Proved)


def test_a_carry_that_is_left_out_is_not_proved() -> None:
    """As if 36 bytes on from any word lay in its row."""
    text = columns().replace("[%r7+36]", "[%r6+36]")
    good = made(text).text
    bad = good.replace("[%sw_padded3+36]", "[%sw_padded1+36]")
    assert isinstance(proof(text, good), Proved)
    assert not isinstance(proof(text, bad), Proved)


def test_no_room_for_the_last_row() -> None:
    text = columns(4100)
    good = made(text).text
    assert isinstance(proof(text, good), Proved)
    assert not isinstance(proof(text, good.replace("tile[4356]", "tile[4224]")), Proved)


def test_only_arrays_of_known_size_are_padded() -> None:
    for arrays, dynamic in (((), ()), (("s",), ("s",))):
        with pytest.raises(ValueError):
            Permutation((5,), 124, dynamic, arrays, padded=True)


def test_where_bytes_go() -> None:
    for granule, mask in ((4, 124), (8, 120), (16, 112)):
        shift = 8 - granule.bit_length()
        padded = Permutation((shift,), mask, (), ("s",), padded=True)
        image = [padded.of(a) for a in range(1 << 12)]
        assert image == sorted(set(image))
        assert all(padded.of(a + 3) - padded.of(a) == 3 for a in range(0, 1 << 12, granule))
        assert padded.banks_of([a >> 2 for a in range(0, 1 << 12, 4)]) == [
            padded.of(a) >> 2 & 31 for a in range(0, 1 << 12, 4)
        ]
