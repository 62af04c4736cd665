"""Tests before a loop that what a thread stores in it lies apart from what it loads: the number of
iterations and the pointers may be a thread's own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from ptxsw.changes.claim import Claim
from ptxsw.driver.pipeline import Result
from ptxsw.simt import RunError, launch
from ptxsw.simt.state import Race, Trap
from tests.heads import head
from tests.parsed import parsed
from tests.rewrites.pair import claims_of, is_proved, new_lines, reasons, rewritten

NAME = "scalar-replacement"
WHERE, SIZE = 1 << 44, 1 << 12
COUNTS, POINTERS = 1 << 45, 1 << 46

KERNEL = (
    head()
    + """.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 counts, .param .u32 step)
{{
	.reg .pred %p<4>;
	.reg .b16 %h<8>;
	.reg .b32 %r<12>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<12>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	ld.param.u64 %rd3, [counts];
	ld.param.u32 %r1, [step];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd6, %r2, 64;
	add.s64 %rd4, %rd1, %rd6;
	add.s64 %rd5, %rd2, %rd6;
	mul.wide.u32 %rd6, %r2, 8;
	add.s64 %rd9, %rd1, %rd6;
	add.s64 %rd7, %rd3, %rd6;
	ld.global.u32 %r4, [%rd7];
	mul.wide.s32 %rd8, %r1, 4;
	mov.u32 %r3, 0;
	mov.u16 %h1, 5;
{first}
	setp.lt.s32 %p1, %r4, 1;
	@%p1 bra END;
LOOP:
{iteration}
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p1, %r3, %r4;
	@%p1 bra LOOP;
END:
	cvt.u32.u16 %r8, %h1;
	add.u32 %r8, %r8, %r3;
	st.global.u32 [%rd7+4], %r8;
	ret;
}}
"""
)


def kernel(iteration: str, first: str = "") -> str:
    """A kernel of which each thread makes a number of iterations that it loads. `%rd4` and `%rd5`
    are its places in `in` and `out`, 64 bytes from those of the next thread; `%rd9` is the place of
    its own pointer, where `in` holds such."""
    return KERNEL.format(iteration=iteration.strip(), first=first)


BYTES = """
    add.u16 %h2, %h1, 7;
    st.global.u8 [%rd5], %h2;
    ld.global.u8 %h1, [%rd4+2];
    add.s64 %rd4, %rd4, 1;
"""
UPWARDS = """
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd5];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd4, 4;
"""
DOWNWARDS = UPWARDS.replace("%rd4, %rd4, 4", "%rd4, %rd4, -8")
ROWS = UPWARDS.replace("%rd4, %rd4, 4", "%rd4, %rd4, %rd8")
WIDE = """
    ld.global.v2.f32 {%f1, %f4}, [%rd4];
    ld.global.f32 %f2, [%rd5];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd4, 8;
"""
OUTPUT = """
    ld.global.f32 %f1, [%rd4];
    add.f32 %f1, %f1, %f1;
    st.global.f32 [%rd5], %f1;
    add.s64 %rd5, %rd5, 4;
"""
SMOOTH = """
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f2, [%rd4+4];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd4, 4;
    add.s64 %rd5, %rd5, 4;
"""
SOMETIMES = """
    ld.global.f32 %f1, [%rd5];
    setp.gt.f32 %p2, %f1, 0f42480000;
    @%p2 bra NEXT;
    ld.global.f32 %f2, [%rd4+4];
    add.f32 %f1, %f1, %f2;
NEXT:
    st.global.f32 [%rd5], %f1;
    add.s64 %rd4, %rd4, 4;
"""
UNROLLED = """
    ld.global.f32 %f1, [%rd4];
    add.s64 %rd10, %rd4, %rd8;
    ld.global.f32 %f2, [%rd10+4];
    add.f32 %f3, %f1, %f2;
    add.s64 %rd10, %rd10, %rd8;
    ld.global.f32 %f4, [%rd10];
    add.f32 %f3, %f3, %f4;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd10, %rd8;
"""
TWO_INPUTS = """
    ld.global.f32 %f1, [%rd4];
    ld.global.f32 %f4, [%rd4+512];
    ld.global.f32 %f2, [%rd5];
    fma.rn.f32 %f3, %f1, %f4, %f2;
    st.global.f32 [%rd5], %f3;
    add.s64 %rd4, %rd4, 4;
