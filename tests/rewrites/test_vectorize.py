"""Vectorize: accesses of one thread to adjacent addresses become one of a vector."""

from __future__ import annotations

import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME, NO_FAULT_IN_STRUCT
from ptxsw.driver.pipeline import Options, optimize
from tests.rewrites.pair import kernel, lines, new_lines, reasons, rewritten

WIDE = """
    mul.wide.u32 %rd3, %r2, 16;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
"""
LOADS = "\n".join(f"ld.global.f32 %f{n + 1}, [%rd4+{4 * n}];" for n in range(4))
STORES = "\n".join(f"st.global.f32 [%rd5+{4 * n}], %f{n + 1};" for n in range(4))
COPY = WIDE + LOADS + "\nadd.f32 %f1, %f1, %f4;\n" + STORES


def made(body: str, pointer: str = "", **options: object) -> list[str]:
    """The new lines; `pointer` is what is declared of the alignment of `in`."""
    text = kernel(body)
    if pointer:
        text = text.replace(".param .u64 in,", f".param .u64 .ptr .global {pointer} in,")
    result = rewritten("vectorize", text, **options)
    assert not any("bug" in reason for reason in reasons(result))
    return new_lines(text, result)


def vectors(found: list[str]) -> list[str]:
    """The vector accesses among some lines."""
    return [line for line in found if any(f".v{n}." in line for n in (2, 4, 8))]


def test_loads_are_made_where_the_first_stands() -> None:
    body = WIDE + "ld.global.f32 %f1, [%rd4+4];\nadd.f32 %f3, %f1, %f1;\nld.global.f32 %f2, [%rd4];"
    assert made(body + "\nst.global.f32 [%rd5], %f2;") == [
        "ld.param.u64 %sw_base1, [in];",
        "cvt.u32.u64 %sw_base2, %sw_base1;",
        "and.b32 %sw_rest1, %sw_base2, 7;",
        "setp.ne.s32 %sw_misaligned1, %sw_rest1, 0;",
        "@%sw_misaligned1 bra $sw_slow1;",
        "ld.global.v2.f32 {%f2, %f1}, [%rd4];",
        "bra.uni $sw_done1;",
        "$sw_slow1:",
        "$sw_done1:",
    ]


def test_a_register_that_is_needed_in_between_is_filled_later() -> None:
    body = WIDE + "ld.global.u32 %r4, [%rd4];\nadd.s32 %r6, %r5, %r5;\nld.global.u32 %r5, [%rd4+4];"
    assert made(body, ".align 8")[:2] == [
        "ld.global.v2.u32 {%r4, %sw_element1}, [%rd4];",
        "mov.b32 %r5, %sw_element1;",
    ]


def test_an_address_that_a_load_overwrites() -> None:
    body = WIDE + "ld.global.u64 %rd4, [%rd4];\nst.global.u64 [%rd5], %rd4;"
    body = body.replace("ld.global.u64 %rd4", "ld.global.u64 %rd6, [%rd4+8];\nld.global.u64 %rd4")
    assert made(body, ".align 16")[:2] == [
        "ld.global.v2.u64 {%sw_element1, %rd6}, [%rd4];",
        "mov.b64 %rd4, %sw_element1;",
    ]


def test_stores_are_made_where_the_last_stands() -> None:
    found = made(
        WIDE + "st.global.u32 [%rd5+4], %r1;\nadd.s32 %r1, %r1, 1;\nst.global.u32 [%rd5], 7;"
    )
    wide = found.index("st.global.v2.u32 [%rd5], {%sw_element1, %sw_element2};")
    assert found.index("mov.b32 %sw_element2, %r1;") < wide
    assert found.index("mov.b32 %sw_element1, 7;") < wide


def test_alignment_that_is_declared_needs_no_test() -> None:
    found = made(WIDE + LOADS + "\nst.global.f32 [%rd5], %f1;", ".align 16")
    assert found[0] == "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];"
    assert not any("bra" in line for line in found)


