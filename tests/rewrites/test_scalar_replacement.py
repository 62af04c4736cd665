"""Scalar replacement: what a loop loads or stores again in every iteration stays in registers."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.machine_loops import count, inner_loops
from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.cost import sass
from ptxsw.driver import checked_texts
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.rewrites.base import Attempt
from ptxsw.simt import RunError, launch
from ptxsw.toolchain.find import real_ptxas
from ptxsw.validate import Proved
from tests.parsed import parsed
from tests.rewrites.pair import (
    claims_of,
    is_proved,
    kernel,
    lines,
    new_lines,
    outcome,
    reasons,
    rewritten,
)

PROGRAMS = Path(__file__).parent / "programs" / "carried.ptx"
NAME = "scalar-replacement"
WHERE, SIZE = 1 << 44, 1 << 13

ROTATED = """
    mov.u32 %r3, 0;
LOOP:
    ld.global.nc.f32 %f1, [%rd4];
    ld.global.nc.f32 %f2, [%rd4+4];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd4, 4;
    add.s64 %rd5, %rd5, 4;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
"""
PROMOTED = """
    mov.u32 %r3, 0;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra END;
LOOP:
    ld.global.nc.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd5];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd4, 4;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    mov.u32 %r3, 7;
END:
"""


def made(text: str, **options: object) -> Result:
    return rewritten(NAME, text, **options)


# ---------------------------------------------------------------- what is written


def test_a_load_of_what_the_iteration_before_has_read_is_a_register() -> None:
    text = kernel(ROTATED)
    assert new_lines(text, made(text)) == [
        "ld.global.nc.f32 %sw_held1, [%rd4];",
        "mov.b32 %f1, %sw_held1;",
        "mov.b32 %sw_held1, %f2;",
    ]


def test_an_address_that_stays_is_loaded_once_and_stored_once() -> None:
    text = kernel(PROMOTED)
    result = made(text)
    assert new_lines(text, result) == [
        "ld.global.f32 %sw_held1, [%rd5];",
        "mov.b32 %f2, %sw_held1;",
        "mov.b32 %sw_held1, %f3;",
        "st.global.f32 [%rd5], %sw_held1;",
    ]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == ("finite-loops", "no-lane-race")
    written = lines(result.text)
    assert written.index("@%p1 bra LOOP;") + 1 == written.index("st.global.f32 [%rd5], %sw_held1;")


def test_a_store_that_comes_first_needs_no_load() -> None:
    text = kernel(PROMOTED.replace("ld.global.f32 %f2, [%rd5];", "mov.f32 %f2, %f1;"))
    assert new_lines(text, made(text)) == [
        "mov.b32 %sw_held1, %f3;",
        "st.global.f32 [%rd5], %sw_held1;",
    ]


TYPES = {  # a register of which type holds an element, and how wide it is
    "f32": ("f32", "%f"), "f64": ("f64", "%fd"), "u8": ("b16", "%h"), "s8": ("b16", "%h"),
    "b16": ("b16", "%h"), "u16": ("b16", "%h"), "s16": ("b16", "%h"), "u32": ("b32", "%r1"),
    "s32": ("b32", "%r1"), "u64": ("b64", "%rd1"), "b64": ("b64", "%rd1"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_every_type_of_element(kind: str, space: str) -> None:
    """An element, and a pair of them, that every iteration loads again while it stores another."""
    register, name = TYPES[kind]
    one, two, three = (f"{name}{n}" for n in (21, 22, 23))
    size = 2 * int(kind[1:]) // 8
    filled = "".join(
        f"st.{space}.u32 [%rd6+{at}], {0x41C43E6D + 0x3039 * at};\n" for at in range(0, 5 * size, 4)
    )
    body = f"""
    .reg .{register} {one}, {two}, {three};
    {filled}
    mov.u32 %r3, 0;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra END;
