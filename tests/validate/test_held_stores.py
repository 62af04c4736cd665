"""A register that was stored is what a later load of the bytes gives, in loops behind it, too: as
long as nobody has written them since, and neither the register nor the address is another."""

from __future__ import annotations

import pytest

from benchmarks.programs.program import HERE
from ptxsw.driver.pipeline import Options, optimize
from tests.rewrites.pair import is_proved, kernel

STORE, LOAD, MOVE = (
    "st.global.f32 [%rd5], %f9;",
    "ld.global.f32 %f1, [%rd5];",
    "mov.b32 %f1, %f9;",
)


def text(store: str = STORE, before: str = "", load: str = LOAD, after: str = "") -> str:
    """A loop behind a store, with lines before and in it."""
    return kernel(f"""
        ld.global.f32 %f9, [%rd4];
        mov.f32 %f3, 0f00000000;
        mov.f32 %f8, 0f3F800000;
        mov.u32 %r3, 0;
        {store}
        {before}
        LOOP:
        {load}
        add.rn.f32 %f3, %f3, %f1;
        {after}
        add.s32 %r3, %r3, 1;
        setp.lt.s32 %p1, %r3, %r1;
        @%p1 bra LOOP;
        st.global.f32 [%rd4+4], %f3;
    """)


def proved(**lines: str) -> bool:
    """May a move of the register stand in place of the load?"""
    old = text(**lines)
    load = lines.get("load", LOAD)
    assert load in old
    return is_proved(old, old.replace(load, MOVE))


def test_nothing_is_written_since() -> None:
    assert proved() and proved(after="ld.global.f32 %f7, [%rd4];")
    assert proved(store="st.global.cs.f32 [%rd5], %f9;")


@pytest.mark.parametrize(
    "line",
    [
        "st.global.f32 [%rd5], %f8;",
        "st.global.f32 [%rd4], %f8;",  # perhaps the same bytes
        "st.global.u8 [%rd5+3], %r3;",
        "atom.global.add.f32 %f7, [%rd5], %f8;",
        "bar.sync 0;",
        "fence.sc.gpu;",
        "add.rn.f32 %f9, %f9, %f8;",
        "add.s64 %rd5, %rd5, 4;",
    ],
)
def test_something_is_written_since(line: str) -> None:
    assert not proved(before=line) and not proved(after=line)


@pytest.mark.parametrize(
    "lines",
    [
        {"store": "st.global.u16 [%rd5], %r3;"},
        {"store": "st.global.f32 [%rd5+4], %f9;"},
        {"store": "@%p2 st.global.f32 [%rd5], %f9;"},
        {"store": "st.global.f64 [%rd5], %rd9;"},
        {"store": "st.volatile.global.f32 [%rd5], %f9;"},
        {"load": "ld.global.f32 %f1, [%rd5+4];"},
        {"load": "ld.volatile.global.f32 %f1, [%rd5];"},
    ],
)
def test_other_bytes(lines: dict[str, str]) -> None:
    assert not proved(**lines)


def test_a_store_before_a_loop_that_loads_what_it_has_stored() -> None:
    """The way back of Thomas' algorithm: its loop loads what the last step has stored."""
    before = (HERE / "ptx" / "thomas.ptx").read_text()
    asked = ("scalar-replacement", "load-elimination")
    (told,) = optimize(before, Options(mode="force", rewrites=asked)).report.kernels
    assert {one.rewrite for one in told.rewrites or ()} == set(asked)


CALL = (
    "{ .param .b32 p0; st.param.f32 [p0], %f8; .param .b32 r0; call.uni (r0), op, (p0);"
    " ld.param.f32 %f9, [r0]; }"
)


def after_a_call(store: str = STORE, then: str = "", taken: str = "") -> str:
    """What a call gives is stored; one of two cases loads it again, by an address of its own."""
    text = kernel(f"""
        mov.f32 %f8, 0f40000000;
        mov.u32 %r3, 0;
        LOOP:
        {CALL}
        {store}
        {then}
        ld.global.u32 %r4, [%rd4+8];
        setp.eq.s32 %p2, %r4, 0;
        @%p2 bra CASE;
        st.global.f32 [%rd5+4], %f8;
        bra.uni END;
        CASE:
        {taken}
        add.s64 %rd6, %rd2, %rd3;
        ld.global.f32 %f1, [%rd6];
        add.rn.f32 %f1, %f1, %f8;
        st.global.f32 [%rd6], %f1;
        END:
        add.s32 %r3, %r3, 1;
        setp.lt.s32 %p1, %r3, %r1;
        @%p1 bra LOOP;
    """)
    return text.replace(
        ".visible", ".extern .func (.param .b32 r) op (.param .b32 a);\n.visible", 1
    )


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ({}, True),
        ({"then": "ld.global.f32 %f7, [%rd4];"}, True),
        ({"store": "st.global.f32 [%rd5], %f8;"}, False),
        ({"store": "st.global.f32 [%rd5+4], %f9;"}, False),
        ({"store": "@%p1 st.global.f32 [%rd5], %f9;"}, False),
        ({"then": "st.global.f32 [%rd4], %f8;"}, False),
        ({"then": "bar.sync 0;"}, False),
        ({"then": CALL}, False),
        ({"then": "add.rn.f32 %f9, %f9, %f8;"}, False),
        ({"then": "add.s64 %rd2, %rd2, 8;"}, False),
        ({"taken": "st.global.f32 [%rd4], %f8;"}, False),
        ({"taken": "mov.f32 %f9, %f8;"}, False),
    ],
)
def test_what_a_call_gave_and_was_stored(lines: dict[str, str], right: bool) -> None:
    """Its value is said in words of the first text; that memory holds it is known besides."""
    old = after_a_call(**lines)
    assert is_proved(old, old.replace("ld.global.f32 %f1, [%rd6];", "mov.b32 %f1, %f9;")) is right
