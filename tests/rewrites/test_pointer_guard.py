"""Strength reduction: a pointer ends a loop that only counts."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.rewrites.pointer_guard import ending_comparison
from ptxsw.simt import RunError, launch
from tests.parsed import parsed
from tests.rewrites.pair import claims_of, is_proved, kernel, new_lines, reasons, rewritten

STRENGTH = "strength-reduction"
NO_INDEX = "no index is extended or multiplied in the loop: its addresses are pointers already"


def loop(
    *step: str, before: str = "mov.u32 %r3, 0;", test: str = "setp.ne.s32 %p1, %r3, 100;",
    after: str = "st.global.f32 [%rd5], %f1;",
) -> str:  # fmt: skip
    """A sum over what `%rd4` points to; `step` is what an iteration ends with, but for the test."""
    return kernel(
        f"{before}\nmov.f32 %f1, 0f00000000;\nLOOP:\nld.global.f32 %f2, [%rd4];\n"
        "add.f32 %f1, %f1, %f2;\n" + "\n".join(step) + f"\n{test}\n@%p1 bra LOOP;\n{after}"
    )


UP = loop("add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;")


@pytest.fixture(autouse=True)
def without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas has a say in what is kept of so short loops; here the text is looked at."""
    monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")


INPUT, OUTPUT = 0x1_FFFF_F000, 0x3_0000_0000
"""The input lies on both sides of a multiple of 2^32, in which the low bits of pointers wrap."""


def ran(text: str) -> bytes | str:
    """What 40 threads leave in memory, which begin in the middle of the input."""
    given = np.arange(2000, dtype=np.float32)
    memory = {INPUT: given, OUTPUT: np.zeros(80, np.float32)}
    arguments = [INPUT + 4 * 1000, OUTPUT, 0]
    try:
        done = launch(parsed(text), "k", 1, 40, arguments, memory=memory, limit=20_000)
    except RunError as error:
        return type(error).__name__
    return done.memory[OUTPUT].tobytes()


# ---------------------------------------------------------------- before and after


def test_a_pointer_takes_the_counters_place() -> None:
    assert new_lines(UP, rewritten(STRENGTH, UP)) == [
        "cvt.u32.u64 %sw_low1, %rd4;",
        "add.s32 %sw_stop1, %sw_low1, 392;",
        "cvt.u32.u64 %sw_low2, %rd4;",
        "setp.ne.s32 %p1, %sw_low2, %sw_stop1;",
    ]


def test_the_report_names_the_comparison() -> None:
    (report,) = rewritten(STRENGTH, UP).report.kernels
    (change,) = report.rewrites or ()
    at = UP[: UP.index("setp.ne")].count("\n") + 1
    assert (change.line, change.detail) == (at, {"lines": [at], "pointers": 1})