LOOP:
    ld.{space}.{kind} {one}, [%rd6];
    ld.{space}.v2.{kind} {{{two}, {three}}}, [%rd6+{size}];
    st.{space}.{kind} [%rd6+{2 * size}], {one};
    st.{space}.v2.{kind} [%rd6+{3 * size}], {{{three}, {two}}};
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
END:
    ld.{space}.v2.{kind} {{{two}, {three}}}, [%rd6+{3 * size}];
    st.global.{kind} [%rd5], {two};
    """
    base = "add.s64 %rd6, %rd1, 0;" if space == "global" else "mov.u64 %rd6, room;"
    room = "{\n\t.shared .align 16 .b8 room[256];"
    text = kernel(f"{base}\n{body}").replace("{\n", f"{room}\n", 1)
    result = made(text)
    found = new_lines(text, result)
    assert [line[:3] for line in found if line[:3] in ("ld.", "st.")] == [
        "ld.",
        "ld.",
        "st.",
        "st.",
    ]
    for iterations in (0, 1, 4):
        assert behind(text, 2048, iterations) == behind(result.text, 2048, iterations)


def test_shared_memory_vectors_and_several_exits() -> None:
    body = PROMOTED.replace("global.f32", "shared.v2.f32").replace("global.nc", "shared.nc")
    body = body.replace("ld.shared.nc.f32 %f1, [%rd4];", "ld.shared.f32 %f1, [%r2+64];")
    body = body.replace("%f2, [%rd5]", "{%f2, %f5}, [%r2]").replace(
        "[%rd5], %f3", "[%r2], {%f3, %f5}"
    )
    body = body.replace("add.s64 %rd4", "setp.gt.f32 %p3, %f3, %f5;\n@%p3 bra END;\nadd.s64 %rd4")
    text = kernel(body).replace("{\n\t.reg", "{\n\t.shared .align 16 .b8 room[128];\n\t.reg", 1)
    text = text.replace("mov.u32 %r2, %tid.x;", "mov.u32 %r2, room;")
    assert new_lines(text, made(text)) == [
        "ld.shared.v2.f32 {%sw_held1, %sw_held2}, [%r2];",
        "ld.shared.f32 %sw_held3, [%r2+64];",
        "mov.b32 %f1, %sw_held3;",
        "mov.b32 %f2, %sw_held1;",
        "mov.b32 %f5, %sw_held2;",
        "mov.b32 %sw_held1, %f3;",
        "mov.b32 %sw_held2, %f5;",
        "@%p3 st.shared.v2.f32 [%r2], {%sw_held1, %sw_held2};",
        "st.shared.v2.f32 [%r2], {%sw_held1, %sw_held2};",
    ]


def test_branches_into_the_loop_pass_what_stands_before_it() -> None:
    text = kernel(ROTATED.replace("LOOP:", "@%p2 bra LOOP;\nmov.u32 %r3, 1;\nLOOP:", 1))
    assert new_lines(text, made(text))[:3] == [
        "@%p2 bra $sw_enter1;",
        "$sw_enter1:",
        "ld.global.nc.f32 %sw_held1, [%rd4];",
    ]


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("bar.sync 0;", "bar.sync (line 27) orders memory or waits for other threads"),
        ("membar.gl;", "membar.gl (line 27) orders memory"),
        ("fence.acq_rel.gpu;", "fence.acq_rel.gpu (line 27) orders memory"),
        ("ld.volatile.global.u32 %r9, [%rd1];", "ld.volatile.global.u32 (line 27) orders memory"),
        ("ld.acquire.gpu.global.u32 %r9, [%rd1];", "ld.acquire.gpu.global.u32 (line 27) orders"),
        ("griddepcontrol.wait;", "griddepcontrol.wait (line 27) "),
        ("atom.global.add.u32 %r9, [%rd5], 1;", "atom.global.add.u32 "),
        ("red.global.add.u32 [%rd5], 1;", "red.global.add.u32 "),
        ("call.uni f;", "call.uni (line 28) may call code that accesses these bytes"),
        ("@%p3 ret;", "ret (line 27) may end the thread inside the loop"),
        ("st.global.f32 [%rd6], %f1;", "st.global.f32 at line 27 may write these bytes"),
        ("ld.global.u64 %rd7, [%rd6];", "ld.global.u64 at line 27 may read these bytes"),
        ("@%p3 st.global.f32 [%rd5], %f1;", "st.global.f32 at line 27 may write these bytes"),
    ],
)
def test_what_forbids_it(line: str, reason: str) -> None:
    body = PROMOTED.replace("LOOP:", "LOOP: mov.b64 %rd6, {%r3, %r3};", 1)
    body = body if "%rd6" in line else PROMOTED
    text = kernel(body.replace("add.s64 %rd4", f"{line}\nadd.s64 %rd4"))
    if "call" in line:
        text = text.replace(".visible", ".func f() { ret; }\n.visible", 1)
    result = made(text)
    assert result.text == text
    assert any(found.startswith(reason) for found in reasons(result)), reasons(result)


def test_what_is_not_made_in_every_iteration_stays() -> None:
    body = PROMOTED.replace(
        "st.global.f32 [%rd5], %f3;", "@%p3 bra NEXT;\nst.global.f32 [%rd5], %f3;\nNEXT:"
    )
    text = kernel(body)
    assert made(text).text == text
    # A loop that tests before its first load may make none.
    early = ROTATED.replace("LOOP:\n", "LOOP:\nsetp.ge.u32 %p1, %r3, %r1;\n@%p1 bra END;\n")
    text = kernel(early.replace("@%p1 bra LOOP;", "bra LOOP;\nEND:"))
    assert made(text).text == text


@pytest.mark.parametrize("missing", ["finite-loops", "no-lane-race"])
def test_nobody_says_that_the_loop_ends(missing: str) -> None:
    text = kernel(PROMOTED)
    result = made(text, assume=DEFAULT_ASSUME - {missing})
    assert result.text == text and reasons(result)[0] == f"{missing} is not assumed"


def test_a_store_in_the_way_of_the_next_iteration_is_seen() -> None:
    plain = ROTATED.replace("ld.global.nc", "ld.global")
    text = kernel(plain.replace("[%rd5], %f3", "[%rd4+2], %f3"))
    assert made(text).text == text
    told = (
        "st.global.f32 at line 24 may write these bytes; a test before the loop cannot decide it: "
    )
    assert f"{told}they overlap" in reasons(made(text))
    for other, held in (("[%rd4+-4]", 1), ("[%rd4+8]", 2)):  # what nobody reads again; both loads
        text = kernel(plain.replace("[%rd5], %f3", f"{other}, %f3"))
        assert len(new_lines(text, made(text))) == 3 * held


# ---------------------------------------------------------------- shuffles behind it

ROW = """
    mul.wide.u32 %rd6, %r2, 4;
    add.s64 %rd4, %rd1, %rd6;
    mov.u32 %r3, 0;
