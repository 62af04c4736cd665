"""Read-only loads: loads of what nobody writes get `.nc`, outright or behind a test at entry."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.machine_loops import count, inner_loops
from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.cost import sass
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.simt import RunError, launch
from ptxsw.toolchain.find import real_ptxas
from ptxsw.validate import Mismatch, Proved
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, new_lines, outcome, reasons, rewritten

PROGRAMS = Path(__file__).parent / "programs" / "loads_over_stores.ptx"
NAME = "read-only-loads"
NO_ALIAS = DEFAULT_ASSUME | {"no-alias"}
WHERE, SIZE = 1 << 44, 1 << 13

ROW = """
    mad.lo.s32 %r3, %r2, 1, 0;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra END;
    ld.global.f32 %f1, [%rd4];
    st.global.f32 [%rd5], %f1;
    ld.global.f32 %f2, [%rd4];
    st.global.f32 [%rd5+4], %f2;
END:
"""


@cache
def program(name: str) -> str:
    """One of the programs, as a text of its own."""
    text = PROGRAMS.read_text()
    found = re.search(rf"\.visible \.entry {name}\(.*?\n}}\n", text, re.S)
    assert found is not None
    return text[: text.index(".visible")] + found[0]


@cache
def read_only(name: str) -> str:
    return rewritten(NAME, program(name)).text


def nc(text: str) -> int:
    return text.count("ld.global.nc")


# ---------------------------------------------------------------- what is written


def test_a_range_test_stands_at_entry_and_the_kernel_behind_its_end() -> None:
    text = kernel(ROW)
    found = new_lines(text, rewritten(NAME, text))
    assert found == [
        "ld.param.u64 %sw_shared1, [in];",
        "setp.lt.u64 %sw_apart1, %sw_shared1, 4611686018427387904;",
        "ld.param.u32 %sw_shared2, [n];",
        "setp.lt.and.u32 %sw_apart2, %sw_shared2, 1073741824, %sw_apart1;",
        "ld.param.u64 %sw_shared3, [out];",
        "setp.lt.and.u64 %sw_apart3, %sw_shared3, 4611686018427387904, %sw_apart2;",
        "cvt.u64.u32 %sw_wide1, %sw_shared2;",
        "mad.lo.s64 %sw_bound1, %sw_wide1, 8, %sw_shared1;",
        "add.s64 %sw_bound2, %sw_bound1, -4;",
        "mad.lo.s64 %sw_bound3, %sw_wide1, 8, %sw_shared3;",
        "setp.le.s64 %sw_order1, %sw_bound2, %sw_shared3;",
        "setp.le.or.s64 %sw_order2, %sw_bound3, %sw_shared1, %sw_order1;",
        "and.pred %sw_apart4, %sw_apart3, %sw_order2;",
        "@!%sw_apart4 bra $sw_overlap1;",
        "ld.global.nc.f32 %f1, [%rd4];",
        "ld.global.nc.f32 %f2, [%rd4];",
        "$sw_overlap1:",
    ]


def test_fields_of_one_array_need_no_test() -> None:
    text = kernel(ROW.replace("[%rd5]", "[%rd4+4]").replace("[%rd5+4]", "[%rd4+4]"))
    result = rewritten(NAME, text)
    # Each thread reads the first word of 8 bytes and writes the second: ranges meet, bytes do not.
    assert nc(result.text) == 0
    head = kernel("ld.global.f32 %f1, [%rd1+-4];\nst.global.f32 [%rd4], %f1;")
    result = rewritten(NAME, head)
    assert new_lines(head, result) == ["ld.global.nc.f32 %f1, [%rd1+-4];"]
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.assumptions == ("no-outside-writer",)


def test_a_kernel_that_writes_nothing_global() -> None:
    text = kernel("ld.global.v2.f32 {%f1, %f2}, [%rd4];\nst.shared.f32 [8], %f1;")
    result = rewritten(NAME, text)
    assert new_lines(text, result) == ["ld.global.nc.v2.f32 {%f1, %f2}, [%rd4];"]


def test_no_alias_is_taken_at_its_word_where_indices_come_from_memory() -> None:
    text = program("gather")
    result = rewritten(NAME, text, assume=NO_ALIAS)
    assert nc(result.text) == 2 and "overlap" not in result.text
    assert nc(read_only("gather")) == 1  # the indices: `x[at[i]]` has no range
    assert "no-alias" in (result.report.kernels[0].rewrites or ())[0].proof.assumptions


# ---------------------------------------------------------------- what stays


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("membar.gl;", "membar.gl (line 23) is a device-wide fence"),
        ("fence.acq_rel.sys;", "fence.acq_rel.sys (line 23) is a device-wide fence"),
        ("ld.volatile.global.u32 %r9, [%rd1];", "ld.volatile.global.u32 (line 23) is volatile"),
        ("ld.acquire.gpu.global.u32 %r9, [%rd1];", "ld.acquire.gpu.global.u32 (line 23) is vol"),
        ("griddepcontrol.wait;", "griddepcontrol.wait (line 23) waits for another kernel"),
        ("call.uni f;", "call.uni (line 23) may call code that writes these bytes"),
        ("atom.global.add.u32 %r9, [%rd4], 1;", "atom.global.add.u32 at line 23 may write these"),
        ("st.global.u8 [%rd4+1], 0;", "st.global.u8 at line 23 may write these bytes"),
        (
            "activemask.b32 %r9;",
            "activemask.b32 (line 23) asks which lanes are active, which cannot be duplicated",
        ),
        ("what.is.this %r9;", "what.is.this (line 23) is unknown and may do anything"),
    ],
)
def test_what_forbids_it(line: str, reason: str) -> None:
    text = kernel(ROW.replace("st.global.f32 [%rd5], %f1;", f"{line}\nst.global.f32 [%rd5], %f1;"))
    if "call" in line:
        text = text.replace(".visible", ".func f() { ret; }\n.visible", 1)
        reason = reason.replace("23", "24")
    result = rewritten(NAME, text)
    assert nc(result.text) == 0
    assert all(found.startswith(reason) for found in reasons(result)), reasons(result)
    assert reasons(result)


BARRIERS = """
    setp.ge.s32 %p1, %r2, %r1;
    mov.f32 %f3, 0f00000000;
    mov.u32 %r5, 0;
