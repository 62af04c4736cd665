"""What a register of the second text keeps from one block to the next, and loads that are the same
because nobody writes what they read."""

from __future__ import annotations

import pytest

from ptxsw.validate import Proved
from tests.validate.test_warp import HEAD, ROWS, START, judged

END = """
st.global.f32 [%rd7], %f4;
END:
ret;
}
"""
LOAD, KEEP, AGAIN = "ld.global.f32 %f1, [%rd6];", "mov.b32 %sw_src, %f1;", "mov.b32 %f4, %sw_src;"
SECOND = "ld.global.f32 %f4, [%rd6];"


def kept(between: str, second: str = SECOND) -> bool:
    """Is a load proved to be a copy of the first, that was kept over some lines?"""
    old = f"{HEAD}{START}{LOAD}\nmov.f32 %f1, 0f00000000;\n{between}\n{second}{END}"
    new = old.replace(LOAD, f"{LOAD}\n{KEEP}").replace(second, AGAIN)
    return isinstance(judged(old, new), Proved)


IF = "setp.lt.u32 %p2, %r1, 5;\n@%p2 bra OVER;\n{0}\nOVER:"
BOTH = "setp.lt.u32 %p2, %r1, 5;\n@%p2 bra OVER;\n{0}\nbra.uni ON;\nOVER:\n{1}\nON:"
ITERATIONS = (
    "mov.u32 %r5, 0;\nTURN:\n{0}\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 3;\n@%p2 bra TURN;"
)


@pytest.mark.parametrize(
    ("between", "second", "right"),
    [
        (IF.format("add.f32 %f5, %f5, %f5;"), SECOND, True),
        (IF.format("st.shared.f32 [%r2], %f5;"), SECOND, True),
        (IF.format("st.global.f32 [%rd6+64], %f5;"), SECOND, True),
        (IF.format("st.global.f32 [%rd6], %f5;"), SECOND, False),
        (IF.format("st.global.f32 [%rd6+-2], %f5;"), SECOND, False),
        (IF.format("st.global.f32 [%rd7], %f5;"), SECOND, False),
        (IF.format("membar.gl;"), SECOND, False),
        (BOTH.format("st.global.f32 [%rd6+4], %f5;", ""), SECOND, True),
        (BOTH.format("", "st.global.f32 [%rd6], %f5;"), SECOND, False),
        # the pointer moves on, and the second load is of where it was
        (IF.format("") + "\nadd.s64 %rd6, %rd6, 8;", "ld.global.f32 %f4, [%rd6+-8];", True),
        (IF.format("") + "\nadd.s64 %rd6, %rd6, 8;", SECOND, False),
        (IF.format("add.s64 %rd6, %rd6, 8;"), SECOND, False),
        (ITERATIONS.format("add.f32 %f5, %f5, %f5;"), SECOND, True),
        (ITERATIONS.format("add.s64 %rd6, %rd6, 8;"), SECOND, False),
        (ITERATIONS.format("st.global.f32 [%rd6+64], %f5;"), SECOND, True),
        (ITERATIONS.format("st.global.f32 [%rd6], %f5;"), SECOND, False),
    ],
)
def test_what_is_kept_over_branches(between: str, second: str, right: bool) -> None:
    assert kept(between, second) == right