LOOP:
    ld.global.nc.f32 %f1, [%rd4];
    ld.global.nc.f32 %f2, [%rd4+4];
    ld.global.nc.f32 %f3, [%rd4+512];
    add.f32 %f4, %f1, %f2;
    add.f32 %f4, %f4, %f3;
    st.global.f32 [%rd5], %f4;
    add.s64 %rd4, %rd4, 512;
    add.s64 %rd5, %rd5, 512;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
"""
"""`a[i+k*n]`, `a[i+1+k*n]` and `a[i+(k+1)*n]`."""
NO_NEIGHBOUR = "no load reads bytes that another lane of the warp has just loaded"
IS_ROTATED = (
    "its source, the load at line 23, is rotated: "
    "a shuffle cannot use a register that a loop carries"
)


def both(body: str, *names: str, **options: object) -> tuple[list[tuple[str, int]], list[str]]:
    """What rewrites make of a loop, and why `shuffle` leaves loads alone."""
    given = Options("force", rewrites=names or None, block=(128, 1, 1), **options)  # type: ignore[arg-type]
    (told,) = optimize(kernel(body), given).report.kernels
    left = [r.reason for r in told.refusals or () if r.rewrite == "shuffle"]
    return [(r.rewrite, r.line) for r in told.rewrites or ()], left


def test_the_report_says_that_the_source_of_a_shuffle_is_rotated() -> None:
    rotated = (NAME, 23)
    assert both(ROW, NAME, "shuffle") == ([rotated], [IS_ROTATED])
    assert both(ROW, NAME) == ([rotated], [])  # nobody asks for shuffles
    assert both(ROW, NAME, "shuffle", scheme="keep")[1] == [NO_NEIGHBOUR]
    assert both(ROW, "shuffle") == ([("shuffle", 24)], [])
    made, left = both(ROW)  # all there are
    assert rotated in made and IS_ROTATED in left


def test_a_row_whose_source_is_loaded_is_shuffled() -> None:
    """The third load takes from the second, which is no register."""
    body = ROW.replace("add.f32 %f4, %f1", "ld.global.nc.f32 %f5, [%rd4+8];\nadd.f32 %f4, %f1")
    made, left = both(body, NAME, "shuffle")
    assert made == [(NAME, 23), ("shuffle", 26)]
    assert left == [IS_ROTATED]
    only = ROW.replace("[%rd4+512]", "[%rd4+516]")  # here the second one is rotated
    made, left = both(only, NAME, "shuffle")
    assert (NAME, 24) in made and left == [NO_NEIGHBOUR]


def test_a_rotation_that_is_taken_back_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check does not prove it: the load stays, and is the source of a shuffle."""
    real = checked_texts.problem

    def problem(made: Attempt, *rest: Any) -> str | None:
        return "not proved" if made.rewrite == NAME else real(made, *rest)

    monkeypatch.setattr(checked_texts, "problem", problem)
    assert both(ROW, NAME, "shuffle") == ([("shuffle", 24)], [])


