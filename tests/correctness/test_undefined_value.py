"""Values that nothing wrote: registers, and bytes of shared and local memory."""

from __future__ import annotations

from random import Random

import pytest

from ptxsw.correctness.verdict import Proof
from tests.correctness.small_kernels import Block, error_of_run, is_absent, kernel, proof

START = "ld.param.u64 %d1, [out]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x;"
STORE = "mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r2; ret;"


def found(text: str, block: Block | None = (64, 1, 1)) -> Proof:
    result = proof("undefined_value", text, block=block)
    assert result is not None
    return result


def check(text: str, absent: bool) -> None:
    """The proof says so, and runs agree."""
    result = found(text)
    assert is_absent(result) == absent, result
    said = [error_of_run(text, (64, 1, 1), n) for n in (0, 5, 31, 32, 64, 1000)]
    assert any("an undefined value" in each for each in said) != absent


REGISTERS = {
    "written": ("mov.u32 %r2, 1;", True),
    "never written": ("", False),
    "written where it is needed": ("""setp.lt.s32 %p1, %r9, 9; @%p1 mov.u32 %r2, 1;
        @!%p1 ret;""", True),
    "written by two that exclude each other": ("""setp.lt.s32 %p1, %r9, 9; @%p1 mov.u32 %r2, 1;
        @!%p1 mov.u32 %r2, 2;""", True),
    "written by two that overlap": ("""setp.lt.s32 %p1, %r9, 9; @%p1 mov.u32 %r2, 1;
        setp.lt.s32 %p1, %r9, 5; @!%p1 mov.u32 %r2, 2;""", True),
    "by two that leave a gap": ("""setp.lt.s32 %p1, %r9, 5; @%p1 mov.u32 %r2, 1;
        setp.lt.s32 %p1, %r9, 9; @!%p1 mov.u32 %r2, 2;""", False),
    "written by one side": ("setp.lt.s32 %p1, %r9, 9; @%p1 bra L; mov.u32 %r2, 1; L:", False),
    "written by both": ("""setp.lt.s32 %p1, %r9, 9; @%p1 bra L; mov.u32 %r2, 1; bra M; L:
        mov.u32 %r2, 2; M:""", True),
    "written by one, and left by the other": ("""setp.lt.s32 %p1, %r9, 9; @%p1 bra L;
        mov.u32 %r2, 1; L: @%p1 ret;""", True),
    "read without an effect": ("add.u32 %r3, %r4, 1; mov.u32 %r2, 1;", True),
    "decides a branch": ("setp.eq.u32 %p1, %r4, 1; @%p1 ret; mov.u32 %r2, 1;", False),
    "decides an address": ("and.b32 %r4, %r4, 1; add.u32 %r1, %r1, %r4; mov.u32 %r2, 1;", False),
    "is added to as a number": ("""cvt.rn.f32.u32 %f1, %r9; add.f32 %f2, %f1, %f3;
        mov.b32 %r2, %f2;""", False),
    "of which no bit is left": ("and.b32 %r4, %r4, 0; add.u32 %r2, %r4, 1;", True),
}  # fmt: skip


@pytest.mark.parametrize(("body", "absent"), REGISTERS.values(), ids=REGISTERS)
def test_registers(body: str, absent: bool) -> None:
    result = found(kernel(f"{START} {body} {STORE}"))
    assert is_absent(result) == absent
    if not absent:
        assert "may be read before it is written" in result.open[0].why


HANDED = """setp.ne.u32 %p1, %r1, 0; @%p1 bra L; ld.global.u64 %d3, [%d1]; L: bar.warp.sync -1;
mov.b64 {%r4, %r5}, %d3; shfl.sync.idx.b32 %r4, %r4, 0, 31, -1;
shfl.sync.idx.b32 %r5, %r5, 0, 31, -1; mov.b64 %d3, {%r4, %r5}; cvt.u32.u64 %r2, %d3;"""


def test_what_the_first_lane_hands_over_in_two_halves() -> None:
    """As GCC does with what one lane of a warp has computed, in blocks that are one warp wide."""
    text = kernel(f"{START} {HANDED} {STORE}")
    result = found(text, None)
    assert result.open == () and result.condition == "blockDim.x = 32"
    assert is_absent(found(text, (32, 1, 1)))
    assert not is_absent(found(text, (64, 1, 1)))
    by_another = text.replace("%r1, 0; @%p1", "%r1, 1; @%p1")
    assert found(by_another, (32, 1, 1)).unknown


