"""Vectorized kernels run as the originals do, wherever buffers begin and end; wrong ones are found
by proof and, each on its own, by running."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ptxsw.driver.pipeline import Result
from ptxsw.simt import RunError, launch
from tests.parsed import parsed
from tests.rewrites.pair import is_proved, kernel, reasons, rewritten

BASE = 1 << 44
Outcome = bytes | str
"""What is in memory after a launch, or what was wrong."""


def copy(kind: str, register: str, count: int, row: int, target: str = "sm_80") -> str:
    """A kernel in which each thread copies some elements of its row, in another order."""
    size = int(kind[1:]) // 8
    text = kernel(
        "\n".join(
            [
                f"mul.wide.u32 %rd3, %r2, {row};",
                "add.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;",
                *(f"ld.global.{kind} {register}{n + 10}, [%rd4+{size * n}];" for n in range(count)),
                *(
                    f"st.global.{kind} [%rd5+{size * n}], {register}{9 + count - n};"
                    for n in range(count)
                ),
            ]
        )
    )
    return text.replace("sm_80", target).replace(".version 8.0", ".version 8.8")


def run(
    text: str,
    threads: int,
    row: int,
    source: int = 0,
    target: int = 0,
    *,
    shift: int | None = None,
    n: int = 0,
    grid: Sequence[int] = (1,),
) -> Outcome:
    """Rows of bytes from BASE + `source` on go to a buffer of their own that begins `target` bytes
    behind a multiple of 64 KiB; or, with a `shift`, to the same one that much further on. Buffers
    end with the last row."""
    size = row * threads * int(np.prod(grid))
    values = np.random.default_rng(1).integers(0, 256, size, "u1")
    if shift is None:
        memory = {BASE + source: values, BASE + (1 << 16) + target: np.zeros(size, "u1")}
        arguments = [BASE + source, BASE + (1 << 16) + target, n]
    else:
        memory = {BASE: np.resize(values, size + 256)}
        arguments = [BASE + 128, BASE + 128 + shift, n]
    try:
        result = launch(parsed(text), "k", grid, threads, arguments, memory=memory)
    except RunError as error:
        return type(error).__name__
    return b"".join(bytes(result.memory[at].tobytes()) for at in sorted(memory))


def same(text: str, new: str, *arguments: int, **options: object) -> bool:
    """Do two kernels leave the same in memory? The first one does nothing wrong."""
    old = run(text, *arguments, **options)  # type: ignore[arg-type]
    assert isinstance(old, bytes), old
    return old == run(new, *arguments, **options)  # type: ignore[arg-type]


def made(text: str, vector: str, **options: object) -> str:
    result: Result = rewritten("vectorize", text, **options)
    assert vector in result.text
    assert not any("bug" in reason for reason in reasons(result))
    return result.text


# ---------------------------------------------------------------- bit for bit

KINDS = [
    ("u8", "%r", 4, 4, "v4.u8"),
    ("u8", "%r", 3, 3, None),  # rows of three bytes stay as they are
    ("u16", "%r", 4, 8, "v4.u16"),
    ("u16", "%r", 2, 6, None),
    ("u32", "%r", 4, 16, "v4.u32"),
    ("u32", "%r", 5, 32, "v4.u32"),
    ("u32", "%r", 7, 32, "v2.u32"),
    ("u32", "%r", 8, 32, "v8.u32"),
    ("u64", "%rd", 4, 32, "v4.u64"),
]


@pytest.mark.parametrize(("kind", "register", "count", "row", "vector"), KINDS)
@pytest.mark.parametrize("threads", [1, 7, 33])
def test_wherever_buffers_begin(
    kind: str, register: str, count: int, row: int, vector: str | None, threads: int
) -> None:
    """Misaligned by one element to one vector; the last access ends where the buffer does."""
    size = int(kind[1:]) // 8
    text = copy(kind, register, count, row, "sm_100")
    new = rewritten("vectorize", text).text
    assert (new == text) == (vector is None)
    assert vector is None or vector in new
    offsets = [o for o in (0, 1, 2, 4, 8, 16, 32) if o % size == 0]
    for source in offsets:
        for target in (0, offsets[1], 16):
            assert same(text, new, threads, row, source, target)


@pytest.mark.parametrize("shift", [-32, -16, -8, -4, 0, 4, 8, 12, 16, 32])
@pytest.mark.parametrize("threads", [1, 5])
def test_source_and_target_overlap(shift: int, threads: int) -> None:
    """All loads of a thread come before its stores. With several threads that is a race, in which
    the loads of the whole warp still come first."""
    text = copy("u32", "%r", 4, 16)
    new = made(text, "v4")
    assert same(text, new, threads, 16, shift=shift)


@pytest.mark.parametrize("shift", [-16, -8, -4, 0, 4, 8, 16])
def test_a_store_between_loads_that_may_overlap(shift: int) -> None:
    """Each element is stored before the next one is loaded: only the stores' order is free."""
    lines = "\n".join(
        f"ld.global.u32 %r{n + 4}, [%rd4+{4 * n}];\nst.global.u32 [%rd5+{4 * n}], %r{n + 4};"
        for n in range(4)
    )
    text = kernel("mul.wide.u32 %rd3, %r2, 16;\nadd.s64 %rd4, %rd1, %rd3;\n"
                  "add.s64 %rd5, %rd2, %rd3;\n" + lines)  # fmt: skip
    new = rewritten("vectorize", text).text
    assert same(text, new, 1, 16, shift=shift)


