"""Loads that every arm of a branch makes, made once before it."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.driver.pipeline import Result
from ptxsw.simt import launch
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, new_lines, reasons, rewritten

pytestmark = pytest.mark.usefixtures("no_ptxas")

ARMS = """
    setp.lt.u32 %p1, %r2, 9;
    @%p1 bra $LOW;
    mul.wide.u32 %rd6, %r2, 8;
    add.s64 %rd7, %rd1, %rd6;
    {first}
    ld.global{nc}.b32 %r5, [%rd7+4];
    add.u32 %r6, %r5, 7;
    bra $BOTH;
$LOW:
    {second}
    ld.global{nc}.b32 %r6, [%rd4+4];
$BOTH:
    st.global.b32 [%rd5], %r6;
"""


def arms(first: str = "", second: str = "", nc: str = "") -> str:
    """Both arms load one word, one of them by an address of its own."""
    return kernel(ARMS.format(first=first, second=second, nc=nc))


def made(text: str) -> Result:
    return rewritten("load-elimination", text)


def run(text: str, threads: int) -> bytes:
    """What it stores, in one block."""
    memory = {1 << 40: np.arange(128, dtype="u4"), 1 << 44: np.zeros(256, "u4")}
    done = launch(parsed(text), "k", 1, threads, (1 << 40, 1 << 44, 64), memory=memory)
    return done.memory[1 << 44].tobytes()


def test_one_load_before_the_branch() -> None:
    text = arms()
    assert new_lines(text, made(text)) == [
        "ld.global.b32 %sw_before1, [%rd4+4];",
        "mov.b32 %r5, %sw_before1;",
        "mov.b32 %r6, %sw_before1;",
    ]


@pytest.mark.parametrize("threads", [5, 32, 40])
def test_it_gives_the_same(threads: int) -> None:
    text = arms()
    assert run(text, threads) == run(made(text).text, threads)


def test_an_address_that_both_arms_compute_is_computed_before() -> None:
    text = arms().replace("%rd4+4", "%rd8+4").replace(
        "$LOW:", "$LOW:\n\tmul.wide.u32 %rd7, %r2, 8;\n\tadd.s64 %rd8, %rd1, %rd7;"
    )  # fmt: skip
    found = new_lines(text, made(text))
    assert found[:3] == [
        "mul.wide.u32 %sw_ahead1, %r2, 8;",
        "add.s64 %sw_ahead2, %rd1, %sw_ahead1;",
        "ld.global.b32 %sw_before1, [%sw_ahead2+4];",
    ]


STORE = "st.global.b32 [%rd2+600], %r2;"


def test_what_a_store_before_may_write() -> None:
    """A load by `.nc` is of bytes that nobody writes."""
    for text in (arms(STORE), arms(second=STORE)):
        assert made(text).text == text
        assert (
            reasons(made(text))[0]
            == f"st.global.b32 (line {line(text, STORE)}) may write its bytes first"
        )
    assert made(arms(STORE, nc=".nc")).text != arms(STORE, nc=".nc")
    elsewhere = arms("st.global.b32 [%rd4], %r2;")  # four bytes before those that are loaded
    assert "ld.global.b32 %sw_before1, [%rd4+4];" in new_lines(elsewhere, made(elsewhere))


def line(text: str, part: str) -> int:
    return 1 + text[: text.index(part)].count("\n")


@pytest.mark.parametrize(
    "before",
    [
        "membar.gl;",
        "bar.sync 0;",
        "@%p2 exit;",
        "@%p2 ret;",
        "atom.global.add.u32 %r9, [%rd2], 1;",
        "ld.volatile.global.b32 %r9, [%rd2];",
    ],
)
def test_what_no_load_is_moved_over(before: str) -> None:
    for nc in ("", ".nc"):
        text = arms(second=before, nc=nc)
        assert made(text).text == text


NESTED = """
    setp.lt.u32 %p1, %r2, 9;
    setp.lt.u32 %p2, %r2, 4;
    @%p1 bra $LOW;
    ld.global.b32 %r5, [%rd4];
    add.u32 %r6, %r5, 7;
    bra $BOTH;
$LOW:
    @%p2 bra $LOWER;
    ld.global.b32 %r6, [%rd4];
    bra $BOTH;
$LOWER:
    {lower}
$BOTH:
    st.global.b32 [%rd5], %r6;
"""


def test_an_arm_that_branches_again() -> None:
    text = kernel(NESTED.format(lower="ld.global.b32 %r6, [%rd4];"))
    assert len([one for one in new_lines(text, made(text)) if one.startswith("mov")]) == 3
    assert run(text, 40) == run(made(text).text, 40)


def test_each_way_has_to_make_it() -> None:
    for lower in (
        "mov.u32 %r6, 0;",
        "ld.global.b32 %r6, [%rd4+4];",
        "@%p3 ld.global.b32 %r6, [%rd4];",
    ):
        text = kernel(NESTED.format(lower=lower))
        assert made(text).text == text


def test_not_out_of_a_loop() -> None:
    """The loop in one arm might never make it."""
    text = kernel("""
        setp.lt.u32 %p1, %r2, 9;
        @%p1 bra $LOW;
    $LOOP:
        ld.global.b32 %r5, [%rd4];
        setp.ne.u32 %p2, %r5, 0;
        @%p2 bra $LOOP;
        bra $BOTH;
    $LOW:
        ld.global.b32 %r5, [%rd4];
    $BOTH:
        st.global.b32 [%rd5], %r5;
    """)
    assert made(text).text == text


@pytest.mark.parametrize(
    ("kind", "registers", "moves"), [("v2.b32", "{%r5, %r6}", 4), ("u8", "%r6", 2)]
)
def test_vectors_and_bytes(kind: str, registers: str, moves: int) -> None:
    text = arms().replace("add.u32 %r6, %r5, 7;", "").replace("+4]", "]")
    for register in ("%r5", "%r6"):
        text = text.replace(f"ld.global.b32 {register}", f"ld.global.{kind} {registers}")
    result = made(text)
    assert len([one for one in new_lines(text, result) if one.startswith("mov")]) == moves
    assert run(text, 40) == run(result.text, 40)


# ---------------------------------------------------------------- what the proof must catch


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[%rd4+4];\n\t@%p1", "[%rd4];\n\t@%p1"),  # other bytes
        ("mov.b32 %r6, %sw_before1", "mov.b32 %r6, %r2"),
        ("ld.global.b32 %sw_before1", "@%p1 ld.global.b32 %sw_before1"),  # not always
    ],
)
def test_wrong_texts_are_not_proved(right: str, wrong: str) -> None:
    text = arms()
    new = made(text).text
    assert is_proved(text, new)
    assert right in new
    assert not is_proved(text, new.replace(right, wrong))


def test_wrong_places_are_not_proved() -> None:
    """The same edits where a store or a barrier comes first, or one arm loads nothing."""
    new = made(arms()).text
    for before in (STORE, "bar.sync 0;"):
        text, wrong = (
            t.replace("$LOW:", f"$LOW:\n\t{before}") for t in (arms(), new)
        )  # fmt: skip
        assert not is_proved(text, wrong)
    text = arms().replace("ld.global.b32 %r6, [%rd4+4]", "mov.b32 %r6, 0")
    assert not is_proved(text, new.replace("mov.b32 %r6, %sw_before1", "mov.b32 %r6, 0"))
