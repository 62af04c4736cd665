"""Sums that stay in a register beside loads of which no test can tell where they go: each of these
asks whether it is of the bytes that the register stands for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

from ptxsw.driver.pipeline import Result
from ptxsw.parser import parse
from ptxsw.simt import RunError, launch
from tests.heads import head
from tests.rewrites.pair import claims_of, is_proved, new_lines, reasons, rewritten

NAME = "scalar-replacement"
WHERE, FLOATS, COLUMNS = 1 << 44, 64, 1 << 45

KERNEL = (
    head()
    + """.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 columns, .param .u32 n)
{{
	.reg .pred %p<4>;
	.reg .b16 %h<4>;
	.reg .b32 %r<12>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<14>;
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	ld.param.u64 %rd3, [columns];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	cvta.to.global.u64 %rd3, %rd3;
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd4, %r2, 4;
	add.s64 %rd5, %rd2, %rd4;
	mov.f32 %f4, 0f3F800000;
	mov.u32 %r3, 0;
	setp.lt.s32 %p1, %r1, 1;
	@%p1 bra END;
LOOP:
{iteration}
	add.s64 %rd3, %rd3, 4;
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p1, %r3, %r1;
	@%p1 bra LOOP;
END:
	ret;
}}
"""
)

GATHERED = """
    ld.global.nc.u32 %r4, [%rd3];
    mul.wide.s32 %rd6, %r4, 4;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.f32 %f1, [%rd7];
    ld.global.f32 %f2, [%rd5];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
"""
NEVER_LOADED = """
    ld.global.nc.u32 %r4, [%rd3];
    mul.wide.s32 %rd6, %r4, 4;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.f32 %f1, [%rd7];
    add.f32 %f4, %f1, %f4;
    st.global.f32 [%rd5], %f4;
"""
BEHIND = """
    ld.global.nc.u32 %r4, [%rd3];
    mul.wide.s32 %rd6, %r4, 4;
    add.s64 %rd7, %rd1, %rd6;
    st.global.f32 [%rd5+4], %f4;
    ld.global.f32 %f1, [%rd7+4];
    add.f32 %f4, %f1, %f4;
"""
SOMETIMES = """
    ld.global.f32 %f2, [%rd5];
    setp.gt.f32 %p2, %f2, 0f41200000;
    @%p2 bra NEXT;
    ld.global.nc.u32 %r4, [%rd3];
    mul.wide.s32 %rd6, %r4, 4;
    add.s64 %rd7, %rd1, %rd6;
    ld.global.f32 %f1, [%rd7];
    add.f32 %f2, %f1, %f2;
NEXT:
    add.f32 %f2, %f2, %f4;
    st.global.f32 [%rd5], %f2;
"""
TWICE = GATHERED + """
    ld.global.f32 %f5, [%rd7+8];
    add.f32 %f6, %f5, %f3;
    st.global.f32 [%rd5], %f6;
