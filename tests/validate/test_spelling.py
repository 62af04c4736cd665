"""What things are called means nothing: a text under other names is the same text."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.equal_pairs import WAYS
from ptxsw.parser import parse
from ptxsw.verify.proving import Proof, Unproved, prove
from tests.heads import head

KERNEL = """
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd3, %r2, 4;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
mov.u32 %r3, 0;
setp.eq.s32 %p1, %r1, 0;
@%p1 bra $DONE;
$AGAIN:
ld.global.u32 %r4, [%rd4];
min.s32 %r5, %r4, %r2;
shl.b32 %r5, %r5, 3;
add.s32 %r3, %r3, %r5;
add.s64 %rd4, %rd4, 128;
sub.s32 %r1, %r1, 1;
setp.ne.s32 %p2, %r1, 0;
@%p2 bra $AGAIN;
$DONE:
st.global.u32 [%rd5], %r3;
ret;
}
"""
TEXT = head("8.3") + KERNEL
RENAMED = TEXT
for _way in ("registers", "labels", "parameters", "counts", "notes", "target"):
    RENAMED = WAYS[_way](RENAMED, Random(1)) or RENAMED


def judged(before: str, after: str) -> Proof | Unproved:
    return prove(parse(before), parse(after), "k")


@pytest.mark.parametrize("way", [w for w in WAYS if w != "functions"])
def test_another_spelling_is_proved(way: str) -> None:
    other = WAYS[way](TEXT, Random(2))
    assert way == "selections" or other not in (None, TEXT)
    assert isinstance(judged(TEXT, other or TEXT), Proof)


@pytest.mark.parametrize("way", ["peeled", "rotated"])
@pytest.mark.parametrize(("old", "new"), [
    (", 3;", ", 2;"), ("min.s32", "max.s32"), (", 128;", ", 64;"), ("ne.s32 %p2", "gt.s32 %p2"),
    ("ld.global.u32", "ld.volatile.global.u32"), ("sub.s32 %r1, %r1, 1;", ""),
])  # fmt: skip
def test_an_iteration_that_differs_is_not(way: str, old: str, new: str) -> None:
    """Whichever copy of it is another."""
    other = WAYS[way](TEXT, Random(2)) or ""
    pieces = other.split(old)
    assert len(pieces) in (2, 3)
    for at in range(1, len(pieces)):
        wrong = old.join(pieces[:at]) + new + old.join(pieces[at:])
        assert isinstance(judged(TEXT, wrong), Unproved)


def test_all_names_at_once_are_proved() -> None:
    assert "$AGAIN" not in RENAMED and "%rd4" not in RENAMED and "[a]" not in RENAMED
    assert isinstance(judged(TEXT, RENAMED), Proof)


@pytest.mark.parametrize(("old", "new"), [
    ("[argument_0_of]", "[argument_1_of]"),
    ("min.s32", "max.s32"),
    ("min.s32", "min.u32"),
    (", 3;", ", 2;"),
    (", 128;", ", 64;"),
    ("setp.ne.s32", "setp.gt.s32"),
    ("ld.global.u32", "ld.volatile.global.u32"),
    ("bra Q_DONE", "bra Q_AGAIN"),
])  # fmt: skip
def test_another_program_under_other_names_is_not(old: str, new: str) -> None:
    assert old in RENAMED
    assert isinstance(judged(TEXT, RENAMED.replace(old, new)), Unproved)


def test_registers_exchanged_are_another_program() -> None:
    """The names fit, one by one; what they stand for does not."""
    line = "sub.s32 %r1, %r1, 1;"
    other = TEXT.replace(line, "sub.s32 %r1, %r2, 1;")
    assert isinstance(judged(TEXT, WAYS["registers"](other, Random(3)) or ""), Unproved)


@pytest.mark.parametrize(("one", "other", "reason"), [
    ("sm_70", "sm_90a", None),
    ("sm_60", "sm_61", None),
    ("sm_60", "sm_70", "in how threads meet and memory is ordered"),
    ("sm_70", "sm_70, debug", "the targets of the modules differ"),
    ("sm_30", "sm_70", "the targets of the modules differ"),
])  # fmt: skip
def test_the_target_matters_where_threads_meet(one: str, other: str, reason: str | None) -> None:
    """Before sm_70 the threads of a warp had one program counter."""
    text = f".version 8.3\n.target {one}\n.address_size 64\n{KERNEL}"
    text = text.replace("st.global.u32", "bar.sync 0;\nst.global.u32")
    outcome = judged(text, text.replace(f".target {one}", f".target {other}"))
    if reason is None:
        assert isinstance(outcome, Proof)
    else:
        assert isinstance(outcome, Unproved) and reason in outcome.reason


def test_the_target_does_not_matter_where_each_thread_is_alone() -> None:
    one, other = (
        f".version 8.3\n.target {t}\n.address_size 64\n{KERNEL}" for t in ("sm_60", "sm_90")
    )
    assert isinstance(judged(one, other), Proof)


CALLS = (
    head("8.3")
    + """