def test_a_group_that_another_one_has_moved_past() -> None:
    """Alone the stores may be joined behind the first load, and the loads before the last store;
    together each would cross what the other group has moved."""
    text = kernel("""
        st.global.u16 [%rd4+4], 1;
        ld.global.u16 %r4, [%rd4+6];
        st.global.u16 [%rd4+6], 2;
        ld.global.u16 %r5, [%rd4+4];
        st.global.u16 [%rd5], %r4;
        st.global.u16 [%rd5+4], %r5;
    """)
    new = made(text, "st.global.v2.u16")
    assert "ld.global.v2" not in new
    assert same(text, new, 3, 16)
    assert same(text, new, 3, 16, 2)


STRIDES = """
    mov.u32 %r3, %ctaid.y;
    mul.lo.u32 %r4, %r3, %r1;
    shl.b32 %r5, %r2, 2;
    add.u32 %r6, %r4, %r5;
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
"""
ROW = "\n".join(
    [
        *(f"ld.global.f32 %f{n + 1}, [%rd4+{4 * n}];" for n in range(4)),
        *(f"st.global.f32 [%rd5+{4 * n}], %f{4 - n};" for n in range(4)),
    ]
)


@pytest.mark.parametrize("pitch", [0, 1, 2, 3, 4, 8, 13, 28])
@pytest.mark.parametrize("source", [0, 4, 8])
def test_rows_of_any_pitch(pitch: int, source: int) -> None:
    text = kernel(STRIDES + ROW)
    new = made(text, "v4")
    assert same(text, new, 7, 16 + 4 * pitch, source, n=pitch, grid=(1, 2))


GUARDED = """
    mul.wide.u32 %rd3, %r2, 16;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    setp.lt.u32 %p1, %r2, %r1;
    mov.f32 %f1, 0f3F800000;
    mov.f32 %f2, 0f40000000;
    mov.f32 %f3, 0f40400000;
    mov.f32 %f4, 0f40800000;
""" + ROW.replace("ld.", "@%p1 ld.").replace("st.", "@%p1 st.").replace("%f4, [", "%f4, [")


@pytest.mark.parametrize("guarded", [0, 1, 5, 7])
@pytest.mark.parametrize("source", [0, 4])
def test_lanes_that_a_guard_leaves_out(guarded: int, source: int) -> None:
    """They keep what they had, and touch nothing: the buffer ends with the last lane's row."""
    for body in (GUARDED, GUARDED.replace("@%p1 st.", "st.")):
        text = kernel(body)
        new = made(text, "v4")
        assert same(text, new, 7, 16, source, n=guarded)


LOOP = """
    mul.wide.u32 %rd3, %r2, 64;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd4, %rd4, 8;
    mul.wide.u32 %rd3, %r2, 64;
    add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r3, 0;
    mov.u32 %r9, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra $END;
$LOOP:
    ld.global.u32 %r4, [%rd4+-8];
    ld.global.u32 %r5, [%rd4+-4];
    ld.global.u32 %r6, [%rd4];
    ld.global.u32 %r7, [%rd4+4];
    xor.b32 %r8, %r4, %r6;
    xor.b32 %r9, %r9, %r8;
    st.global.u32 [%rd5], %r5;
    st.global.u32 [%rd5+4], %r9;
    add.s64 %rd4, %rd4, 16;
    add.s64 %rd5, %rd5, 8;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra $LOOP;
$END:
    st.global.u32 [%rd2], %r9;
"""