# ---------------------------------------------------------------- what a store has left


def test_a_load_of_what_the_iteration_before_has_stored_is_a_register() -> None:
    """Each element is the sum of itself and of the one before, which was just stored."""
    plain = ROTATED.replace("ld.global.nc", "ld.global")
    text = kernel(plain.replace("[%rd5], %f3", "[%rd4+4], %f3"))
    assert new_lines(text, made(text)) == [
        "ld.global.f32 %sw_held1, [%rd4];",
        "mov.b32 %f1, %sw_held1;",
        "mov.b32 %sw_held1, %f3;",
    ]
    assert behind(text, 0, 5) == behind(made(text).text, 0, 5)


def test_a_load_behind_a_store_takes_what_was_stored() -> None:
    body = ROTATED.replace("%f2, [%rd4+4]", "%f2, [%rd5]").replace("ld.global.nc", "ld.global")
    body = body.replace("add.s64 %rd4", "ld.global.f32 %f4, [%rd5];\nadd.s64 %rd4", 1)
    text = kernel(body.replace("add.u32 %r3", "st.global.f32 [%rd5+60], %f4;\nadd.u32 %r3", 1))
    assert new_lines(text, made(text)) == ["mov.b32 %f4, %f3;"]
    # Overwritten in between, the register no longer holds it.
    again = text.replace(
        "st.global.f32 [%rd5], %f3;", "st.global.f32 [%rd5], %f3;\nneg.f32 %f3, %f3;"
    )
    assert new_lines(again, made(again)) == ["mov.b32 %sw_held1, %f3;", "mov.b32 %f4, %sw_held1;"]
    for one in (text, again):
        assert behind(one, 2048, 5) == behind(made(one).text, 2048, 5)


def behind(text: str, distance: int, iterations: int) -> bytes:
    """What is in memory behind a launch with two pointers so many bytes apart."""
    memory = {WHERE: np.arange(1, 2049, dtype="f4").view("u1")}
    given = [WHERE + 2048, WHERE + 2048 + distance, iterations]
    done = launch(parsed(text), "k", 1, 8, given, memory=memory)
    return bytes(done.memory[WHERE].tobytes())


# ---------------------------------------------------------------- behind a test at entry

BYTES = """
    mov.u32 %r3, 0;
    mov.u32 %r6, 0;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra END;
LOOP:
    st.global.u8 [%rd4], %r3;
    ld.global.u8 %r5, [%rd5];
    add.u32 %r6, %r6, %r5;
    add.s64 %rd4, %rd4, 1;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    st.global.u8 [%rd5+1024], %r6;
END:
"""


def test_a_test_at_entry_tells_arrays_apart() -> None:
    text = kernel(BYTES)
    result = made(text)
    assert new_lines(text, result) == [
        "ld.param.u64 %sw_shared1, [out];",
        "setp.lt.u64 %sw_apart1, %sw_shared1, 4611686018427387904;",
        "ld.param.u64 %sw_shared2, [in];",
        "setp.lt.and.u64 %sw_apart2, %sw_shared2, 4611686018427387904, %sw_apart1;",
        "ld.param.u32 %sw_shared3, [n];",
        "setp.lt.and.u32 %sw_apart3, %sw_shared3, 1073741824, %sw_apart2;",
        "cvt.u64.u32 %sw_wide1, %sw_shared3;",
        "add.s64 %sw_bound1, %sw_shared2, %sw_wide1;",
        "mov.u32 %sw_shared4, %ntid.x;",
        "cvt.u64.u32 %sw_wide2, %sw_shared4;",
        "mad.lo.s64 %sw_bound2, %sw_wide2, 8, %sw_bound1;",
        "add.s64 %sw_bound3, %sw_bound2, -8;",
        "mad.lo.s64 %sw_bound4, %sw_wide2, 8, %sw_shared1;",
        "add.s64 %sw_bound5, %sw_bound4, -7;",
        "setp.le.s64 %sw_order1, %sw_bound3, %sw_shared1;",
        "setp.le.or.s64 %sw_order2, %sw_bound5, %sw_shared2, %sw_order1;",
        "and.pred %sw_apart4, %sw_apart3, %sw_order2;",
        "@!%sw_apart4 bra $sw_overlap1;",
        "ld.global.u8 %sw_held1, [%rd5];",
        "mov.b32 %r5, %sw_held1;",
        "$sw_overlap1:",
    ]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == ()  # nobody has to vouch for other kernels
    for distance in (0, 1, -1, 4, 7, 8, 60, -64, 512):
        for iterations in (0, 1, 5):
            assert behind(text, 4 * distance, iterations) == behind(
                result.text, 4 * distance, iterations
            )


