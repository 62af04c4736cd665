"""Narrowing under a test: 64-bit divisions whose operands may fit 32 bits (gpucc, 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.sass import Sass
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.rewrites.local_changes import BYPASSED, CHEAP, PARTED, UNTESTED
from ptxsw.simt import launch
from tests.cost.conftest import made as assembled
from tests.cost.conftest import tools
from tests.heads import head
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, new_lines, reasons, rewritten

__all__ = ["assembled", "tools"]  # fixtures

WIDE = "ld.global.u64 %rd6, [%rd4];\nld.global.u64 %rd7, [%rd4+512];\n"
STORES = "\nst.global.u64 [%rd5], %rd8;\nst.global.u64 [%rd5+512], %rd9;"
ZERO = "\nmov.u64 %rd9, 0;"


def made(body: str, **options: object) -> list[str]:
    text = kernel(body)
    return new_lines(text, rewritten("narrowing", text, **options))


def test_a_remainder_stays_where_its_operands_do_not_fit() -> None:
    assert made(WIDE + "rem.s64 %rd8, %rd6, %rd7;" + ZERO + STORES) == [
        "cvt.u32.u64 %sw_low1, %rd6;",
        "cvt.u32.u64 %sw_low2, %rd7;",
        "or.b64 %sw_joined1, %rd6, %rd7;",
        "shr.u64 %sw_high1, %sw_joined1, 32;",
        "cvt.u32.u64 %sw_upper1, %sw_high1;",
        "setp.ne.u32 %sw_fails1, %sw_upper1, 0;",
        "@%sw_fails1 bra $sw_wide1;",
        "rem.u32 %sw_narrow1, %sw_low1, %sw_low2;",
        "cvt.u64.u32 %rd8, %sw_narrow1;",
        "bra $sw_divided1;",
        "$sw_wide1:",
        "$sw_divided1:",
    ]


def test_only_what_is_not_known_is_tested() -> None:
    """The divisor fits and is not zero; a guard is kept on what writes the old destination."""
    found = made(WIDE + "@%p1 div.u64 %rd8, %rd6, 10;" + ZERO + STORES)
    assert "shr.u64 %sw_high1, %rd6, 32;" in found
    assert "@%p1 cvt.u64.u32 %rd8, %sw_narrow1;" in found
    assert not any("setp.eq" in line for line in found)


def test_quotient_and_remainder_share_the_test() -> None:
    """Whatever registers they have read the same values from."""
    found = made(
        WIDE
        + "mov.b64 %rd10, %rd7;\ndiv.s64 %rd8, %rd6, %rd7;\nrem.s64 %rd9, %rd6, %rd10;"
        + STORES
    )
    assert sum("bra $sw_wide" in line for line in found) == 1
    assert [line for line in found if line.startswith("div")] == [
        "div.u32 %sw_narrow1, %sw_low1, %sw_low2;",
        "div.s64 %sw_quotient1, %rd6, %rd7;",
    ]
    assert found[-1] == "mov.b64 %rd9, %sw_rest1;"


def test_a_quotient_and_remainder_that_fit_take_one_division() -> None:
    small = WIDE.replace("u64 %rd", "u32 %rd")
    found = made(small + "div.u64 %rd8, %rd6, %rd7;\nrem.u64 %rd9, %rd6, %rd7;" + STORES)
    assert sum(line.startswith(("div", "rem")) for line in found) == 1
    assert not any("bra" in line for line in found)


BYPASS = """or.b64 %rd10, %rd6, %rd7;
shr.u64 %rd11, %rd10, 32;
setp.eq.s64 %p1, %rd11, 0;
@%p1 bra SMALL;
div.u64 %rd8, %rd6, %rd7;
bra DONE;
SMALL:
cvt.u32.u64 %r3, %rd6;
cvt.u32.u64 %r4, %rd7;
div.u32 %r5, %r3, %r4;
cvt.u64.u32 %rd8, %r5;
DONE:"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BYPASS, BYPASSED),  # as NVVM writes it
        ("rem.u64 %rd8, %rd6, 4294967296;", CHEAP),
        ("div.s64 %rd8, %rd6, -8;", CHEAP),
        ("mov.u64 %rd7, 64;\ndiv.u64 %rd8, %rd6, %rd7;", CHEAP),
        ("div.u64 %rd8, %rd6, 10000000000;", BYPASSED),
        ("div.u64 %rd8, %rd6, %rd7;\nactivemask.b32 %r5;\nst.global.u32 [%rd5], %r5;", PARTED),
        ("mul.lo.s64 %rd8, %rd6, %rd7;", "its operands are not known to fit 32 bits"),
    ],
)
def test_what_no_test_would_help(body: str, reason: str) -> None:
    text = kernel(WIDE + body + ZERO + STORES)
    result = rewritten("narrowing", text)
    assert result.text == text
    assert reasons(result) == [reason]