"""
BODIES = {
    "bytes": BYTES, "upwards": UPWARDS, "downwards": DOWNWARDS, "rows": ROWS, "vectors": WIDE,
    "output moves": OUTPUT, "rotated": SMOOTH, "unrolled": UNROLLED, "sometimes": SOMETIMES,
    "two inputs": TWO_INPUTS,
}  # fmt: skip
TWO_FLOATS = "ld.global.f32 %f1, [", "ld.global.v2.f32 {%f1, %f4}, ["
LOADED = "ld.global.u64 %rd4, [%rd9];"
"""Makes `%rd4` a pointer of each thread's own."""


def made(text: str, **options: object) -> Result:
    return rewritten(NAME, text, **options)


# ---------------------------------------------------------------- what is written


def test_the_distance_is_compared_with_how_far_the_loop_still_goes() -> None:
    text = kernel(UPWARDS, LOADED)
    result = made(text)
    assert new_lines(text, result) == [
        "setp.lt.s32 %sw_so_far1, %r3, %r4;",
        "setp.le.and.s32 %sw_so_far2, %r4, 1073741824, %sw_so_far1;",
        "sub.s64 %sw_base1, %rd5, %rd4;",
        "add.s64 %sw_base2, %sw_base1, 3;",
        "sub.s32 %sw_sum1, %r4, %r3;",
        "cvt.u64.u32 %sw_wide1, %sw_sum1;",
        "mad.lo.s64 %sw_reach1, %sw_wide1, 4, 3;",
        "setp.ge.and.u64 %sw_clear1, %sw_base2, %sw_reach1, %sw_so_far2;",
        "@!%sw_clear1 bra $sw_slow1;",
        "ld.global.f32 %sw_held1, [%rd5];",
        "mov.b32 %f2, %sw_held1;",
        "mov.b32 %sw_held1, %f3;",
        "st.global.f32 [%rd5], %sw_held1;",
        "bra.uni $sw_done1;",
        "$sw_slow1:",
        "$sw_done1:",
    ]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == ("finite-loops", "no-lane-race")
    assert entry.proof.guards == (
        "the loops' stores are disjoint from what they keep in registers",
    )


def test_what_keeps_its_distance_needs_no_number_of_iterations() -> None:
    text = kernel(SMOOTH, LOADED).replace(
        "setp.lt.s32 %p1, %r3, %r4", "setp.gt.f32 %p1, %f3, 0f00000000"
    )
    lines = new_lines(text, made(text))
    assert lines[:5] == [
        "sub.s64 %sw_base1, %rd5, %rd4;",
        "add.s64 %sw_base2, %sw_base1, -1;",
        "setp.ge.u64 %sw_clear1, %sw_base2, 7;",
        "@!%sw_clear1 bra $sw_slow1;",
        "ld.global.f32 %sw_held1, [%rd4];",
    ]


def test_a_test_at_entry_is_preferred() -> None:
    """Where both can tell: once for the grid, not for each thread."""
    text = kernel(UPWARDS).replace("ld.global.u32 %r4, [%rd7];", "and.b32 %r4, %r1, 63;")
    assert "$sw_overlap1:" in made(text).text and "$sw_slow" not in made(text).text
    assert "$sw_slow1:" in made(kernel(UPWARDS)).text


