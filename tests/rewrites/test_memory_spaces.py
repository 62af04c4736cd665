"""Memory spaces: generic accesses name the space in which they are known to lie."""

from __future__ import annotations

import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME, PARAMETERS_ARE_GLOBAL
from tests.rewrites.pair import kernel, new_lines, reasons, rewritten


def made(body: str, **options: object) -> list[str]:
    text = kernel(body)
    return new_lines(text, rewritten("memory-spaces", text, **options))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Behind cvta.to.global the space is known.
        ("ld.f32 %f1, [%rd4];", "ld.global.f32 %f1, [%rd4];"),
        ("@%p1 st.f32 [%rd5+4], %f1;", "@%p1 st.global.f32 [%rd5+4], %f1;"),
        ("ld.v2.f32 {%f1, %f2}, [%rd4];", "ld.global.v2.f32 {%f1, %f2}, [%rd4];"),
        ("atom.add.u32 %r3, [%rd5], %r2;", "atom.global.add.u32 %r3, [%rd5], %r2;"),
        (
            "atom.relaxed.gpu.add.u32 %r3, [%rd5], %r2;",
            "atom.relaxed.gpu.global.add.u32 %r3, [%rd5], %r2;",
        ),
        ("red.add.f32 [%rd5], %f1;", "red.global.add.f32 [%rd5], %f1;"),
    ],
)
def test_the_space_is_named(before: str, after: str) -> None:
    assert made(before) == [after]


def test_a_parameter_points_to_global_memory_by_assumption() -> None:
    body = "ld.param.u64 %rd6, [in];\nadd.s64 %rd6, %rd6, %rd3;\nld.f32 %f1, [%rd6];"
    text = kernel(body)
    result = rewritten("memory-spaces", text)
    assert new_lines(text, result) == ["ld.global.f32 %f1, [%rd6];"]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == (PARAMETERS_ARE_GLOBAL,)
    assert dict(entry.detail) == {"space": "global"}
    assert made(body, assume=DEFAULT_ASSUME - {PARAMETERS_ARE_GLOBAL}) == []


def test_shared_addresses_are_converted_once_in_a_block() -> None:
    body = """
        .shared .align 4 .b8 tile[4096];
        mov.u64 %rd6, tile;
        cvta.shared.u64 %rd7, %rd6;
        add.s64 %rd8, %rd7, %rd3;
        ld.global.f32 %f1, [%rd4];
        st.f32 [%rd8], %f1;
        ld.f32 %f2, [%rd8+4];
        st.global.f32 [%rd5], %f2;
    """
    assert made(body) == [
        "cvta.to.shared.u64 %sw_shared1, %rd8;",
        "st.shared.f32 [%sw_shared1], %f1;",
        "ld.shared.f32 %f2, [%sw_shared1+4];",
    ]


def test_nothing_is_converted_where_nothing_gains() -> None:
    text = kernel("""
        .shared .align 4 .b8 tile[4096];
        mov.u64 %rd6, tile;
        cvta.shared.u64 %rd7, %rd6;
        st.f32 [%rd7], %f1;
    """)
    result = rewritten("memory-spaces", text)
    assert result.text == text
    assert reasons(result) == [
        "it lies in shared memory, but no other rewrite would gain from naming it"
    ]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("ld.global.u64 %rd6, [%rd4];\nld.f32 %f1, [%rd6];", "a pointer from memory"),
        ("ld.volatile.f32 %f1, [%rd4];", "volatile"),
        ("ld.acquire.gpu.f32 %f1, [%rd4];", "ordered"),
        (
            "ld.param.u64 %rd6, [in];\nld.global.u64 %rd7, [%rd4];\nadd.s64 %rd8, %rd6, %rd7;\n"
            "ld.f32 %f1, [%rd8];",
            "the parameter may be an offset into what was loaded",
        ),
        (
            "ld.param.u64 %rd6, [in];\nld.global.u64 %rd7, [%rd4];\n"
            "selp.b64 %rd9, %rd7, %rd4, %p1;\nadd.s64 %rd8, %rd6, %rd9;\nld.f32 %f1, [%rd8];",
            "one of two pointers",
        ),
    ],
)
def test_what_is_not_known_stays(body: str, why: str) -> None:
    assert made(body) == [], why