FRAME = """
.local .align 8 .b8 frame[24];
.reg .b64 %sp, %spl;
mov.u64 %spl, frame;
cvta.local.u64 %sp, %spl;
st.u64 [%sp], %rd6;
st.u32 [%sp+8], %r2;
mov.u32 %r6, 0;
st.u32 [%sp+12], %r6;
HERE:
"""
BY_FRAME = """ld.u64 %rd{0}, [%sp];
ld.u32 %r7, [%sp+8];
mul.wide.u32 %rd9, %r7, 4;
add.s64 %rd{0}, %rd{0}, %rd9;
ld.f32 %f{1}, [%rd{0}];
"""


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ("", True),
        ("add.f32 %f5, %f5, %f5;\nmov.u32 %r7, %r4;", True),
        ("st.u32 [%sp+8], %r4;", False),
        ("st.u32 [%sp+6], %r4;", False),
        ("st.u32 [%sp+12], %r4;", True),  # arguments lead to no variable of a thread
        ("st.u64 [%sp], %rd7;", False),
        ("st.global.f32 [%rd7], %f5;", False),  # may be what is loaded
        ("st.shared.f32 [%r2], %f5;", True),  # nor to shared memory
        ("membar.gl;", False),
    ],
)
def test_what_is_loaded_through_a_pointer_of_the_frame(between: str, right: bool) -> None:
    """Compilers without optimization keep every variable in memory, and load it for each use. No
    register that the second block needs tells what the address was made of in the first."""
    first, second = BY_FRAME.format(8, 1), BY_FRAME.format(10, 4)
    if_ = f"setp.lt.f32 %p2, %f1, 0f00000000;\n@%p2 bra HERE2;\n{between}\nbra.uni HERE2;\nHERE2:\n"
    old = f"{HEAD}{START}{FRAME}{first}{if_}{second}{END}"
    new = old.replace(first, f"{first}{KEEP}\n").replace("ld.f32 %f4, [%rd10];", AGAIN)
    assert isinstance(judged(old, new), Proved) == right


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ld.u32 %r7, [%sp+8];", "ld.u32 %r7, [%sp+12];"),
        ("ld.f32 %f1, [%rd8];", "ld.f32 %f1, [%rd8+4];"),
        ("mul.wide.u32 %rd9, %r7, 4;", "mul.wide.u32 %rd9, %r7, 8;"),
    ],
)
def test_another_variable_or_address_of_the_frame(first: str, second: str) -> None:
    one = BY_FRAME.format(8, 1)
    assert first in one
    if_ = "setp.lt.f32 %p2, %f1, 0f00000000;\n@%p2 bra HERE2;\nbra.uni HERE2;\nHERE2:\n"
    one = one.replace(first, second)
    two = BY_FRAME.format(10, 4)
    old = f"{HEAD}{START}{FRAME}{one}{if_}{two}{END}"
    new = old.replace(one, f"{one}{KEEP}\n").replace("ld.f32 %f4, [%rd10];", AGAIN)
    assert not isinstance(judged(old, new), Proved)


WRITES = "st.global.f32 [%rd7+64], %f5;"


@pytest.mark.parametrize(
    ("reads", "right"),
    [
        ("ld.global.nc.f32 %f3, [%rd6];", True),
        ("ld.global.nc.v2.f32 {%f3, %f6}, [%rd6];", True),
        ("ld.global.nc.f32 %f3, [%rd6+4];", False),
        ("@%p2 ld.global.nc.f32 %f3, [%rd6];", False),  # in some lanes only
        ("", False),
    ],
)
def test_what_nobody_writes_is_the_same_at_all_times(reads: str, right: bool) -> None:
    old = f"{HEAD}{START}setp.lt.u32 %p2, %r2, 5;\n{reads}\n{LOAD}\n{WRITES}\n{SECOND}"
    old += f"st.global.f32 [%rd7+4], %f3;\n{END}"
    new = old.replace(SECOND, "mov.f32 %f4, %f1;")
    assert isinstance(judged(old, new), Proved) == right


