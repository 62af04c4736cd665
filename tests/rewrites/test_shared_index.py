"""Strength reduction: pointers that a loop moves on by the same, made from one of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.kernelgen.make import path as operator_path
from benchmarks.strength_reduction import iteration
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.simt import RunError, launch
from tests.cost.conftest import tools
from tests.rewrites.pair import claims_of, is_proved, new_lines, reasons, rewritten

__all__ = ["tools"]  # fixtures

REWRITE = "strength-reduction"

# As GCC writes `for (; k != n; k++) out[k·s] = a[k·s] + b[k·s + 1] + c[k·s]`, which is entered with
# at least one iteration to go.
LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c,
	.param .u64 step, .param .u32 n)
{{
	.reg .pred %p<5>;
	.reg .b32 %r<20>;
	.reg .f32 %f<20>;
	.reg .b64 %rd<30>;
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [a];
	ld.param.u64 %rd3, [b];
	ld.param.u64 %rd4, [c];
	ld.param.u64 %rd5, [step];
	ld.param.u32 %r1, [n];
	mov.u32 %r3, %tid.x;
	mul.wide.u32 %rd6, %r3, 4;
	add.s64 %rd1, %rd1, %rd6;
	add.s64 %rd2, %rd2, %rd6;
	add.s64 %rd3, %rd3, %rd6;
	add.s64 %rd4, %rd4, %rd6;
	mov.u32 %r2, 0;
	setp.eq.u32 %p2, %r1, 0;
	@%p2 bra DONE;
LOOP:
{body}
	@%p1 bra LOOP;
DONE:
	ret;
}}
"""
LOADS = (
    "ld.global.f32 %f1, [%rd2];",
    "ld.global.f32 %f2, [%rd3+4];",
    "ld.global.f32 %f3, [%rd4];",
    "add.f32 %f4, %f1, %f2;",
    "add.f32 %f4, %f4, %f3;",
)
STORE = "st.global.f32 [%rd1], %f4;"
ON = tuple(f"add.s64 %rd{n}, %rd{n}, %rd5;" for n in (1, 2, 3, 4))
COUNT = ("add.s32 %r2, %r2, 1;", "setp.ne.u32 %p1, %r2, %r1;")


def loop(*body: str) -> str:
    return LOOP.format(body="\n".join(f"\t{line}" for line in body))


FOUR = loop(*LOADS, STORE, *ON, *COUNT)


