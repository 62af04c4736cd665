"""Load elimination: a load of bytes that this thread has loaded already becomes a copy."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import numpy as np
import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.simt import RunError, launch
from ptxsw.validate import Mismatch, Proved
from tests.parsed import parsed
from tests.rewrites.pair import kernel, new_lines, outcome, reasons, rewritten

NAME = "load-elimination"
WHERE = 1 << 44

AGAIN = """
    ld.global.f32 %f1, [%rd4];
    add.s64 %rd6, %rd4, 8;
    ld.global.f32 %f2, [%rd6+-8];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
"""
IMPLIED = """
    ld.param.u64 %rd6, [in];
    cvta.to.global.u64 %rd7, %rd6;
    add.s64 %rd8, %rd7, %rd3;
    setp.lt.u32 %p1, %r2, %r1;
    setp.lt.u32 %p2, %r2, 4;
    mov.f32 %f1, 0f3F800000;
    @!%p1 bra NEXT;
    ld.global.f32 %f1, [%rd8];
NEXT:
    neg.f32 %f1, %f1;
    and.pred %p3, %p1, %p2;
    @!%p3 bra END;
    ld.global.f32 %f2, [%rd8];
    add.f32 %f1, %f1, %f2;
    add.f32 %f1, %f1, %f1;
END:
    st.global.f32 [%rd5], %f1;
"""


def test_the_same_bytes_are_copied_whatever_their_address_is_made_of() -> None:
    text = kernel(AGAIN)
    assert new_lines(text, rewritten(NAME, text)) == [
        "mov.b32 %sw_keep1, %f1;",
        "mov.b32 %f2, %sw_keep1;",
    ]


def test_a_path_condition_may_imply_that_it_was_loaded() -> None:
    """Not every path passes the first load, but those do that come to the second one."""
    text = kernel(IMPLIED)
    assert new_lines(text, rewritten(NAME, text)) == [
        "mov.b32 %sw_keep1, 0;",
        "mov.b32 %sw_keep1, %f1;",
        "mov.b32 %f2, %sw_keep1;",
    ]


STANDS = "is between the two loads"


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        ("st.global.u8 [%rd4+3], %r1;", "st.global.u8 at line 20 may write these bytes"),
        ("st.global.f32 [%rd10], %f1;", "st.global.f32 at line 20 may write these bytes"),
        (
            "activemask.b32 %r9;\nst.global.f32 [%rd5], %f1;",
            "st.global.f32 at line 21 may write these bytes; activemask.b32 (line 20) asks which "
            "lanes are active, which cannot be duplicated",
        ),
        ("fence.acq_rel.gpu;", f"fence.acq_rel.gpu (line 20) {STANDS}"),
        ("ld.acquire.gpu.global.u32 %r9, [%rd1];", f"ld.acquire.gpu.global.u32 (line 20) {STANDS}"),
        ("ld.volatile.global.u32 %r9, [%rd1];", f"ld.volatile.global.u32 (line 20) {STANDS}"),
        ("griddepcontrol.wait;", f"griddepcontrol.wait (line 20) {STANDS}"),
        ("call.uni f;", f"call.uni (line 21) {STANDS}"),
        ("membar.gl;", f"membar.gl (line 20) {STANDS}"),
        ("bar.sync 0;", f"bar.sync (line 20) {STANDS}"),
        ("atom.global.add.u32 %r9, [%rd4], 1;", f"atom.global.add.u32 (line 20) {STANDS}"),
    ],
)
def test_what_may_not_stand_between(between: str, reason: str) -> None:
    text = kernel(AGAIN.replace("add.s64", f"{between}\nadd.s64"))
    if "call" in between:
        text = text.replace(".visible", ".func f() { ret; }\n.visible", 1)
    result = rewritten(NAME, text)
    assert result.text == text and reason in reasons(result)


def test_a_source_on_other_paths() -> None:
    text = kernel(IMPLIED.replace("and.pred", "or.pred"))
    result = rewritten(NAME, text)
    assert result.text == text
    assert (
        "the source load is not on every path to this load, and no condition shows that it was "
        "executed"
    ) in reasons(result)


MUTANTS: dict[str, Callable[[str], str]] = {
    "another condition": lambda text: text.replace("and.pred", "or.pred", 1),
    "not kept": lambda text: text.replace("mov.b32 %sw_keep1, %f1;", ""),
    "kept too late": lambda text: text.replace("mov.b32 %sw_keep1, %f1;", "").replace(
        "neg.f32 %f1, %f1;", "neg.f32 %f1, %f1;\nmov.b32 %sw_keep1, %f1;"
    ),
    "another register": lambda text: text.replace("%f2, %sw_keep1", "%f2, %f1"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_validate_and_a_run_each_refuse_mutants(mutant: str) -> None:
    text = kernel(IMPLIED)
    good = rewritten(NAME, text).text
    changed = MUTANTS[mutant](good)
    assert changed != good
    for one, verdict in ((good, Proved), (changed, Mismatch)):
        assert isinstance(outcome(text, one), verdict)

    def result(text: str) -> bytes:
        memory = {WHERE: np.arange(1, 257, dtype="f4").view("u1")}
        done = launch(parsed(text), "k", 1, 37, [WHERE, WHERE + 512, 3], memory=memory)
        return bytes(done.memory[WHERE].tobytes())

    assert result(good) == result(text) != result(changed)


# ---------------------------------------------------------------- from stores, and over them

STORED = """
    ld.global.f32 %f1, [%rd4];
    st.global.f32 [%rd5], %f1;
    neg.f32 %f1, %f1;
    ld.global.f32 %f2, [%rd5];
    st.global.f32 [%rd5+4], %f2;