@pytest.mark.parametrize("iterations", [0, 1, 4])
@pytest.mark.parametrize("source", [0, 4, 8])
def test_loops(iterations: int, source: int) -> None:
    text = kernel(LOOP)
    new = made(made(text, "v4"), "v2")
    assert same(text, new, 3, 64, source, n=iterations)


FROM_MEMORY = "ld.global.u64 %rd6, [%rd4];\n" + ROW.replace("%rd4", "%rd6")


def from_memory(text: str) -> Outcome:
    """Threads have pointers to rows of a third buffer, of any alignment of 4 bytes."""
    threads = 8
    rows = BASE + (1 << 20)
    pointers = np.array([rows + 20 * t for t in range(threads)], "u8")
    values = np.arange(20 * threads, dtype="u1")[: 20 * threads - 4]
    out = BASE + (1 << 18)
    memory = {BASE: pointers, rows: values, out: np.zeros(8 * threads + 8, "u1")}
    try:
        result = launch(parsed(text), "k", 1, threads, [BASE, out, 0], memory=memory)
    except RunError as error:
        return type(error).__name__
    return bytes(result.memory[out].tobytes())


def test_each_thread_asks_for_itself() -> None:
    text = kernel(FROM_MEMORY)
    assert isinstance(from_memory(text), bytes)
    assert from_memory(text) == from_memory(made(text, "v4"))


# ---------------------------------------------------------------- wrong texts

PAIRS = copy("u32", "%r", 2, 8)
FOURS = copy("u32", "%r", 4, 16)

# (the kernel, what is right, what is wrong)
MUTANTS = [
    # A vector that is too long.
    (PAIRS, "ld.global.v2.u32 {%r10, %r11}", "ld.global.v4.u32 {%r10, %r11, %r12, %r13}"),
    (
        PAIRS,
        "st.global.v2.u32 [%rd5], {%sw_element1, %sw_element2}",
        "st.global.v4.u32 [%rd5], {%sw_element1, %sw_element2, %r2, %r2}",
    ),
    # A test of alignment that is off by a bit, of one of two pointers, or the wrong way round.
    (FOURS, "%sw_base2, 15;", "%sw_base2, 7;"),
    (FOURS, "%sw_base4, 15;", "%sw_base4, 7;"),
    (FOURS, "%sw_base4, 15;", "%sw_base4, 14;\nmov.b32 %sw_rest2, 0;"),
    (FOURS, "or.b32 %sw_rest3", "and.b32 %sw_rest3"),
    (FOURS, "@%sw_misaligned1", "@!%sw_misaligned1"),
    # Elements that are exchanged, an address that is off.
    (FOURS, "{%r10, %r11, %r12, %r13}", "{%r11, %r10, %r12, %r13}"),
    (FOURS, "%sw_element3, %sw_element4}", "%sw_element4, %sw_element3}"),
    (FOURS, "{%r10, %r11, %r12, %r13}, [%rd4]", "{%r10, %r11, %r12, %r13}, [%rd4+16]"),
    (FOURS, "[%rd5], {", "[%rd4], {"),
    # A way for misaligned ones that is wrong.
    (FOURS, "ld.global.u32 %r11, [%rd4+4];", "ld.global.u32 %r11, [%rd4+8];"),
    (FOURS, "ld.global.u32 %r11, [%rd4+4];", ""),
    (FOURS, "st.global.u32 [%rd5+4], %r12;", "st.global.u32 [%rd5+4], %r11;"),
    (FOURS, "bra.uni $sw_done1;", ""),
    (FOURS, "bra $sw_slow1;", "bra $sw_done1;"),
]


@pytest.mark.parametrize(("text", "right", "wrong"), MUTANTS)
def test_mutants(text: str, right: str, wrong: str) -> None:
    good = made(text, right)
    assert good.count(right) == 1
    bad = good.replace(right, wrong)
    assert is_proved(text, good)
    assert not is_proved(text, bad)
    row = 8 if text is PAIRS else 16
    apart = (same(text, bad, 7, row, s, t) for s in (0, 4, 8) for t in (0, 4, 8))
    assert not all(apart) or not same(text, bad, 1, row, shift=0)