CHANGED = {
    "down to 0": (
        loop(
            "add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, -1;",
            before="mov.u32 %r3, 30;", test="setp.ne.s32 %p1, %r3, 0;",
        ),
        "%sw_low1, 116;",
    ),
    "the pointer falls": (
        loop("add.s64 %rd4, %rd4, -16;", "add.s32 %r3, %r3, 4;"), "%sw_low1, -384;",
    ),
    "bytes": (
        loop("add.s64 %rd4, %rd4, 2;", "add.s32 %r3, %r3, 2;").replace(
            "ld.global.f32 %f2, [%rd4];", "ld.global.u8 %r7, [%rd4];\n\tcvt.rn.f32.u32 %f2, %r7;"
        ),
        "%sw_low1, 98;",
    ),
    "the pointer grows behind the comparison": (
        loop("add.s32 %r3, %r3, 1;", test="setp.ne.s32 %p1, %r3, 9;\nadd.s64 %rd4, %rd4, 4;"),
        "%sw_low1, 32;",
    ),
    "the result is asked for before": (
        loop("@!%p1 mov.f32 %f1, %f2;", "add.s64 %rd4, %rd4, 4;", "@%p1 add.f32 %f1, %f1, %f2;",
             "add.s32 %r3, %r3, 1;", before="mov.u32 %r3, 0;\nsetp.eq.s32 %p1, %r2, 0;"),
        "%sw_low1, 400;",
    ),
    "until they are equal": (
        loop("add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;", test="setp.eq.s32 %p1, %r3, 100;")
        .replace("@%p1 bra", "@!%p1 bra"),
        "%sw_low1, 392;",
    ),
    "once": (loop("add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 100;"), None),
    "set on two ways": (
        loop(
            "add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;",
            before="setp.eq.s32 %p2, %r2, 0;\n@%p2 bra ODD;\nmov.u32 %r3, 0;\nbra.uni LOOP0;\n"
            "ODD:\nadd.s64 %rd4, %rd4, 8;\nmov.u32 %r3, 0;\nLOOP0:",
        ),
        "%sw_low1, 396;",
    ),
    "around 0": (
        loop(
            "add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;",
            before="mov.u32 %r3, -7;", test="setp.ne.s32 %p1, %r3, 5;",
        ),
        "%sw_low1, 44;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_changed_is_the_same(name: str) -> None:
    """The right bytes ahead, proved, and the same when it is run."""
    text, distance = CHANGED[name]
    result = rewritten(STRENGTH, text)
    if distance is None:
        assert result.text == text
        return
    assert distance in result.text, reasons(result)
    assert isinstance(ran(text), bytes)
    assert ran(result.text) == ran(text)


# ---------------------------------------------------------------- what is left alone

LEFT = {
    "counted behind the comparison": loop(
        "add.s64 %rd4, %rd4, 4;", test="setp.ne.s32 %p1, %r3, 20;\nadd.s32 %r3, %r3, 1;"
    ),
    "the counter is stored": (
        loop("add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;", after="st.global.u32 [%rd5], %r3;")
    ),
    "the counter is added up": (
        loop("add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;", "add.s32 %r5, %r5, %r3;",
             after="st.global.u32 [%rd5], %r5;")
    ),
    "the end is not known": (
        loop("add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;", test="setp.ne.s32 %p1, %r3, %r1;")
    ),
    "the start is not known": (
        loop("add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;", before="and.b32 %r3, %r1, -2;")
    ),
    "two starts": (
        loop(
            "add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;",
            before="mov.u32 %r3, 0;\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra LOOP0;\nmov.u32 %r3, 2;\n"
            "LOOP0:",
        )
    ),
    "a start under a guard": (
        loop(
            "add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;",
            before="setp.eq.s32 %p2, %r2, 0;\nmov.u32 %r3, 0;\n@%p2 mov.u32 %r3, 2;",
        )
    ),
    "steps over the end": (
        loop("add.s64 %rd4, %rd4, 12;", "add.s32 %r3, %r3, 3;")
    ),
    "the end is never met": (
        loop("add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 2;", test="setp.ne.s32 %p1, %r3, 99;")
    ),
    "the pointer goes round": (
        # 2^30 iterations of 4 bytes: 32 bits of the pointer come back to where they were
        loop("add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;",
             test="setp.ne.s32 %p1, %r3, 1073741825;")
    ),
    "not in step": (
        loop("add.s64 %rd4, %rd4, 12;", "add.s32 %r3, %r3, 1;")
    ),
    "a step that differs": (
        loop("@%p2 add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;")
    ),
    "an order": (
        loop("add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;", test="setp.lt.s32 %p1, %r3, 100;")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name: str) -> None:
    result = rewritten(STRENGTH, LEFT[name])
    assert result.text == LEFT[name]
    assert reasons(result) == [NO_INDEX]


def test_auto_looks_at_short_loops_only() -> None:
    """One of more than twenty instructions is no gain of five percent."""
    body = ["add.f32 %f1, %f1, %f2;"] * 20
    long = loop(*body, "add.s64 %rd4, %rd4, 8;", "add.s32 %r3, %r3, 2;")
    for text, seen in ((UP, True), (long, False)):
        cfg = build(parse(text).kernels[0].body)
        (inner,) = cfg.loops.values()
        assert (ending_comparison(cfg, inner, short=True) is not None) is seen
        assert ending_comparison(cfg, inner, short=False) is not None


# ---------------------------------------------------------------- mutants

STOP = "%sw_low1, 392;"
MUTANTS = {
    "an iteration too few": (STOP, "%sw_low1, 384;"),
    "an iteration too many": (STOP, "%sw_low1, 400;"),
    "never": (STOP, "%sw_low1, 393;"),
    "the contrary": ("setp.ne.s32 %p1, %sw_low2", "setp.eq.s32 %p1, %sw_low2"),
    "less than": ("setp.ne.s32 %p1, %sw_low2", "setp.lt.u32 %p1, %sw_low2"),
    "as it was before": ("cvt.u32.u64 %sw_low2, %rd4;", "mov.b32 %sw_low2, %sw_low1;"),
    "another pointer": ("cvt.u32.u64 %sw_low2, %rd4;", "cvt.u32.u64 %sw_low2, %rd5;"),
    "a start of another pointer": ("cvt.u32.u64 %sw_low1, %rd4;", "cvt.u32.u64 %sw_low1, %rd5;"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str) -> None:
    """Found by the check, given the same claims, and by running."""
    new = rewritten(STRENGTH, UP).text
    right, wrong = MUTANTS[name]
    mutant = new.replace(right, wrong)
    assert mutant != new
    claims = claims_of(STRENGTH, UP)
    assert is_proved(UP, new, claims)
    assert not is_proved(UP, mutant, claims)
    assert ran(mutant) != ran(UP)


def test_claims_that_are_not_kept_prove_nothing() -> None:
    """A counter that is not on its way to its end: true as the loop begins, and not later."""
    new = rewritten(STRENGTH, UP).text
    in_step, stops = claims_of(STRENGTH, UP)
    assert in_step.relation == "true"
    for wrong in (
        in_step.code.replace("left, 98;", "left, 96;"),
        in_step.code.replace("rest, %sw_claim_left, 1;", "rest, %sw_claim_left, 3;"),
    ):
        assert wrong != in_step.code
        assert not is_proved(UP, new, [replace(in_step, code=wrong), stops])
    assert not is_proved(UP, new, [stops])


def test_a_pointer_that_comes_there_earlier_is_refused_by_the_check() -> None:
    """2^30 iterations of 4 bytes: by then the low bits of the pointer have been the same before."""
    small = loop("add.s64 %rd4, %rd4, 4;", "add.s32 %r3, %r3, 1;")
    new, claims = rewritten(STRENGTH, small).text, claims_of(STRENGTH, small)
    far = "1073741825"
    assert is_proved(small, new, claims)
    long, mutant = small.replace("%r3, 100;", f"%r3, {far};"), new.replace("396;", "0;")
    wide = [replace(c, code=c.code.replace("100,", f"{far},").replace("99;", "1073741824;"))
            for c in claims]  # fmt: skip
    assert wide != claims and mutant != new
    assert not is_proved(long, mutant, wide)