"""
OVER = """
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra END;
    ld.global.f32 %f1, [%rd4];
    st.global.f32 [%rd5], %f1;
    neg.f32 %f1, %f1;
    ld.global.f32 %f2, [%rd4];
    st.global.f32 [%rd5+4], %f2;
END:
"""
HAZARDS = (
    "bar.sync 0;",
    "membar.gl;",
    "fence.acq_rel.gpu;",
    "ld.acquire.gpu.global.u32 %r9, [%rd1];",
    "ld.volatile.global.u32 %r9, [%rd1];",
    "griddepcontrol.wait;",
    "atom.global.add.u32 %r9, [%rd4], 1;",
    "call.uni f;",
)


def results(text: str, distance: int, threads: int = 37, number: int = 30) -> bytes:
    """What is in memory behind a launch with two pointers so many bytes apart."""
    memory = {WHERE: (np.arange(2048) % 251).astype("u1")}
    given = [WHERE + 768, WHERE + 768 + distance, number]
    return launch(parsed(text), "k", 1, threads, given, memory=memory).memory[WHERE].tobytes()


def test_what_was_stored_is_in_a_register() -> None:
    text = kernel(STORED)
    result = rewritten(NAME, text)
    assert new_lines(text, result) == ["mov.b32 %sw_held1, %f1;", "mov.b32 %f2, %sw_held1;"]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.status == "proved" and entry.detail == {"source_line": 20, "tested": False}
    assert results(text, 4) == results(result.text, 4)


@pytest.mark.parametrize("body", [STORED, OVER])
@pytest.mark.parametrize("line", HAZARDS)
def test_no_value_is_kept_past_what_orders_memory(body: str, line: str) -> None:
    text = kernel(body.replace("neg.f32 %f1, %f1;", line))
    if "call" in line:
        text = text.replace(".visible", ".func f() { ret; }\n.visible", 1)
    assert rewritten(NAME, text).text == text


def test_a_part_of_what_was_stored_is_loaded() -> None:
    """One byte of the register, or a word that a byte was stored into."""
    for line in (
        "ld.global.u8 %r9, [%rd5];",
        "st.global.u8 [%rd5+1], %r2;\n" + "ld.global.f32 %f2, [%rd5];",
    ):
        text = kernel(STORED.replace("ld.global.f32 %f2, [%rd5];", line))
        assert rewritten(NAME, text).text == text


def test_a_test_at_entry_tells_stores_apart_from_what_is_loaded_again() -> None:
    text = kernel(OVER)
    result = rewritten(NAME, text)
    found = new_lines(text, result)
    assert found[-5:] == [
        "and.pred %sw_apart4, %sw_apart3, %sw_order2;",
        "@!%sw_apart4 bra $sw_overlap1;",
        "mov.b32 %sw_held1, %f1;",
        "mov.b32 %f2, %sw_held1;",
        "$sw_overlap1:",
    ]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.status == "guarded" and entry.proof.assumptions == ()
    for distance in (0, 4, -4, 8, -8, 16, 240, 256, -256, 600, -600):
        assert results(text, distance) == results(result.text, distance), distance


def test_the_copy_as_it_was_is_taken_where_a_byte_is_in_common() -> None:
    """30 threads read 4 of 8 bytes each, and write all 8."""
    trapped = re.sub(r"(\$sw_overlap1:\s*\{)", r"\1 trap;", rewritten(NAME, kernel(OVER)).text)
    for distance, slow in ((236, False), (232, True), (-236, False), (-232, True), (0, True)):
        with pytest.raises(RunError, match="trap") if slow else contextlib.nullcontext():
            results(trapped, distance, threads=30)


def test_mode_auto_makes_no_second_copy_of_a_kernel_for_it() -> None:
    text = kernel(OVER)
    result = optimize(text, Options(rewrites=(NAME,)))
    assert result.text == text
    assert reasons(result) == [
        "st.global.f32 at line 22 may write these bytes; a test and a second copy of the code cost "
        "more than the certain saving; force rewrites it"
    ]
    stored = optimize(kernel(STORED), Options(rewrites=(NAME,)))
    assert stored.text == kernel(STORED) and "no clear gain" in reasons(stored)[0]


def test_a_kernel_that_stands_twice_is_not_copied_again() -> None:
    text = kernel(OVER)
    once = rewritten(NAME, text)
    again = rewritten(NAME, once.text)
    assert again.text == once.text
    assert "st.global.f32 at line 61 may write these bytes; the kernel is already duplicated" in (
        reasons(again)
    )


def _short(text: str, which: int) -> str:
    """The end of one of the ranges is a byte short."""
    found = list(re.finditer(r"setp\.le(?:\.or)?\.s64 %sw_order\d, (%sw_bound\d+)", text))[which]
    line = text.rfind("\n", 0, found.start())
    return f"{text[:line]}\nadd.s64 {found[1]}, {found[1]}, -1;{text[line:]}"


TESTS: dict[str, Callable[[str], str]] = {
    "first end short": lambda text: _short(text, 0),
    "second end short": lambda text: _short(text, 1),
    "inverted": lambda text: text.replace("@!%sw_apart4", "@%sw_apart4"),
    "no test": lambda text: text.replace("@!%sw_apart4 bra $sw_overlap1;", ""),
    "or for and": lambda text: text.replace("and.pred %sw_apart4", "or.pred %sw_apart4"),
    "not kept": lambda text: text.replace("mov.b32 %sw_held1, %r5;", ""),
    "another register": lambda text: text.replace("%r6, %sw_held1", "%r6, %r2"),
}
BYTES = """
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra END;
    ld.global.u8 %r5, [%rd4];
    st.global.u8 [%rd5], %r2;
    ld.global.u8 %r6, [%rd4];
    mad.lo.u32 %r6, %r6, 3, %r5;
    st.global.u8 [%rd5+1], %r6;
