"""Load elimination where ways join: a load of bytes that some of them hold."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.simt import RunError, launch
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, new_lines, reasons, rewritten

NAME = "load-elimination"
WHERE = 1 << 44

HALF = """
    setp.lt.u32 %p1, %r2, %r1;
    mov.f32 %f1, 0f3F800000;
    @%p1 bra ELSE;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f1, %f1, %f1;
    bra JOIN;
ELSE:
    neg.f32 %f1, %f1;
JOIN:
    sub.f32 %f1, %f1, %f1;
    ld.global.f32 %f2, [%rd4];
    add.f32 %f1, %f1, %f2;
    st.global.f32 [%rd5], %f1;
"""
SKIPPED = """
    setp.lt.u32 %p1, %r2, %r1;
    mov.f32 %f1, 0f3F800000;
    @%p1 bra JOIN;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f1, %f1, %f1;
JOIN:
    ld.global.f32 %f2, [%rd4];
    add.f32 %f1, %f1, %f2;
    st.global.f32 [%rd5], %f1;
"""
LEAVING = """
    setp.lt.u32 %p1, %r2, %r1;
    setp.lt.u32 %p2, %r2, 3;
    mov.f32 %f1, 0f3F800000;
    @%p1 bra ELSE;
    ld.global.f32 %f1, [%rd4];
    bra JOIN;
ELSE:
    @!%p2 bra END;
JOIN:
    ld.global.f32 %f2, [%rd4];
    add.f32 %f1, %f1, %f2;
    st.global.f32 [%rd5], %f1;
