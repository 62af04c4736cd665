"""Indices of 32 bits that wrap: limits of sizes, with values that go beyond them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ptxsw.correctness.verdict import Fault, Proof
from ptxsw.ptx.bits import wrapped
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch
from tests.correctness.small_kernels import kernel, proof

PARAMS = ".param .u64 out, .param .u32 n, .param .u32 m"
THREAD = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3; ld.param.u32 %r5, [n]; ld.param.u32 %r6, [m];
    ld.param.u64 %d1, [out];"""
GUARD = "setp.ge.s32 %p1, %r4, %r5; @%p1 ret;"
STORE = "add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r4; ret;"


def text(body: str) -> str:
    """The number of the thread is in %r4, `n` in %r5, `m` in %r6, what is added to `out` in %d2."""
    return kernel(f"{THREAD} {body} {STORE}", params=PARAMS)


def found(body: str, **given: object) -> Proof:
    result = proof("index_overflow", text(body), **given)  # type: ignore[arg-type]
    assert result is not None
    return result


def fault(body: str, **given: object) -> Fault:
    result = found(body, **given)
    assert not result.open, result.open
    (one,) = result.faults
    return one


NEVER = {
    "the number of a thread": f"{GUARD} mul.wide.s32 %d2, %r4, 4;",
    "no guard at all": "mul.wide.u32 %d2, %r4, 4;",
    "the next one, guarded": f"add.s32 %r7, %r4, 1; {GUARD} mul.wide.s32 %d2, %r7, 4;",
    "the one before": """setp.lt.s32 %p2, %r4, 1; @%p2 ret; add.s32 %r7, %r4, -1;
        mul.wide.s32 %d2, %r7, 4;""",
    "subtraction by a wrapped constant": f"{GUARD} add.u32 %r7, %r4, -5; mul.wide.s32 %d2, %r7, 4;",
    "computed in 64 bits": f"{GUARD} cvt.s64.s32 %d2, %r4; mul.lo.s64 %d2, %d2, 400000;",
    "masked": "mad.lo.u32 %r7, %r4, 77777, %r5; and.b32 %r7, %r7, 1023; mul.wide.u32 %d2, %r7, 4;",
    "a small number guards": """setp.ge.s32 %p1, %r4, 1000; @%p1 ret; mul.lo.s32 %r7, %r4, 1000;
        mul.wide.s32 %d2, %r7, 4;""",
    "a hash": f"""{GUARD} mul.lo.u32 %r7, %r4, 0x9e3779b1; shr.u32 %r7, %r7, 20;
        mul.wide.u32 %d2, %r7, 4;""",
    "a remainder": """setp.lt.s32 %p1, %r5, 1; @%p1 ret; div.u32 %r7, %r4, %r5; mul.lo.u32 %r7, %r7,
        %r5; sub.u32 %r7, %r4, %r7; mul.wide.u32 %d2, %r7, 4;""",
}  # fmt: skip


@pytest.mark.parametrize("body", NEVER.values(), ids=NEVER)
def test_what_never_wraps(body: str) -> None:
    result = found(body)
    assert not (result.open or result.faults or result.unknown)
    assert "grid-fits" in result.assumptions


LIMITS = {
    "bytes": (f"{GUARD} shl.b32 %r7, %r4, 2; cvt.s64.s32 %d2, %r7;", "warning",
        "valid up to n = 536,870,912"),
    "unsigned bytes": (f"{GUARD} shl.b32 %r7, %r4, 2; cvt.u64.u32 %d2, %r7;", "warning",
        "valid up to n = 1,073,741,824"),
    "three numbers for each thread": (f"{GUARD} mul.lo.s32 %r7, %r4, 3; mul.wide.s32 %d2, %r7, 4;",
        "note", "valid up to n = 715,827,883"),
    "rows and columns": ("""mov.u32 %r8, %ctaid.y; setp.ge.s32 %p2, %r8, %r6; @%p2 ret;
        mad.lo.s32 %r7, %r8, %r5, %r4;""" + f"{GUARD} mul.wide.s32 %d2, %r7, 4;", "note",
        "valid while n·m <= 2,147,483,648"),
    "a product on the way": (f"""{GUARD} mul.lo.s32 %r7, %r4, 3; shr.s32 %r7, %r7, 2;
        mul.wide.s32 %d2, %r7, 4;""", "warning", "valid up to n = 715,827,883"),
    "a sum that is halved": (f"""{GUARD} add.u32 %r7, %r4, %r5; shr.s32 %r7, %r7, 1;
        mul.wide.s32 %d2, %r7, 4;""", "warning", "valid up to n = 1,073,741,824"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "level", "measure"), LIMITS.values(), ids=LIMITS)