def test_a_register_that_is_written_anew_is_as_good_as_new() -> None:
    reused = "mov.u32 %r2, %r4; shfl.sync.idx.b32 %r2, %r9, 0, 31, -1;"
    assert is_absent(found(kernel(f"{START} {reused} {STORE}")))
    guarded = "mov.u32 %r2, %r4; setp.lt.s32 %p1, %r9, 9; @%p1 mov.u32 %r2, 1;"
    assert not is_absent(found(kernel(f"{START} {guarded} {STORE}")))


def test_a_loop_whose_first_iteration_reads_what_the_others_write() -> None:
    loop = """mov.u32 %r3, 0; L: mov.u32 %r2, %r5; add.u32 %r5, %r3, 1; add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, 4; @%p1 bra L;"""
    assert not is_absent(found(kernel(f"{START} {loop} {STORE}")))
    assert is_absent(found(kernel(f"{START} mov.u32 %r5, 0; {loop} {STORE}")))


def shared(body: str, *, words: int = 64, directives: str = "") -> str:
    """The address of the thread's word is in %r4, that of the array in %r3."""
    place = "mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4;"
    declared = f".shared .align 4 .b8 s[{4 * words}];"
    return kernel(f"{START} {declared} {place} {body} {STORE}", directives=directives)


FILL, MEET = "st.shared.u32 [%r4], %r1;", "bar.sync 0;"
READ_NEXT = (
    "add.u32 %r5, %r1, 1; and.b32 %r5, %r5, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r3, %r5; "
)
READ_NEXT += "ld.shared.u32 %r2, [%r5];"
SHARED = {
    "a thread's own word": (f"{FILL} ld.shared.u32 %r2, [%r4];", True),
    "the neighbour's": (f"{FILL} {MEET} {READ_NEXT}", True),
    "nothing is stored": (f"{MEET} {READ_NEXT}", False),
    "half of the threads store": (f"""setp.lt.u32 %p1, %r1, 32; @!%p1 bra L; {FILL} L: {MEET}
        {READ_NEXT}""", False),
    "a guarded store of all": (f"setp.lt.u32 %p1, %r1, 64; @%p1 {FILL} {MEET} {READ_NEXT}", True),
    "a parameter decides": (f"setp.lt.u32 %p1, %r1, %r9; @%p1 {FILL} {MEET} {READ_NEXT}", False),
    "some have left": (f"setp.ge.u32 %p1, %r1, %r9; @%p1 ret; {FILL} {MEET} {READ_NEXT}", False),
    "two halves": (f"""setp.lt.u32 %p1, %r1, 32; @!%p1 bra L; {FILL} add.u32 %r5, %r4, 128;
        st.shared.u32 [%r5], 7; L: {MEET} {READ_NEXT}""", True),
    "a loop over all": (f"""mov.u32 %r6, %r1; setp.gt.u32 %p2, %r1, 7; @%p2 bra M;
        L: shl.b32 %r7, %r6, 2; add.u32 %r7, %r3, %r7; st.shared.u32 [%r7], 3;
        add.u32 %r6, %r6, 8; setp.lt.u32 %p1, %r6, 64; @%p1 bra L; M: {MEET} {READ_NEXT}""", True),
    "a loop that leaves out the last": (f"""mov.u32 %r6, %r1; setp.gt.u32 %p2, %r1, 7; @%p2 bra M;
        L: shl.b32 %r7, %r6, 2; add.u32 %r7, %r3, %r7; st.shared.u32 [%r7], 3;
        add.u32 %r6, %r6, 8; setp.lt.u32 %p1, %r6, 63; @%p1 bra L; M: {MEET} {READ_NEXT}""", False),
}  # fmt: skip


@pytest.mark.parametrize(("body", "absent"), SHARED.values(), ids=SHARED)
def test_shared_memory(body: str, absent: bool) -> None:
    check(shared(body), absent)


def test_a_proof_by_the_block_leans_on_its_barriers() -> None:
    result = found(shared(f"{FILL} {MEET} {READ_NEXT}"))
    assert result.needs == {"divergent-barrier", "warp-mask"}
    assert not found(shared(f"{FILL} ld.shared.u32 %r2, [%r4];")).needs


