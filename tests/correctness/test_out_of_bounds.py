"""Accesses out of bounds: proved absent, with a condition or without, or left open with values."""

from __future__ import annotations

from random import Random

import pytest

from ptxsw.correctness.verdict import Proof
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch
from tests.correctness.small_kernels import error_of_run, is_absent, kernel, proof

TID = "mov.u32 %r1, %tid.x; mov.u32 %r30, s;"
STORE = "shl.b32 %r9, %r2, 2; add.u32 %r9, %r30, %r9; st.shared.u32 [%r9], %r1; ret;"


def shared(index: str, *, words: int = 64, block: int | None = 64) -> str:
    """Each thread stores to the word of a shared array that `index` leaves in %r2."""
    directives = "" if block is None else f".reqntid {block}"
    declared = f".shared .align 4 .b8 s[{4 * words}];"
    return kernel(f"{declared} {TID} {index} {STORE}", directives=directives)


def found(text: str, **given: object) -> Proof:
    result = proof("out_of_bounds", text, **given)  # type: ignore[arg-type]
    assert result is not None
    return result


INSIDE = {
    "own word": "mov.u32 %r2, %r1;",
    "neighbour, guarded": "setp.eq.u32 %p1, %r1, 0; @%p1 ret; sub.u32 %r2, %r1, 1;",
    "reversed": "sub.u32 %r2, 63, %r1;",
    "wraps around": "add.u32 %r2, %r1, 1; and.b32 %r2, %r2, 63;",
    "remainder": "ld.param.u32 %r3, [n]; add.u32 %r3, %r3, %r1; rem.u32 %r2, %r3, 64;",
    "clamped": "ld.param.u32 %r3, [n]; max.s32 %r3, %r3, 0; min.s32 %r2, %r3, 63;",
    "half of the threads": "setp.gt.u32 %p1, %r1, 31; @%p1 ret; add.u32 %r2, %r1, 32;",
    "rows of a tile": """and.b32 %r3, %r1, 7; shr.u32 %r4, %r1, 3; mad.lo.u32 %r2, %r3, 8, %r4;""",
    "guarded by a parameter that is guarded": """ld.param.u32 %r3, [n]; setp.gt.s32 %p1, %r3, 64;
        @%p1 ret; setp.ge.s32 %p2, %r1, %r3; @%p2 ret; mov.u32 %r2, %r1;""",
}  # fmt: skip


@pytest.mark.parametrize("index", INSIDE.values(), ids=INSIDE)
def test_an_index_that_stays_inside_is_proved(index: str) -> None:
    result = found(shared(index))
    assert is_absent(result)
    assert result.reason == "proved for blocks of 64 x 1 x 1"
    assert not error_of_run(shared(index), (64, 1, 1), 40)


OUTSIDE = {
    "one too far": "add.u32 %r2, %r1, 1;",
    "one too early": "sub.u32 %r2, %r1, 1;",
    "guarded by one too much": "setp.gt.u32 %p1, %r1, 32; @%p1 ret; add.u32 %r2, %r1, 32;",
    "a wrong mask": "and.b32 %r2, %r1, 31; mad.lo.u32 %r2, %r2, 2, 2;",
    "a signed remainder": "sub.u32 %r3, 0, %r1; rem.s32 %r2, %r3, 64;",
}


@pytest.mark.parametrize("index", OUTSIDE.values(), ids=OUTSIDE)
def test_an_index_that_leaves_is_left_open_with_values_that_show_it(index: str) -> None:
    result = found(shared(index))
    (suspect,) = result.open
    assert suspect.rule == "out-of-bounds"
    assert suspect.values is not None
    assert error_of_run(shared(index), (64, 1, 1), 0)


def test_a_block_that_nobody_declares_is_a_condition() -> None:
    assert found(shared("mov.u32 %r2, %r1;", block=None)).condition == "blockDim.x <= 64"
    assert found(shared("mad.lo.u32 %r2, %r1, 2, 1;", block=None)).condition == "blockDim.x <= 32"


def test_a_block_that_is_given_decides() -> None:
    text = shared("mov.u32 %r2, %r1;", block=None)
    assert is_absent(found(text, block=(64, 1, 1)))
    assert found(text, block=(65, 1, 1)).open


