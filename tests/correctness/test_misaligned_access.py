"""Misaligned accesses: proved absent, with a condition or without, or left open."""

from __future__ import annotations

from random import Random

import pytest

from ptxsw.correctness.verdict import Proof
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch
from tests.correctness.small_kernels import error_of_run, is_absent, kernel, proof

START = "mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; ld.param.u32 %r2, [n];"
PAIR = "ld.global.v2.u32 {%r8, %r9}, [%d1]; ret;"


def loads(offset: str, load: str = PAIR, *, ahead: str = "") -> str:
    """Each thread loads two words at `out` plus what it adds to %d1."""
    return kernel(f"{START} {offset} {load}", ahead=ahead)


def found(text: str) -> Proof:
    result = proof("misaligned_access", text, block=(64, 1, 1))
    assert result is not None
    return result


ALIGNED = {
    "own pair": "mul.wide.u32 %d2, %r1, 8; add.u64 %d1, %d1, %d2;",
    "far away": "add.u64 %d1, %d1, -8;",
    "a scaled parameter": "mul.wide.s32 %d2, %r2, 16; add.u64 %d1, %d1, %d2;",
    "even threads": """and.b32 %r3, %r1, 1; setp.ne.u32 %p1, %r3, 0; @%p1 ret;
        mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;""",
    "masked": "and.b32 %r3, %r2, -2; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;",
    "a test of the pointer": """and.b64 %d3, %d1, 7; setp.ne.u64 %p1, %d3, 4; @%p1 ret;
        add.u64 %d1, %d1, 4;""",
    "a pointer from memory": "ld.global.u64 %d1, [%d1]; add.u64 %d1, %d1, 8;",
    "two tests": """and.b32 %r3, %r2, 3; setp.ne.u32 %p1, %r3, 3; @%p1 ret;
        add.u32 %r3, %r2, 1; mul.wide.s32 %d2, %r3, 2; add.u64 %d1, %d1, %d2;""",
}


@pytest.mark.parametrize("offset", ALIGNED.values(), ids=ALIGNED)
def test_what_is_added_is_a_multiple_of_the_size(offset: str) -> None:
    assert is_absent(found(loads(offset)))


MISALIGNED = {
    "every other lane": "mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;",
    "odd threads": """and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0; @%p1 ret;
        mul.wide.u32 %d2, %r1, 12; add.u64 %d1, %d1, %d2;""",
    "an index from memory": """ld.global.u32 %r3, [%d1]; mul.wide.u32 %d2, %r3, 4;
        add.u64 %d1, %d1, %d2;""",
    "rows of an odd length": """mul.lo.u32 %r3, %r1, 3; mul.wide.u32 %d2, %r3, 4;
        add.u64 %d1, %d1, %d2;""",
}


@pytest.mark.parametrize("offset", MISALIGNED.values(), ids=MISALIGNED)
def test_a_lane_that_is_misaligned_is_left_open_with_values(offset: str) -> None:
    (suspect,) = found(loads(offset)).open
    assert suspect.values is not None
    if "memory" not in suspect.why:
        assert "not aligned" in error_of_run(loads(offset), (64, 1, 1), 1)


def test_a_parameter_that_has_to_be_even_is_a_condition() -> None:
    text = loads("mul.lo.u32 %r3, %r1, %r2; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;")
    assert found(text).condition == "n is a multiple of 2"


def test_a_launch_decides_what_a_parameter_is() -> None:
    text = loads("mul.lo.u32 %r3, %r1, %r2; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;")
    for n, aligned in ((6, True), (7, False)):
        launched = Launch((1, 1, 1), (64, 1, 1), (Data("zeros", 1024, "u32"), n))
        result = proof("misaligned_access", text, launched=launched)
        assert result is not None
        assert not result.condition
        assert bool(result.open) != aligned


def test_a_pointer_may_make_up_for_a_constant() -> None:
    assert found(loads("add.u64 %d1, %d1, 4;")).condition == "out + 4 is a multiple of 8"
    by_two = kernel(
        f"ld.param.u64 %d1, [out]; ld.param.u64 %d2, [more]; add.u64 %d1, %d1, %d2; {PAIR}",
        params=".param .u64 out, .param .u64 more",
    )
    assert found(by_two).condition == "more + out is a multiple of 8"