ALTERNATING = """
    st.global.u32 [%rd5], %r2;
    ld.global.u32 %r4, [%rd4+{offset}];
    st.global.u32 [%rd5+4], %r2;
    st.global.u32 [%rd2+64], %r4;
"""


@pytest.mark.parametrize("offset", [0, 4])
def test_a_store_that_moves_over_a_load(offset: int) -> None:
    """The first one down, or the second one up. The rewrite refuses both; the text is made by
    hand."""
    body = ALTERNATING.format(offset=offset)
    text = kernel(body).replace(".u64 out", ".u64 .ptr .global .align 8 out")
    assert rewritten("vectorize", text).text == text
    vector = "\tst.global.v2.u32 [%rd5], {%r2, %r2};\n"
    first, load, second, _ = (f"\t{line.strip()}\n" for line in body.strip().splitlines())
    assert first + load + second in text
    bad = text.replace(first + load + second, vector + load if offset else load + vector)
    assert not is_proved(text, bad)
    assert same(text, bad, 1, 80)
    assert not same(text, bad, 1, 80, shift=0)


GUARD_MUTANTS = [
    ("@%p1 ld.global.v4", "ld.global.v4"),
    ("@%p1 ld.global.v4", "@!%p1 ld.global.v4"),
    ("@%p1 st.global.v4", "st.global.v4"),
]


@pytest.mark.parametrize(("right", "wrong"), GUARD_MUTANTS)
def test_mutants_of_guards(right: str, wrong: str) -> None:
    """Lanes that were left out would read and write behind the end."""
    text = kernel(GUARDED)
    good = made(text, right)
    bad = good.replace(right, wrong)
    assert is_proved(text, good)
    assert not is_proved(text, bad)
    assert isinstance(_short(text), bytes)
    assert _short(text) == _short(good) != _short(bad)


def _short(text: str) -> Outcome:
    """Seven threads, of which four have rows."""
    values = np.arange(64, dtype="u1")
    memory = {BASE: values, BASE + (1 << 16): np.zeros(64, "u1")}
    try:
        result = launch(parsed(text), "k", 1, 7, [BASE, BASE + (1 << 16), 4], memory=memory)
    except RunError as error:
        return type(error).__name__
    return bytes(result.memory[BASE + (1 << 16)].tobytes())


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%sw_base3, 3;", "%sw_base3, 1;"),
        ("or.b32 %sw_rest3, %sw_rest1, %sw_rest2;", "mov.b32 %sw_rest3, %sw_rest1;"),
    ],
)
def test_mutants_of_strides(right: str, wrong: str) -> None:
    text = kernel(STRIDES + ROW.replace("st.global.f32 [%rd5+4]", "st.global.f32 [%rd5+64]"))
    good = made(text, right)
    bad = good.replace(right, wrong)
    assert is_proved(text, good)
    assert not is_proved(text, bad)
    assert same(text, good, 7, 80, n=2, grid=(1, 2))
    assert not same(text, bad, 7, 80, n=2, grid=(1, 2))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%sw_place1, 15;", "%sw_place1, 7;"),
        ("@!%sw_misaligned1 ld", "ld"),
        ("@%sw_misaligned1 ld.global.f32 %f2, [%rd6+4]", "@%sw_misaligned1 mov.f32 %f2, %f1"),
        ("setp.ne.s64 %sw_misaligned1", "setp.eq.s64 %sw_misaligned1"),
    ],
)
def test_mutants_of_questions(right: str, wrong: str) -> None:
    text = kernel(FROM_MEMORY)
    good = made(text, right)
    bad = good.replace(right, wrong)
    assert is_proved(text, good)
    assert not is_proved(text, bad)
    assert from_memory(text) == from_memory(good) != from_memory(bad)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("add.s64 %rd4, %rd4, 16;", "add.s64 %rd4, %rd4, 8;"),
        ("%sw_base2, 15;", "%sw_base2, 3;"),
        ("[%rd4+-8];\n\t\n", "[%rd4];\n\t\n"),
        ("@%sw_misaligned1 bra", "@!%sw_misaligned1 bra"),
        ("@%sw_misaligned1 bra $sw_slow1;", ""),
        ("bra.uni $sw_done1;", ""),
    ],
)
def test_mutants_of_a_loop(right: str, wrong: str) -> None:
    text = kernel(LOOP)
    good = made(text, "v4")
    assert right in good
    bad = good.replace(right, wrong, 1)
    assert is_proved(text, good)
    assert not is_proved(text, bad)
    assert not all(same(text, bad, 3, 64, source, n=4) for source in (0, 4))