def test_one_test_and_one_branch_for_a_stretch() -> None:
    found = made(COPY)
    assert found[:7] == [
        "ld.param.u64 %sw_base1, [in];",
        "cvt.u32.u64 %sw_base2, %sw_base1;",
        "and.b32 %sw_rest1, %sw_base2, 15;",
        "ld.param.u64 %sw_base3, [out];",
        "cvt.u32.u64 %sw_base4, %sw_base3;",
        "and.b32 %sw_rest2, %sw_base4, 15;",
        "or.b32 %sw_rest3, %sw_rest1, %sw_rest2;",
    ]
    assert sum("bra $sw" in line for line in found) == 1


@pytest.mark.parametrize(
    ("kind", "register", "size", "vector"),
    [
        ("u8", "%r", 1, "v4"),
        ("u16", "%r", 2, "v4"),
        ("u64", "%rd", 8, "v2"),
        ("f32", "%f", 4, "v4"),
    ],
)
def test_elements_of_all_sizes(kind: str, register: str, size: int, vector: str) -> None:
    numbers = range(10, 14 if vector == "v4" else 12)
    loads = [f"ld.global.{kind} {register}{n}, [%rd4+{size * (n - 10)}];" for n in numbers]
    found = made(WIDE + "\n".join(loads) + f"\nst.global.{kind} [%rd5], {register}10;")
    assert any(line.startswith(f"ld.global.{vector}.{kind} {{") for line in found), found


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # A store of the same array between, whose index is another.
        (
            WIDE + "ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\n"
            "ld.global.f32 %f2, [%rd4+4];\nst.global.f32 [%rd2+512], %f2;",
            "st.global.f32 (line 23) may write these bytes",
        ),
        (
            WIDE + "ld.global.f32 %f1, [%rd4];\nmembar.gl;\nld.global.f32 %f2, [%rd4+4];\n"
            "add.f32 %f1, %f1, %f2;\nst.global.f32 [%rd5], %f1;",
            "membar.gl (line 23) orders memory in between",
        ),
        (
            WIDE + "st.global.u32 [%rd5], %r1;\nld.global.u32 %r4, [%rd4];\n"
            "st.global.u32 [%rd5+4], %r4;",
            "ld.global.u32 (line 23) may read these bytes",
        ),
        (
            WIDE + "setp.eq.u32 %p1, %r1, 0;\n@%p1 ld.global.f32 %f1, [%rd4];\n"
            "setp.eq.u32 %p1, %r2, 0;\n@%p1 ld.global.f32 %f2, [%rd4+4];",
            "setp.eq.u32 (line 24) changes %p1 in between",
        ),
        (
            WIDE + "ld.global.f32 %f1, [%rd4];\nvote.sync.ballot.b32 %r4, %p1, -1;\n"
            "ld.global.f32 %f2, [%rd4+4];",
            "the code in between cannot be duplicated",
        ),
        (
            WIDE + "activemask.b32 %r4;\nld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+4];",
            "it would need a branch, and the kernel asks which lanes are active",
        ),
    ],
)
def test_what_stands_between_forbids_it(body: str, reason: str) -> None:
    text = kernel(body)
    result = rewritten("vectorize", text)
    assert result.text == text
    assert reasons(result) == [reason]