def test_a_guard_of_another_axis_hides_nothing() -> None:
    """Threads of rows but the first leave the array, whatever the block is."""
    guard = "mov.u32 %r3, %tid.y; setp.eq.u32 %p1, %r3, 0; @%p1 ret;"
    body = f"{guard} and.b32 %r2, %r1, 31; xor.b32 %r2, %r2, 64;"
    assert found(shared(body, block=None)).open


def test_a_block_for_which_nothing_holds_is_no_condition() -> None:
    assert found(shared("add.u32 %r2, %r1, 64;", block=None)).open


def test_conditions_that_follow_from_others_are_left_out() -> None:
    rows = "mov.u32 %r3, %tid.y; mad.lo.u32 %r2, %r3, 8, %r1; "
    columns = "mad.lo.u32 %r2, %r1, 8, 7;"
    result = found(shared(columns + STORE.replace("ret;", "") + rows, block=None))
    assert result.condition == "blockDim.x <= 8 and blockDim.x + 8·blockDim.y <= 72"


def loop(start: str, end: int, step: int) -> str:
    return f"""mov.u32 %r2, {start}; L: setp.ge.s32 %p1, %r2, {end}; @%p1 bra E;
        shl.b32 %r9, %r2, 2; add.u32 %r9, %r30, %r9;
        st.shared.u32 [%r9], %r1;
        add.s32 %r2, %r2, {step}; bra L; E: ret;"""


@pytest.mark.parametrize(("end", "step", "inside"), [(256, 64, True), (257, 64, False),
    (256, 100, True), (0, 64, True)])  # fmt: skip
def test_a_loop_over_an_array(end: int, step: int, inside: bool) -> None:
    text = shared(loop("%r1", end, step), words=256)
    assert is_absent(found(text)) == inside
    assert bool(error_of_run(text, (64, 1, 1), 0)) != inside


@pytest.mark.parametrize(("words", "inside"), [(64, True), (63, False)])
def test_a_tree_that_halves_its_stride(words: int, inside: bool) -> None:
    text = shared("""mov.u32 %r3, 32; L: bar.sync 0; setp.ge.u32 %p1, %r1, %r3; @%p1 bra N;
        add.u32 %r2, %r1, %r3; shl.b32 %r9, %r2, 2; add.u32 %r9, %r30, %r9;
        ld.shared.u32 %r4, [%r9]; N: shr.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra L;
        mov.u32 %r2, 0;""", words=words)  # fmt: skip
    assert is_absent(found(text)) == inside


@pytest.mark.parametrize(("words", "inside"), [(64, True), (63, False)])
def test_strides_that_grow_while_threads_fall(words: int, inside: bool) -> None:
    text = shared("""mov.u32 %r3, 32; mov.u32 %r5, 1; L: setp.ge.u32 %p1, %r1, %r3; @%p1 bra N;
        mad.lo.u32 %r2, %r1, 2, 2; mul.lo.u32 %r2, %r2, %r5; sub.u32 %r2, %r2, 1;
        shl.b32 %r9, %r2, 2; add.u32 %r9, %r30, %r9; ld.shared.u32 %r4, [%r9];
        N: shl.b32 %r5, %r5, 1; shr.u32 %r3, %r3, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra L;
        mov.u32 %r2, 0;""", words=words)  # fmt: skip
    assert is_absent(found(text)) == inside


def test_slots_in_a_ring() -> None:
    ring = """ld.param.u32 %r6, [n]; mov.u32 %r5, 0; mov.u32 %r7, 0;
        L: mad.lo.u32 %r2, %r5, 64, %r1; shl.b32 %r9, %r2, 2; add.u32 %r9, %r30, %r9;
        st.shared.u32 [%r9], %r1;
        add.u32 %r5, %r5, 1; setp.eq.u32 %p1, %r5, 3; selp.b32 %r5, 0, %r5, %p1;
        add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r6; @%p2 bra L; mov.u32 %r2, 0;"""
    assert is_absent(found(shared(ring, words=192)))
    assert found(shared(ring, words=191)).open