def test_what_a_copy_brings_leans_on_its_wait() -> None:
    """The bytes are there once the thread has waited, which another rule looks at."""
    copy = "cp.async.ca.shared.global [%r4], [%d1], 4; "
    for wait in ("", "cp.async.wait_all; "):
        result = found(shared(f"{copy} {wait} ld.shared.u32 %r2, [%r4];"))
        assert not result.open and result.needs == {"async-wait"}


def test_a_block_that_nobody_declares_is_looked_for() -> None:
    text = shared(f"{FILL} {MEET} {READ_NEXT}", directives=".maxntid 64")
    assert found(text, None).condition == "the block is 64 x 1 x 1"
    assert found(text, (32, 1, 1)).open
    assert found(text.replace(".maxntid 64", ""), None).condition == "the block is 64 x 1 x 1"


def test_lanes_of_a_warp_that_meet() -> None:
    """What other warps have stored is not known then."""
    meet = "bar.warp.sync -1;"
    near = READ_NEXT.replace("and.b32 %r5, %r5, 63", "xor.b32 %r5, %r1, 1")
    assert is_absent(found(shared(f"{FILL} {meet} {near}")))
    assert found(shared(f"{FILL} {meet} {READ_NEXT}")).open
    assert found(shared(f"{FILL} bar.warp.sync 1; {near}")).open


def test_a_store_behind_ways_that_join_again() -> None:
    ways = "setp.lt.u32 %p1, %r9, 9; @%p1 bra A; mov.u32 %r8, 1; bra B; A: mov.u32 %r8, 2; B:"
    inside = f"setp.lt.u32 %p2, %r1, 64; @!%p2 bra C; {ways} st.shared.u32 [%r4], %r8; C:"
    check(shared(f"{inside} {MEET} {READ_NEXT}"), absent=True)
    check(shared(f"{inside.replace('64', '63')} {MEET} {READ_NEXT}"), absent=False)


def test_strides_of_a_tree() -> None:
    """Registers of a loop are taken together: the stride times the threads is always 32."""
    tree = """mov.u32 %r6, 32; mov.u32 %r7, 1; L: bar.sync 0; setp.ge.u32 %p1, %r1, %r6;
        @%p1 bra N; mul.lo.u32 %r8, %r1, %r7; shl.b32 %r8, %r8, {}; add.u32 %r8, %r3, %r8;
        ld.shared.u32 %r2, [%r8]; N: shr.u32 %r6, %r6, 1; shl.b32 %r7, %r7, 1;
        setp.ne.u32 %p2, %r6, 0; @%p2 bra L; mov.u32 %r2, 0;"""
    assert is_absent(found(shared(FILL + tree.format(3))))
    assert found(shared(FILL + tree.format(4))).open


def test_a_tile_that_is_read_by_columns() -> None:
    def tile(pitch: int) -> str:
        place = "mov.u32 %r10, %tid.y; mad.lo.u32 %r11, {}, {}, {}; shl.b32 %r11, %r11, 2;"
        return kernel(f"""{START} .shared .align 4 .b8 s[{4 * 8 * pitch}]; mov.u32 %r3, s;
            {place.format("%r10", pitch, "%r1")} add.u32 %r11, %r3, %r11;
            st.shared.u32 [%r11], %r1; {MEET}
            {place.format("%r1", pitch, "%r10")} add.u32 %r11, %r3, %r11;
            ld.shared.u32 %r2, [%r11]; {STORE}""")  # fmt: skip

    assert is_absent(found(tile(8), (8, 8, 1)))
    assert is_absent(found(tile(9), (8, 8, 1)))
    assert found(tile(9), (8, 4, 1)).open  # it reads columns that no row has


def local(body: str) -> str:
    return kernel(f"{START} .local .align 4 .b8 a[32]; mov.u64 %d3, a; {body} {STORE}")


