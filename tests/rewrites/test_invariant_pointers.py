"""Loops that load again in every iteration the pointer, index or number of iterations that they
work with: it is loaded once, behind a test that no store of the loop meets it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from ptxsw.changes.claim import Claim
from ptxsw.driver.pipeline import Result
from ptxsw.parser import parse
from ptxsw.simt import RunError, launch
from tests.heads import head
from tests.rewrites.pair import claims_of, is_proved, new_lines, outcome, reasons, rewritten

NAME = "scalar-replacement"
WHERE, WORDS = 1 << 44, 160

KERNEL = (
    head()
    + """.visible .entry k(.param .u64 cells, .param .u64 other, .param .u32 n)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<12>;
	.reg .b64 %rd<12>;
	ld.param.u64 %rd1, [cells];
	ld.param.u64 %rd2, [other];
	ld.param.u32 %r1, [n];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd3, %r2, 16;
	add.s64 %rd1, %rd1, %rd3;
	mov.u64 %rd7, 0;
	mov.u32 %r3, 0;
	mov.u32 %r6, %r1;
	setp.lt.s32 %p1, %r1, 1;
	@%p1 bra END;
LOOP:
{iteration}
	add.s64 %rd7, %rd7, 8;
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p1, %r3, %r6;
	@%p1 bra LOOP;
END:
	ret;
}}
"""
)

FILLED = """
    ld.global.u64 %rd4, [%rd1];
    add.s64 %rd5, %rd4, %rd7;
    st.global.u64 [%rd5], %rd2;
"""
TWICE = """
    ld.global.u64 %rd4, [%rd1];
    add.s64 %rd5, %rd4, %rd7;
    st.global.u64 [%rd5], %rd2;
    ld.global.u64 %rd6, [%rd1];
    add.s64 %rd8, %rd6, %rd7;
    st.global.u64 [%rd8+-8], %rd1;
"""
SUMMED = """
    ld.global.u64 %rd4, [%rd1];
    add.s64 %rd5, %rd2, %rd7;
    ld.global.u64 %rd6, [%rd5];
    ld.global.u64 %rd8, [%rd4];
    add.s64 %rd8, %rd8, %rd6;
    st.global.u64 [%rd4], %rd8;
"""
CHAIN = """
    ld.global.u64 %rd4, [%rd1];
    ld.global.u64 %rd5, [%rd4+8];
    add.s64 %rd6, %rd5, %rd7;
    st.global.u64 [%rd6], %rd2;
"""
INDEX = """
    ld.global.u32 %r5, [%rd1+8];
    mul.wide.s32 %rd4, %r5, 8;
    add.s64 %rd5, %rd2, %rd4;
    ld.global.u64 %rd6, [%rd5];
    add.s64 %rd6, %rd6, 1;
    st.global.u64 [%rd5], %rd6;
"""
COUNTED = """
    ld.global.u32 %r6, [%rd1+8];
    add.s64 %rd5, %rd2, %rd7;
    st.global.u64 [%rd5], %rd1;