def test_limits_of_sizes(body: str, level: str, measure: str) -> None:
    one = fault(body)
    assert (one.level, one.measure) == (level, measure)
    assert one.witness is None


def test_the_smallest_size_that_wraps_is_the_next_one() -> None:
    """By the numbers of a launch: 3·(n - 1) is the last index."""
    body = f"{GUARD} mul.lo.s32 %r7, %r4, 3; mul.wide.s32 %d2, %r7, 4;"
    for n, wraps in ((715_827_883, False), (715_827_884, True)):
        launched = Launch((1 << 22, 1, 1), (256, 1, 1), (Data("zeros", 4, "u32"), n, 1))
        result = found(body, launched=launched)
        assert [f.level for f in result.faults] == ["error"] * wraps
        assert [f.witness for f in result.faults] == [launched] * wraps
        assert not result.open


def test_a_loop_that_steps_over_its_end() -> None:
    loop = """mov.u32 %r9, %nctaid.x; mul.lo.s32 %r9, %r9, %r2; setp.ge.s32 %p1, %r4, %r5;
        @%p1 ret; L: mul.wide.s32 %d2, %r4, 4; add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r1;
        add.s32 %r4, %r4, %r9; setp.lt.s32 %p2, %r4, %r5; @%p2 bra L; ret;"""
    one = fault(loop)
    assert one.level == "note"
    assert one.measure == "valid while blockDim.x·gridDim.x + n <= 2,147,483,647"


def test_a_loop_over_rows() -> None:
    body = f"""{GUARD} setp.lt.s32 %p2, %r6, 1; @%p2 ret; mov.u32 %r8, 0; mov.u32 %r7, %r4;
        L: mul.wide.s32 %d2, %r7, 4; add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r1;
        add.s32 %r7, %r7, %r5; add.s32 %r8, %r8, 1; setp.lt.s32 %p2, %r8, %r6; @%p2 bra L; ret;
        mov.u64 %d2, 0;"""
    one = fault(body)
    assert one.level == "note"
    assert one.measure == "valid while n·m <= 2,147,483,648"


def test_an_unguarded_grid_is_a_condition() -> None:
    result = found("mad.lo.u32 %r7, %r1, 256, %r3; mul.wide.u32 %d2, %r7, 4;", block=(256, 1, 1))
    assert not (result.open or result.faults or result.condition)
    result = found("mad.lo.u32 %r7, %r1, 1024, %r3; mul.wide.u32 %d2, %r7, 4;", block=(256, 1, 1))
    assert result.condition == "gridDim.x <= 4,194,304"


def test_an_index_from_memory_is_not_known() -> None:
    result = found("""ld.global.u32 %r7, [%d1]; mad.lo.u32 %r7, %r7, 3, 1;
        mul.wide.u32 %d2, %r7, 4;""")
    (suspect,) = result.open
    assert suspect.why.endswith("is loaded from memory")


def test_a_register_that_a_loop_grows_in_no_known_steps_is_not_known() -> None:
    loop = """mov.u32 %r7, %r4; mov.u32 %r8, 0; L: mad.lo.s32 %r7, %r7, 3, 1;
        add.s32 %r8, %r8, 1; setp.lt.s32 %p1, %r8, %r5; @%p1 bra L; mul.wide.s32 %d2, %r7, 4;"""
    (suspect, *_) = found(loop).open
    assert suspect.why.endswith("changes in a loop in a way that is not followed")


def test_a_sum_that_may_be_chosen_is_a_condition() -> None:
    body = f"""{GUARD} mul.lo.s32 %r7, %r4, 3; setp.gt.s32 %p2, %r6, 5; selp.b32 %r7, %r7, 7, %p2;
        mul.wide.s32 %d2, %r7, 4;"""
    result = found(body)
    assert not (result.open or result.faults)
    assert result.condition == "n <= 715,827,883"


def test_a_kernel_without_global_memory_is_not_asked_about() -> None:
    inside = kernel(".shared .b8 s[4]; mov.u32 %r1, s; st.shared.u32 [%r1], 1; ret;")
    assert proof("index_overflow", inside) is None