INDEXED = "and.b32 %r5, %r9, {}; mul.wide.u32 %d4, %r5, 4; add.u64 %d4, %d3, %d4; "
INDEXED += "ld.local.u32 %r2, [%d4];"
LOCAL = {
    "a word": ("st.local.u32 [%d3+4], %r1; ld.local.u32 %r2, [%d3+4];", True),
    "another word": ("st.local.u32 [%d3+4], %r1; ld.local.u32 %r2, [%d3];", False),
    "half of it": ("st.local.u16 [%d3], 1; ld.local.u32 %r2, [%d3];", False),
    "two halves": ("""st.local.u16 [%d3], 1; st.local.u16 [%d3+2], 1;
        ld.local.u32 %r2, [%d3];""", True),
    "a vector": ("st.local.v2.u32 [%d3], {%r1, %r9}; " + INDEXED.format(1), True),
    "stored behind": ("ld.local.u32 %r2, [%d3]; st.local.u32 [%d3], %r1;", False),
    "stored by one side": ("""setp.lt.u32 %p1, %r9, 9; @%p1 bra L; st.local.u32 [%d3], 1; L:
        ld.local.u32 %r2, [%d3];""", False),
    "filled by a loop": ("""mov.u32 %r6, 0; mov.u64 %d5, %d3; L: st.local.u32 [%d5], %r6;
        add.u64 %d5, %d5, 4; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 8; @%p1 bra L;"""
        + INDEXED.format(7), True),
    "read in the loop that fills it": ("""mov.u32 %r6, 0; mov.u64 %d5, %d3;
        L: st.local.u32 [%d5], %r6; """ + INDEXED.format(7) + """ add.u64 %d5, %d5, 4;
        add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 8; @%p1 bra L;""", False),
    "filled but for the last": ("""mov.u32 %r6, 0; mov.u64 %d5, %d3; L: st.local.u32 [%d5], %r6;
        add.u64 %d5, %d5, 4; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 7; @%p1 bra L;"""
        + INDEXED.format(7), False),
}  # fmt: skip


@pytest.mark.parametrize(("body", "absent"), LOCAL.values(), ids=LOCAL)
def test_local_memory(body: str, absent: bool) -> None:
    assert is_absent(found(local(body))) == absent


def check_random(seed: int) -> bool:
    """Where it is proved absent no run finds it; was it proved?"""
    random = Random(seed)

    def place(reg: str) -> str:
        lines = [f"mov.u32 {reg}, %r1;"]
        for _ in range(random.randrange(3)):
            number = random.choice((1, 2, 3, 7, 8, 16, 31))
            lines.append(random.choice((
                f"add.u32 {reg}, {reg}, {number};", f"xor.b32 {reg}, {reg}, {number};",
                f"sub.u32 {reg}, 31, {reg};", f"shr.u32 {reg}, {reg}, {number % 3};",
                f"mul.lo.u32 {reg}, {reg}, {number};",
            )))  # fmt: skip
        return (
            f"{' '.join(lines)} and.b32 {reg}, {reg}, 31; shl.b32 {reg}, {reg}, 2; "
            f"add.u32 {reg}, %r3, {reg};"
        )

    def step(label: int) -> str:
        number = random.choice((8, 16, 31, 32, 48))
        compare = random.choice(("lt.u32", "ge.u32"))
        by = random.choice(("%r1", "%r1", "%r9"))
        guard = f"setp.{compare} %p1, {by}, {number};"
        store = f"{place('%r5')} st.shared.u32 [%r5], %r1;"
        return random.choice((
            store, store, MEET, MEET, "bar.warp.sync -1;", f"{guard} @%p1 ret;",
            f"{guard} @%p1 bra L{label}; {store} L{label}:",
            f"{place('%r5')} {guard} @%p1 st.shared.u32 [%r5], 3;",
        ))  # fmt: skip

    steps = " ".join(step(at) for at in range(random.randrange(1, 6)))
    text = shared(f"{steps} {place('%r6')} ld.shared.u32 %r2, [%r6];", words=32)
    result = found(text, (48, 1, 1))
    if result.open or result.unknown:
        return False
    for n in (0, 8, 20, 1 << 31):
        assert "an undefined value" not in error_of_run(text, (48, 1, 1), n), (seed, text)
    return True


def test_what_is_proved_absent_no_run_finds() -> None:
    assert sum(map(check_random, range(60))) > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_what_is_proved_absent_no_run_finds_in_many_kernels(part: int) -> None:
    assert sum(map(check_random, range(100 + 100 * part, 200 + 100 * part))) > 10