END:
"""


@pytest.mark.parametrize("mutant", TESTS)
def test_validate_and_a_run_each_refuse_a_wrong_test(mutant: str) -> None:
    """Of bytes, so that ranges may meet in one."""
    text = kernel(BYTES)
    good = rewritten(NAME, text).text
    changed = TESTS[mutant](good)
    assert changed != good
    for one, verdict in ((good, Proved), (changed, Mismatch)):
        assert isinstance(outcome(text, one), verdict)

    def found(text: str) -> list[bytes]:
        places = ((0, 1), (-8, 2), (8, 2), (512, 2))  # a byte of either thread, or none
        return [results(text, at, threads, threads) for at, threads in places]

    assert found(good) == found(text)
    with contextlib.suppress(RunError):  # a register that nobody has set
        assert found(changed) != found(text)


OVER_AN_ARM = """
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %ctaid.x;
    mad.lo.s32 %r5, %r4, %r3, %r2;
    setp.ge.s32 %p2, %r5, %r1;
    @%p2 bra END;
    mul.wide.s32 %rd6, %r5, 4;
    add.s64 %rd7, %rd1, %rd6;
    add.s64 %rd8, %rd2, %rd6;
    mul.wide.s32 %rd9, %r1, 4;
    mov.u32 %r9, 0;
LOOP:
    ld.global.u32 %r6, [%rd7];
    setp.lt.s32 %p1, %r6, 3;
    @%p1 bra SKIP;
    st.global.u32 [%rd8], %r6;
SKIP:
    ld.global.u32 %r7, [%rd7];
    add.s32 %r8, %r7, 1;
    st.global.u32 [%rd8+4096], %r8;
    add.s64 %rd8, %rd8, %rd9;
    add.s32 %r9, %r9, 1;
    setp.lt.s32 %p3, %r9, 5;
    @%p3 bra LOOP;
END:
"""


def test_a_value_is_kept_over_a_store_in_an_arm_of_a_loop() -> None:
    """That its pointer, which moves, misses the load shows in the run of the whole kernel alone."""
    text = kernel(OVER_AN_ARM)
    result = rewritten("load-elimination", text)
    assert not reasons(result) and "mov.b32 %r7, %sw_held1;" in new_lines(text, result)
    for distance in (0, 4, -4, 64, -64, -4096, 8192):
        memory = np.arange(8192, dtype="u4") % 7
        found = [
            launch(
                parsed(t), "k", 1, 16, (WHERE + 16384, WHERE + 16384 + distance, 16),
                memory={WHERE: memory.copy()},
            ).memory[WHERE].tobytes()
            for t in (text, result.text)
        ]  # fmt: skip
        assert found[0] == found[1], distance
