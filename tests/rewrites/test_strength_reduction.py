"""Strength reduction: addresses in loops from few bases."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.machine_loops import count, inner_loops
from benchmarks.programs.flat import FLAT
from benchmarks.strength_reduction import operators
from ptxsw.cost.sass import Sass
from ptxsw.driver.pipeline import Options, Result, optimize
from ptxsw.parser import parse
from ptxsw.simt import RunError, launch
from ptxsw.validate import Claim, Outcome, Proved, validate
from tests.cost.conftest import made, tools
from tests.parsed import parsed
from tests.rewrites.pair import claims_of, is_proved, new_lines, reasons, rewritten

__all__ = ["made", "tools"]  # fixtures

NO_SAVING = "no base or pointer would make the addresses of the loop cheaper"

# What nvcc 13.0 makes of, with unsigned i, n and m,
#     for (; i < m; i += n) out[i] = a[i - 1] + a[i + 1];
# and the like. `counter` is what the loop tests, `index` what it goes through the arrays with.
LOOP = """.version 8.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 a, .param .u32 n, .param .u32 m, .param .u32 start)
{{
	.reg .pred %p<5>;
	.reg .b32 %r<20>;
	.reg .f32 %f<20>;
	.reg .b64 %rd<30>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [a];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [m];
	ld.param.u32 %r3, [start];
	mov.u32 %r4, %tid.x;
	add.s32 %r5, %r4, %r3;
	{before}
LOOP:
	{body}
	@%p1 bra LOOP;
	{after}
	ret;
}}
"""
GUARD = "setp.ge.u32 %p2, %r5, %r2;\n\t@%p2 bra DONE;"
NEXT = "add.s32 %r5, %r5, %r1;\n\tsetp.lt.u32 %p1, %r5, %r2;"


def access(index: str, at: int, base: str = "%rd2", sign: str = "u") -> str:
    """Lines that load `base[index]` into `%f{at}`, as nvcc writes them."""
    add = ""
    if "+" in index:
        left, right = index.split("+")
        add, index = f"add.s32 %r1{at}, {left}, {right};\n\t", f"%r1{at}"
    wide = f"mul.wide.{sign}32 %rd1{at}, {index}, 4;\n\tadd.s64 %rd2{at}, {base}, %rd1{at};\n\t"
    return f"{add}{wide}ld.global.f32 %f{at}, [%rd2{at}];"


def store(index: str) -> str:
    return (
        f"mul.wide.u32 %rd19, {index}, 4;\n\tadd.s64 %rd29, %rd1, %rd19;\n\t"
        "add.f32 %f9, %f1, %f2;\n\tst.global.f32 [%rd29], %f9;"
    )


def loop(
    *body: str, before: str = GUARD, after: str = "DONE:", step: str = NEXT, arch: str = "sm_80"
) -> str:
    lines = "\n\t".join((*body, step))
    return LOOP.format(body=lines, before=before, after=after, arch=arch)


PAIR = loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"))
THREE = loop(access("%r5+-1", 1), access("%r5+1", 2), access("%r5", 3), store("%r5"))


def made_of(text: str) -> str:
    result = rewritten("strength-reduction", text)
    assert result.text != text, reasons(result)
    return result.text


# ---------------------------------------------------------------- before and after


def test_neighbours_share_one_base() -> None:
    assert new_lines(PAIR, rewritten("strength-reduction", PAIR)) == [
        # No index wraps: the counter gets to its end, and no index farther than it.
        "setp.lt.u32 %sw_so_far1, %r5, %r2;",
        "setp.le.and.u32 %sw_so_far2, %r2, 1073741824, %sw_so_far1;",
        "setp.le.and.u32 %sw_so_far3, %r1, 1073741824, %sw_so_far2;",
        "setp.le.and.u32 %sw_so_far4, %r5, 1073741824, %sw_so_far3;",
        "cvt.u64.u32 %sw_start1, %r5;",
        "sub.s32 %sw_sum1, %r2, %r5;",
        "mad.wide.u32 %sw_end1, %sw_sum1, 1, %sw_start1;",
        "setp.le.and.u64 %sw_so_far5, %sw_end1, 1073741824, %sw_so_far4;",
        "cvt.u64.u32 %sw_start2, %r5;",
        "setp.ge.and.s64 %sw_exact1, %sw_start2, 1, %sw_so_far5;",
        "@!%sw_exact1 bra $sw_slow1;",
        "mul.wide.u32 %sw_far1, %r5, 4;",
        "add.s64 %sw_address1, %rd2, %sw_far1;",
        "mul.wide.u32 %sw_far2, %r5, 4;",
        "add.s64 %sw_address2, %rd1, %sw_far2;",
        "ld.global.f32 %f1, [%sw_address1+-4];",
        "ld.global.f32 %f2, [%sw_address1+4];",
        "st.global.f32 [%sw_address2], %f9;",
        "bra.uni $sw_done1;",
        "$sw_slow1:",
        "$sw_done1:",
    ]


def test_the_report_names_the_test_and_the_lines() -> None:
    (kernel,) = rewritten("strength-reduction", PAIR).report.kernels
    (change,) = kernel.rewrites or ()
    assert change.rewrite == "strength-reduction"
    assert change.detail == {"lines": [23, 27, 31], "bases": 2}


def test_what_is_added_to_an_index_and_stays_is_computed_before_the_loop() -> None:
    """A row above and one below: the bases are `a - 4·n` and `a + 4·n`."""
    rows = "sub.s32 %r6, 0, %r1;\n\t" + GUARD
    text = loop(
        access("%r5+%r6", 1), access("%r5+%r1", 2), access("%r5", 3), store("%r5"), before=rows
    )
    new = made_of(text)
    assert "mad.wide.s32 %sw_base1, %sw_sum" in new
    assert "mad.wide.s32 %sw_base2, %r1, 4, %rd2;" in new


def test_without_ptxas_auto_leaves_it_and_force_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")
    result = optimize(PAIR, Options(mode="auto", rewrites=("strength-reduction",), arch="sm_80"))
    assert result.text == PAIR
    (reason,) = reasons(result)
    assert reason.startswith("its register cost is not known: no ptxas found")
    assert optimize(PAIR, Options("force", rewrites=("strength-reduction",))).text != PAIR


# ---------------------------------------------------------------- loops of several blocks

BRANCHES = loop(
    access("%r5+-1", 1), access("%r5+1", 2),
    "setp.gt.f32 %p3, %f1, %f2;\n\t@%p3 bra MORE;",
    access("%r5+2", 1), "bra.uni LAST;\nMORE:", access("%r5+-2", 2), "LAST:", store("%r5"),
)  # fmt: skip

# As clang lays it out: the end of an iteration stands before its begin.
TURNED = loop(
    "bra.uni BEGIN;\nEND:", store("%r5"), NEXT, "@%p1 bra BEGIN;\n\tbra.uni DONE;\nBEGIN:",
    access("%r5+-1", 1), access("%r5+1", 2), "setp.gt.f32 %p3, %f1, %f2;\n\t@%p3 bra END;",
    access("%r5", 1), "bra.uni END;", step="mov.b32 %r9, 0;",
).replace("\t@%p1 bra LOOP;\n", "")  # fmt: skip


def test_a_loop_of_several_blocks_stands_twice() -> None:
    new = made_of(BRANCHES)
    assert new.count("MORE:") == new.count("LAST:") == 2
    assert "ld.global.f32 %f2, [%sw_address1+-8];" in new


def test_the_copy_is_entered_at_its_header() -> None:
    new = made_of(TURNED)
    assert new.count("bra.uni BEGIN;") == 2
    assert new.index("{", new.index("@!%sw_exact1")) < new.index("bra.uni BEGIN;")


def test_a_copy_of_the_kernel_has_loops_of_its_own() -> None:
    """Labels of one name stand in two scopes, and a claim speaks of one loop."""
    head, body = PAIR.split("LOOP:", 1)
    inner, tail = body.split("DONE:", 1)
    twice = (
        f"{head}LOOP:{inner}DONE:\n\tsetp.eq.s32 %p4, %r1, 5;\n\t@%p4 ret;\n\t{{\n"
        f"\t{GUARD.replace('%r5, %r2', '%r4, %r2')}\n\tmov.b32 %r5, %r4;\nLOOP:{inner}DONE:\n\t}}"
        f"{tail}"
    )
    new = made_of(twice)
    assert "%sw_exact2" in new
    for launched in LAUNCHES[:6]:
        assert run(new, *launched) == run(twice, *launched), launched


# ---------------------------------------------------------------- pointers

# for (y = 0; y < m; y += 2) sum += a[(u64)y * n + x]
COLUMN = loop(
    "cvt.u64.u32 %rd3, %r5;\n\tmul.lo.s64 %rd4, %rd3, %rd5;\n\tadd.s64 %rd6, %rd4, %rd7;\n\t"
    "shl.b64 %rd8, %rd6, 2;\n\tadd.s64 %rd9, %rd2, %rd8;\n\tld.global.f32 %f1, [%rd9];\n\t"
    "add.f32 %f2, %f2, %f1;",
    before="cvt.u64.u32 %rd5, %r1;\n\tcvt.u64.u32 %rd7, %r4;\n\tmov.b32 %f2, 0f00000000;\n\t"
    "shl.b64 %rd10, %rd7, 2;\n\tadd.s64 %rd11, %rd1, %rd10;\n\t" + GUARD,
    step="add.s32 %r5, %r5, 2;\n\tsetp.lt.u32 %p1, %r5, %r2;",
    after="DONE:\n\tst.global.f32 [%rd11], %f2;",
)


def test_a_product_becomes_a_pointer() -> None:
    lines = new_lines(COLUMN, rewritten("strength-reduction", COLUMN))
    at = lines.index("@!%sw_exact1 bra $sw_slow1;")
    assert lines[at + 1 :] == [
        "cvt.u64.u32 %sw_wide1, %r4;",
        "mad.lo.s64 %sw_base1, %sw_wide1, 4, %rd2;",
        "cvt.u64.u32 %sw_wide2, %r5;",
        "cvt.u64.u32 %sw_wide3, %r1;",
        "mul.lo.s64 %sw_product1, %sw_wide2, %sw_wide3;",
        "mad.lo.s64 %sw_base2, %sw_product1, 4, %sw_base1;",
        "mov.b64 %sw_pointer1, %sw_base2;",
        "cvt.u64.u32 %sw_wide4, %r1;",
        "mad.lo.s64 %sw_base3, %sw_wide4, 8, 0;",
        "mov.b64 %rd9, %sw_pointer1;",
        "add.s64 %sw_pointer1, %sw_pointer1, %sw_base3;",
        "bra.uni $sw_done1;",
        "$sw_slow1:",
        "$sw_done1:",
    ]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("mad.lo.s64 %sw_base3, %sw_wide4, 8", "mad.lo.s64 %sw_base3, %sw_wide4, 4"),
        ("mov.b64 %sw_pointer1, %sw_base2", "mov.b64 %sw_pointer1, %sw_base1"),
        ("add.s64 %sw_pointer1, %sw_pointer1", "sub.s64 %sw_pointer1, %sw_pointer1"),
    ],
)
def test_mutants_of_pointers(right: str, wrong: str) -> None:
    """Found by the check, given the same claims, and by running."""
    new = made_of(COLUMN)
    mutant = new.replace(right, wrong)
    assert mutant != new
    assert not is_proved(COLUMN, mutant, claims_of("strength-reduction", COLUMN))
    launches = [(3, 8, 0), (5, 9, 1), (1, -1, -9), (3, 8, -20)]
    assert any(run(mutant, *each) != run(COLUMN, *each) for each in launches)


# ---------------------------------------------------------------- an index of 64 bits

# for (y = start; y < m; y += 2 + n) out[y * n + x] = a[y * n + x] + a[(y - 1) * n + x], all long
WIDE_INDEX = (
    "cvt.u64.u32 %rd3, %r1;\n\tcvt.s64.s32 %rd4, %r3;\n\tcvt.s64.s32 %rd5, %r2;\n\t"
    "cvt.u64.u32 %rd7, %r4;\n\tadd.s64 %rd6, %rd3, 2;\n\t{}setp.ge.s64 %p2, %rd4, %rd5;\n\t"
    "@%p2 bra DONE;"
)
ABOVE = (
    "add.s64 %rd10, %rd4, -1;\n\tmul.lo.s64 %rd11, %rd10, %rd3;\n\tadd.s64 %rd12, %rd11, %rd7;\n\t"
    "shl.b64 %rd13, %rd12, 2;\n\tadd.s64 %rd14, %rd2, %rd13;\n\tld.global.f32 %f1, [%rd14];"
)
HERE = (
    "mul.lo.s64 %rd15, %rd4, %rd3;\n\tadd.s64 %rd16, %rd15, %rd7;\n\tshl.b64 %rd17, %rd16, 2;\n\t"
    "add.s64 %rd18, %rd2, %rd17;\n\tld.global.f32 %f2, [%rd18];\n\tadd.s64 %rd19, %rd1, %rd17;\n\t"
    "add.f32 %f9, %f1, %f2;\n\tst.global.f32 [%rd19], %f9;"
)
WIDE_NEXT = "add.s64 %rd4, %rd4, %rd6;\n\tsetp.lt.s64 %p1, %rd4, %rd5;"


def wide(*more: str, before: str = "", step: str = WIDE_NEXT, after: str = "DONE:") -> str:
    return loop(ABOVE, *more, HERE, before=WIDE_INDEX.format(before), step=step, after=after)


def test_pointers_of_a_wide_index_need_no_test_and_no_second_loop() -> None:
    text = wide()
    assert new_lines(text, rewritten("strength-reduction", text)) == [
        "cvt.u64.u32 %sw_wide1, %r1;",
        "mad.lo.s64 %sw_base1, %sw_wide1, -4, %rd2;",
        "cvt.u64.u32 %sw_wide2, %r4;",
        "mad.lo.s64 %sw_base2, %sw_wide2, 4, %sw_base1;",
        "cvt.u64.u32 %sw_wide3, %r1;",
        "mul.lo.s64 %sw_product1, %rd4, %sw_wide3;",
        "mad.lo.s64 %sw_base3, %sw_product1, 4, %sw_base2;",
        "mov.b64 %sw_pointer1, %sw_base3;",
        "cvt.u64.u32 %sw_wide4, %r1;",
        "cvt.u64.u32 %sw_wide5, %r1;",
        "mul.lo.s64 %sw_product2, %sw_wide4, %sw_wide5;",
        "mad.lo.s64 %sw_base4, %sw_product2, 4, 0;",
        "cvt.u64.u32 %sw_wide6, %r1;",
        "mad.lo.s64 %sw_base5, %sw_wide6, 8, %sw_base4;",
        "cvt.u64.u32 %sw_wide7, %r4;",
        "mad.lo.s64 %sw_base6, %sw_wide7, 4, %rd2;",
        "cvt.u64.u32 %sw_wide8, %r1;",
        "mul.lo.s64 %sw_product3, %rd4, %sw_wide8;",
        "mad.lo.s64 %sw_base7, %sw_product3, 4, %sw_base6;",
        "mov.b64 %sw_pointer2, %sw_base7;",
        "cvt.u64.u32 %sw_wide9, %r4;",
        "mad.lo.s64 %sw_base8, %sw_wide9, 4, %rd1;",
        "cvt.u64.u32 %sw_wide10, %r1;",
        "mul.lo.s64 %sw_product4, %rd4, %sw_wide10;",
        "mad.lo.s64 %sw_base9, %sw_product4, 4, %sw_base8;",
        "mov.b64 %sw_pointer3, %sw_base9;",
        "mov.b64 %rd14, %sw_pointer1;",
        "mov.b64 %rd18, %sw_pointer2;",
        "mov.b64 %rd19, %sw_pointer3;",
        "add.s64 %sw_pointer1, %sw_pointer1, %sw_base5;",
        "add.s64 %sw_pointer2, %sw_pointer2, %sw_base5;",
        "add.s64 %sw_pointer3, %sw_pointer3, %sw_base5;",
    ]


WIDE = [
    wide(),
    # A condition within: the pointers grow in each iteration.
    wide("setp.gt.f32 %p3, %f1, 0f3F000000;\n\t@%p3 bra LAST;").replace(
        "\tadd.s64 %rd4, %rd4, %rd6;", "LAST:\n\tadd.s64 %rd4, %rd4, %rd6;"
    ),
    # Downwards.
    wide(before="neg.s64 %rd6, %rd6;\n\t", step=WIDE_NEXT.replace("lt", "gt")).replace(
        "setp.ge.s64", "setp.le.s64"
    ),
    # The product wraps at 2^64.
    wide(before="shl.b64 %rd3, %rd3, 62;\n\tmov.b64 %rd6, 2;\n\t"),
    # Threads meet, and one asks which are together: no second loop, no branch.
    wide("bar.warp.sync -1;", after="DONE:\n\tactivemask.b32 %r9;\n\tst.global.u32 [%rd1], %r9;"),
]


@pytest.mark.parametrize("text", WIDE, ids=["plain", "if", "down", "wraps", "meets"])
def test_a_wide_index_at_each_end(text: str) -> None:
    new = made_of(text)
    assert new.count("LOOP:") == 1
    for launched in [(3, 100, 1), (1, 3, 5), (7, 90, -60), (5, -3, -40), (2, -40, 9), (0, 9, 1)]:
        assert run(new, *launched) == run(text, *launched), launched


@pytest.mark.parametrize(
    "text",
    [
        wide(step="ld.global.u64 %rd6, [%rd1];\n\t" + WIDE_NEXT),  # its step changes
        wide(step="shl.b64 %rd4, %rd4, 1;\n\tsetp.lt.s64 %p1, %rd4, %rd5;"),  # it doubles
        wide().replace("%rd11, %rd10, %rd3", "%rd11, %rd10, %rd4").replace(
            "%rd15, %rd4, %rd3", "%rd15, %rd4, %rd4"
        ),  # its square
    ],
    ids=["step", "doubles", "square"],
)  # fmt: skip
def test_a_wide_index_that_does_not_grow_by_the_same_is_no_pointer(text: str) -> None:
    """What an iteration loads is made from one another all the same."""
    new = made_of(text)
    assert "%sw_pointer" not in new and "%sw_base" in new
    assert is_proved(text, new)
    assert run(new, 3, 100, 1) == run(text, 3, 100, 1)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("mad.lo.s64 %sw_base1, %sw_wide1, -4", "mad.lo.s64 %sw_base1, %sw_wide1, -8"),
        ("mov.b64 %rd14, %sw_pointer1", "mov.b64 %rd14, %sw_base2"),
        ("add.s64 %sw_pointer1, %sw_pointer1", "sub.s64 %sw_pointer1, %sw_pointer1"),
    ],
)
def test_mutants_of_a_wide_index(right: str, wrong: str) -> None:
    text = wide()
    new = made_of(text)
    assert right in new
    mutant = new.replace(right, wrong)
    assert not is_proved(text, mutant, claims_of("strength-reduction", text))
    assert run(mutant, 3, 100, 1) != run(text, 3, 100, 1)


# ---------------------------------------------------------------- what is left alone

UNKNOWN = "the trip count of the loop is not known"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # The loop ends when a load says so.
        (loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"),
              step="setp.lt.f32 %p1, %f1, %f2;\n\tadd.s32 %r5, %r5, %r1;"), UNKNOWN),
        # Its end changes.
        (loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"),
              step="ld.global.u32 %r2, [%rd2];\n\t" + NEXT), UNKNOWN),
        # It steps over its end.
        (loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"),
              step="add.s32 %r5, %r5, 3;\n\tsetp.ne.s32 %p1, %r5, %r2;"),
         "the step of the loop counter is not a power of two"),
        # The index falls while the counter grows.
        (loop(access("%r6+-1", 1), access("%r6+1", 2), store("%r6"),
              before="mov.u32 %r6, %r5;\n\t" + GUARD,
              step="add.s32 %r6, %r6, -1;\n\tadd.s32 %r5, %r5, 1;\n\tsetp.lt.u32 %p1, %r5, %r2;"),
         "an index decreases from one iteration to the next"),
        # Threads meet in the loop.
        (loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"), "bar.sync 0;"),
         "bar.sync is in the loop, which would be duplicated"),
        # Somebody asks which lanes are together.
        (loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"),
              after="DONE:\n\tactivemask.b32 %r9;\n\tst.global.u32 [%rd1], %r9;"),
         "it would need a branch, and the kernel asks which lanes are active"),
        # Control comes to the loop in two ways.
        (loop(access("%r5+-1", 1), access("%r5+1", 2), store("%r5"),
              before="setp.eq.u32 %p3, %r1, 7;\n\t@%p3 bra LOOP;\n\tadd.s32 %r5, %r5, 1;"),
         "the loop is entered from several places"),
    ],
)  # fmt: skip
def test_what_stays(text: str, reason: str) -> None:
    result = rewritten("strength-reduction", text)
    assert result.text == text
    assert reasons(result) == [reason]


def test_where_nothing_can_be_gained_it_is_said_to_who_asks() -> None:
    """Signed neighbours, as nvcc writes them: one address already."""
    text = loop(access("%r5", 1), "ld.global.f32 %f2, [%rd21+4];", store("%r5"))
    result = rewritten("strength-reduction", text)
    assert (result.text, reasons(result)) == (text, [NO_SAVING])
    (kernel,) = optimize(text, Options("force")).report.kernels
    assert NO_SAVING not in [refusal.reason for refusal in kernel.refusals or ()]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (
            operators()["matvec-gcc"].path,
            "no index is extended or multiplied in the loop: its addresses are pointers already",
        ),
        (operators()["matvec-nvcc"].path, "the loop has only one access"),
        (FLAT["collapsed-nvcc"].path, "no shared base would make its addresses cheaper"),
    ],
)
def test_what_compilers_leave_nothing_of(path: Path, reason: str) -> None:
    result = rewritten("strength-reduction", path.read_text())
    assert result.text == path.read_text()
    assert reason in reasons(result)


# ---------------------------------------------------------------- bit for bit

BASE, OUT = 1 << 44, 1 << 45
TOP = 4 << 32  # bytes from an array's begin to where an index wraps
SIZE = 4096


def run(text: str, n: int, m: int, start: int, threads: int = 3) -> dict[int, bytes] | str:
    """What memory holds behind a launch. There is some at each end of 2^32 elements, and where an
    index that is negative as a signed number would lead."""
    random = np.random.default_rng(1)
    memory = {
        origin + offset: random.random(SIZE, "f4")
        for origin in (BASE, OUT)
        for offset in (-2 * SIZE, TOP // 4 * 2 - 2 * SIZE, TOP - 2 * SIZE)
    }
    arguments = [OUT, BASE, n & 0xFFFFFFFF, m & 0xFFFFFFFF, start & 0xFFFFFFFF]
    try:
        done = launch(parsed(text), "k", (1,), threads, arguments, memory=memory)
    except RunError as error:
        return type(error).__name__
    return {at: bytes(array.tobytes()) for at, array in done.memory.items()}


LAUNCHES = [
    (3, 100, 1), (3, 100, 0), (1, 3, 1), (7, 2, 1), (100, 400, 5),  # from 0 on, and none at all
    (3, -1, -100), (1, -2, -40), (3, 100, -50), (1, 4, -4),  # wraps, the loop's index or a + 1
    (-3, 100, 90), (0x7FFFFFFF, 200, 9), (-1, 50, 40),  # steps that are negative numbers
    (2, (1 << 31) + 90, (1 << 31) - 90),  # signed numbers wrap here
    (1, (1 << 30) + 7, (1 << 30) - 7),  # beyond what the test lets pass
]  # fmt: skip


@pytest.mark.parametrize("launched", LAUNCHES, ids=str)
@pytest.mark.parametrize(
    "text",
    [PAIR, THREE, BRANCHES, TURNED, COLUMN],
    ids=["two", "three", "branches", "turned", "column"],
)
def test_at_each_end_of_the_indices(text: str, launched: tuple[int, int, int]) -> None:
    assert run(made_of(text), *launched) == run(text, *launched)


COUNTED = "sub.s32 %r6, 0, %r2;"
UP = "add.s32 %r5, %r5, %r1;\n\tadd.s32 %r6, %r6, 1;\n\tsetp.ne.s32 %p1, %r6, 0;"
FOURS = "and.b32 %r7, %r2, -4;\n\tsub.s32 %r6, 0, %r7;\n\tshl.b32 %r8, %r1, 2;"
UP_BY_FOUR = "add.s32 %r5, %r5, %r8;\n\tadd.s32 %r6, %r6, 4;\n\tsetp.ne.s32 %p1, %r6, 0;"
SIGNED = "setp.ge.s32 %p2, %r5, %r2;\n\t@%p2 bra DONE;"
SIGNED_NEXT = "add.s32 %r5, %r5, %r1;\n\tsetp.lt.s32 %p1, %r5, %r2;"


@pytest.mark.parametrize(
    ("before", "step", "launches"),
    [
        (COUNTED, UP, [(1, 5, 1), (0, 3, 7), (-1, 4, 30), (1, 4, -2), (300, 3, 0)]),
        (FOURS, UP_BY_FOUR, [(1, 8, 1), (2, 4, 9), (-1, 4, 30), (1, 8, -9), (3, 8, 0)]),
        (SIGNED, SIGNED_NEXT, [(1, 9, 1), (3, 50, -20), (-1, 9, 8), (1, -3, -30), (5, 5, 0)]),
    ],
    ids=["counted", "by fours", "signed"],
)
@pytest.mark.parametrize("sign", ["u", "s"])
def test_other_loops(
    before: str, step: str, launches: list[tuple[int, int, int]], sign: str
) -> None:
    body = (access("%r5+-1", 1, sign=sign), access("%r5+1", 2, sign=sign), store("%r5"))
    text = loop(*body, before=before, step=step)
    new = made_of(text)
    for launched in launches:
        assert run(new, *launched) == run(text, *launched), launched


# ---------------------------------------------------------------- the loop's test

# clang tests `i + 2 < m` where the index is `i`. Nothing else needs that sum behind the rewrite.
AHEAD = "add.s32 %r6, %r5, 2;\n\tsetp.ge.u32 %p2, %r6, %r2;\n\t@%p2 bra DONE;"
AHEAD_NEXT = "add.s32 %r5, %r5, %r1;\n\tadd.s32 %r6, %r5, {};\n\t{} %p1, {};"


def looping(test: str, operands: str, number: int = 2, *more: str, before: str = AHEAD) -> str:
    body = (access("%r5", 1), access("%r5+4", 2), store("%r5"), *more)
    return loop(*body, before=before, step=AHEAD_NEXT.format(number, test, operands))


@pytest.mark.parametrize(
    ("test", "operands", "shifted"),
    [
        ("setp.lt.u32", "%r6, %r2", "setp.lt.u32 %p1, %r5, %sw_sum"),
        ("setp.gt.u32", "%r2, %r6", "setp.gt.u32 %p1, %sw_sum"),
        ("setp.lt.u32", "%r6, 90", "setp.lt.u32 %p1, %r5, 88;"),
        ("setp.lt.s32", "%r6, %r2", "setp.lt.s32 %p1, %r5, %sw_sum"),
    ],
)
def test_a_sum_that_only_the_test_needs_goes_into_its_bound(
    test: str, operands: str, shifted: str
) -> None:
    text = looping(test, operands)
    new = made_of(text)
    assert shifted in new
    for launched in LAUNCHES:
        assert run(new, *launched) == run(text, *launched), launched


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        # What was zero-extended: `i - 2 < m` is true of no i below 2, `i < m + 2` is.
        (looping("setp.lt.u32", "%r6, %r2", -2, before=GUARD), "setp.lt.u32 %p1, %r6, %r2;"),
        # Another needs the sum, too.
        (
            looping("setp.lt.u32", "%r6, %r2", 2, "st.global.u32 [%rd1], %r6;"),
            "setp.lt.u32 %p1, %r6, %r2;",
        ),
    ],
    ids=["lower", "needed"],
)
def test_a_sum_that_may_wrap_or_is_needed_stays(text: str, kept: str) -> None:
    assert made_of(text).count(kept) == 2


def test_a_bound_that_is_one_off_is_found_by_the_check_and_by_running() -> None:
    text = looping("setp.lt.u32", "%r6, %r2")
    new = made_of(text)
    right = re.search(r"add.s32 (%sw_sum\d+), %r2, -2;\n\{", new)
    assert right is not None
    mutant = new.replace(right[0], right[0].replace("-2", "-1"))
    assert not isinstance(proved(text, mutant), Proved)
    assert any(run(mutant, *launched) != run(text, *launched) for launched in LAUNCHES)


# ---------------------------------------------------------------- wrong ones


def proved(before: str, after: str, result: Result | None = None, claim: str = "") -> Outcome:
    """The check, with the claim that the test goes on holding."""
    code = [
        line.strip()
        for line in (claim or after).splitlines()
        if line.strip().startswith(
            ("setp", "cvt", "mad", "sub", "add.s32 %sw", "add.s64 %sw_start")
        )
        and "%sw_" in line.split(",")[0]
    ]
    registers = {"pred": [], "b32": [], "b64": []}  # type: dict[str, list[str]]
    renamed = []
    for line in code[: next(n for n, one in enumerate(code) if "%sw_exact1" in one) + 1]:
        name = line.split()[1].rstrip(",")
        kind = {"setp": "pred", "cvt.": "b64"}.get(line[:4], "b32")
        if kind != "pred" and ("wide" in line or "s64" in line.split()[0]):
            kind = "b64"
        registers[kind].append(name.replace("%sw_", "%c_"))
        renamed.append(line.replace("%sw_", "%c_"))
    declared = " ".join(f".reg .{kind} {', '.join(names)};" for kind, names in registers.items())
    claims = [Claim("LOOP", "%sw_exact1", "\n".join(renamed), "%c_exact1", declared, "implies")]
    old, new = parse(before), parse(after)
    return validate((old, old.kernels[0]), (new, new.kernels[0]), claims=claims)


def test_the_check_stands_on_its_own() -> None:
    assert isinstance(proved(PAIR, made_of(PAIR)), Proved)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[%sw_address1+4]", "[%sw_address1+8]"),
        ("[%sw_address2], %f9", "[%sw_address2+4], %f9"),
        ("add.s64 %sw_address1, %rd2", "add.s64 %sw_address1, %rd1"),
        ("mul.wide.u32 %sw_far1, %r5, 4", "mul.wide.u32 %sw_far1, %r5, 8"),
        # The lowest index may be -1.
        (
            "setp.ge.and.s64 %sw_exact1, %sw_start2, 1,",
            "setp.ge.and.s64 %sw_exact1, %sw_start2, 0,",
        ),
        # The way is the wrong one.
        ("@!%sw_exact1 bra", "@%sw_exact1 bra"),
    ],
)
def test_mutants_are_found_by_the_check_and_by_running(right: str, wrong: str) -> None:
    new = made_of(PAIR)
    assert right in new
    mutant = new.replace(right, wrong)
    assert not isinstance(proved(PAIR, mutant), Proved)
    assert any(run(mutant, *launched) != run(PAIR, *launched) for launched in LAUNCHES)


def test_a_weaker_test_is_found_by_the_check() -> None:
    """A step of 2^31 makes an index wrap: no launch above goes so far."""
    new = made_of(PAIR)
    right = "setp.le.and.u32 %sw_so_far3, %r1, 1073741824"
    assert right in new
    weaker = new.replace(right, "setp.ne.and.u32 %sw_so_far3, %r1, 3")
    assert not isinstance(proved(PAIR, weaker), Proved)


def test_a_claim_that_does_not_hold_proves_nothing() -> None:
    """A claim that promises more than the test has found."""
    new = made_of(PAIR)
    stronger = new.replace("%r2, 1073741824", "%r2, 1000")
    assert not isinstance(proved(PAIR, new, claim=stronger), Proved)


# ---------------------------------------------------------------- what ptxas makes of it


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_instructions_of_a_iteration(made: Callable[[str, str], Sass], arch: str) -> None:
    body = [access(f"%r5+{n}" if n else "%r5", n + 3) for n in (-2, -1, 0, 1, 2)]
    sums = "\n\t".join(f"add.f32 %f1, %f1, %f{n};" for n in (2, 3, 4))
    text = loop(*body, sums, store("%r5"), arch=arch).replace("8.0", "8.7")

    def iteration(source: str) -> int:
        loops = inner_loops(made(source, arch).kernel("k"))
        return min(count(each).instructions for each in loops)

    before, after = iteration(text), iteration(made_of(text))
    assert before >= 21
    assert after <= 17