def test_an_index_from_memory_is_not_known() -> None:
    load = "ld.param.u64 %d1, [out]; ld.global.u32 %r2, [%d1];"
    (suspect,) = found(shared(load)).open
    assert suspect.why.endswith("is loaded from memory")
    assert is_absent(found(shared(f"{load} and.b32 %r2, %r2, 63;")))


def test_a_choice_between_arrays() -> None:
    body = """.shared .align 4 .b8 s[256]; .shared .align 4 .b8 t[128]; {tid}
        setp.lt.u32 %p1, %r1, {middle}; mov.u32 %r5, t; selp.b32 %r6, %r5, %r30, %p1;
        shl.b32 %r9, %r1, 2; add.u32 %r9, %r6, %r9; st.shared.u32 [%r9], %r1; ret;"""
    for middle, inside in ((32, True), (33, False)):
        text = kernel(body.format(tid=TID, middle=middle), directives=".reqntid 64")
        assert is_absent(found(text)) == inside


def test_arrays_of_all_spaces_are_looked_at() -> None:
    table = ".const .align 4 .b32 table[4] = {1, 2, 3, 4}; .global .align 4 .b32 words[4];"
    for space, name in (("const", "table"), ("global", "words")):
        for mask, inside in ((3, True), (7, False)):
            text = kernel(f"""mov.u32 %r1, %tid.x; and.b32 %r1, %r1, {mask}; mov.u64 %d1, {name};
                mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; ld.{space}.u32 %r2, [%d1]; ret;
                """, ahead=table)  # fmt: skip
            assert is_absent(found(text, block=(64, 1, 1))) == inside


def test_local_arrays_by_generic_addresses() -> None:
    for size, inside in ((16, True), (12, False)):
        text = kernel(f""".local .align 4 .b8 depot[{size}]; .reg .b64 %SP; .reg .b64 %SPL;
            mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL; ld.param.u32 %r1, [n];
            and.b32 %r1, %r1, 3; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %SP, %d2;
            st.u32 [%d1], %r1; ret;""")  # fmt: skip
        assert is_absent(found(text)) == inside


def test_global_memory_is_not_asked_about_without_a_launch() -> None:
    text = kernel("ld.param.u64 %d1, [out]; st.global.u32 [%d1+400], 1; ret;")
    assert proof("out_of_bounds", text) is None
    for words, before, inside in ((101, 0, True), (100, 0, False), (100, 1, False), (102, 1, True)):
        buffer = Data("zeros", words, "u32", first=before)
        launched = Launch((1, 1, 1), (32, 1, 1), (buffer, 3))
        assert is_absent(found(text, launched=launched)) == inside


def test_numbers_of_a_launch_bound_indices() -> None:
    text = kernel("""ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
        mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1; ld.param.u32 %r4, [n];
        setp.ge.s32 %p1, %r1, %r4; @%p1 ret; mul.wide.s32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
        st.global.u32 [%d1], 1; ret;""")  # fmt: skip
    for words, n, inside in ((100, 100, True), (100, 101, False), (256, 1000, True)):
        launched = Launch((4, 1, 1), (64, 1, 1), (Data("zeros", words, "u32"), n))
        assert is_absent(found(text, launched=launched)) == inside


def test_dynamic_shared_memory_has_the_size_of_the_launch() -> None:
    text = kernel("mov.u32 %r30, d; st.shared.u32 [%r30+60], 1; ret;",
                  ahead=".extern .shared .align 16 .b8 d[];")  # fmt: skip
    assert proof("out_of_bounds", text) is None
    for size, inside in ((64, True), (63, False), (0, False)):
        launched = Launch((1, 1, 1), (32, 1, 1), (Data("zeros", 4), 3), size)
        assert is_absent(found(text, launched=launched)) == inside