# ---------------------------------------------------------------- a flat index taken apart

# What nvcc makes of `p = in + i * w + 4 * j`, where i = t / n and j = t - i * n, and of four floats
# from there on.
QUADS = kernel(
    """
    ld.param.u32 %r6, [w];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r5, %r3, %r4, %r2;
    div.u32 %r7, %r5, %r1;
    mul.lo.s32 %r8, %r7, %r1;
    sub.s32 %r9, %r5, %r8;
    mul.lo.s32 %r10, %r7, %r6;
    mul.wide.u32 %rd6, %r10, 4;
    shl.b32 %r11, %r9, 2;
    mul.wide.u32 %rd7, %r11, 4;
    add.s64 %rd8, %rd6, %rd7;
    add.s64 %rd4, %rd1, %rd8;
    add.s64 %rd5, %rd2, %rd8;
    """
    + "\n".join(f"ld.global.f32 %f{n}, [%rd4+{4 * n}];" for n in range(4))
    + "\n"
    + "\n".join(f"st.global.f32 [%rd5+{4 * n}], %f{3 - n};" for n in range(4))
).replace(".param .u32 n)", ".param .u32 n, .param .u32 w)")
_ROWS = 16


def of_rows(text: str, n: int, w: int, source: int = 0, target: int = 0) -> Outcome:
    """Rows of `w` floats, of which 74 threads copy the first 4·n each, `n` threads a row."""
    values = np.random.default_rng(2).random(_ROWS * w + 4 * n, "f4")
    out = BASE + (1 << 16)
    memory = {BASE + source: values, out + target: np.zeros_like(values)}
    try:
        result = launch(
            parsed(text), "k", (2,), 37, [BASE + source, out + target, n, w], memory=memory
        )
    except RunError as error:
        return type(error).__name__
    return bytes(result.memory[out + target].tobytes())


_SIZES = [(5, 20, 0, 0), (5, 24, 16, 0), (32, 128, 0, 0), (7, 31, 0, 0), (5, 22, 0, 0),
          (5, 20, 4, 0), (5, 20, 0, 8)]  # fmt: skip


@pytest.mark.parametrize("sign", ["u", "s"])
def test_rows_of_a_flat_index(sign: str) -> None:
    """Aligned rows, rows of an odd length, and arrays that begin anywhere."""
    text = QUADS.replace("div.u32", f"div.{sign}32")
    new = rewritten("vectorize", text).text
    assert new.count(".v4.f32") == 2
    assert "ld.param.u32 %sw_base" in new  # the length of a row is tested, too
    for size in _SIZES:
        assert isinstance(of_rows(text, *size), bytes)
        assert of_rows(new, *size) == of_rows(text, *size), size


def test_a_row_that_is_not_asked_for_is_found_by_the_check_and_by_running() -> None:
    new = rewritten("vectorize", QUADS).text
    right = next(line for line in new.splitlines() if "and.b32" in line and line.endswith(", 3;"))
    mutant = new.replace(right, right.replace(", 3;", ", 1;"))
    assert not is_proved(QUADS, mutant)
    assert of_rows(mutant, 5, 22) != of_rows(QUADS, 5, 22)


def test_a_place_that_quotients_alone_would_align_is_not_taken() -> None:
    """`t / n` is a multiple of nothing: where it counts floats, no row is aligned."""
    text = QUADS.replace("add.s64 %rd8, %rd6, %rd7;", "mul.wide.u32 %rd9, %r7, 4;\n"
                         "add.s64 %rd8, %rd6, %rd9;")  # fmt: skip
    result = rewritten("vectorize", text)
    why = "its address may not be a multiple of 16, and no test of parameters can decide it"
    assert result.text == text and set(reasons(result)) == {why}


def test_an_unsigned_index_that_may_wrap_between_stays() -> None:
    """`in[i * w + 4 * j + 1]`: the sum is extended by itself."""
    text = QUADS.replace(
        "ld.global.f32 %f1, [%rd4+4];",
        "add.s32 %r12, %r10, %r11;\nadd.s32 %r13, %r12, 1;\nmul.wide.u32 %rd10, %r13, 4;\n"
        "add.s64 %rd11, %rd1, %rd10;\nld.global.f32 %f1, [%rd11];",
    )
    assert ".v4.f32 {%f0" not in rewritten("vectorize", text).text
