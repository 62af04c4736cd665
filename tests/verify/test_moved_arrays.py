"""Tiles padded by hand, and arrays of shared memory that swapped places or became one."""

from __future__ import annotations

import re

import pytest

from ptxsw.changes.array_move import ArrayMove
from ptxsw.changes.assumptions import DEFAULT_ASSUME, IN_ARRAYS
from ptxsw.parser import parse
from ptxsw.validate import Mismatch, Outcome, Proved, Unproved, validate
from ptxsw.verify import Undecided, verify
from ptxsw.verify.array_moves import array_moves
from tests.heads import head

ASSUMED = "proved, assuming access-in-array"


def kernel(shared: str, body: str) -> str:
    """%r1 and %r2 are the thread's numbers, %rd4 and %rd5 its places of `out` and `in`."""
    return f"""{head("8.0", "sm_80")}
.visible .entry k(.param .u64 out, .param .u64 in) {{
	.reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
	{shared}
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mad.lo.s32 %r3, %r2, 32, %r1;
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f1, [%rd5];
	ld.global.f32 %f2, [%rd5+1024];
	shl.b32 %r5, %r1, 2;
	shl.b32 %r6, %r2, 2;
{body}
	st.global.f32 [%rd4], %f3;
	ret;
}}
"""


def tile(pitch: int, rows: int = 32) -> str:
    """A tile of 32 words a row is stored by rows and read by columns."""
    return kernel(f".shared .align 4 .b8 t[{rows * pitch}];", f"""	mov.u32 %r4, t;
	mad.lo.s32 %r7, %r2, {pitch}, %r4;
	add.s32 %r8, %r7, %r5;
	st.shared.f32 [%r8], %f1;
	st.shared.f32 [%r8+{8 * pitch}], %f2;
	bar.sync 0;
	mad.lo.s32 %r9, %r1, {pitch}, %r4;
	add.s32 %r10, %r9, %r6;
	ld.shared.f32 %f3, [%r10];""")  # fmt: skip


def flat(padded: bool) -> str:
    """The same by the number of the thread, of which the upper bits are the row."""
    place = "shr.u32 %r7, %r3, 5;\n\tand.b32 %r8, %r3, 31;\n"
    place += "\tmad.lo.s32 %r9, %r7, 33, %r8;\n" if padded else "\tmov.u32 %r9, %r3;\n"
    return kernel(f".shared .align 4 .b8 t[{4224 if padded else 4096}];", f"""	mov.u32 %r4, t;
	{place}	shl.b32 %r10, %r9, 2;
	add.s32 %r11, %r4, %r10;
	st.shared.f32 [%r11], %f1;
	bar.sync 0;
	ld.shared.f32 %f3, [%r11];""")  # fmt: skip


def two(declared: str, a: str, b: str) -> str:
    """Two rows of 64 words, each read by another thread."""
    return kernel(declared, f"""	mov.u32 %r4, {a};
	mov.u32 %r7, {b};
	add.s32 %r8, %r4, %r5;
	add.s32 %r9, %r7, %r5;
	st.shared.f32 [%r8], %f1;
	st.shared.f32 [%r9], %f2;
	bar.sync 0;
	sub.s32 %r10, %r4, %r5;
	sub.s32 %r11, %r7, %r5;
	ld.shared.f32 %f4, [%r10+252];
	ld.shared.f32 %f5, [%r11+252];
	sub.f32 %f3, %f4, %f5;""")  # fmt: skip


A, B = ".shared .align 4 .b8 a[256];", ".shared .align 4 .b8 b[256];"
APART = two(A + B, "a", "b")
MERGED = ".shared .align 4 .b8 s[512];"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (tile(128), tile(132)),
        (tile(132), tile(128)),
        (tile(128), tile(144)),
        (tile(128), tile(128, rows=40)),
        (flat(padded=False), flat(padded=True)),
        (APART, two(B + A, "a", "b")),
        (APART, two(A.replace("a[", "x[") + B.replace("b[", "y["), "x", "y")),
        (APART, two(MERGED, "s", "s+256")),
        (APART, two(MERGED, "s+256", "s")),
    ],
    ids=["padded", "no longer", "by 16 bytes", "longer", "flat", "swapped", "renamed", "one array",
         "the other way round"],
)  # fmt: skip
def test_arrays_that_lie_elsewhere_are_proved(first: str, second: str) -> None:
    said = str(verify(first, second))
    assert said in (ASSUMED, "proved")


def test_the_rows_are_read_off_the_texts() -> None:
    (first, old), (second, new) = ((m, m.kernels[0]) for m in map(parse, (tile(128), tile(132))))
    found = list(array_moves((first, old), (second, new)))
    assert found[0] == (ArrayMove("t", "t", 128, 132),)
    assert not list(array_moves((first, old), (first, old)))


def test_what_may_lie_in_another_row_is_no_padded_tile() -> None:
    """Without the columns nothing says that a row has no more than 32 words."""
    one, other = (
        t.replace("%r9, %r1,", "%r9, %r2,").replace("%r9, %r6", "%r9, %r5")
        for t in (tile(128), tile(132))
    )
    assert isinstance(verify(one, other), Undecided)
    assert str(verify(one, other, block=(32, 8))) == f"{ASSUMED}, blocks of 32x8x1 threads"
    declared = [t.replace(" {\n", " .reqntid 32, 8, 1 {\n", 1) for t in (one, other)]
    assert str(verify(*declared)) == ASSUMED