@pytest.mark.parametrize(
    "body",
    [
        WIDE + "ld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+8];",  # a gap
        WIDE + "ld.volatile.global.f32 %f1, [%rd4];\nld.volatile.global.f32 %f2, [%rd4+4];",
        # Guards that differ, or change in between.
        WIDE + "@%p1 ld.global.f32 %f1, [%rd4];\n@!%p1 ld.global.f32 %f2, [%rd4+4];",
        WIDE + "@%p1 ld.global.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+4];",
        # Cache operators and priorities that differ.
        WIDE + "ld.global.ca.f32 %f1, [%rd4];\nld.global.cg.f32 %f2, [%rd4+4];",
        WIDE + "ld.global.nc.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+4];",
        WIDE + "ld.global.L1::evict_last.f32 %f1, [%rd4];\nld.global.f32 %f2, [%rd4+4];",
        WIDE + "ld.global.cv.f32 %f1, [%rd4];\nld.global.cv.f32 %f2, [%rd4+4];",
        WIDE + "ld.global.f32 %f1, [%rd4];\nbar.sync 0;\nld.global.f32 %f2, [%rd4+4];",
        # Rows of 12 bytes: aligned for one thread in four.
        "mul.wide.u32 %rd3, %r2, 12;\nadd.s64 %rd4, %rd1, %rd3;\n" + LOADS,
        WIDE + "ld.global.f32 %f1, [%rd4+4];\nld.global.f32 %f2, [%rd4+8];",  # across 8 bytes
        # Two stores to one place.
        WIDE
        + "st.global.f32 [%rd5], %f1;\nst.global.f32 [%rd5], %f2;\nst.global.f32 [%rd5+4], %f1;",
    ],
)
def test_what_stays(body: str) -> None:
    assert made(body) == []


# ---------------------------------------------------------------- which of several


def loads(offsets: list[int], element: str = "f32") -> str:
    """Loads at these offsets, and stores far away that keep them alive."""
    return WIDE.replace("16", "32") + "\n".join(
        f"ld.global.{element} %f{n + 1}, [%rd4+{offset}];" for n, offset in enumerate(offsets)
    )


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([0, 4, 8, 12, 16], ["v4 0"]),
        ([4, 8, 12, 16, 20], ["v2 8", "v2 16"]),
        ([0, 4, 8, 12, 16, 20], ["v4 0", "v2 16"]),
        ([8, 12, 16, 20, 24, 28], ["v2 8", "v4 16"]),
        ([4, 8, 12, 16, 20, 24, 28], ["v2 8", "v4 16"]),
        ([12, 0, 8, 4, 24], ["v4 0"]),
        ([-16, -12, -8, -4], ["v4 -16"]),
        ([2, 6, 10, 14], []),  # of no multiple of the element
    ],
)
def test_the_cover_with_the_fewest_wavefronts(offsets: list[int], expected: list[str]) -> None:
    found = []
    for line in vectors(made(loads(offsets), ".align 32")):
        place = line[line.index("[%rd4") + 5 : -2].lstrip("+") or "0"
        found.append(f"v{line.count('%f')} {place}")
    assert sorted(found) == sorted(expected)


# ---------------------------------------------------------------- tests of alignment

PITCH = """
    mov.u32 %r3, %ctaid.y;
    mul.lo.u32 %r4, %r3, %r1;
    shl.b32 %r5, %r2, 2;
    add.u32 %r6, %r4, %r5;
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
"""


def test_strides_are_tested_with_the_pointer() -> None:
    text = kernel(PITCH + LOADS + "\nst.global.f32 [%rd5], %f1;")
    result = rewritten("vectorize", text)
    (entry,) = result.report.kernels[0].rewrites or ()
    assert entry.proof.guards == ("in is a multiple of 16", "n is a multiple of 4")
    assert new_lines(text, result)[3:6] == [
        "ld.param.u32 %sw_base3, [n];",
        "and.b32 %sw_rest2, %sw_base3, 3;",
        "or.b32 %sw_rest3, %sw_rest1, %sw_rest2;",
    ]


FROM_MEMORY = "ld.global.u64 %rd6, [%rd4];\n" + LOADS.replace("%rd4", "%rd6")


