"""Load elimination: a load of bytes that this thread has loaded already becomes a copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ptxsw.parser import parse
from ptxsw.simt import launch
from ptxsw.validate import Mismatch, Proved, validate
from tests.rewrites.pair import kernel, new_lines, reasons, rewritten

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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            AGAIN.replace("add.s64", "st.global.f32 [%rd5], %f1;\nadd.s64"),
            "st.global.f32 (line 20) between the two loads may change it",
        ),
        (
            AGAIN.replace("add.s64", "membar.gl;\nadd.s64"),
            "membar.gl (line 20) stands between the two loads",
        ),
        (
            AGAIN.replace("add.s64", "bar.sync 0;\nadd.s64"),
            "bar.sync (line 20) stands between the two loads",
        ),
        (
            AGAIN.replace("add.s64", "atom.global.add.u32 %r9, [%rd4], 1;\nadd.s64"),
            "atom.global.add.u32 (line 20) stands between the two loads",
        ),
        (
            IMPLIED.replace("and.pred", "or.pred"),
            "the source load is not on every path to this load, and no condition shows that it "
            "was executed",
        ),
    ],
)
def test_what_stays(body: str, reason: str) -> None:
    text = kernel(body)
    result = rewritten(NAME, text)
    assert result.text == text and reason in reasons(result)


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
    good, old = rewritten(NAME, text).text, parse(text)
    changed = MUTANTS[mutant](good)
    assert changed != good
    for one, verdict in ((good, Proved), (changed, Mismatch)):
        new = parse(one)
        assert isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), verdict)

    def result(text: str) -> bytes:
        memory = {WHERE: np.arange(1, 257, dtype="f4").view("u1")}
        done = launch(parse(text), "k", 1, 37, [WHERE, WHERE + 512, 3], memory=memory)
        return bytes(done.memory[WHERE].tobytes())

    assert result(good) == result(text) != result(changed)