def test_words_exchanged_by_hand_are_proved_for_blocks_of_their_shape() -> None:
    """By the number of the row, with no shift that would tell it."""
    one = tile(128)
    other = one.replace("shl.b32 %r5, %r1, 2;", "xor.b32 %r11, %r1, %r2;\n\tshl.b32 %r5, %r11, 2;")
    second = "\tadd.s32 %r12, %r2, 8;\n\txor.b32 %r13, %r1, %r12;\n\tshl.b32 %r14, %r13, 2;\n"
    second += "\tadd.s32 %r15, %r7, %r14;\n\tst.shared.f32 [%r15+1024], %f2;"
    other = other.replace("\tst.shared.f32 [%r8+1024], %f2;", second)
    other = other.replace("shl.b32 %r6, %r2, 2;", "shl.b32 %r6, %r11, 2;")
    assert "--block, if all blocks are of one shape, may decide it" in str(verify(one, other))
    assert str(verify(one, other, block=(32, 8))) == "proved, assuming blocks of 32x8x1 threads"
    wrong = other.replace("add.s32 %r12, %r2, 8", "add.s32 %r12, %r2, 4")
    assert isinstance(verify(one, wrong, block=(32, 8)), Undecided)


@pytest.mark.parametrize("first", [tile(128), APART], ids=["tile", "two"])
def test_each_changed_number_is_seen(first: str) -> None:
    """Every number behind the arguments, one at a time, a word more and a row less."""
    second = tile(132) if first == tile(128) else two(MERGED, "s", "s+256")
    start = second.index("mov.u32 %r4")
    tried = 0
    for at in re.finditer(r"(?<=[ +])\d+(?=[;\],])", second[start:]):
        for more in (4, -4, 8, -8, 132):
            number = int(at[0]) + more
            if number < 0 or at[0] == "0":
                continue
            changed = second[: start + at.start()] + str(number) + second[start + at.end() :]
            outcomes = _outcomes(first, changed)
            assert outcomes and not any(isinstance(o, Proved) for o in outcomes), (at[0], number)
            tried += 1
    assert tried > 10


def _outcomes(first: str, second: str) -> list[Outcome]:
    old, new = ((m, m.kernels[0]) for m in map(parse, (first, second)))
    return [validate(old, new, shared_layout=moves) for moves in array_moves(old, new)]


def said(first: str, second: str, *moves: ArrayMove, **how: object) -> str:
    old, new = ((m, m.kernels[0]) for m in map(parse, (first, second)))
    outcome = validate(old, new, shared_layout=moves, **how)  # type: ignore[arg-type]
    assert isinstance(outcome, Unproved | Mismatch)
    return outcome.reason


MOVE = ArrayMove("t", "t", 128, 132)


def test_what_is_no_move_is_refused() -> None:
    one, other = tile(128), tile(132)
    assert said(one, other) == "the variables of the kernels differ"
    assert said(one, tile(128, rows=33), MOVE, ArrayMove("u", "t", 4, 4)) == (
        "not all shared arrays are moved"
    )
    assert said(one, other, ArrayMove("t", "t", 120, 132)) == "t does not lie in t"
    assert said(one, other, ArrayMove("t", "t", 128, 132, 4)) == "t does not lie in t"
    assert said(one, other, ArrayMove("t", "s", 128, 132)) == "t does not lie in s"
    merged = two(MERGED, "s", "s+256")
    parts = ArrayMove("a", "s", 256, 256), ArrayMove("b", "s", 256, 256, 252)
    assert said(APART, merged, *parts) == "two arrays are moved into the same bytes"
    linked = [t.replace(".shared", ".visible .shared") for t in (one, other)]
    known = [re.sub(r"\t(\.visible \.shared.*\n)", "", t) for t in linked]
    whole = [
        t.replace(".visible .entry", f"{re.search('.visible .shared.*', o)[0]}\n.visible .entry")  # type: ignore[index]
        for t, o in zip(known, linked, strict=True)
    ]
    assert said(whole[0], whole[1], MOVE) == "a shared array is moved that others may know"


def test_an_address_that_gets_away_is_refused() -> None:
    one, other = (
        t.replace("\tbar.sync", "\tst.global.u32 [%rd4+8], %r8;\n\tbar.sync")
        for t in (tile(128), tile(132))
    )
    assert said(one, other, MOVE) == (
        "st.global.u32 stores a shared address, of which arrays are moved"
    )
    one, other = (
        t.replace("\tld.shared.f32 %f3, [%r10]", "\tcvt.u64.u32 %rd7, %r10;\n\t"
                  "cvta.shared.u64 %rd8, %rd7;\n\tld.f32 %f3, [%rd8]")
        for t in (tile(128), tile(132))
    )  # fmt: skip
    assert said(one, other, MOVE) == (
        "ld.f32 may reach shared memory through a generic address, of which arrays are moved"
    )


def test_a_wide_access_needs_rows_that_are_aligned() -> None:
    def wide(pitch: int) -> str:
        pair = "st.shared.v2.f32 [%r8], {%f1, %f2};"
        text = tile(pitch).replace("%r7, %r5", "%r7, %r6").replace(".align 4", ".align 8")
        text = text.replace("st.shared.f32 [%r8], %f1;", pair)
        return text.replace("shl.b32 %r6, %r2, 2", "shl.b32 %r6, %r2, 3")

    assert said(wide(128), wide(132), MOVE) == "a shared address is not that of the moved array"


def test_without_the_assumption_nothing_is_moved() -> None:
    assumed = DEFAULT_ASSUME - {IN_ARRAYS}
    assert said(tile(128), tile(132), MOVE, assume=assumed) == (
        "access-in-array is not assumed, and arrays are laid out one by one"
    )