def test_a_pointer_from_memory_is_tested_by_each_thread() -> None:
    assert made(FROM_MEMORY)[:7] == [
        "add.s64 %sw_place1, %rd6, 0;",
        "and.b64 %sw_rest1, %sw_place1, 15;",
        "setp.ne.s64 %sw_misaligned1, %sw_rest1, 0;",
        "@!%sw_misaligned1 ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd6];",
        "@%sw_misaligned1 ld.global.f32 %f1, [%rd6];",
        "@%sw_misaligned1 ld.global.f32 %f2, [%rd6+4];",
        "@%sw_misaligned1 ld.global.f32 %f3, [%rd6+8];",
    ]


def test_one_question_for_all_vectors_on_a_pointer() -> None:
    more = "\n".join(f"ld.global.f32 %f{n + 10}, [%rd6+{16 + 4 * n}];" for n in range(4))
    found = made(FROM_MEMORY + more)
    assert sum("setp" in line for line in found) == 1
    assert len(vectors(found)) == 2


@pytest.mark.usefixtures("no_ptxas")
def test_auto_asks_where_wavefronts_outweigh_it() -> None:
    """Each lane's pointer leads somewhere else: a vector saves 32 wavefronts an element."""
    assert ".v4." in optimize(kernel(FROM_MEMORY), Options(rewrites=("vectorize",))).text


def test_who_asks_is_not_guarded() -> None:
    assert made(FROM_MEMORY.replace("ld.global.f32", "@%p1 ld.global.f32")) == []


# ---------------------------------------------------------------- guards, hints, loops

GUARDED = WIDE + "setp.lt.u32 %p1, %r2, %r1;\n" + LOADS.replace("ld.", "@%p1 ld.")


def test_accesses_under_one_guard() -> None:
    found = made(GUARDED + "\n@%p1 st.global.f32 [%rd5], %f1;\n@%p1 st.global.f32 [%rd5+4], %f4;")
    assert vectors(found) == [
        "@%p1 ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];",
        "@%p1 st.global.v2.f32 [%rd5], {%sw_element1, %sw_element2};",
    ]


def test_a_copy_of_a_guarded_load_is_guarded() -> None:
    body = GUARDED.replace(
        "@%p1 ld.global.f32 %f4", "add.f32 %f5, %f4, %f4;\n@%p1 ld.global.f32 %f4"
    )
    found = made(body + "\nst.global.f32 [%rd5], %f4;", ".align 16")
    assert found[:2] == [
        "@%p1 ld.global.v4.f32 {%f1, %f2, %f3, %sw_element1}, [%rd4];",
        "@%p1 mov.b32 %f4, %sw_element1;",
    ]


@pytest.mark.parametrize(
    "modifiers", ["nc", "ca", "cg", "cs", "nc.L1::evict_last", "L1::no_allocate.L2::128B"]
)
def test_modifiers_are_kept(modifiers: str) -> None:
    body = WIDE + LOADS.replace("ld.global", f"ld.global.{modifiers}")
    body += "\nst.global.f32 [%rd5], %f1;"
    assert vectors(made(body, ".align 16")) == [
        f"ld.global.{modifiers}.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd4];"
    ]


def test_a_cache_policy_is_kept() -> None:
    policy = "createpolicy.fractional.L2::evict_last.b64 %rd9, 1.0;\n"
    hinted = LOADS.replace("ld.global", "ld.global.L2::cache_hint").replace("];", "], %rd9;")
    assert vectors(made(WIDE + policy + hinted, ".align 16")) == [
        "ld.global.L2::cache_hint.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4], %rd9;"
    ]
    other = hinted.replace("+4], %rd9", "+4], %rd8")
    assert vectors(made(WIDE + policy + other, ".align 16")) == [
        "ld.global.L2::cache_hint.v2.f32 {%f3, %f4}, [%rd4+8], %rd9;"
    ]