def test_loops_of_one_kernel_are_tested_each() -> None:
    text = kernel(UPWARDS)
    again = text[text.index("LOOP:") : text.index("END:")].replace("LOOP", "MORE")
    text = text.replace("END:", f"mov.u32 %r3, 0;\nmov.u64 %rd4, %rd1;\n{again}END:")
    result = made(text)
    assert result.text.count("@!%sw_clear") == 2
    for distance in (0, 8, 400):
        assert behind(text, distance, (0, 3, 5)) == behind(result.text, distance, (0, 3, 5))


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("LOOP:", "LOOP:\nmov.b64 %rd4, {%r3, %r1};"),
            "an address does not grow by the same ",
        ),
        (("setp.lt.s32 %p1, %r3, %r4", "setp.gt.f32 %p1, %f3, 0f00000000"), "the trip count of "),
        (("@%p1 bra END;", "@!%p1 bra LOOP;\nbra END;"), "the loop is entered by a conditional "),
        (("ld.global.f32 %f1, [%rd4]", "ld.f32 %f1, [%rd4]"), "an access is not known to be to "),
        (("END:", "activemask.b32 %r5;\nEND:"), "it would need a branch, and the kernel asks "),
        (("add.s64 %rd4, %rd4, 4", "add.s64 %rd4, %rd4, 4194304"), "the step of an address is too"),
        (("[%rd4]", "[%rd4+4194304]"), "an offset is too large"),
        (("ld.global.f32 %f1, [%rd4]", "ld.global.f32 %f1, [%rd5+2]"), "they overlap"),
        (
            ("%r3, %r3, 1", "%r3, %r3, %r1;\nadd.s64 %rd4, %rd4, 4"),
            "the step of the loop counter is not a number",
        ),
        (
            ("%rd4, %rd4, 4", "%rd4, %rd4, %rd8;\nadd.s64 %rd4, %rd4, 4"),
            "the step of an address is not a multiple of a 32-bit number",
        ),
    ],
)
def test_why_no_test_can_tell(change: tuple[str, str], reason: str) -> None:
    """A load as wide as the store would ask itself whether it is of the same bytes."""
    text = kernel(UPWARDS, LOADED).replace(*change).replace(*TWO_FLOATS)
    result = made(text)
    assert result.text == text
    told = [r.partition("; a test before the loop cannot decide it: ")[2] for r in reasons(result)]
    assert any(why.startswith(reason) for why in told), reasons(result)


def test_a_step_that_only_a_launch_knows_for_counter_and_address() -> None:
    """Other loops of the kernel must not be lost by a test that could not be proved."""
    text = kernel(ROWS, LOADED).replace("%r3, %r3, 1", "%r3, %r3, %r1").replace(*TWO_FLOATS)
    result = made(text)
    assert result.text == text
    assert reasons(result)[0].endswith("the step of the loop counter is not a number")


def test_too_many_ranges() -> None:
    loads = "\n".join(f"ld.global.f32 %f4, [%rd4+{512 * n}];" for n in range(1, 10))
    text = kernel(f"{loads}\n{UPWARDS}", LOADED)
    assert made(text).text == text
    assert reasons(made(text))[0].endswith("it would have to compare too many ranges")


# ---------------------------------------------------------------- runs