@pytest.fixture(autouse=True)
def no_ptxas(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small loops are unrolled by ptxas, which then wants pointers."""
    if "tools" not in request.fixturenames:
        monkeypatch.setenv("PTXSW_REAL_PTXAS", "/nowhere/ptxas")


def made(text: str) -> str:
    result = rewritten(REWRITE, text)
    assert result.text != text, reasons(result)
    return result.text


BUFFER, FAR = 1 << 14, 1 << 40
ARRAYS = (FAR, 3 * FAR, 2 * FAR, (1 << 64) - BUFFER)  # the last one ends where addresses do


def run(text: str, step: int, n: int, threads: int = 3) -> dict[int, bytes] | str:
    """What memory holds behind a launch that begins in the middle of four arrays."""
    random = np.random.default_rng(1)
    memory = {at: random.random(BUFFER // 4, "f4") for at in ARRAYS}
    arguments = [*(at + BUFFER // 2 for at in ARRAYS), step % (1 << 64), n]
    try:
        done = launch(parse(text), "k", (1,), threads, arguments, memory=memory)
    except RunError as error:
        return type(error).__name__
    return {at: bytes(array.tobytes()) for at, array in done.memory.items()}


LAUNCHES = [(4, 1), (4, 100), (4, 0), (-4, 100), (0, 3), (128, 15), (-128, 15)]


# ---------------------------------------------------------------- before and after


def test_three_pointers_are_made_from_the_fourth() -> None:
    assert new_lines(FOUR, rewritten(REWRITE, FOUR)) == [
        "sub.s64 %sw_base1, %rd2, %rd1;",
        "mov.b64 %sw_apart1, %sw_base1;",
        "sub.s64 %sw_base2, %rd3, %rd1;",
        "mov.b64 %sw_apart2, %sw_base2;",
        "sub.s64 %sw_base3, %rd4, %rd1;",
        "mov.b64 %sw_apart3, %sw_base3;",
        "add.s64 %sw_address1, %rd1, %sw_apart1;",
        "ld.global.f32 %f1, [%sw_address1];",
        "add.s64 %sw_address2, %rd1, %sw_apart2;",
        "ld.global.f32 %f2, [%sw_address2+4];",
        "add.s64 %sw_address3, %rd1, %sw_apart3;",
        "ld.global.f32 %f3, [%sw_address3];",
    ]


def test_sums_with_one_register_become_one_sum() -> None:
    """As in uxx1: each array plus one of several rows plus the bytes that the loop has gone."""
    rows = ("add.s64 %rd10, %rd7, %rd1;", "add.s64 %rd11, %rd2, %rd10;",
            "ld.global.f32 %f1, [%rd11];", "add.s64 %rd12, %rd3, %rd10;",
            "ld.global.f32 %f2, [%rd12];", "add.s64 %rd13, %rd7, %rd4;",
            "add.s64 %rd14, %rd2, %rd13;", "ld.global.f32 %f3, [%rd14];",
            "add.s64 %rd15, %rd3, %rd13;", "st.global.f32 [%rd15], %f3;",
            "add.s64 %rd7, %rd7, 128;", "setp.ne.s64 %p1, %rd7, %rd5;")  # fmt: skip
    new = [line for line in new_lines("", rewritten(REWRITE, loop(*rows))) if "sw_" in line]
    assert [line for line in new if line.startswith("add.s64 %sw_address")] == [
        f"add.s64 %sw_address{n}, %rd7, %sw_apart{n};" for n in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("launched", LAUNCHES, ids=str)
def test_bit_for_bit_whichever_way_the_pointers_go(launched: tuple[int, int]) -> None:
    """One array lies below another, and one behind the half of all addresses."""
    before = run(FOUR, *launched)
    assert isinstance(before, dict)
    assert run(made(FOUR), *launched) == before


# The index moves on in the middle of an iteration, and one arm of a branch goes on earlier.
EARLY = loop(*LOADS[:1], *ON, *LOADS[1:], STORE, *COUNT)
ARMS = loop(*LOADS[:2], "setp.gt.f32 %p3, %f1, %f2;", "mov.f32 %f3, 0f00000000;", "@%p3 bra PAST;",
            *LOADS[2:3], "PAST:", *LOADS[3:], STORE, *ON, *COUNT)  # fmt: skip
LEAVES = loop(*LOADS[:2], "setp.gt.f32 %p3, %f1, 0f3F733333;", "@%p3 bra DONE;", *LOADS[2:], STORE,
              *ON, *COUNT)  # fmt: skip
AGAIN = loop(*LOADS, STORE, *ON, *COUNT[:1], "setp.gt.f32 %p3, %f1, %f2;", "@%p3 bra LAST;",
             "setp.ne.u32 %p1, %r2, %r1;", "@%p1 bra LOOP;", "bra.uni DONE;", "LAST:",
             COUNT[1])  # fmt: skip


@pytest.mark.parametrize("text", [EARLY, ARMS, LEAVES, AGAIN], ids=["early", "arms", "out", "two"])
def test_other_loops(text: str) -> None:
    new = made(text)
    for launched in LAUNCHES:
        assert run(new, *launched) == run(text, *launched)


def test_where_the_index_moves_on_early_addresses_are_made_before() -> None:
    lines = [line.strip() for line in made(EARLY).splitlines()]
    moves = lines.index("add.s64 %rd2, %rd2, %rd5;")
    assert lines.index("add.s64 %sw_address1, %rd2, %sw_apart1;") < moves


# ---------------------------------------------------------------- what stays


def each(line: str) -> list[str]:
    return [line.format(n=n) for n in (2, 3, 4)]


@pytest.mark.parametrize(
    "text",
    [
        # Two pointers only; different steps; a step that an iteration changes; one that is made
        # under a guard; a pointer that is loaded.
        loop("ld.global.f32 %f4, [%rd2];", STORE, *ON[:2], *COUNT),
        loop(*LOADS, STORE, ON[0], *each("add.s64 %rd{n}, %rd{n}, {n};"), *COUNT),
        loop(*LOADS, STORE, *ON, "add.s64 %rd5, %rd5, 4;", *COUNT),
        loop(*LOADS, STORE, *(f"@%p2 {line}" for line in ON), *COUNT),
        loop(*LOADS, STORE, ON[0], *each("ld.global.u64 %rd{n}, [%rd{n}];"), *COUNT),
    ],
    ids=["few", "steps", "changes", "guard", "loaded"],
)  # fmt: skip
def test_what_stays(text: str) -> None:
    assert rewritten(REWRITE, text).text == text


def test_one_of_another_step_keeps_its_own() -> None:
    others = (*ON[:3], "add.s64 %rd4, %rd4, 8;")
    text = loop(
        "ld.global.f32 %f5, [%rd6];", *LOADS, STORE, *others, "add.s64 %rd6, %rd6, %rd5;", *COUNT
    )
    text = text.replace("setp.eq", "add.s64 %rd6, %rd2, 4000;\n\tsetp.eq", 1)
    new = made(text)
    assert "[%rd4]" in new
    assert run(new, 4, 20) == run(text, 4, 20)


# ---------------------------------------------------------------- mutants


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("sub.s64 %sw_base1, %rd2, %rd1;", "sub.s64 %sw_base1, %rd3, %rd1;"),
        ("sub.s64 %sw_base2, %rd3, %rd1;", "sub.s64 %sw_base2, %rd1, %rd3;"),
        ("%rd1, %sw_apart1;", "%rd4, %sw_apart1;"),  # from another pointer
        ("[%sw_address2+4]", "[%sw_address2]"),
        ("[%sw_address3]", "[%sw_address2]"),
        # The distance changes, or the index moves on by something else.
        ("add.s64 %rd3, %rd3, %rd5;", "add.s64 %sw_apart1, %sw_apart1, 4;"),
        ("add.s64 %rd1, %rd1, %rd5;", "add.s64 %rd1, %rd1, 4;"),
    ],
)
def test_mutants(right: str, wrong: str) -> None:
    new = made(FOUR)
    assert is_proved(FOUR, new, claims_of(REWRITE, FOUR))
    mutant = new.replace(right, wrong)
    assert mutant != new
    assert not is_proved(FOUR, mutant, claims_of(REWRITE, FOUR))
    assert run(mutant, 128, 10) != run(FOUR, 128, 10)


def test_an_address_made_behind_the_index_is_another() -> None:
    new = made(EARLY)
    line = "\tadd.s64 %sw_address1, %rd2, %sw_apart1;\n"
    mutant = new.replace(line, "").replace("\tld.global.f32 %f2", f"{line}\tld.global.f32 %f2")
    assert mutant.count(line) == 1
    assert not is_proved(EARLY, mutant, claims_of(REWRITE, EARLY))
    assert run(mutant, 128, 10) != run(EARLY, 128, 10)


# ---------------------------------------------------------------- counted

# An iteration of GCC's loops in mode force, at most, before and after.
GCC = {"uxx1": (89, 83), "lapgsrb": (92, 85), "tricubic": (247, 234)}


@pytest.mark.parametrize("name", GCC)
def test_loops_of_gcc_take_less(tools: object, name: str) -> None:
    text = operator_path(name, "float", "gcc").read_text()
    result = optimize(text, Options("force", rewrites=(REWRITE,), arch="sm_80"))
    before, after = (iteration(each, "sm_80", ()).instructions for each in (text, result.text))
    assert before is not None
    assert after is not None
    assert (before, after) <= GCC[name]
    assert after <= GCC[name][1]


def test_what_saves_hardly_anything_is_put_back(tools: object) -> None:
    """ptxas unrolls the loop of KernelGen's jacobi, and then moves pointers on once in four."""
    text = operator_path("jacobi", "float", "gcc").read_text()
    result = optimize(text, Options("force", rewrites=(REWRITE,), arch="sm_80"))
    assert result.text == text
    assert any(reason.startswith("ptxas's output gets") for reason in reasons(result))