def test_what_asks_for_lanes_stands_once() -> None:
    text = kernel(BYTES.replace("END:", "activemask.b32 %r7;\nEND:"))
    assert made(text).text == text
    why = "it would need a branch, and the kernel asks which lanes are active"
    told = (
        f"st.global.u8 at line 24 may write these bytes; a test before the loop cannot decide it: "
        f"{why}"
    )
    assert told in reasons(made(text))


def _short(text: str, which: int) -> str:
    """The end of one of the ranges is a byte short."""
    found = re.search(rf"add\.s64 %sw_bound{which}, %sw_bound\d, (-\d);", text)
    assert found is not None
    return text.replace(found[0], found[0].replace(found[1], str(int(found[1]) - 1)))


TESTS: dict[str, Callable[[str], str]] = {
    "first end short": lambda text: _short(text, 3),
    "second end short": lambda text: _short(text, 5),
    "inverted": lambda text: text.replace("@!%sw_apart4", "@%sw_apart4"),
    "no test": lambda text: text.replace("@!%sw_apart4 bra $sw_overlap1;", ""),
    "or for and": lambda text: text.replace("and.pred %sw_apart4", "or.pred %sw_apart4"),
    "test of each thread": lambda text: text.replace(
        "mov.u32 %sw_shared4, %ntid.x", "mov.u32 %sw_shared4, %tid.x"
    ),
}


@pytest.mark.parametrize("mutant", TESTS)
def test_validate_and_a_run_each_refuse_a_wrong_test(mutant: str) -> None:
    text = kernel(BYTES)
    good, claims = made(text).text, claims_of(NAME, text)
    changed = TESTS[mutant](good)
    assert changed != good
    for one, right in ((good, True), (changed, False)):
        answer = outcome(text, one, claims)
        assert isinstance(answer, Proved) is right, answer

    def results(text: str) -> list[bytes]:
        found = []
        for distance, threads in ((0, 1), (3, 1), (19, 3)):  # the first byte is shared, the last
            memory = {WHERE: np.arange(64, 192, dtype="u1").repeat(64)}
            given = [WHERE + 512, WHERE + 512 + distance, 4]
            done = launch(parsed(text), "k", 1, threads, given, memory=memory)
            found.append(bytes(done.memory[WHERE].tobytes()))
        return found

    expected = results(text)
    assert results(good) == expected != results(changed)


def test_a_product_that_a_sum_would_read_from_a_register_is_loaded() -> None:
    """ptxas may fuse the two then, and cannot where the sum reads memory."""
    body = ROTATED.replace("st.global.f32 [%rd5], %f3;", "mul.f32 %f3, %f3, 0f3E800000;\n    "
                           "st.global.f32 [%rd4+4], %f3;").replace(".nc", "")  # fmt: skip
    text = kernel(body)
    assert made(text).text == text
    [reason] = reasons(made(text))
    assert reason.startswith("the new PTX could not be proved equal: memory may differ")
    assert "ptxas may fuse products and sums of one text that it has to round apart in" in reason
    rounded = kernel(body.replace("mul.f32", "mul.rn.f32").replace("add.f32", "add.rn.f32"))
    assert made(rounded).text != rounded


# ---------------------------------------------------------------- real programs


@cache
def program(name: str) -> str:
    text = PROGRAMS.read_text()
    start = text.index(f".visible .entry {name}(")
    return text[: text.index(".visible")] + text[start : text.index("\n}\n", start) + 3]