def memory_of(counts: Sequence[int], pointer: int | None) -> dict[int, np.ndarray]:
    """The arrays, how many iterations each thread makes, and where its input lies."""
    numbers = np.full((len(counts), 2), 99, "i4")
    numbers[:, 0] = counts
    floats = np.arange(1, SIZE // 4 + 1, dtype="f4") + np.float32(0.1)  # no byte alike the next
    arrays = {WHERE: floats.view("u1"), COUNTS: numbers.view("u1")}
    if pointer is not None:
        places = pointer + 72 * np.arange(len(counts), dtype="i8")
        arrays[POINTERS] = places.view("u1")
    return arrays


def behind(
    text: str, distance: int, counts: Sequence[int], step: int = 2, *, loaded: bool = False
) -> bytes | None:
    """What is in memory behind a launch: a thread for each of `counts`, with the output so many
    bytes behind the input. None where threads race."""
    middle = WHERE + SIZE // 2
    memory = memory_of(counts, middle if loaded else None)
    given = [POINTERS if loaded else middle, middle + distance, COUNTS, step & 0xFFFFFFFF]
    try:
        done = launch(
            parsed(text), "k", 1, len(counts), given, memory=memory, races=len(counts) > 1
        )  # fmt: skip
    except Race:
        return None
    return bytes(done.memory[WHERE].tobytes() + done.memory[COUNTS].tobytes())


def agrees(text: str, new: str, *given: Any, loaded: bool = False) -> bool:
    """Do two texts leave the same, if threads of the first do not race?"""
    old = behind(text, *given, loaded=loaded)
    return old is None or old == behind(new, *given, loaded=loaded)


def goes_slow(text: str, distance: int, counts: Sequence[int], step: int = 2) -> bool:
    """Does a thread run the loop as it was?"""
    trapping = re.sub(r"\$sw_slow1:\s*", "$sw_slow1:\ntrap;\n", text)
    assert trapping != text
    try:
        behind(trapping, distance, counts, step)
    except Trap:
        return True
    return False


DISTANCES = (-24, -8, -4, 0, 4, 8, 24)


@pytest.mark.parametrize("body", BODIES)
def test_results_agree_wherever_the_arrays_lie(body: str) -> None:
    text = kernel(BODIES[body])
    new = made(text).text
    assert "$sw_slow1" in new
    for distance in range(-4, 9) if body == "bytes" else DISTANCES:
        for counts in ((0,), (1,), (2,), (3, 0, 1, 6, 2)):
            given = distance, counts
            assert agrees(text, new, *given), given


@pytest.mark.parametrize("body", [name for name in BODIES if name != "rotated"])
def test_pointers_of_each_thread_alone(body: str) -> None:
    text = kernel(BODIES[body], LOADED)
    new = made(text).text
    assert "$sw_slow1" in new
    for distance in (-404, -8, 0, 4, 24):
        for step in (2, 0, -2):
            given = distance, (2, 0, 4, 1, 5), step
            assert agrees(text, new, *given, loaded=True), given


RANGES: dict[str, Callable[[int, int], range]] = {
    # what an iteration reads that the stores must not touch, in bytes behind the input
    "bytes": lambda iterations, step: range(2, iterations + 2),
    "upwards": lambda iterations, step: range(4 * iterations),
    "downwards": lambda iterations, step: range(-8 * (iterations - 1), 4),
    "rows": lambda iterations, step: range(4 * step * (iterations - 1) + 4),
    "vectors": lambda iterations, step: range(8 * iterations),
}


@pytest.mark.parametrize("body", RANGES)
def test_the_loop_as_it_was_runs_where_ranges_meet_and_only_there(body: str) -> None:
    new = made(kernel(BODIES[body])).text
    size = 1 if body == "bytes" else 4
    for iterations in (1, 2, 4):
        for step in (0, 1, 3) if body == "rows" else (1,):
            touched = RANGES[body](iterations, step)
            for distance in range(touched.start - 3 * size, touched.stop + 2 * size, size):
                meets = touched.start < distance + size and distance < touched.stop
                assert goes_slow(new, distance, (iterations,), step) == meets, (
                    iterations,
                    step,
                    distance,
                )


def test_steps_down_that_only_a_launch_knows_take_the_loop_as_it_was() -> None:
    new = made(kernel(ROWS)).text
    assert goes_slow(new, 400, (3,), -1) and not goes_slow(new, 400, (3,), 1)


def test_a_thread_of_no_iterations_reads_nothing() -> None:
    for body in BODIES.values():
        text = kernel(body)
        for one in (text, made(text).text):
            memory = {COUNTS: memory_of((0, -3), None)[COUNTS]}
            launch(parsed(one), "k", 1, 2, [1 << 20, 1 << 30, COUNTS, 2], memory=memory)  # unmapped


# ---------------------------------------------------------------- mutants


def _moved_up(text: str) -> str:
    """The load before the loop stands before the test whether there is an iteration."""
    load, test = "ld.global.f32 %sw_held1, [%rd5];", "setp.lt.s32 %p1, %r4, 1;"
    return text.replace(load, "", 1).replace(test, f"{load}\n{test}")


STORED = "st.global.f32 [%rd5], %sw_held1;"
MUTANTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "a byte short at the low end": (
        BYTES, lambda text: text.replace("%sw_base1, -2;", "%sw_base1, -3;"),
    ),
    "a byte short at the high end": (
        BYTES, lambda text: text.replace("%sw_wide1, 1, 0;", "%sw_wide1, 1, -1;"),
    ),
    "an iteration short": (
        UPWARDS, lambda text: text.replace("%sw_wide1, 4, 3;", "%sw_wide1, 4, -1;"),
    ),
    "inverted": (UPWARDS, lambda text: text.replace("@!%sw_clear1 bra", "@%sw_clear1 bra")),
    "no test": (UPWARDS, lambda text: text.replace("@!%sw_clear1 bra $sw_slow1;", "")),
    "other way round": (UPWARDS, lambda text: text.replace("%rd5, %rd4;", "%rd4, %rd5;")),
    "another number of iterations": (
        UPWARDS, lambda text: text.replace("%sw_sum1, %r4, %r3;", "%sw_sum1, %r2, %r3;"),
    ),
    "load before the test": (UPWARDS, _moved_up),
    "store dropped": (UPWARDS, lambda text: text.replace(STORED, "")),
    "store though no iteration ran": (
        UPWARDS, lambda text: text.replace(STORED, "").replace("END:", f"END:\n{STORED}"),
    ),
    "sum forgotten": (UPWARDS, lambda text: text.replace("mov.b32 %sw_held1, %f3;", "")),
    "slow loop left out": (
        UPWARDS, lambda text: text.replace("$sw_slow1:", "$sw_slow1:\nbra $sw_done1;"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_validate_alone_refuses_mutants(mutant: str) -> None:
    body, change = MUTANTS[mutant]
    text = kernel(body, LOADED)
    claims, good = claims_of(NAME, text), made(text).text
    assert is_proved(text, good, claims)
    wrong = change(good)
    assert wrong != good
    assert not is_proved(text, wrong, claims)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_run_alone_catches_mutants(mutant: str) -> None:
    body, change = MUTANTS[mutant]
    text = kernel(body, LOADED)
    good = made(text).text

    def results(text: str) -> list[bytes | None]:
        near = range(8) if body is BYTES else range(-4, 20, 4)
        runs = [
            behind(text, far, (iterations,), loaded=True) for far in near for iterations in (1, 4)
        ]
        runs.append(behind(text, 1024, (0, 3, 5), loaded=True))
        unmapped = memory_of((0,), 1 << 20)
        del unmapped[WHERE]
        launch(parsed(text), "k", 1, 1, [POINTERS, 1 << 30, COUNTS, 2], memory=unmapped)
        return runs

    expected = results(text)
    assert results(good) == expected
    with contextlib.suppress(RunError):
        assert results(change(good)) != expected


def test_wrong_claims_prove_nothing() -> None:
    """With the mutant's own words in the claim, too."""
    text = kernel(BYTES, LOADED)
    good = made(text).text
    for name in ("a byte short at the low end", "a byte short at the high end"):
        change = MUTANTS[name][1]
        claims = [
            Claim(c.label, c.register, _as_claimed(change, c.code), c.value, c.declare,
                  c.relation, c.where)
            for c in claims_of(NAME, text)
        ]  # fmt: skip
        assert claims != claims_of(NAME, text)
        assert not is_proved(text, change(good), claims)


def _as_claimed(mutant: Callable[[str], str], code: str) -> str:
    return mutant(code.replace("%sw_claim_", "%sw_")).replace("%sw_", "%sw_claim_")


# ---------------------------------------------------------------- random loops


def drawn(random: Random) -> str:
    """A loop over two pointers, each of which stays or goes on by some step."""
    lines = []
    for at in range(random.randint(2, 5)):
        place = f"[{random.choice(['%rd4', '%rd5'])}+{4 * random.choice([-2, 0, 0, 1, 2])}]"
        if random.random() < 0.6:
            lines += [f"ld.global.f32 %f{at + 2}, {place};", f"add.f32 %f1, %f1, %f{at + 2};"]
        else:
            guard = random.choice(["", "", "@%p3 "])
            lines.append(f"{guard}st.global.f32 {place}, %f1;")
    for base in ("%rd4", "%rd5"):
        step = random.choice(["0", "4", "8", "-4", "%rd8"])
        if step != "0":
            lines.insert(random.randint(0, len(lines)), f"add.s64 {base}, {base}, {step};")
    if random.random() < 0.3:
        lines.append("setp.gt.f32 %p2, %f1, 0f447A0000;\n@%p2 bra END;")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 6 else pytest.mark.slow) for n in range(150)]
)
def test_random_loops(seed: int) -> None:
    random = Random(seed)
    first = "mov.f32 %f1, 0f3F800000;\nand.b32 %r6, %r2, 1;\nsetp.eq.u32 %p3, %r6, 0;"
    loaded = random.random() < 0.5
    text = kernel(drawn(random), f"{first}\n{LOADED if loaded else ''}")
    new = made(text).text
    for _ in range(16 if new != text else 0):
        counts = [random.choice([0, 1, 2, 3, 7]) for _ in range(random.choice([1, 1, 5]))]
        distance = 4 * random.choice([0, 1, -1, 2, -2, 3, 5, -6, 9, 60, -60])
        given = distance, counts, random.choice([0, 1, 2, -1])
        assert agrees(text, new, *given, loaded=loaded), (text, given)