@pytest.mark.parametrize(
    ("reads", "right"),
    [
        ("ld.global.nc.f32 %f3, [%rd6];", True),
        ("ld.global.nc.v2.f32 {%f3, %f6}, [%rd6];", True),
        ("ld.global.nc.f32 %f3, [%rd6+4];", False),
        ("@%p2 ld.global.nc.f32 %f3, [%rd6];", False),
        ("ld.global.f32 %f3, [%rd6];", False),
    ],
)
def test_what_was_read_before_is_what_nobody_writes(reads: str, right: bool) -> None:
    """A plain load has given what one by .nc gives behind a store."""
    before = f"{HEAD}{START}setp.lt.u32 %p2, %r2, 5;\n"
    end = f"add.f32 %f4, %f1, %f3;\n{END}"
    old = f"{before}{LOAD}\n{WRITES}\n{reads}\n{end}"
    new = f"{before}{WRITES}\n{reads}\nmov.f32 %f1, %f3;\n{end}"
    assert isinstance(judged(old, new), Proved) == right


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [
        ("xor.b32 %r6, %r2, %r3; xor.b32 %r6, %r6, %r7;",
         "xor.b32 %r6, %r7, %r2; xor.b32 %r6, %r3, %r6;", True),
        ("or.b32 %r6, %r2, %r3; or.b32 %r6, %r6, %r7;",
         "or.b32 %r6, %r7, %r2; or.b32 %r6, %r2, %r6;", False),
        ("add.u32 %r6, %r2, %r7;", "selp.u32 %r6, %r7, %r2, %p2; selp.u32 %r8, %r2, %r7, %p2;\n"
         "add.u32 %r6, %r6, %r8;", True),
        ("add.u32 %r6, %r2, %r7;", "selp.u32 %r6, %r7, %r2, %p2; selp.u32 %r8, %r7, %r2, %p2;\n"
         "add.u32 %r6, %r6, %r8;", False),
        ("cvt.u32.u8 %r6, %r2;", "selp.u32 %r6, %r2, %r2, %p2; cvt.u32.u8 %r6, %r6;", True),
    ],
)  # fmt: skip
def test_order_does_not_matter_but_number_does(old: str, new: str, right: bool) -> None:
    begin = f"{HEAD}{START}ld.global.u32 %r7, [%rd7];\nsetp.lt.u32 %p2, %r2, 5;\n"
    end = f"st.global.u32 [%rd7+4], %r6;{END}"
    assert isinstance(judged(f"{begin}{old}{end}", f"{begin}{new}{end}"), Proved) == right


SHUFFLED = """
activemask.b32 %sw_mask;
setp.ne.or.b32 %sw_part, %sw_mask, -1, %sw_rows;
setp.gt.or.u32 %sw_own, %sw_lane, 30, %sw_part;
shfl.sync.down.b32 %f2, %sw_src, 1, 31, %sw_mask;
@%sw_own ld.global.nc.f32 %f2, [%rd6+4];
"""
GUARDED = "ld.global.nc.f32 %f5, [%rd6+2048];\nst.global.f32 [%rd7], %f5;\n"
ASKED = "ld.global.f32 %f6, [%rd7];\nsetp.lt.f32 {0}, %f6, 0f3F000000;\n@{0} bra {1};\n"
ONE = ASKED.format("%p2", "ONE") + "ld.global.nc.f32 %f1, [%rd6];\n{0}ONE:\n{1}"
TWO = ASKED.format("%p3", "TWO") + "ld.global.nc.f32 %f2, [%rd6+4];\nTWO:\n"
SUM = "add.f32 %f4, %f1, %f2;"


@pytest.mark.parametrize(
    ("between", "right"),
    [
        ("st.global.f32 [%rd7+4], %f7;\n", True),
        ("st.global.f32 [%rd7], %f7;\n", False),  # the second question may have another answer
        ("mov.f32 %f1, %f7;\n", False),  # the register that held it holds something else
        ("mov.b32 %sw_src, %f7;\n", False),
    ],
)
def test_a_register_of_the_first_text_holds_it_on_all_ways(between: str, right: bool) -> None:
    """The second text keeps what the load gave or, where it was not made, a zero; so does %f1."""
    begin = "mov.f32 %f1, 0f00000000;\nmov.f32 %f2, 0f00000000;\n" + GUARDED
    moved = "" if "sw_src" in between else between
    old = f"{HEAD}{START}{begin}{ONE.format('', moved)}{TWO}{SUM}{END}"
    keep = ONE.format("mov.b32 %sw_src, %f1;\n", between)
    second = TWO.replace("ld.global.nc.f32 %f2, [%rd6+4];\n", SHUFFLED)
    new = f"{HEAD}{ROWS}{START}mov.b32 %sw_src, 0;\n{begin}{keep}{second}{SUM}{END}"
    assert isinstance(judged(old, new), Proved) == right