def test_auto_makes_no_test() -> None:
    text = kernel(WIDE + "div.u64 %rd8, %rd6, %rd7;" + ZERO + STORES)
    result = optimize(text, Options(mode="auto", rewrites=("narrowing",)))
    assert result.text == text
    assert reasons(result) == ["its operands are not known to fit 32 bits" + UNTESTED]


# ---------------------------------------------------------------- flat indices

SPLIT = (
    head()
    + """.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 nx, .param .u64 ny)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<20>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [nx];
	ld.param.u64 %rd3, [ny];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	mul.wide.u32 %rd4, %r2, 64;
	cvt.u64.u32 %rd5, %r1;
	add.s64 %rd6, %rd4, %rd5;
	rem.s64 %rd7, %rd6, %rd2;
	div.s64 %rd8, %rd6, %rd2;
	rem.s64 %rd9, %rd8, %rd3;
	mul.lo.s64 %rd10, %rd2, %rd3;
	div.s64 %rd11, %rd6, %rd10;
	mad.lo.s64 %rd12, %rd6, 24, %rd1;
	st.global.u64 [%rd12], %rd7;
	st.global.u64 [%rd12+8], %rd9;
	st.global.u64 [%rd12+16], %rd11;
	ret;
}
"""
)


def test_an_index_is_split_into_three_coordinates() -> None:
    """Parameters of 64 bits: each test asks for what the one before has left."""
    new = rewritten("narrowing", SPLIT).text
    assert new.count("bra $sw_wide") == 3
    for nx, ny in (
        (3, 5),
        (0, 4),
        (7, 0),
        (2**33, 3),
        (2**63, 2),
        (2**64 - 1, 2**64 - 1),
        (1, 2**32),
    ):
        assert _coordinates(SPLIT, nx, ny) == _coordinates(new, nx, ny), (nx, ny)


def _coordinates(text: str, nx: int, ny: int) -> bytes:
    out = np.zeros(3 * 128, "u8")
    result = launch(parsed(text), "k", 2, 64, [out, out, nx, ny])
    return bytes(result.buffers[1].tobytes())


MUTANTS = (
    ("or.b64 %sw_joined1, %rd6, %rd2;", "or.b64 %sw_joined1, %rd6, %rd6;"),
    ("or.b64 %sw_joined2, %rd8, %rd3;", "or.b64 %sw_joined2, %rd6, %rd3;"),
    ("shr.u64 %sw_high1, %sw_joined1, 32;", "shr.u64 %sw_high1, %sw_joined1, 33;"),
    ("setp.ne.u32 %sw_fails1,", "setp.eq.u32 %sw_fails1,"),
    ("sub.u32 %sw_less1, %sw_low1, %sw_whole1;", "sub.u32 %sw_less1, %sw_whole1, %sw_low1;"),
    ("mul.lo.u32 %sw_whole1, %sw_narrow1, %sw_low2;", "mul.lo.u32 %sw_whole1, %sw_low1, %sw_low2;"),
    ("div.s64 %sw_quotient1, %rd6, %rd2;", "div.u64 %sw_quotient1, %rd6, %rd2;"),
    ("rem.s64 %rd9, %rd8, %rd3;", "rem.u64 %rd9, %rd8, %rd3;"),
    ("div.s64 %rd11, %rd6, %rd10;", "div.s64 %rd11, %rd6, %rd2;"),
    ("cvt.u64.u32 %rd11, %sw_narrow3;", "cvt.s64.s32 %rd11, %sw_narrow3;"),
    ("rem.u32 %sw_narrow2, %sw_low3, %sw_low4;", "rem.s32 %sw_narrow2, %sw_low3, %sw_low4;"),
)


@pytest.fixture(scope="module")
def new() -> str:
    """What is made of the split index, and proved."""
    text = rewritten("narrowing", SPLIT).text
    assert is_proved(SPLIT, text)
    return text