.func (.reg .b32 %out) twice(.reg .b32 %in) { add.u32 %out, %in, %in; ret; }
.func (.reg .b32 %out) thrice(.reg .b32 %in) { mul.lo.u32 %out, %in, 3; ret; }
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
call (%r2), twice, (%r1);
call (%r3), thrice, (%r2);
st.global.u32 [%rd1], %r3;
ret;
}
"""
)


def test_called_functions_have_any_names() -> None:
    other = CALLS.replace("twice", "f").replace("thrice", "g").replace("%in", "%x")
    assert isinstance(judged(CALLS, other), Proof)


@pytest.mark.parametrize(("old", "new"), [
    ("mul.lo.u32 %out, %in, 3", "mul.lo.u32 %out, %in, 4"),
    ("call (%r2), twice", "call (%r2), thrice"),
    (".func (.reg .b32 %out) twice", ".weak .func (.reg .b32 %out) twice"),
])  # fmt: skip
def test_other_functions_are_other_functions(old: str, new: str) -> None:
    other = CALLS.replace(old, new).replace("twice", "f").replace("thrice", "g")
    assert isinstance(judged(CALLS, other), Unproved)


def test_names_of_functions_exchanged_are_no_proof() -> None:
    """Both modules have the same functions under the same names, which mean the other ones."""
    other = CALLS.replace("twice", "x").replace("thrice", "twice").replace("x(", "thrice(")
    kernel = other.index(".visible")
    other = other[:kernel] + CALLS[CALLS.index(".visible") :]
    assert ".func (.reg .b32 %out) thrice(.reg .b32 %in) { add" in other
    assert isinstance(judged(CALLS, other), Unproved)


SUNK = TEXT.replace("add.s64 %rd5, %rd2, %rd3;\n", "").replace(
    "$DONE:", "$DONE:\nadd.s64 %rd5, %rd2, %rd3;"
)


def test_a_computation_may_wait_until_it_is_needed() -> None:
    """Or be made before it is: where it is not needed, its register may hold anything."""
    assert SUNK != TEXT
    assert isinstance(judged(TEXT, SUNK), Proof)
    assert isinstance(judged(SUNK, TEXT), Proof)


@pytest.mark.parametrize("wrong", ["add.s64 %rd5, %rd2, %rd4;", "", "add.s64 %rd5, %rd1, %rd3;"])
def test_but_has_to_be_made_by_then(wrong: str) -> None:
    other = SUNK.replace("add.s64 %rd5, %rd2, %rd3;", wrong)
    assert isinstance(judged(TEXT, other), Unproved)


# Two pointers that a loop moves, the first of them as the programmer wrote it, and by hand.
MOVED = TEXT.replace("mul.wide.u32 %rd3, %r2, 4;", "mul.wide.s32 %rd3, %r2, 4;").replace(
    "min.s32 %r5, %r4, %r2;",
    "ld.global.u32 %r6, [%rd2];\nmin.s32 %r5, %r4, %r6;\nadd.s64 %rd2, %rd2, 4;",
)
BY_HAND = (
    MOVED.replace("%rd4", "%rd8").replace("%rd2", "%rd4").replace("%rd8", "%rd2")
    .replace("mul.wide.s32 %rd3, %r2, 4;", "cvt.s64.s32 %rd6, %r2;\nshl.b64 %rd3, %rd6, 2;")
)  # fmt: skip


def test_pointers_that_begin_in_another_way_correspond_by_what_is_done_with_them() -> None:
    """Their names are exchanged, and nothing that sets them tells it."""
    assert isinstance(judged(MOVED, BY_HAND), Proof)


@pytest.mark.parametrize(
    ("old", "new"),
    [("shl.b64 %rd3, %rd6, 2", "shl.b64 %rd3, %rd6, 3"), ("%rd4, %rd4, 4;", "%rd4, %rd4, 8;"),
     ("%rd2, %rd2, 128", "%rd2, %rd2, 64"), ("%r6, [%rd4]", "%r6, [%rd2]"),
     ("cvt.s64.s32", "cvt.u64.u32")],
)  # fmt: skip
def test_pointers_that_are_moved_otherwise_do_not(old: str, new: str) -> None:
    other = BY_HAND.replace(old, new, 1)
    assert other != BY_HAND
    expected = Proof if new == "cvt.u64.u32" else Unproved  # a thread's number is not negative
    assert isinstance(judged(MOVED, other), expected)


def test_a_reason_names_loops_that_only_one_text_has() -> None:
    more = "setp.eq.s32 %p1, %r2, 99;\n$LATER:\n@%p1 bra $LATER;\n$DONE:"
    outcome = judged(TEXT, TEXT.replace("$DONE:", more))
    assert isinstance(outcome, Unproved)
    assert (
        "; the first has 1 loop and the second 2: an iteration is compared with" in outcome.reason
    )