"""
BODIES = {
    "filled": FILLED, "twice": TWICE, "summed": SUMMED, "chain": CHAIN, "index": INDEX,
    "counted": COUNTED,
}  # fmt: skip


def kernel(iteration: str) -> str:
    """`%rd1` is a thread's own two words of `cells`, `%rd2` the second pointer, which all share;
    `%rd7` grows by 8 in each iteration."""
    return KERNEL.format(iteration=iteration.strip())


def made(text: str, **options: object) -> Result:
    return rewritten(NAME, text, **options)


def behind(
    text: str, distance: int, iterations: int, threads: int = 1, first: int = 8
) -> bytes | None:
    """What is in memory behind a launch. All words are pointers to others, the first thread's cell
    to the word `distance` bytes behind itself. None where it fails or threads race."""
    words = WHERE + 8 * (np.arange(WORDS, dtype="u8") * 7 % WORDS)
    middle = WORDS // 2
    words[middle] = WHERE + 8 * middle + distance
    words[middle + 1] = first
    try:
        done = launch(
            parse(text), "k", 1, threads,
            [WHERE + 8 * middle, WHERE + 8 * middle + distance + 64, iterations],
            memory={WHERE: words.view("u1")}, races=threads > 1, limit=20_000,
        )  # fmt: skip
    except RunError:
        return None
    return bytes(done.memory[WHERE].tobytes())


# ---------------------------------------------------------------- what is written


def test_the_pointer_is_loaded_before_the_test_that_speaks_of_it() -> None:
    text = kernel(FILLED)
    result = made(text)
    lines = new_lines(text, result)
    assert lines[: lines.index("bra.uni $sw_done1;")] == [
        "ld.global.u64 %sw_fixed13, [%rd1];",
        "setp.lt.s32 %sw_so_far1, %r3, %r1;",
        "setp.le.and.s32 %sw_so_far2, %r1, 1073741824, %sw_so_far1;",
        "sub.s64 %sw_base1, %rd1, %rd7;",
        "sub.s64 %sw_base2, %sw_base1, %sw_fixed13;",
        "add.s64 %sw_base3, %sw_base2, 7;",
        "sub.s32 %sw_sum1, %r1, %r3;",
        "cvt.u64.u32 %sw_wide1, %sw_sum1;",
        "mad.lo.s64 %sw_reach1, %sw_wide1, 8, 7;",
        "setp.ge.and.u64 %sw_clear1, %sw_base3, %sw_reach1, %sw_so_far2;",
        "@!%sw_clear1 bra $sw_slow1;",
        "mov.b64 %rd4, %sw_fixed13;",
    ]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert (entry.detail or {})["kind"] == "invariant"


def test_a_sum_behind_a_loaded_pointer_stays_in_a_register() -> None:
    lines = new_lines(kernel(SUMMED), made(kernel(SUMMED)))
    assert "st.global.u64 [%rd4], %sw_held1;" in lines
    assert "ld.global.u64 %sw_held1, [%sw_fixed13];" in lines


def test_one_register_for_all_loads_of_a_pointer() -> None:
    lines = new_lines(kernel(TWICE), made(kernel(TWICE)))
    assert {"mov.b64 %rd4, %sw_fixed13;", "mov.b64 %rd6, %sw_fixed13;"} <= set(lines)
    assert sum(line.startswith("ld.global") for line in lines) == 1


def test_pointers_behind_pointers() -> None:
    lines = new_lines(kernel(CHAIN), made(kernel(CHAIN)))
    assert lines[:2] == [
        "ld.global.u64 %sw_fixed13, [%rd1];",
        "ld.global.u64 %sw_fixed14, [%sw_fixed13+8];",
    ]


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("st.global.u64 [%rd5], %rd2;", "st.global.u32 [%rd1+4], %r3;"), "may write these bytes"),
        (("st.global.u64 [%rd5]", "st.volatile.global.u64 [%rd5]"), "orders memory or waits"),
        (("st.global.u64 [%rd5], %rd2;", "bar.sync 0;\nst.global.u64 [%rd5], %rd2;"), "orders"),
        (("st.global.u64 [%rd5], %rd2;", "atom.global.add.u64 %rd8, [%rd5], %rd2;"), "orders"),
        (("[%rd1];\n", "[%rd1];\n\tst.global.u64 [%rd1+4], %rd2;\n"), "may write these bytes"),
        (
            ("add.s64 %rd5, %rd4, %rd7;", "xor.b64 %rd5, %rd4, %rd7;"),
            "an address does not grow by the same number of bytes in every iteration",
        ),
    ],
)
def test_what_is_left_alone(change: tuple[str, str], reason: str) -> None:
    text = kernel(FILLED).replace(*change)
    assert text != kernel(FILLED)
    result = made(text)
    assert result.text == text
    assert any(reason in told for told in reasons(result)), reasons(result)


@pytest.mark.parametrize(
    "change",
    [
        ("ld.global.u64 %rd4", "ld.volatile.global.u64 %rd4"),
        ("ld.global.u64 %rd4", "@%p2 ld.global.u64 %rd4"),
        ("LOOP:", "LOOP:\n\tadd.s64 %rd1, %rd1, 16;"),  # another cell in each iteration
        ("add.s64 %rd5, %rd4, %rd7;", "add.s64 %rd5, %rd4, %rd7;\n\tmov.b64 %rd1, %rd4;"),  # a list
    ],
)
def test_what_is_no_invariant(change: tuple[str, str]) -> None:
    text = kernel(FILLED).replace(*change)
    assert text != kernel(FILLED)
    assert made(text).text == text


def test_a_pointer_that_shared_memory_holds_and_the_loop_stores() -> None:
    """No store meets what the pointer leads to, but it is another pointer in each iteration."""
    text = kernel("""
        mov.u32 %r5, cell;
        ld.shared.u64 %rd4, [%r5];
        ld.global.u64 %rd5, [%rd4];
        st.shared.u64 [%r5], %rd5;
        add.s64 %rd8, %rd8, %rd5;
    """).replace(".reg .pred", ".shared .b64 cell;\n\t.reg .pred", 1)
    assert not any("ld.global" in line for line in new_lines(text, made(text)))


# ---------------------------------------------------------------- runs and mutants


@pytest.mark.parametrize("body", BODIES)
def test_results_agree_wherever_the_pointer_leads(body: str) -> None:
    text = kernel(BODIES[body])
    new = made(text).text
    assert "$sw_slow1" in new
    compared = 0
    for distance in range(-48, 56, 4):
        for iterations, threads in ((0, 1), (1, 1), (2, 1), (5, 1), (3, 2)):
            for first in (3, 8):
                given = distance, iterations, threads, first
                old = behind(text, *given)
                compared += old is not None
                assert old is None or old == behind(new, *given), given
    assert compared > 60


def test_a_thread_of_no_iterations_reads_nothing() -> None:
    for body in BODIES.values():
        launch(parse(made(kernel(body)).text), "k", 1, 1, [1 << 20, 1 << 30, 0], memory={})


MUTANTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "no test": (FILLED, lambda text: text.replace("@!%sw_clear1 bra $sw_slow1;", "")),
    "inverted": (FILLED, lambda text: text.replace("@!%sw_clear1", "@%sw_clear1")),
    "two iterations short": (
        FILLED, lambda text: text.replace("%sw_wide1, 8, 7;", "%sw_wide1, 8, -9;"),
    ),
    "another pointer": (
        FILLED, lambda text: text.replace("mov.b64 %rd4, %sw_fixed13", "mov.b64 %rd4, %rd2"),
    ),
    "another cell": (
        FILLED, lambda text: text.replace("%sw_fixed13, [%rd1]", "%sw_fixed13, [%rd1+8]"),
    ),
    "chain of another cell": (
        CHAIN, lambda text: text.replace("[%sw_fixed13+8]", "[%sw_fixed13]"),
    ),
    "the sum is dropped": (
        SUMMED, lambda text: text.replace("st.global.u64 [%rd4], %sw_held1;", ""),
    ),
    "the sum begins elsewhere": (
        SUMMED, lambda text: text.replace("%sw_held1, [%sw_fixed13]", "%sw_held1, [%rd2]"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_validate_alone_refuses_mutants(mutant: str) -> None:
    body, change = MUTANTS[mutant]
    text = kernel(body)
    claims, good = claims_of(NAME, text), made(text).text
    assert is_proved(text, good, claims)
    wrong = change(good)
    assert wrong != good
    assert not is_proved(text, wrong, claims)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_run_alone_catches_mutants(mutant: str) -> None:
    body, change = MUTANTS[mutant]
    text = kernel(body)
    good = made(text).text
    given = [(d, n) for d in (*range(-40, 48, 8), 240) for n in (1, 2, 4)]
    expected = {one: old for one in given if (old := behind(text, *one)) is not None}
    assert all(behind(good, *one) == old for one, old in expected.items())
    with contextlib.suppress(RunError):
        assert any(behind(change(good), *one) != old for one, old in expected.items())


def test_a_claim_may_not_read_memory_to_say_where_a_store_goes() -> None:
    """Of which of the two texts would that be?"""
    text = kernel(SUMMED)
    claim = Claim(
        "LOOP", "%rd9", "ld.global.u64 %c, [%rd1];\nst.global.u64 [%c], %v;", "%v",
        ".reg .b64 %c, %v;", "stored",
    )  # fmt: skip
    with pytest.raises(ValueError, match="a claim about memory reads memory"):
        outcome(text, text, [claim])


def test_a_claim_may_not_speak_of_registers_that_nobody_has() -> None:
    text = kernel(SUMMED)
    claim = Claim("LOOP", "%rd9", "add.s64 %v, %gone, 1;", "%v", ".reg .b64 %v, %gone;")
    with pytest.raises(ValueError, match="a register that neither text has"):
        outcome(text, text, [claim])


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 3 else pytest.mark.slow) for n in range(80)]
)
def test_random_loops(seed: int) -> None:
    random = Random(seed)
    lines = ["ld.global.u64 %rd4, [%rd1];"]
    for at in range(random.randint(2, 5)):
        base = random.choice(["%rd4", "%rd5", "%rd2", "%rd1"])
        place = f"[{base}+{8 * random.choice([-1, 0, 0, 1])}]"
        kind = random.random()
        if kind < 0.25:
            lines.append(f"ld.global.u64 %rd{random.choice([4, 8])}, [%rd1];")
        elif kind < 0.45:
            lines.append(f"add.s64 %rd5, {random.choice(['%rd4', '%rd2'])}, %rd7;")
        elif kind < 0.7:
            lines.append(f"ld.global.u64 %rd{8 + at % 3}, {place};")
        else:
            guard = random.choice(["", "", "@%p3 "])
            lines.append(f"{guard}st.global.u64 {place}, {random.choice(['%rd2', '%rd1'])};")
    first = "mov.u64 %rd5, %rd2;\nand.b32 %r8, %r2, 1;\nsetp.eq.u32 %p3, %r8, 0;\nLOOP:"
    text = kernel("\n".join(lines)).replace("LOOP:", first, 1)
    new = made(text).text
    for _ in range(24 if new != text else 0):
        given = 8 * random.choice(range(-8, 9)), random.choice([0, 1, 2, 5]), random.choice([1, 3])
        old = behind(text, *given)
        assert old is None or old == behind(new, *given), (text, given)