END:
"""
BOTH = HALF.replace("neg.f32 %f1, %f1;", "st.global.f32 [%rd4], %f1;")
PAIR = HALF.replace("ld.global.f32 %f1,", "ld.global.v2.f32 {%f1, %f3},").replace(
    "ld.global.f32 %f2,", "ld.global.v2.f32 {%f2, %f4},"
)
LOOP = f"mov.u32 %r3, 0;\nLOOP:{HALF}add.u32 %r3, %r3, 1;\nadd.s64 %rd4, %rd4, 4;\n" + (
    "setp.lt.u32 %p2, %r3, 3;\n@%p2 bra LOOP;"
)


def results(text: str, distance: int = 512, number: int = 20, first: int = 768) -> bytes:
    """What 37 threads leave behind with two pointers so many bytes apart."""
    memory = {WHERE: (np.arange(2048) * 7 % 251).astype("u1")}
    given = [WHERE + first, WHERE + first + distance, number]
    return launch(parsed(text), "k", 1, 37, given, memory=memory).memory[WHERE].tobytes()


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (HALF, [
            "mov.b32 %sw_joined1, %f1;",
            "ld.global.f32 %sw_joined1, [%rd4];",
            "mov.b32 %f2, %sw_joined1;",
        ]),
        (SKIPPED, [
            "@%p1 ld.global.f32 %sw_joined1, [%rd4];",
            "mov.b32 %sw_joined1, %f1;",
            "mov.b32 %f2, %sw_joined1;",
        ]),
        (LEAVING, [
            "mov.b32 %sw_joined1, %f1;",
            "@%p2 ld.global.f32 %sw_joined1, [%rd4];",
            "mov.b32 %f2, %sw_joined1;",
        ]),
        (BOTH, [
            "mov.b32 %sw_joined1, %f1;",
            "mov.b32 %sw_joined1, %f1;",
            "mov.b32 %f2, %sw_joined1;",
        ]),
        (PAIR, [
            "mov.b32 %sw_joined1, %f1;",
            "mov.b32 %sw_joined2, %f3;",
            "ld.global.v2.f32 {%sw_joined1, %sw_joined2}, [%rd4];",
            "mov.b32 %f2, %sw_joined1;",
            "mov.b32 %f4, %sw_joined2;",
        ]),
    ],
)  # fmt: skip
def test_the_load_goes_to_the_ways_that_lack_it(body: str, lines: list[str]) -> None:
    text = kernel(body)
    result = rewritten(NAME, text)
    assert new_lines(text, result) == lines
    for distance in (512, 0, 4, -4, 296):
        for number in (0, 20, 64):
            assert results(text, distance, number) == results(result.text, distance, number)


def test_in_each_iteration_of_a_loop() -> None:
    text = kernel(LOOP)
    result = rewritten(NAME, text)
    assert "ld.global.f32 %sw_joined1, [%rd4];" in new_lines(text, result)
    for distance in (512, 0, 4, -4):
        assert results(text, distance) == results(result.text, distance)


def test_a_report_names_the_ways() -> None:
    (entry,) = rewritten(NAME, kernel(SKIPPED)).report.kernels[0].rewrites or ()
    assert entry.proof.status == "proved"
    assert entry.detail == {"source_line": 22, "ways": [21]}


def test_no_byte_is_read_that_was_not_before() -> None:
    """Lanes that go around the join have nothing where their pointer leads."""
    text = kernel(LEAVING)
    new = rewritten(NAME, text).text
    memory = {WHERE: np.arange(24, dtype="u1"), WHERE + 4096: np.zeros(512, "u1")}
    given = [WHERE, WHERE + 4096, 64]  # none loads before; lanes 0 to 2 go to the join
    behind = [
        launch(parsed(one), "k", 1, 37, given, memory=memory).memory[WHERE + 4096].tobytes()
        for one in (text, new)
    ]
    assert behind[0] == behind[1]


@pytest.mark.parametrize(
    "body",
    [
        HALF.replace("sub.f32 %f1, %f1, %f1;", "bar.sync 0;"),
        HALF.replace("sub.f32 %f1, %f1, %f1;", "st.global.f32 [%rd5+4], %f1;"),
        HALF.replace("sub.f32 %f1, %f1, %f1;", "@%p1 ret;"),
        HALF.replace("add.f32 %f1, %f1, %f1;", "st.global.f32 [%rd5+4], %f1;"),
        HALF.replace("add.f32 %f1, %f1, %f1;", "fence.acq_rel.gpu;"),
        HALF.replace("add.f32 %f1, %f1, %f1;", "ld.acquire.gpu.global.u32 %r9, [%rd1];"),
        HALF.replace("ld.global.f32 %f2, [%rd4]", "ld.volatile.global.f32 %f2, [%rd4]"),
        HALF.replace("ld.global.f32 %f2, [%rd4]", "@%p1 ld.global.f32 %f2, [%rd4]"),
        HALF.replace("ld.global.f32 %f2, [%rd4]", "ld.global.f32 %f2, [%rd4+4]"),
        HALF.replace("ld.global.f32 %f2, [%rd4]", "ld.global.u32 %r9, [%rd4]"),
        HALF.replace("sub.f32 %f1, %f1, %f1;", "add.s64 %rd4, %rd4, 0;"),
    ],
)
def test_what_stays(body: str) -> None:
    text = kernel(body)
    assert "joined" not in rewritten(NAME, text).text


def test_mode_auto_moves_no_load() -> None:
    result = optimize(kernel(HALF), Options(rewrites=(NAME,)))
    assert result.text == kernel(HALF)
    assert reasons(result) == [
        "other paths would still load it: no load is saved for certain; force moves it"
    ]


MUTANTS: dict[str, Callable[[str], str]] = {
    "not kept": lambda text: text.replace("mov.b32 %sw_joined1, %f1;", ""),
    "kept too late": lambda text: text.replace("mov.b32 %sw_joined1, %f1;", "").replace(
        "add.f32 %f1, %f1, %f1;", "add.f32 %f1, %f1, %f1;\nmov.b32 %sw_joined1, %f1;", 1
    ),
    "not loaded": lambda text: text.replace("@%p1 ld.global.f32 %sw_joined1, [%rd4];", ""),
    "another place": lambda text: text.replace("%sw_joined1, [%rd4]", "%sw_joined1, [%rd4+4]"),
    "the other way": lambda text: text.replace("@%p1 ld", "@!%p1 ld"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_validate_and_a_run_each_refuse_mutants(mutant: str) -> None:
    text = kernel(SKIPPED)
    good = rewritten(NAME, text).text
    bad = MUTANTS[mutant](good)
    assert bad != good

    def ran(text: str) -> bytes | str:
        try:
            return results(text)
        except RunError as error:
            return type(error).__name__

    assert is_proved(text, good) and not is_proved(text, bad)
    assert ran(good) == ran(text) != ran(bad)


def test_a_load_that_lanes_do_not_reach_is_refused() -> None:
    """Without its guard the load is made on the way that leaves, too."""
    text = kernel(LEAVING)
    good = rewritten(NAME, text).text
    bad = good.replace("@%p2 ld.global.f32 %sw_joined1", "ld.global.f32 %sw_joined1")
    assert bad != good
    assert not is_proved(text, bad)


# ---------------------------------------------------------------- random ways


def _random_body(seed: int) -> str:
    """Two or three ways, some with accesses, that join; behind that a load, and all of it perhaps
    in a loop."""
    choose = random.Random(seed)
    places = [f"[%rd4+{4 * choose.randrange(2)}]" for _ in range(2)]

    def some(most: int) -> list[str]:
        lines = []
        for _ in range(choose.randrange(most + 1)):
            register, place = f"%f{choose.randrange(1, 6)}", choose.choice(places)
            if choose.random() < 0.75:
                lines.append(f"ld.global.f32 {register}, {place};")
            else:
                lines.append(f"st.global.f32 {place}, {register};")
            if choose.random() < 0.5:
                lines.append(f"add.f32 {register}, {register}, %f6;")
        return lines

    lines = [f"cvt.rn.f32.u32 %f{n}, %r2;" for n in range(1, 7)]
    looping = choose.random() < 0.3
    lines += ["mov.u32 %r3, 0;", "LOOP:"] if looping else []
    lines += [*some(1), f"setp.lt.u32 %p1, %r2, {choose.randrange(40)};"]
    lines += ["@%p1 bra ELSE;" if choose.random() < 0.7 else "@!%p1 bra JOIN;", *some(3)]
    if choose.random() < 0.4:
        lines += [f"setp.gt.u32 %p2, %r2, {choose.randrange(40)};", "@%p2 bra JOIN;", *some(2)]
    lines += ["bra JOIN;", "ELSE:", *some(3), "JOIN:"]
    lines += [f"ld.global.f32 %f7, {choose.choice(places)};", "add.f32 %f6, %f6, %f7;", *some(2)]
    if looping:
        lines += ["add.u32 %r3, %r3, 1;", "setp.lt.u32 %p3, %r3, 3;", "@%p3 bra LOOP;"]
    lines += ["add.f32 %f6, %f6, %f1;", "st.global.f32 [%rd5], %f6;"]
    return "\n".join(lines)


def _agree(seed: int) -> bool:
    text = kernel(_random_body(seed))
    result = rewritten(NAME, text)
    assert not any("bug" in reason for reason in reasons(result)), seed
    if "joined" not in result.text:
        return False
    for distance in (512, 0, 4, -4):
        assert results(text, distance) == results(result.text, distance), (seed, distance)
    return True


def test_some_random_ways() -> None:
    assert sum(map(_agree, range(16))) >= 4


@pytest.mark.slow
def test_many_random_ways() -> None:
    assert sum(map(_agree, range(16, 250))) >= 60
