"""Memory spaces: generic accesses name the space in which they are known to lie."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME, PARAMETERS_ARE_GLOBAL
from ptxsw.rewrites.memory_spaces import _NOT_KNOWN
from ptxsw.simt import launch
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, new_lines, reasons, rewritten


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


# ---------------------------------------------------------------- one of several pointers

TILES = """
    .shared .align 4 .b8 a[2048];
    .shared .align 4 .b8 b[2048];
    mov.u64 %rd10, a;
    cvta.shared.u64 %rd11, %rd10;
    mov.u64 %rd12, b;
    cvta.shared.u64 %rd13, %rd12;
    setp.lt.u32 %p1, %r2, 7;
    ld.global.f32 %f1, [%rd4];
"""
RAW = "ld.param.u64 %rd11, [in];\nld.param.u64 %rd13, [out];\nsetp.lt.u32 %p1, %r2, 7;\n"
CHOSEN = "selp.b64 %rd15, %rd11, %rd13, %p1;\n"
MET = """
    @%p1 bra ONE;
    add.s64 %rd15, %rd13, 8;
    bra MET;
    ONE:
    mov.b64 %rd15, %rd11;
    MET:
"""
USED = """
    add.s64 %rd16, %rd15, %rd3;
    st.f32 [%rd16], %f1;
    ld.f32 %f2, [%rd16];
    st.global.f32 [%rd5], %f2;
"""
MOVED = """
    add.s64 %rd16, %rd15, %rd3;
    mov.u32 %r5, 0;
    LOOP:
    st.f32 [%rd16], %f1;
    ld.f32 %f2, [%rd16];
    st.global.f32 [%rd5], %f2;
    add.f32 %f1, %f1, %f2;
    add.s64 %rd16, %rd16, 512;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 3;
    @%p2 bra LOOP;
"""
SWAPPED = """
    mov.u32 %r5, 0;
    LOOP:
    add.s64 %rd16, %rd11, %rd3;
    st.f32 [%rd16], %f1;
    ld.f32 %f2, [%rd16];
    add.f32 %f1, %f1, %f2;
    mov.b64 %rd18, %rd11;
    mov.b64 %rd11, %rd13;
    mov.b64 %rd13, %rd18;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 3;
    @%p2 bra LOOP;
    st.global.f32 [%rd5], %f2;