@pytest.mark.parametrize(("right", "wrong"), MUTANTS)
def test_what_differs_is_not_proved(right: str, wrong: str, new: str) -> None:
    assert new.count(right) == 1, new
    assert not is_proved(SPLIT, new.replace(right, wrong))


ROW = 12


def test_a_row_of_divisions_is_proved_one_by_one() -> None:
    """Twelve tests make 4,096 paths through the block: the proof cuts it behind each of them."""
    body = "".join(
        f"ld.global.u64 %rd6, [%rd1+{16 * n}];\nld.global.u64 %rd7, [%rd1+{16 * n + 8}];\n"
        f"div.u64 %rd8, %rd6, %rd7;\nst.global.u64 [%rd2+{8 * n}], %rd8;\n"
        for n in range(ROW)
    )
    text = kernel(body)
    new = rewritten("narrowing", text).text
    assert new.count("bra $sw_wide") == ROW
    last = f"div.u32 %sw_narrow{ROW}, %sw_low{2 * ROW - 1}, %sw_low{2 * ROW};"
    assert last in new
    assert not is_proved(text, new.replace(last, last.replace("div", "rem")))


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("kind", ["u64", "s64"])
@pytest.mark.parametrize("operations", [("div",), ("rem",), ("div", "rem")])
def test_random_operands_give_the_same(kind: str, operations: tuple[str, ...]) -> None:
    """Around 2^32 and 2^63, of both signs, with divisors that are zero."""
    lines = [f"{o}.{kind} %rd{8 + n}, %rd6, %rd7;" for n, o in enumerate(operations)]
    text = kernel(WIDE + "\n".join(lines) + ("" if len(lines) > 1 else ZERO) + STORES)
    new = rewritten("narrowing", text).text
    assert "bra $sw_wide" in new
    random = np.random.default_rng(5)
    for around in (0, 2**31, 2**32, 2**63, 2**64 - 1):
        data = random.integers(-5, 6, 128, "i8").astype("u8") + np.uint64(around)
        some = random.random(64) < 0.5
        data[64:][some] = random.integers(0, 9, 64, "u8")[some]
        assert _run(text, data) == _run(new, data), around
    data = random.integers(0, 2**64 - 1, 128, "u8") >> random.integers(0, 64, 128).astype("u8")
    assert _run(text, data) == _run(new, data)


def _run(text: str, data: np.ndarray) -> bytes:
    result = launch(parsed(text), "k", 1, 64, [data.copy(), np.zeros(128, "u8"), 0])
    return bytes(result.buffers[1].tobytes())


# ---------------------------------------------------------------- machine code

MOST = {("div",): 40, ("rem",): 40, ("div", "rem"): 48}
"""Instructions that a thread with small operands executes, of the whole kernel."""


SLOW = [pytest.param(arch, marks=pytest.mark.slow) for arch in ("sm_75", "sm_90")]


@pytest.mark.parametrize("arch", ["sm_80", "sm_120", *SLOW])
@pytest.mark.parametrize("operations", MOST)
def test_small_operands_take_the_short_way(
    assembled: Callable[[str, str], Sass], arch: str, operations: tuple[str, ...]
) -> None:
    lines = "\n".join(f"{o}.u64 %rd{8 + n}, %rd6, %rd7;" for n, o in enumerate(operations))
    stores = "\n".join(STORES.split("\n")[: 1 + len(operations)])
    text = kernel(WIDE + lines + stores)
    text = text.replace(".version 8.0", ".version 8.7").replace("sm_80", arch)
    new = rewritten("narrowing", text).text
    (before,), after = (sorted(_executed(assembled(t, arch).kernel("k"))) for t in (text, new))
    assert len(after) == 2
    assert after[0] <= MOST[operations]
    assert after[1] <= before + 8


def _executed(kernel: MachineKernel) -> Iterator[int]:
    """How many instructions each way through the kernel has, with those of what it calls."""
    lengths = {}
    for routine in kernel.routines[1:]:
        lengths[routine.name] = sum(len(kernel.of_block(b)) for b in routine.flow.blocks)
    flow = kernel.routines[0].flow
    work = [(0, 0)]
    while work:
        number, length = work.pop()
        code = kernel.of_block(flow.blocks[number])
        length += len(code)
        length += sum(n for i in code for name, n in lengths.items() if name in i.operands)
        ends = any(i.root == "EXIT" and not i.predicate for i in code)
        work += [] if ends else [(n, length) for n in flow.blocks[number].successors]
        if ends:
            yield length