LOOP:
    @%p1 bra NEXT;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f3, %f3, %f1;
NEXT:
    bar.sync 0;
    shfl.sync.bfly.b32 %f2, %f3, 1, 31, -1;
    @%p1 bra AGAIN;
    st.global.f32 [%rd5], %f2;
AGAIN:
    add.s32 %r5, %r5, 1;
    setp.lt.s32 %p2, %r5, 3;
    @%p2 bra LOOP;
"""


def test_barriers_stand_in_both_copies_which_no_grid_mixes() -> None:
    text = kernel(BARRIERS)
    result = rewritten(NAME, text)
    assert nc(result.text) == 1 and result.text.count("bar.sync") == 2
    for distance in (0, 4, -8, 512, -512):
        assert memory_after(text, distance) == memory_after(result.text, distance)
    # A test that differs from thread to thread would part those that meet.
    plain = result.text.replace("global.nc", "global")
    test = re.search(r"@!(%sw_apart\d+) bra", plain)
    assert test is not None
    mixed = plain.replace(test[0], "setp.lt.u32 %p3, %tid.x, 3;\n@!%p3 bra")
    early = plain.replace(test[0], "@!%p3 bra")  # which nobody has set
    answers = [outcome(text, new) for new in (plain, mixed, early)]
    assert isinstance(answers[0], Proved)
    for answer in answers[1:]:
        assert isinstance(answer, Mismatch) and "would meet at several" in answer.reason


def memory_after(text: str, distance: int) -> bytes:
    memory = np.arange(1024, dtype="f4").view("u1")
    first = WHERE + 2048
    result = launch(parsed(text), "k", 1, 64, [first, first + distance, 40], memory={WHERE: memory})
    return bytes(result.memory[WHERE].tobytes())


def test_nobody_vouches_for_others() -> None:
    result = rewritten(NAME, program("column_scale"), assume=frozenset())
    assert nc(result.text) == 0
    assert "no-outside-writer is not assumed" in reasons(result)[0]


def test_auto_copies_no_kernel_without_loops() -> None:
    options = Options(rewrites=(NAME,))
    assert optimize(program("three_outputs"), options).text == program("three_outputs")
    assert nc(optimize(program("column_scale"), options).text) == 5


# ---------------------------------------------------------------- runs


Launch = tuple[int, tuple[int, ...], int, int | tuple[int, int]]
ARGUMENTS: dict[str, Launch] = {
    # name: bytes of an element, numbers, blocks, threads of each
    "column_scale": (4, (20, 5), 2, 16),
    "z_march": (4, (6, 3, 9), 1, (8, 4)),
    "spread": (1, (20, 5), 2, 16),
    "backwards": (8, (5,), 1, 8),
}


def run(
    text: str, name: str, distance: int, numbers: tuple[int, ...], *, alone: bool = False
) -> bytes:
    """What is in memory behind a launch with two pointers so many bytes apart; of one thread
    `alone` in which no byte that is read by `.nc` may be written."""
    *_, grid, block = (0, 1, 1) if alone else ARGUMENTS[name]
    memory = np.arange(SIZE, dtype="u1") if name == "spread" else np.zeros(SIZE, "u1")
    if name != "spread":
        kind = "f8" if name == "backwards" else "f4"
        memory = (np.arange(SIZE // np.dtype(kind).itemsize) % 97).astype(kind).view("u1")
    first = WHERE + SIZE // 2
    arguments = [first, first + distance, *(n & 0xFFFFFFFF for n in numbers)]
    result = launch(parsed(text), name, grid, block, arguments, memory={WHERE: memory}, races=alone)
    return bytes(result.memory[WHERE].tobytes())


@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_results_agree_wherever_the_arrays_lie(name: str) -> None:
    """Identical, shifted by one element, one inside the other, side by side."""
    size, numbers, *_ = ARGUMENTS[name]
    for elements in (0, 1, -1, 7, 20, -20, 64, -64, 100, -100, 162, -162, 300, -300):
        distance = size * elements
        old = run(program(name), name, distance, numbers)
        assert old == run(read_only(name), name, distance, numbers), elements


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("column_scale", (20, 0)),
        ("column_scale", (20, 1)),
        ("column_scale", (20, 2)),
        ("column_scale", (0, 4)),
        ("column_scale", (-3, 4)),
        ("column_scale", (3, -1)),
        ("z_march", (6, 3, 2)),
        ("z_march", (6, 3, 3)),
        ("backwards", (0,)),
        ("backwards", (-1,)),
        ("backwards", (1,)),
        ("spread", (7, 0)),
    ],
)
def test_results_agree_for_few_iterations_and_negative_sizes(
    name: str, numbers: tuple[int, ...]
) -> None:
    for distance in (0, 8, -8, 2048):
        old = run(program(name), name, distance, numbers)
        assert old == run(read_only(name), name, distance, numbers)


def takes_slow_copy(text: str, name: str, distance: int, numbers: tuple[int, ...]) -> bool:
    trapped = re.sub(r"(\$sw_overlap1:\s*\{)", r"\1 trap;", text)
    assert trapped != text
    try:
        run(trapped, name, distance, numbers)
    except RunError:
        return True
    return False


@pytest.mark.parametrize(
    ("name", "numbers", "before", "behind"),
    [
        # bytes that the first array has to have before the second, and the second before the first
        ("spread", (20, 5), 100, 20),
        ("column_scale", (20, 8), 640, 80),
        ("z_march", (6, 3, 9), 576, 648),
    ],
)
def test_the_copy_as_it_was_is_taken_where_a_byte_is_in_common(
    name: str, numbers: tuple[int, ...], before: int, behind: int
) -> None:
    text = read_only(name)
    assert not takes_slow_copy(text, name, before, numbers)
    assert takes_slow_copy(text, name, before - 1, numbers)
    assert not takes_slow_copy(text, name, -behind, numbers)
    assert takes_slow_copy(text, name, 1 - behind, numbers)
    assert takes_slow_copy(text, name, 0, numbers)


# ---------------------------------------------------------------- mutants


def _short(text: str, which: int) -> str:
    """The end of one of the ranges is a byte short."""
    pattern = r"(setp\.le(?:\.or)?\.s64 %sw_order\d, )(%sw_bound\d+)"
    found = list(re.finditer(pattern, text))[which]
    line = text.rfind("\n", 0, found.start())
    changed = f"{text[:line]}\nadd.s64 %sw_mutant, {found[2]}, -1;{text[line : found.start()]}"
    changed += f"{found[1]}%sw_mutant{text[found.end() :]}"
    return changed.replace(".reg .b64 %sw_", ".reg .b64 %sw_mutant, %sw_", 1)


MUTANTS = {
    "first end short": lambda text: _short(text, 0),
    "second end short": lambda text: _short(text, 1),
    "inverted": lambda text: re.sub(r"@!(%sw_apart\d+ bra)", r"@\1", text),
    "no test": lambda text: re.sub(r"@!%sw_apart\d+ bra \$sw_overlap1;", "", text),
    "or for and": lambda text: re.sub(r"and\.pred (%sw_apart)", r"or.pred \1", text),
    "slow copy without test": lambda text: re.sub(r"@!(%sw_apart\d+ bra)", r"bra", text),
}
NOT_IN_RUN = {"slow copy without test"}


@pytest.mark.parametrize(
    ("name", "count"),
    [("three_outputs", 6), ("backwards", 1), ("gather", 1), ("stride", 2), ("product", 10)],
)
def test_more_programs(name: str, count: int) -> None:
    """Loops downwards, across the grid, and nests are all bounded."""
    assert nc(read_only(name)) == count


@pytest.mark.parametrize("mutant", list(MUTANTS))
@pytest.mark.parametrize("name", ["spread", "column_scale", "z_march"])
def test_validate_alone_refuses_mutants(name: str, mutant: str) -> None:
    assert is_proved(program(name), read_only(name))
    changed = MUTANTS[mutant](read_only(name))
    assert changed != read_only(name)
    answer = outcome(program(name), changed)
    if mutant == "slow copy without test":  # which is right, if slow
        assert isinstance(answer, Proved)
    else:
        assert isinstance(answer, Mismatch) and ".nc" in answer.reason


@pytest.mark.parametrize("mutant", [name for name in MUTANTS if name not in NOT_IN_RUN])
def test_a_run_alone_catches_mutants(mutant: str) -> None:
    """One thread that reads byte 0 of `in`, and writes it last or first."""
    numbers = (1, 4)
    for distance in (3, 0):  # `in` is the last byte of `out`, or the first
        assert run(read_only("spread"), "spread", distance, numbers, alone=True) == run(
            program("spread"), "spread", distance, numbers, alone=True
        )
    changed = MUTANTS[mutant](read_only("spread"))
    with pytest.raises(RunError, match=r"\.nc"):
        for distance in (3, 0):
            run(changed, "spread", distance, numbers, alone=True)


@pytest.mark.parametrize("name", ["column_scale", "z_march", "spread"])
def test_validate_refuses_what_needs_a_limit_that_is_not_tested(name: str) -> None:
    """Without a test of the size of pointers, of numbers, or of an index that may wrap."""
    text = read_only(name)
    tests = re.findall(r"setp\.l[te]\.and\.[us]\d+ (%sw_apart\d+), .*?, (%sw_apart\d+);", text)
    assert len(tests) >= 4
    blocks = re.findall(r"mov\.u32 (%sw_shared\d+), %nctaid", text)
    for result, so_far in tests:
        line = next(x for x in text.splitlines() if f" {result}, " in x and "setp" in x)
        if line.split()[2].strip(",") in blocks:
            continue  # of use only where a bound multiplies more
        mutant = text.replace(line, f"mov.pred {result}, {so_far};")
        assert isinstance(outcome(program(name), mutant), Mismatch), line


# ---------------------------------------------------------------- worth


@pytest.mark.skipif(real_ptxas(os.environ) is None, reason="no ptxas")
@pytest.mark.parametrize(
    ("name", "before", "after"), [("column_scale", 32, 16), ("z_march", 12, 9), ("spread", 1, 0)]
)
def test_ptxas_merges_what_is_read_only(name: str, before: int, after: int) -> None:
    loads = [
        max(count(loop).of("LDG") for loop in inner_loops(read.kernel(name))[:1])
        for text in (program(name), read_only(name))
        if (read := sass.read(text, "sm_80", lines=False))
    ]
    assert loads == [before, after]


def test_what_a_branch_says_of_one_thread_says_nothing_of_those_that_write() -> None:
    """Only threads below 4 load; the stores of others wrap around."""
    text = kernel("""
    shl.b32 %r3, %r2, 23;
    mul.wide.s32 %rd6, %r3, 1;
    add.s64 %rd7, %rd2, %rd6;
    st.global.u32 [%rd7], %r2;
    setp.ge.u32 %p1, %r2, 4;
    @%p1 bra END;
    ld.global.u32 %r4, [%rd4];
    st.global.u32 [%rd7], %r4;
END:
    """)
    new = rewritten(NAME, text).text
    line = next(x for x in new.splitlines() if re.search(r"setp\.le\.and\.s64 .*, 0, ", x))
    result, so_far = re.findall(r"%sw_apart\d+", line)
    assert is_proved(text, new)
    assert isinstance(outcome(text, new.replace(line, f"mov.pred {result}, {so_far};")), Mismatch)