# A pointer that a loop moves, as nvcc makes it; unrolled by two.
LOOP = """
    mul.wide.u32 %rd3, %r2, 256;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd4, %rd4, 8;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r3, 0;
$LOOP:
    ld.global.f32 %f2, [%rd4+-8];
    fma.rn.f32 %f1, %f2, %f2, %f1;
    ld.global.f32 %f3, [%rd4+-4];
    fma.rn.f32 %f1, %f3, %f3, %f1;
    ld.global.f32 %f4, [%rd4];
    fma.rn.f32 %f1, %f4, %f4, %f1;
    ld.global.f32 %f5, [%rd4+4];
    fma.rn.f32 %f1, %f5, %f5, %f1;
    add.s64 %rd4, %rd4, {step};
    add.u32 %r3, %r3, 4;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra $LOOP;
    st.global.f32 [%rd5], %f1;
"""


def test_a_pointer_that_a_loop_moves() -> None:
    assert vectors(made(LOOP.format(step=16))) == [
        "ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd4+-8];"
    ]
    assert [line[:14] for line in vectors(made(LOOP.format(step=8)))] == ["ld.global.v2.f"] * 2
    assert vectors(made(LOOP.format(step=4))) == []


def labels(body: str) -> list[str]:
    """The labels of the rewritten kernel, in order."""
    text = rewritten("vectorize", kernel(body)).text
    return [line[:-1] for line in lines(text) if line.startswith("$") and line.endswith(":")]


TWICE = LOOP.format(step=16)


def test_an_innermost_loop_stands_twice_as_a_whole() -> None:
    """The test that fails leads around the loop: no iteration branches."""
    assert labels(TWICE) == ["$LOOP", "$sw_slow1", "$LOOP", "$sw_done1"]
    found = made(TWICE)
    assert found[found.index("@%sw_misaligned1 bra $sw_slow1;") + 1 :] == [
        "ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd4+-8];",
        "bra.uni $sw_done1;",
        "$sw_slow1:",
        "$sw_done1:",
    ]


def test_a_loop_with_a_barrier_branches_in_each_iteration() -> None:
    """Threads that wait for each other have to wait at one place."""
    waiting = TWICE.replace("add.u32 %r3, %r3, 4;", "add.u32 %r3, %r3, 4;\nbar.sync 0;")
    assert labels(waiting) == ["$LOOP", "$sw_slow1", "$sw_done1"]


def test_two_loops_and_a_nest() -> None:
    """The loops that stand twice are those without others in them."""
    again = TWICE.replace("$LOOP", "$AGAIN")
    fast = ["$sw_slow1", "$LOOP", "$sw_done1", "$AGAIN", "$sw_slow2", "$AGAIN", "$sw_done2"]
    assert labels(TWICE + again) == ["$LOOP", *fast]
    nest = f"mov.u32 %r6, 0;\n$OUTER:\n{TWICE}add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, %r1;"
    nest += "\n@%p2 bra $OUTER;"
    assert labels(nest) == ["$OUTER", "$LOOP", "$sw_slow1", "$LOOP", "$sw_done1"]


# ---------------------------------------------------------------- longer ones, and holes


def wide_kernel(body: str, version: str = "8.8", target: str = "sm_100") -> str:
    text = kernel(body).replace(".version 8.0", f".version {version}")
    return text.replace("sm_80", target)


EIGHT = WIDE.replace("16", "32") + "\n".join(
    [
        *(f"ld.global.f32 %f{n + 1}, [%rd4+{4 * n}];" for n in range(8)),
        *(f"st.global.f32 [%rd5+{4 * n}], %f{8 - n};" for n in range(8)),
    ]
)
DOUBLES = WIDE.replace("16", "32") + "\n".join(
    [
        *(f"ld.global.u64 %rd{n + 10}, [%rd4+{8 * n}];" for n in range(4)),
        *(f"st.global.u64 [%rd5+{8 * n}], %rd{13 - n};" for n in range(4)),
    ]
)