def test_a_shuffled_value_is_kept_as_what_memory_holds() -> None:
    """It came from another lane; the first text has read it, and would find it again."""
    loads = "ld.global.nc.f32 %f1, [%rd6];\nld.global.nc.f32 %f2, [%rd6+4];\n"
    rest = "add.f32 %f3, %f1, %f2;\n" + IF.format("add.f32 %f3, %f3, %f3;") + "\n{0}\n"
    again = "ld.global.nc.f32 %f4, [%rd6+4];"
    old = f"{HEAD}{START}{loads}{rest.format(again)}{END}"
    shuffled = loads.replace(
        "ld.global.nc.f32 %f2, [%rd6+4];\n", f"mov.b32 %sw_src, %f1;{SHUFFLED}"
    )
    begin = f"{HEAD}{ROWS}{START}{shuffled}"
    kept = rest.format("mov.b32 %f4, %sw_near;")
    assert isinstance(judged(old, f"{begin}mov.b32 %sw_near, %f2;\n{kept}{END}"), Proved)
    assert not isinstance(judged(old, f"{begin}mov.b32 %sw_near, %f1;\n{kept}{END}"), Proved)


@pytest.mark.parametrize(
    ("constant", "right"),
    [
        ("ld.global.nc.u16 %h1, [%rd6+4];\nld.global.nc.u16 %h2, [%rd6+6];", True),
        ("ld.global.nc.u16 %h1, [%rd6+4];\nld.global.nc.u16 %h2, [%rd6+8];", False),
        ("", False),
    ],
)
def test_parts_of_what_nobody_writes_make_the_whole(constant: str, right: bool) -> None:
    """Two halves are read by .nc: so a plain load of both gives the same behind any store."""
    halves = f".reg .b16 %h<3>;\n{constant}\n"
    plain = "ld.global.f32 %f1, [%rd6+4];\nst.global.f32 [%rd7+64], %f5;\n"
    again = "ld.global.f32 %f4, [%rd6+4];"
    old = f"{HEAD}{START}{halves}{plain}{again}{END}"
    assert isinstance(judged(old, old.replace(again, "mov.f32 %f4, %f1;")), Proved) == right


@pytest.mark.parametrize(("lane", "right"), [(0, True), (1, False)])
def test_two_ways_with_one_value_are_two_ways(lane: int, right: bool) -> None:
    """On the second of them the load is not made either, so its neighbour gets nothing there."""
    begin = "mov.f32 %f1, 0f00000000;\nmov.f32 %f2, 0f00000000;\n"
    ways = "setp.ge.u32 %p2, %r2, 90;\n@%p2 bra ONE;\n"
    ways += f"setp.eq.u32 %p2, %r2, {lane};\n@%p2 bra ONE;\nld.global.nc.f32 %f1, [%rd6];\n"
    rest = "ONE:\nadd.u32 %r5, %r2, 1;\nsetp.ge.u32 %p3, %r5, 90;\n@%p3 bra TWO;\n"
    load = "ld.global.nc.f32 %f2, [%rd6+4];\n"
    old = f"{HEAD}{START}{begin}{ways}{rest}{load}TWO:\n{SUM}{END}"
    new = f"{HEAD}{ROWS}{START}mov.b32 %sw_src, 0;\n{begin}{ways}mov.b32 %sw_src, %f1;\n"
    new += f"{rest}{SHUFFLED}TWO:\n{SUM}{END}"
    assert isinstance(judged(old, new), Proved) == right


STEPS = ITERATIONS.format("add.s64 %rd6, %rd6, 8;\nld.global.f32 %f5, [%rd6];")


def in_steps(computed: str) -> tuple[str, str]:
    """A loop whose step, of 8 bytes, the second text holds in a register that it computes anew."""
    old = f"{HEAD}{START}\n{STEPS}\nmov.f32 %f4, %f5;{END}"
    new = old.replace("TURN:", "mov.u64 %sw_step, 8;\nTURN:")
    moves = "add.s64 %rd6, %rd6, %sw_step;"
    return old, new.replace("add.s64 %rd6, %rd6, 8;", f"{moves}\n{computed}")


@pytest.mark.parametrize(
    ("computed", "right"),
    [
        ("", True),
        ("mov.u64 %sw_step, 8;", True),
        ("add.s64 %sw_step, %sw_step, 0;", True),  # computed, and always the same
        ("add.s64 %sw_step, %sw_step, 8;", False),
    ],
)
def test_a_number_is_believed_to_stay_until_a_loop_changes_it(computed: str, right: bool) -> None:
    old, new = in_steps(computed)
    new = new.replace(".reg .b32 %sw_x", ".reg .b64 %sw_step;\n.reg .b32 %sw_x", 1)
    assert isinstance(judged(old, new), Proved) == right