"""  # fmt: skip
BODIES = {
    "gathered": GATHERED, "never loaded": NEVER_LOADED, "behind": BEHIND, "sometimes": SOMETIMES,
    "twice": TWICE,
}  # fmt: skip


def kernel(iteration: str) -> str:
    """`%rd5` is a thread's own place in `y`, `%rd3` that of an index into `x`, another one in each
    iteration."""
    return KERNEL.format(iteration=iteration.strip())


def made(text: str, **options: object) -> Result:
    return rewritten(NAME, text, **options)


def behind(text: str, distance: int, iterations: int, threads: int = 1) -> bytes | None:
    """What is in memory behind a launch with `y` so many floats behind `x`; None where it fails or
    threads race."""
    floats = np.arange(1, FLOATS + 1, dtype="f4") / np.float32(8)
    columns = np.array([1, -2, 0, 3, 0, 1], "i4")
    middle = WHERE + 2 * FLOATS
    try:
        done = launch(
            parse(text), "k", 1, threads, [middle, middle + 4 * distance, COLUMNS, iterations],
            memory={WHERE: floats.view("u1"), COLUMNS: columns.view("u1")}, races=threads > 1,
        )  # fmt: skip
    except RunError:
        return None
    return bytes(done.memory[WHERE].tobytes())


# ---------------------------------------------------------------- what is written


def test_the_gather_asks_whether_it_is_of_the_sum() -> None:
    """No second loop stands there: nothing has to be tested before it."""
    text = kernel(GATHERED)
    result = made(text)
    assert new_lines(text, result) == [
        "ld.global.f32 %sw_held1, [%rd5];",
        "add.s64 %sw_place1, %rd5, 0;",
        "ld.global.f32 %sw_loaded1, [%rd7];",
        "setp.eq.s64 %sw_same1, %rd7, %sw_place1;",
        "selp.b32 %f1, %sw_held1, %sw_loaded1, %sw_same1;",
        "mov.b32 %f2, %sw_held1;",
        "mov.b32 %sw_held1, %f3;",
        "st.global.f32 [%rd5], %sw_held1;",
    ]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == ("finite-loops", "no-lane-race")
    detail = entry.detail or {}
    assert (detail["kind"], detail["compared_lines"]) == ("promoted", [29])


def test_what_a_test_before_the_loop_can_tell_is_not_asked_in_it() -> None:
    text = kernel(GATHERED.replace(".nc", ""))
    lines = new_lines(text, made(text))
    assert "@!%sw_clear1 bra $sw_slow1;" in lines
    assert [line for line in lines if "setp.eq" in line] == [
        "setp.eq.s64 %sw_same1, %rd7, %sw_place1;"
    ]


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    "change",
    [
        ("ld.global.f32 %f1, [%rd7];", "ld.global.u16 %h1, [%rd7];\n\tcvt.rn.f32.u16 %f1, %h1;"),
        ("ld.global.f32 %f1, [%rd7];", "ld.global.v2.f32 {%f1, %f5}, [%rd7];"),
        ("ld.global.f32 %f1, [%rd7];", "ld.f32 %f1, [%rd7];"),
        ("ld.global.f32 %f1, [%rd7];", "ld.volatile.global.f32 %f1, [%rd7];"),
        ("ld.global.f32 %f1, [%rd7];", "@%p2 ld.global.f32 %f1, [%rd7];"),
        ("ld.global.f32 %f1, [%rd7];", "ld.global.f32 %f1, [%rd7];\n\tst.global.f32 [%rd7], %f4;"),
        ("ld.global.f32 %f1, [%rd7];", "atom.global.add.f32 %f1, [%rd7], %f4;"),
        ("ld.global.f32 %f1, [%rd7];", "bar.sync 0;\n\tld.global.f32 %f1, [%rd7];"),
        ("st.global.f32 [%rd5], %f3;", "@%p2 st.global.f32 [%rd5], %f3;"),
    ],
)
def test_what_is_left_alone(change: tuple[str, str]) -> None:
    text = kernel(GATHERED).replace(*change)
    assert text != kernel(GATHERED)
    result = made(text)
    assert result.text == text
    assert all("could not be proved" not in reason for reason in reasons(result))


def test_many_gathers_for_one_sum_are_not_worth_it() -> None:
    more = "\n".join(f"ld.global.f32 %f5, [%rd7+{8 * n}];" for n in range(1, 6))
    text = kernel(GATHERED + more)
    assert made(text).text == text


# ---------------------------------------------------------------- runs and mutants


@pytest.mark.parametrize("body", BODIES)
def test_results_agree_wherever_the_arrays_lie(body: str) -> None:
    text = kernel(BODIES[body])
    new = made(text).text
    assert "selp.b32" in new
    for distance in range(-8, 9):
        for iterations, threads in ((0, 1), (1, 1), (2, 1), (6, 1), (4, 3)):
            given = distance, iterations, threads
            old = behind(text, *given)
            assert old is None or old == behind(new, *given), given


MUTANTS: dict[str, Callable[[str], str]] = {
    "never asked": lambda text: text.replace("%f1, %sw_held1,", "%f1, %sw_loaded1,"),
    "the other way round": lambda text: text.replace("setp.eq.s64", "setp.ne.s64"),
    "another place": lambda text: text.replace("%sw_place1, %rd5, 0", "%sw_place1, %rd5, 4"),
    "always of memory": lambda text: text.replace("selp.b32 %f1, %sw_held1, %sw_loaded1, %sw_same1",
                                                  "mov.b32 %f1, %sw_loaded1"),
    "always of the register": lambda text: text.replace(
        "selp.b32 %f1, %sw_held1, %sw_loaded1, %sw_same1", "mov.b32 %f1, %sw_held1"),
    "the sum begins with nothing": lambda text: text.replace(
        "ld.global.f32 %sw_held1, [%rd5];", "mov.b32 %sw_held1, 0;"),
    "the sum is dropped": lambda text: text.replace("st.global.f32 [%rd5], %sw_held1;", ""),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_caught(mutant: str) -> None:
    text = kernel(GATHERED)
    claims, good = claims_of(NAME, text), made(text).text
    wrong = MUTANTS[mutant](good)
    assert wrong != good
    assert is_proved(text, good, claims) and not is_proved(text, wrong, claims)
    given = [(distance, n) for distance in range(-8, 9) for n in (1, 6)]
    assert all(behind(good, *one) == behind(text, *one) for one in given)
    with contextlib.suppress(RunError):
        assert any(behind(wrong, *one) != behind(text, *one) for one in given)


def test_bytes_that_may_overlap_in_part_are_no_choice() -> None:
    """What is as wide and aligned lies on the same bytes or apart. Of a narrower load, or where the
    first text does not access the place, that is not known."""
    text = kernel(GATHERED)
    claims, good = claims_of(NAME, text), made(text).text
    narrow = ("ld.global.f32 %f1, [%rd7];", "ld.global.v2.f32 {%f1, %f5}, [%rd7];")
    wide = ("ld.global.f32 %sw_loaded1, [%rd7];", "ld.global.v2.f32 {%sw_loaded1, %f5}, [%rd7];")
    assert not is_proved(text.replace(*narrow), good.replace(*wide), claims)