def test_a_pointer_cannot_make_up_for_two_constants() -> None:
    two = "ld.global.v2.u32 {%r8, %r9}, [%d1+4]; ld.global.v2.u32 {%r8, %r9}, [%d1+8]; ret;"
    (suspect,) = found(loads("", two)).open
    assert "need two alignments of it" in suspect.why
    agreeing = "ld.global.v2.u32 {%r8, %r9}, [%d1+4]; ld.global.v2.u32 {%r8, %r9}, [%d1+12]; ret;"
    assert found(loads("", agreeing)).condition == "out + 4 is a multiple of 8"


@pytest.mark.parametrize(("align", "at", "absent", "condition"), [
    (8, 8, True, ""), (8, 4, False, ""), (4, 8, True, "s is aligned to 8 bytes"),
    (4, 2, False, ""), (16, 24, True, ""),
])  # fmt: skip
def test_a_variable_is_aligned_as_declared(
    align: int, at: int, absent: bool, condition: str
) -> None:
    text = kernel(f""".shared .align {align} .b8 s[64]; mov.u32 %r1, s;
        ld.shared.v2.u32 {{%r2, %r3}}, [%r1+{at}]; ret;""")  # fmt: skip
    result = found(text)
    assert bool(result.open) != absent
    assert result.condition == condition


def ring(step: int, start: int = 0, align: int = 16) -> str:
    """A place in shared memory that goes round three buffers."""
    body = f"""mov.u32 %r3, s; add.u32 %r3, %r3, {start}; mov.u32 %r4, 0; mov.u32 %r5, 0;
        L: st.shared.v2.u32 [%r3], {{%r1, %r1}}; add.u32 %r4, %r4, 1; setp.gt.u32 %p1, %r4, 2;
        selp.b32 %r4, 0, %r4, %p1; mov.u32 %r6, s; mad.lo.u32 %r3, %r4, {step}, %r6;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r2; @%p2 bra L; ret;"""
    return loads("", body, ahead=f".shared .align {align} .b8 s[4096];\n")


def test_a_ring_of_buffers() -> None:
    assert is_absent(found(ring(1024)))
    assert is_absent(found(ring(8, 8)))
    assert not is_absent(found(ring(4)))
    assert not is_absent(found(ring(8, 4)))
    assert not is_absent(found(ring(8, 0, 4)))


def test_single_bytes_are_always_aligned() -> None:
    text = loads("cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2;", "ld.global.u8 %h1, [%d1]; ret;")
    assert is_absent(found(text))


def check_random(seed: int) -> bool:
    """Where it is proved absent no run on an aligned buffer finds it; was it proved?"""
    random = Random(seed)
    size = random.choice((2, 4))
    lines = ["mov.u32 %r3, %r1;"]
    for _ in range(random.randrange(1, 5)):
        number = random.choice((1, 2, 3, 4, 6, 8, 12))
        lines.append(random.choice((
            f"add.u32 %r3, %r3, {number};", f"mul.lo.u32 %r3, %r3, {number};",
            f"and.b32 %r3, %r3, {-number};", f"shl.b32 %r3, %r3, {number % 4};",
            "add.u32 %r3, %r3, %r2;", "mul.lo.u32 %r3, %r3, %r2;", "and.b32 %r2, %r2, -4;",
            f"and.b32 %r4, %r3, 3; setp.ne.u32 %p1, %r4, {number % 4}; @%p1 ret;",
            f"and.b32 %r4, %r2, 3; setp.ne.u32 %p1, %r4, {number % 4}; @%p1 ret;",
        )))  # fmt: skip
    vector = ", ".join(f"%r{8 + at}" for at in range(size))
    address = "and.b32 %r3, %r3, 255; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;"
    text = kernel(f"""mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; ld.param.u32 %r2, [n];
        {" ".join(lines)} {address} ld.global.v{size}.u32 {{{vector}}}, [%d1]; ret;""")  # fmt: skip
    if not is_absent(found(text)):
        return False
    for n in (0, 1, 2, 3, 4, 5, 6, 7, 1 << 31):
        assert "not aligned" not in error_of_run(text, (64, 1, 1), n), (seed, text)
    return True


def test_what_is_proved_absent_no_run_finds() -> None:
    assert sum(map(check_random, range(40))) > 5


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_what_is_proved_absent_no_run_finds_in_many_kernels(part: int) -> None:
    assert sum(map(check_random, range(100 + 100 * part, 200 + 100 * part))) > 15