@cache
def replaced(name: str) -> str:
    """With `read-only-loads` before it, which tests once where arrays lie, but for two sums in one
    array: they are put off by tests of their own."""
    rewrites = (NAME,) if name == "two_sums" else ("read-only-loads", NAME)
    options = Options(mode="force", rewrites=rewrites)
    return optimize(program(name), options).text


ARGUMENTS: dict[str, tuple[int, tuple[int, ...], int, int | tuple[int, int]]] = {
    # name: bytes of an element, numbers, blocks, threads of each
    "z_march": (4, (6, 3, 9), 1, (8, 4)),
    "float_sums": (4, (20, 5), 2, 16),
    "byte_sums": (1, (20, 7), 2, 16),
    "downwards": (8, (5,), 1, 8),
    "two_sums": (4, (5, 6), 1, 1),
    "forces": (4, (20, 6), 2, 16),
}
SLOWLY = pytest.param("forces", marks=pytest.mark.slow)
NAMES = [name for name in ARGUMENTS if name != "forces"] + [SLOWLY]


def run(text: str, name: str, distance: int, numbers: tuple[int, ...]) -> bytes:
    """What is in memory behind a launch with two pointers so many bytes apart."""
    size, _, grid, block = ARGUMENTS[name]
    kind = {1: "u1", 4: "f4", 8: "f8"}[size]
    memory = (np.arange(SIZE // size) % 13).astype(kind).view("u1")
    first = WHERE + SIZE // 2
    arguments = [first, first + distance, *(n & 0xFFFFFFFF for n in numbers)]
    result = launch(parsed(text), name, grid, block, arguments, memory={WHERE: memory})
    return bytes(result.memory[WHERE].tobytes())


@pytest.mark.parametrize("name", NAMES)
def test_results_agree_wherever_the_arrays_lie(name: str) -> None:
    size, numbers, *_ = ARGUMENTS[name]
    assert "_held1" in replaced(name)
    for elements in (0, 1, -1, 20, 300, -300):
        old = run(program(name), name, size * elements, numbers)
        assert old == run(replaced(name), name, size * elements, numbers), elements


@pytest.mark.parametrize("name", NAMES)
def test_results_agree_for_few_iterations_and_negative_numbers(name: str) -> None:
    *most, _ = ARGUMENTS[name][1]
    for last in (-3, 0, 1, 2, 3, 4):
        numbers = (*most, last)
        for distance in (0, 1600):
            old = run(program(name), name, distance, numbers)
            assert old == run(replaced(name), name, distance, numbers), numbers


@pytest.mark.parametrize(
    ("name", "iterations"), [("z_march", 2), ("float_sums", 0), ("downwards", 2)]
)
def test_a_loop_of_no_iterations_reads_nothing(name: str, iterations: int) -> None:
    *most, _ = ARGUMENTS[name][1]
    *_, grid, block = ARGUMENTS[name]
    for text in (program(name), replaced(name)):
        launch(parsed(text), name, grid, block, [1 << 20, 1 << 30, *most, iterations])  # unmapped


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_lanes_with_different_numbers_of_iterations(iterations: int) -> None:
    for body in (ROTATED, PROMOTED):
        text = kernel(body.replace("mov.u32 %r3, 0;", "min.u32 %r1, %r1, %r2;\nmov.u32 %r3, 0;"))
        old, new = (
            launch(
                parsed(one), "k", 1, 40, [WHERE, WHERE + 2048, iterations],
                memory={WHERE: np.arange(1024, dtype="f4").view("u1")},
            ).memory[WHERE]
            for one in (text, made(text).text)
        )  # fmt: skip
        assert np.array_equal(old, new)


# ---------------------------------------------------------------- mutants


def _moved_up(text: str) -> str:
    """The load in front of the loop stands before the test whether there is an iteration."""
    load = next(x for x in lines(text) if x.startswith("ld") and "%sw_held1, [" in x)
    return text.replace(load, "", 1).replace("setp.eq.u32 %p2", f"{load}\nsetp.eq.u32 %p2")


STORED = "st.global.f32 [%rd5], %sw_held1;"
MUTANTS = {
    "load before the test": (PROMOTED, _moved_up),
    "store dropped": (PROMOTED, lambda text: text.replace(STORED, "")),
    "store behind the join": (
        PROMOTED,
        lambda text: text.replace(STORED, "").replace("END:", f"END:\n{STORED}"),
    ),
    "another place": (PROMOTED, lambda text: text.replace(STORED, STORED.replace("5]", "5+4]"))),
    "sum forgotten": (PROMOTED, lambda text: text.replace("mov.b32 %sw_held1, %f3;", "")),
    "one too few": (ROTATED, lambda text: text.replace("%sw_held1, %f2;", "%sw_held1, %f1;")),
    "no rotation": (ROTATED, lambda text: text.replace("mov.b32 %sw_held1, %f2;", "")),
    "first iteration short": (
        ROTATED,
        lambda text: text.replace("ld.global.nc.f32 %sw_held1, [%rd4];", "mov.b32 %sw_held1, 0;"),
    ),
    "wrong first": (ROTATED, lambda text: text.replace("%sw_held1, [%rd4]", "%sw_held1, [%rd4+4]")),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_validate_alone_refuses_mutants(mutant: str) -> None:
    body, change = MUTANTS[mutant]
    text = kernel(body)
    claims, good = claims_of(NAME, text), made(text).text
    assert is_proved(text, good, claims)
    assert change(good) != good
    assert not is_proved(text, change(good), claims)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_run_alone_catches_mutants(mutant: str) -> None:
    body, change = MUTANTS[mutant]
    text = kernel(body)
    good = made(text).text

    def results(text: str) -> list[bytes]:
        found = []
        for iterations in (0, 1, 2, 3) if body is PROMOTED else (1, 2, 3):
            memory = {WHERE: np.arange(1, 257, dtype="f4").view("u1")}
            given = [WHERE, WHERE + 512, iterations]
            done = launch(parsed(text), "k", 1, 8, given, memory=memory)
            found.append(bytes(done.memory[WHERE].tobytes()))
        if body is PROMOTED:
            launch(parsed(text), "k", 1, 8, [1 << 20, 1 << 30, 0])  # reads and writes nothing
        return found

    expected = results(text)
    assert results(good) == expected
    with contextlib.suppress(RunError):
        assert results(change(good)) != expected


# ---------------------------------------------------------------- worth


@pytest.mark.skipif(real_ptxas(os.environ) is None, reason="no ptxas")
def test_a_rotation_saves_more_than_a_shuffle() -> None:
    """Instructions and loads of an iteration, which makes one store. Mode auto keeps neither: an
    iteration of the rotation waits for a load that came earlier before."""
    text = kernel(ROW)
    rotated = made(text).text
    shuffled = rewritten("shuffle", text, block=(128, 1, 1)).text
    found = []
    for each in (text, rotated, shuffled, made(shuffled).text):
        aimed = re.sub(r"(?m)^\.target\s+sm_\d+", ".target sm_80", each)
        counts = count(inner_loops(sass.read(aimed, "sm_80", lines=False).kernel("k"))[0])
        iterations = counts.of("STG")
        found.append((counts.instructions / iterations, counts.of("LDG") / iterations))
    before, rotation, shuffle, both_of_them = found
    assert rotation < before < shuffle
    assert rotation[1] == both_of_them[1] and rotation[0] < both_of_them[0]
    aimed = re.sub(r"(?m)^\.target\s+sm_\d+", ".target sm_80", text)
    (told,) = optimize(aimed, Options("auto", block=(128, 1, 1))).report.kernels
    assert not told.rewrites
    (reason,) = [r.reason for r in told.refusals or () if (r.rewrite, r.line) == (NAME, 23)]
    assert reason is not None and "but waiting" in reason


@pytest.mark.skipif(real_ptxas(os.environ) is None, reason="no ptxas")
@pytest.mark.parametrize("arch", ["sm_75", pytest.param("sm_90", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("z_march", (12, 4), (4, 4)),
        ("float_sums", (32, 16), (32, 0)),
        ("downwards", (3, 1), (1, 1)),
    ],
)
def test_what_is_left_in_machine_code(
    name: str, before: tuple[int, int], after: tuple[int, int], arch: str
) -> None:
    found = []
    for text in (program(name), replaced(name)):
        aimed = re.sub(r"(?m)^\.target\s+sm_\d+", f".target {arch}", text)
        counts = count(inner_loops(sass.read(aimed, arch, lines=False).kernel(name))[0])
        found.append((counts.of("LDG"), counts.of("STG")))
    assert found == [before, after]