class RandomIndex:
    """Instructions that make an index, and what it is over whole numbers: it is guarded as the
    machine computes it."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.steps: list[tuple[str, int]] = []
        for _ in range(random.randrange(1, 5)):
            name = random.choice(("add", "sub", "mul", "plus n", "times m", "below n", "below"))
            number = random.choice((1, 2, 3, 4, 16, 1000)) * (1000 if name == "below" else 1)
            self.steps.append((name, number))

    def text(self) -> str:
        code = {
            "add": "add.s32 %r7, %r7, {};", "sub": "sub.s32 %r7, %r7, {};",
            "mul": "mul.lo.s32 %r7, %r7, {};", "plus n": "add.s32 %r7, %r7, %r5;",
            "times m": "mul.lo.s32 %r7, %r7, %r6;",
            "below n": "setp.ge.s32 %p1, %r7, %r5; @%p1 ret;",
            "below": "setp.ge.u32 %p1, %r7, {}; @%p1 ret;",
        }  # fmt: skip
        body = " ".join(code[name].format(number) for name, number in self.steps)
        return text(f"mov.u32 %r7, %r4; {body} mul.wide.s32 %d2, %r7, 4;")

    def wraps(self, thread: int, n: int, m: int) -> bool:
        """Does the thread use an index that is larger than 32 bits tell?"""
        whole = thread
        for name, number in self.steps:
            is_word = wrapped(whole, 32)
            if name == "below n" and is_word >= n:
                return False
            if name == "below" and is_word % (1 << 32) >= number:
                return False
            whole = {
                "add": whole + number, "sub": whole - number, "mul": whole * number,
                "plus n": whole + n, "times m": whole * m,
            }.get(name, whole)  # fmt: skip
        return whole >= 1 << 31

    def is_right(self) -> bool:
        """Where nothing wraps by the proof, nothing does; was that proved?"""
        result = proof("index_overflow", self.text())
        if result is None or result.open or result.unknown or result.faults or result.condition:
            return False
        large = [1, 2, 7, 1000, 46341, 1 << 20, 1 << 29, (1 << 30) + 1, (1 << 31) - (1 << 21)]
        for n, m in product(large, repeat=2):
            for thread in (0, 1, n - 1, n // 2, m - 1, self.random.randrange(1 << 30)):
                assert not self.wraps(thread, n, m), (self.steps, thread, n, m)
        return True


def test_what_is_proved_never_to_wrap_does_not() -> None:
    assert sum(RandomIndex(seed).is_right() for seed in range(60)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_what_is_proved_never_to_wrap_does_not_in_many_kernels(part: int) -> None:
    seeds = range(100 + 200 * part, 300 + 200 * part)
    assert sum(RandomIndex(seed).is_right() for seed in seeds) > 30


SEARCH = """setp.lt.s32 %p1, %r5, 1; @%p1 ret; mov.u32 %r10, 0; mov.u32 %r11, %r5;
    L: {middle} mul.wide.s32 %d3, %r12, 4; add.s64 %d4, %d1, %d3; {load} setp.lt.s32 %p2, %r13, %r6;
    add.s32 %r14, %r12, 1; selp.b32 %r10, %r14, %r10, %p2; selp.b32 %r11, %r11, %r12, %p2;
    setp.lt.s32 %p3, %r10, %r11; @%p3 bra L; ret;"""
LOAD = "ld.global.nc.u32 %r13, [%d4];"
HALF = "add.s32 %r12, %r11, %r10; shr.s32 %r12, %r12, 1;"
FROM_LOW = "sub.s32 %r12, %r11, %r10; shr.s32 %r12, %r12, 1; add.s32 %r12, %r12, %r10;"


def test_the_middle_of_two_wraps_once_both_are_large() -> None:
    """In the first iteration it is half of n; in the second three quarters, before it is halved."""
    (one,) = found(SEARCH.format(middle=HALF, load=LOAD)).faults
    assert one.level == "warning" and one.what.startswith("the index is computed in 32 bits")
    number = int(one.what.partition("n = ")[2].replace(",", ""))
    assert number + number // 2 + 1 >= 1 << 31


@pytest.mark.parametrize(
    "body",
    [
        SEARCH.format(middle=FROM_LOW, load=LOAD),
        SEARCH.format(middle=HALF, load="ld.shared.u32 %r13, [%r12];"),  # who knows what that is
        "setp.gt.s32 %p1, %r5, 1000; @%p1 ret;" + SEARCH.format(middle=HALF, load=LOAD),
    ],
)  # fmt: skip
def test_nothing_is_said_of_other_searches(body: str) -> None:
    assert not found(body).faults
