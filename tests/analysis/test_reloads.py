"""Which kernels load a byte twice, as far as a compiler may see."""

from __future__ import annotations

import random

import pytest

from ptxsw.analysis.reloads import _meet, may_repeat
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse

KERNEL = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u64 out)
{
	.reg .pred %p<8>;
	.reg .b32 %r<12>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<16>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u32 %r1, [n];
	ld.param.u64 %rd3, [out];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd4, %r2, 4;
	add.s64 %rd5, %rd1, %rd4;
	add.s64 %rd6, %rd2, %rd4;
	mul.wide.u32 %rd8, %r1, 4;
	add.s64 %rd9, %rd6, %rd8;
LINES	ret;
}
"""
COUNTED = """\
	mov.u32 %r3, 0;
LOOP:
LINES
	add.s32 %r3, %r3, 1;
	setp.lt.u32 %p1, %r3, %r1;
	@%p1 bra LOOP;
"""
"""A loop of `n` iterations."""
STEP = "	add.s64 %rd5, %rd5, 512;\n"
MULTIPLIED = """\
	mad.lo.s32 %r4, %r3, %r1, %r2;
	mul.wide.s32 %rd10, %r4, 4;
	add.s64 %rd11, %rd1, %rd10;
	ld.global.f32 %f1, [%rd11];
"""
NESTED = """\
	mov.u32 %r5, 0;
	mov.u64 %rd12, %rd5;
INNER:
	ld.global.f32 %f1, [%rd12];
	add.s64 %rd12, %rd12, 4;
	add.s32 %r5, %r5, 1;
	setp.lt.u32 %p2, %r5, 4;
	@%p2 bra INNER;
"""
GATHERED = """\
	ld.global.u32 %r4, [%rd6];
	mul.wide.u32 %rd10, %r4, 4;
	add.s64 %rd10, %rd1, %rd10;
	ld.global.f32 %f1, [%rd10];
	st.global.f32 [%rd3], %f1;
	ld.global.u32 %r5, [%rd9];
	mul.wide.u32 %rd11, %r5, 4;
	add.s64 %rd11, %rd1, %rd11;
	ld.global.f32 %f2, [%rd11];
"""
CHOSEN = """\
	setp.lt.u32 %p1, %r2, %r1;
	@%p1 add.s64 %rd6, %rd5, 4;
	ld.global.f32 %f1, [%rd5];
	ld.global.f32 %f2, [%rd6];
"""


def load(address: str, number: int = 1) -> str:
    return f"	ld.global.f32 %f{number}, [{address}];\n"


def trace_of(lines: str) -> Trace:
    module = parse(KERNEL.replace("LINES", lines))
    (function,) = module.kernels
    return emulate(module, function)


def repeats(lines: str) -> bool:
    trace = trace_of(lines)
    return may_repeat(trace, [a for a in trace.accesses if a.space == "global"])


ONCE = {
    "one load": load("%rd5"),
    "two arrays": load("%rd5") + load("%rd6", 2),
    "bytes side by side": load("%rd5") + load("%rd5+4", 2),
    "a distance that the launch gives": load("%rd6") + load("%rd9", 2),
    "a pointer that goes on": COUNTED.replace("LINES", load("%rd5") + STEP),
    "two pointers that go on": COUNTED.replace(
        "LINES", load("%rd5") + load("%rd6", 2) + STEP + STEP.replace("%rd5", "%rd6")
    ),
    "one of two places that no compiler can tell from a third": CHOSEN,
    "a step that the launch gives": COUNTED.replace("LINES", MULTIPLIED),
}
AGAIN = {
    "the same place": load("%rd5") + load("%rd5", 2),
    "a byte in common": load("%rd5") + "	ld.global.u8 %r5, [%rd5+3];\n",
    "a place that stays in a loop": COUNTED.replace("LINES", load("%rd5")),
    "one array beside one that stays": COUNTED.replace("LINES", load("%rd5") + STEP + load("%rd6")),
    "what the iteration before has loaded": COUNTED.replace(
        "LINES", load("%rd5") + load("%rd5-512", 2) + STEP
    ),
    "what a loop has loaded": COUNTED.replace("LINES", load("%rd5") + STEP) + load("%rd5"),
    "the same places in each iteration around": COUNTED.replace("LINES", NESTED),
    "an index from memory": GATHERED,
}


@pytest.mark.parametrize("lines", ONCE.values(), ids=ONCE)
def test_what_is_loaded_once(lines: str) -> None:
    assert not repeats(lines)


@pytest.mark.parametrize("lines", AGAIN.values(), ids=AGAIN)
def test_what_may_be_loaded_again(lines: str) -> None:
    assert repeats(lines)


def test_loads_that_are_not_asked_about_repeat_nothing_among_themselves() -> None:
    trace = trace_of(load("%rd5") + load("%rd5", 2) + load("%rd6", 3))
    first, _, third = (a for a in trace.accesses if a.space == "global")
    assert may_repeat(trace, [first])
    assert not may_repeat(trace, [third])


def test_loads_meet_where_a_pair_of_them_does() -> None:
    """What is found in one pass is what comparing all pairs finds."""
    random_numbers, seen = random.Random(1), set[bool]()
    for _ in range(3000):
        loads = random_numbers.sample(range(8), random_numbers.randint(1, 5))
        starts = {
            n: random_numbers.choices(range(40), k=random_numbers.randint(1, 3)) for n in loads
        }
        alike = {
            load: [(start, start + random_numbers.choice((0, 1, 4, 8))) for start in each]
            for load, each in starts.items()
        }
        wanted = {load for load in range(8) if random_numbers.random() < 0.4}
        pairs = any(
            one[0] < other[1] and other[0] < one[1]
            for load in wanted & alike.keys()
            for number in alike.keys() - {load}
            for one in alike[load]
            for other in alike[number]
        )
        assert _meet(alike, wanted) == pairs
        seen.add(pairs)
    assert seen == {True, False}