"""
FORMS = {
    "chosen": CHOSEN + USED,
    "met": MET + USED,
    "chosen and moved": CHOSEN + MOVED,
    "met and moved": MET + MOVED,
    "swapped": SWAPPED,
}


@pytest.mark.parametrize("form", FORMS)
def test_one_of_several_arrays_of_one_space(form: str) -> None:
    """The conversion stands at the access; the text does the same, and the proof follows it."""
    text = kernel(TILES + FORMS[form])
    new = rewritten("memory-spaces", text).text
    assert new.count("st.shared.f32") == new.count("ld.shared.f32") == 1, form
    data = np.arange(1, 65, dtype="f8").view("f4").copy()
    texts = (
        bytes(launch(parsed(t), "k", 1, 64, [data, data, 0]).buffers[1].tobytes())
        for t in (text, new)
    )
    assert len(set(texts)) == 1, form


@pytest.mark.parametrize("form", FORMS)
def test_one_of_several_parameters(form: str) -> None:
    text = kernel(RAW + FORMS[form])
    result = rewritten("memory-spaces", text)
    assert new_lines(text, result)[0].startswith("st.global.f32 [%rd16]"), reasons(result)
    (entry, *_) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == (PARAMETERS_ARE_GLOBAL,)
    assert rewritten(
        "memory-spaces", text, assume=DEFAULT_ASSUME - {PARAMETERS_ARE_GLOBAL}
    ).text == text  # fmt: skip


def test_a_stride_that_is_taken_off() -> None:
    """In the sum of the address a parameter stands with a minus sign, and is no pointer there."""
    text = kernel("""
        ld.param.u64 %rd11, [in];
        ld.param.u64 %rd12, [out];
        cvt.u64.u32 %rd13, %r2;
        add.s64 %rd14, %rd13, -1;
        mul.lo.s64 %rd15, %rd14, %rd12;
        add.s64 %rd16, %rd11, %rd15;
        st.f32 [%rd16], %f1;
    """)
    result = rewritten("memory-spaces", text)
    assert new_lines(text, result) == ["st.global.f32 [%rd16], %f1;"], reasons(result)
    assert not is_proved(text, result.text.replace("st.global", "st.shared"))


MIXED = TILES.replace("cvta.shared.u64 %rd13, %rd12", "ld.param.u64 %rd13, [in]")
LOADED = TILES.replace("cvta.shared.u64 %rd13, %rd12", "ld.global.u64 %rd13, [%rd4]")


@pytest.mark.parametrize("pointers", [MIXED, LOADED])
@pytest.mark.parametrize("form", FORMS)
def test_one_of_several_spaces_stays(form: str, pointers: str) -> None:
    text = kernel(pointers + FORMS[form])
    result = rewritten("memory-spaces", text)
    assert result.text == text
    assert set(reasons(result)) == {_NOT_KNOWN}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("ld.shared.f32 %f2", "ld.global.f32 %f2"),
        ("st.shared.f32", "st.local.f32"),
        ("cvta.to.shared.u64 %sw_shared1, %rd16", "mov.b64 %sw_shared1, %rd16"),
        ("cvta.to.shared.u64 %sw_shared1, %rd16", "cvta.to.shared.u64 %sw_shared1, %rd11"),
        ("st.shared.f32 [%sw_shared1]", "st.shared.f32 [%sw_shared1+4]"),
    ],
)
def test_what_differs_is_not_proved(form: str, right: str, wrong: str) -> None:
    text = kernel(TILES + FORMS[form])
    new = rewritten("memory-spaces", text).text
    assert right in new, form
    assert is_proved(text, new)
    assert not is_proved(text, new.replace(right, wrong)), form


def test_a_space_that_only_the_second_text_knows_is_not_proved() -> None:
    """Where a pointer may lead elsewhere, naming its space is wrong."""
    for form in FORMS.values():
        text = kernel(MIXED + form)
        for space in ("shared", "global"):
            assert not is_proved(text, text.replace("st.f32", f"st.{space}.f32"))


# ---------------------------------------------------------------- fields of structures

STRUCT = kernel("{body}").replace(".param .u32 n)", ".param .u32 n, .param .align 8 .b8 s[32])")


@pytest.mark.parametrize(
    "body",
    [
        "ld.param.u64 %rd11, [s+8];\nst.f32 [%rd11], %f1;",
        "ld.param.v2.u64 {%rd11, %rd12}, [s+16];\nst.f32 [%rd12+4], %f1;",
        "ld.param.u64 %rd11, [s];\nld.param.u64 %rd13, [s+24];\nsetp.lt.u32 %p1, %r2, 7;\n"
        + CHOSEN + MOVED,
    ],
)  # fmt: skip
def test_fields_of_a_parameter_are_parameters(body: str) -> None:
    text = STRUCT.replace("{body}", body)
    result = rewritten("memory-spaces", text)
    assert "st.global.f32" in new_lines(text, result)[0], reasons(result)
    (entry, *_) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == (PARAMETERS_ARE_GLOBAL,)


@pytest.mark.parametrize(
    "body",
    [
        "ld.param.u64 %rd11, [s+4];\nst.f32 [%rd11], %f1;",  # across two fields
        "ld.param.u32 %r5, [s+8];\ncvt.u64.u32 %rd11, %r5;\nst.f32 [%rd11], %f1;",
        "ld.param.v2.u32 {%r5, %r6}, [s+8];\nmov.b64 %rd11, {%r5, %r6};\nst.f32 [%rd11], %f1;",
    ],
)
def test_parts_of_fields_are_no_pointers(body: str) -> None:
    text = STRUCT.replace("{body}", body)
    result = rewritten("memory-spaces", text)
    assert result.text == text
    assert reasons(result) == [_NOT_KNOWN]
