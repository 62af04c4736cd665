"""Vectorize: accesses of one thread to adjacent addresses become one of a vector."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.parser import parse
from ptxsw.pipeline import Options, optimize
from ptxsw.simt import launch
from tests.rewrites.pair import kernel, lines, new_lines, reasons, rewritten

WIDE = """
    mul.wide.u32 %rd3, %r2, 16;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
"""
LOADS = "\n".join(f"ld.global.f32 %f{n + 1}, [%rd4+{4 * n}];" for n in range(4))
STORES = "\n".join(f"st.global.f32 [%rd5+{4 * n}], %f{n + 1};" for n in range(4))
COPY = WIDE + LOADS + "\nadd.f32 %f1, %f1, %f4;\n" + STORES


def made(body: str) -> list[str]:
    text = kernel(body)
    return new_lines(text, rewritten("vectorize", text))


def test_loads_are_made_where_the_first_stands() -> None:
    body = WIDE + "ld.global.f32 %f1, [%rd4+4];\nadd.f32 %f3, %f1, %f1;\nld.global.f32 %f2, [%rd4];"
    assert made(body + "\nst.global.f32 [%rd5], %f2;") == [
        "ld.param.u64 %sw_base1, [in];",
        "and.b64 %sw_rest1, %sw_base1, 7;",
        "setp.ne.s64 %sw_misaligned1, %sw_rest1, 0;",
        "@%sw_misaligned1 bra $sw_narrow1;",
        "ld.global.v2.f32 {%sw_element1, %sw_element2}, [%rd4];",
        "$sw_wide1:",
        "mov.b32 %f1, %sw_element2;",
        "mov.b32 %f2, %sw_element1;",
        "$sw_narrow1:",
        "ld.global.f32 %sw_element1, [%rd4];",
        "ld.global.f32 %sw_element2, [%rd4+4];",
        "bra $sw_wide1;",
    ]


def test_stores_are_made_where_the_last_stands() -> None:
    found = made(
        WIDE + "st.global.u32 [%rd5+4], %r1;\nadd.s32 %r1, %r1, 1;\nst.global.u32 [%rd5], 7;"
    )
    wide = found.index("st.global.v2.u32 [%rd5], {%sw_element1, %sw_element2};")
    assert found.index("mov.b32 %sw_element2, %r1;") < wide
    assert found.index("mov.b32 %sw_element1, 7;") < wide


def test_alignment_that_is_declared_needs_no_test() -> None:
    text = kernel(WIDE + LOADS + "\nst.global.f32 [%rd5], %f1;")
    text = text.replace(".param .u64 in,", ".param .u64 .ptr .global .align 16 in,")
    found = new_lines(text, rewritten("vectorize", text))
    assert found[0] == (
        "ld.global.v4.f32 {%sw_element1, %sw_element2, %sw_element3, %sw_element4}, [%rd4];"
    )
    assert not any("bra" in line for line in found)


@pytest.mark.parametrize(
    ("kind", "register", "size", "vector"),
    [
        ("u8", "%r", 1, "v4"),
        ("u16", "%r", 2, "v4"),
        ("u64", "%rd", 8, "v2"),
        ("f32", "%f", 4, "v4"),
    ],
)
def test_elements_of_all_sizes(kind: str, register: str, size: int, vector: str) -> None:
    numbers = range(10, 14 if vector == "v4" else 12)
    loads = [f"ld.global.{kind} {register}{n}, [%rd4+{size * (n - 10)}];" for n in numbers]
    found = made(WIDE + "\n".join(loads) + f"\nst.global.{kind} [%rd5], {register}10;")
    assert any(line.startswith(f"ld.global.{vector}.{kind} {{") for line in found), found


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # A store of the same array between, whose index is another.
        (
            WIDE + "ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\n"
            "ld.global.f32 %f2, [%rd4+4];\nst.global.f32 [%rd2+512], %f2;",
            "st.global.f32 (line 23) may write these bytes",
        ),
        (
            WIDE + "ld.global.f32 %f1, [%rd4];\nmembar.gl;\nld.global.f32 %f2, [%rd4+4];\n"
            "add.f32 %f1, %f1, %f2;\nst.global.f32 [%rd5], %f1;",
            "membar.gl (line 23) orders memory in between",
        ),
        (
            WIDE + "st.global.u32 [%rd5], %r1;\nld.global.u32 %r4, [%rd4];\n"
            "st.global.u32 [%rd5+4], %r4;",
            "ld.global.u32 (line 23) may read these bytes",
        ),
    ],
)
def test_what_stands_between_forbids_it(body: str, reason: str) -> None:
    text = kernel(body)
    result = rewritten("vectorize", text)
    assert result.text == text
    assert reasons(result) == [reason]


@pytest.mark.parametrize(
    "body",
    [
        WIDE + "ld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+8];",  # a gap
        WIDE + "ld.volatile.global.f32 %f1, [%rd4];\nld.volatile.global.f32 %f2, [%rd4+4];",
        WIDE + "@%p1 ld.global.f32 %f1, [%rd4];\n@%p1 ld.global.f32 %f2, [%rd4+4];",
        WIDE + "ld.global.f32 %f1, [%rd4];\nbar.sync 0;\nld.global.f32 %f2, [%rd4+4];",
        # Rows of 12 bytes: aligned for one thread in four.
        "mul.wide.u32 %rd3, %r2, 12;\nadd.s64 %rd4, %rd1, %rd3;\n" + LOADS,
        WIDE + "ld.global.f32 %f1, [%rd4+4];\nld.global.f32 %f2, [%rd4+8];",  # across 8 bytes
        # Two stores to one place.
        WIDE
        + "st.global.f32 [%rd5], %f1;\nst.global.f32 [%rd5], %f2;\nst.global.f32 [%rd5+4], %f1;",
    ],
)
def test_what_stays(body: str) -> None:
    assert made(body) == []


@pytest.mark.parametrize("threads", [1, 7, 32, 48])
@pytest.mark.parametrize("source", [0, 4, 8, 12, 16])
@pytest.mark.parametrize("target", [0, 4, 16])
def test_results_agree_wherever_the_buffers_begin(threads: int, source: int, target: int) -> None:
    """Misaligned ones, and those that end with the last element: no byte beyond is touched."""
    text = kernel(COPY)
    new = rewritten("vectorize", text).text
    assert "v4" in new
    assert _run(text, threads, source, target) == _run(new, threads, source, target)


@pytest.mark.parametrize("shift", [-16, -4, 0, 4, 16])
def test_results_agree_where_source_and_target_overlap(shift: int) -> None:
    text = kernel(COPY)
    new = rewritten("vectorize", text).text
    outcomes = [_run(one, 1, 64, 64 + shift, shared=True) for one in (text, new)]
    assert outcomes[0] == outcomes[1]


def _run(text: str, threads: int, source: int, target: int, *, shared: bool = False) -> bytes:
    """What is in memory after a launch, buffers of exactly what is read and written."""
    module = parse(text)
    size = 16 * threads
    values = np.arange(1, 4 * threads + 1, dtype="f4")
    where = 1 << 44
    first = np.zeros(source + size + (64 if shared else 0), "u1")
    first[source : source + size] = values.view("u1")
    memory = {where: first}
    other = where
    if not shared:
        other = where + (1 << 16)
        memory[other] = np.zeros(target + size, "u1")
    result = launch(module, "k", 1, threads, [where + source, other + target, 0], memory=memory)
    return b"".join(bytes(result.memory[at].tobytes()) for at in sorted(memory))


def test_auto_makes_what_takes_fewer_instructions_and_wavefronts() -> None:
    text = kernel(COPY)
    result = optimize(text, Options(rewrites=("vectorize",)))
    assert "ld.global.v4.f32" in result.text and "st.global.v4.f32" in result.text
    (entry, other) = result.report.kernels[0].rewrites or ()
    assert (entry.rewrite, entry.proof.status) == ("vectorize", "guarded")
    assert entry.proof.guards == ("in is a multiple of 16",)
    assert other.proof.guards == ("out is a multiple of 16",)
    first = lines(text).index("ld.global.f32 %f1, [%rd4+0];") + 1
    assert entry.detail == {"lines": [first + n for n in range(4)], "bytes": 16}