CALLED = {
    "stays in its own array": (".func f() { .local .b8 a[8]; st.local.u32 [a+4], 1; ret; }", ""),
    "leaves its array": (".func f() { .local .b8 a[4]; st.local.u32 [a+4], 1; ret; }",
        "the index at line 5 was not shown to be in bounds"),
    "gets a pointer": (""".func f() { .reg .b64 %d<2>; st.local.u32 [%d1], 1; ret; }""",
        "the address at line 5 does not derive from one array"),
    "is elsewhere": (".extern .func f();", "it calls f, which is not followed (line "),
    "calls what is elsewhere": (".extern .func g(); .func f() { call g; ret; }",
        "it calls g, which is not followed (line 5)"),
    "calls itself": (".func f() { .local .b8 a[8]; st.local.u32 [a+4], 1; call f; ret; }", ""),
    "leaves its array in a circle": (
        ".func f() { .local .b8 a[4]; st.local.u32 [a+4], 1; call f; ret; }",
        "in f: the index at line 5 was not shown to be in bounds"),
}  # fmt: skip


@pytest.mark.parametrize(("called", "unknown"), CALLED.values(), ids=CALLED)
def test_functions_that_are_called_count(called: str, unknown: str) -> None:
    text = shared("mov.u32 %r2, %r1; call f;").replace("\n.visible", f"\n{called}\n.visible")
    result = found(text)
    why = result.unknown or next((suspect.why for suspect in result.open), "")
    assert why.startswith(unknown)
    assert bool(why) == bool(unknown)


def random_index(random: Random) -> str:
    """Instructions that leave in %r2 an index made of the thread and of what is loaded."""
    lines = ["mov.u32 %r2, %r1;", "ld.param.u32 %r7, [n];"]
    for _ in range(random.randrange(1, 5)):
        number = random.choice((1, 2, 3, 5, 8, 16, 31, 63))
        lines.append(random.choice((
            f"add.u32 %r2, %r2, {number};", f"sub.u32 %r2, %r2, {number};",
            f"sub.u32 %r2, {number}, %r2;", f"and.b32 %r2, %r2, {number};",
            f"mul.lo.u32 %r2, %r2, {number};", f"shr.s32 %r2, %r2, {number % 5};",
            f"rem.s32 %r2, %r2, {number};", f"xor.b32 %r2, %r2, {number};",
            f"min.s32 %r2, %r2, {number};", f"max.s32 %r2, %r2, {number};",
            "add.u32 %r2, %r2, %r7;", "shl.b32 %r2, %r2, 30;",
            f"setp.ge.s32 %p1, %r2, {number}; @%p1 ret;",
            f"setp.lt.u32 %p1, %r1, {number}; @%p1 ret;",
            f"setp.ge.s32 %p1, %r2, {number}; @%p1 sub.u32 %r2, %r2, {number};",
            "setp.ge.u32 %p1, %r2, %r7; @%p1 ret;", "setp.gt.u32 %p1, %r7, 40; @%p1 ret;",
        )))  # fmt: skip
    return " ".join(lines)


def check_random(seed: int) -> bool:
    """Where it is proved absent no run finds it; was it proved?"""
    random = Random(seed)
    text = shared(random_index(random), words=random.choice((1, 16, 32, 64)), block=48)
    if not is_absent(found(text)):
        return False
    for n in (0, 1, 2, 31, 33, 40, 41, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
        assert not error_of_run(text, (48, 1, 1), n), (seed, text)
    return True


def test_what_is_proved_absent_no_run_finds() -> None:
    assert sum(map(check_random, range(40))) > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_what_is_proved_absent_no_run_finds_in_many_kernels(part: int) -> None:
    assert sum(map(check_random, range(100 + 100 * part, 200 + 100 * part))) > 15


def test_a_launch_leaves_no_condition() -> None:
    """What would be one of the grid is a fault of the launch."""
    text = kernel("""ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r1, %r2, 64, %r1; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
        st.global.u32 [%d1], 1; ret;""")  # fmt: skip
    for blocks, inside in ((1, True), (2, False)):
        launched = Launch((blocks, 1, 1), (64, 1, 1), (Data("zeros", 100, "u32"), 3))
        result = found(text, launched=launched)
        assert not result.condition
        assert bool(result.open) != inside


def test_where_only_nothing_fits_the_condition_says_so() -> None:
    far = "ld.param.u32 %r3, [n]; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, 63;"
    assert found(shared(far)).condition == "n = 0"
    said = found(shared(far, block=None)).condition
    assert said == "n = 0"