@pytest.mark.parametrize(
    ("version", "target", "eight", "doubles"),
    [
        ("8.8", "sm_100", ["ld.v8", "st.v8"], ["ld.v4", "st.v4"]),
        ("9.0", "sm_103a", ["ld.v8", "st.v8"], ["ld.v4", "st.v4"]),
        ("8.7", "sm_100", ["ld.v4", "ld.v4", "st.v4", "st.v4"], ["ld.v2", "ld.v2", "st.v2"]),
        ("8.8", "sm_90", ["ld.v4", "ld.v4", "st.v4", "st.v4"], ["ld.v2", "ld.v2", "st.v2"]),
    ],
)
def test_32_bytes_at_once(version: str, target: str, eight: list[str], doubles: list[str]) -> None:
    for body, expected in ((EIGHT, eight), (DOUBLES, doubles)):
        text = wide_kernel(body, version, target)
        found = vectors(new_lines(text, rewritten("vectorize", text)))
        names = [".".join(line.split()[0].split(".")[::2]) for line in found]
        assert names[: len(expected)] == expected


def test_shared_memory_has_no_32_bytes() -> None:
    body = "\n".join(f"ld.shared.f32 %f{n + 1}, [%r2+{4 * n}];" for n in range(8))
    text = wide_kernel(body)
    assert vectors(new_lines(text, rewritten("vectorize", text))) == []


HOLE = WIDE + "\n".join(LOADS.splitlines()[:3]) + "\nst.global.f32 [%rd5], %f3;"


def test_parts_that_nobody_reads() -> None:
    text = kernel(HOLE)
    assert vectors(new_lines(text, rewritten("vectorize", text))) == [
        "ld.global.v2.f32 {%f1, %f2}, [%rd4];"
    ]
    for nc in ("", ".nc"):
        text = kernel(HOLE.replace("ld.global", f"ld.global{nc}"))
        result = rewritten("vectorize", text, assume=DEFAULT_ASSUME | {NO_FAULT_IN_STRUCT})
        assert vectors(new_lines(text, result)) == [
            f"ld.global{nc}.v4.f32 {{%f1, %f2, %f3, %sw_element1}}, [%rd4];"
        ]
        (entry,) = result.report.kernels[0].rewrites or ()
        assert entry.proof.assumptions == (NO_FAULT_IN_STRUCT,)


def test_stores_have_no_holes() -> None:
    body = WIDE + "\n".join(STORES.splitlines()[:3])
    found = made(body, assume=DEFAULT_ASSUME | {NO_FAULT_IN_STRUCT})
    assert [line.split()[0] for line in vectors(found)] == ["st.global.v2.f32"]


# ---------------------------------------------------------------- worth


@pytest.mark.usefixtures("no_ptxas")
def test_auto_makes_what_takes_fewer_instructions_and_wavefronts() -> None:
    text = kernel(COPY)
    result = optimize(text, Options(rewrites=("vectorize",)))
    assert "ld.global.v4.f32" in result.text and "st.global.v4.f32" in result.text
    (entry, other) = result.report.kernels[0].rewrites or ()
    assert (entry.rewrite, entry.proof.status) == ("vectorize", "guarded")
    assert entry.proof.guards == ("in is a multiple of 16",)
    assert other.proof.guards == ("out is a multiple of 16",)
    first = lines(text).index("ld.global.f32 %f1, [%rd4+0];") + 1
    assert entry.detail == {"lines": [first + n for n in range(4)], "bytes": 16}


def test_code_between_vectors_far_apart_stands_once() -> None:
    between = "\n".join("add.u32 %r4, %r4, %r1;" for _ in range(100))
    more = "\n".join(f"ld.global.f32 %f{n + 10}, [%rd4+{64 + 4 * n}];" for n in range(4))
    text = kernel(WIDE + LOADS + "\n" + between + "\n" + more + "\nst.global.f32 [%rd5], %f13;")
    result = rewritten("vectorize", text)
    found = new_lines(text, result)
    assert len(vectors(found)) == 2
    assert sum("bra $sw" in line for line in found) == 2
    assert sum("setp" in line for line in found) == 1
    assert result.text.count("add.u32 %r4, %r4, %r1;") == 100
