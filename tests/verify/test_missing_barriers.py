"""A second text that lacks a barrier: an order of the warps shows what that does."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.verify import Different, Undecided, verify
from ptxsw.verify.runs import run
from tests.heads import head

BARRIER = "bar.sync 0;"


def block(body: str) -> str:
    """Each thread of a block of 256 puts a word of `in` into `s`, and goes on."""
    return f"""{head("8.0", "sm_80")}
.visible .entry k(.param .u64 out, .param .u64 in) {{
	.reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
	.shared .align 4 .b8 s[1024];
	ld.param.u64 %rd1, [out];
	ld.param.u64 %rd2, [in];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f1, [%rd5];
	mov.u32 %r2, s;
	shl.b32 %r3, %r1, 2;
	add.s32 %r4, %r2, %r3;
	st.shared.f32 [%r4], %f1;
	{body}
	ret;
}}
"""


# A tree of maxima, whose last steps read what other warps have left; it needs all 256 threads.
TREE = block(f"""{BARRIER}
	setp.gt.u32 %p1, %r1, 127;
	@%p1 bra $SECOND;
	ld.shared.f32 %f2, [%r4+512];
	max.f32 %f1, %f1, %f2;
	st.shared.f32 [%r4], %f1;
$SECOND:
	{BARRIER}
	setp.gt.u32 %p2, %r1, 63;
	@%p2 bra $END;
	ld.shared.f32 %f3, [%r4+256];
	max.f32 %f1, %f1, %f3;
	st.global.f32 [%rd4], %f1;
$END:""")
# Each thread takes what one of another warp has put down, wherever that leads.
ROTATED = block(f"""{BARRIER}
	add.s32 %r5, %r1, 64;
	and.b32 %r6, %r5, 255;
	shl.b32 %r7, %r6, 2;
	add.s32 %r8, %r2, %r7;
	ld.shared.u32 %r9, [%r8];
	st.global.u32 [%rd4], %r9;""")
# What another thread has put down is not used.
UNUSED = ROTATED.replace("[%rd4], %r9", "[%rd4], %r1")


def without(text: str, number: int) -> str:
    """The text without one of its barriers."""
    parts = text.split(BARRIER)
    return BARRIER.join([*parts[:number], parts[number] + parts[number + 1], *parts[number + 2 :]])


@pytest.mark.parametrize(("text", "number"), [(TREE, 1), (ROTATED, 0)], ids=["tree", "rotated"])
def test_an_order_of_the_warps_shows_it(text: str, number: int) -> None:
    other = without(text, number)
    verdict = verify(text, other)
    assert isinstance(verdict, Different) and verdict.difference is not None
    assert verdict.difference.seed is not None
    assert "\nthreads race in the second kernel, and not in the first: " in verdict.reason
    launch, seed = verdict.difference.launch, verdict.difference.seed
    assert launch.block == (256, 1, 1)
    one, two = (run(parse(t), "k", launch, seed) for t in (text, other))
    assert one.error is None and not two.same(one)


def test_a_race_that_shows_in_no_result_is_named() -> None:
    verdict = verify(UNUSED, without(UNUSED, 0))
    assert isinstance(verdict, Undecided)
    said = "threads race in the second kernel, and not in the first, but no order that was tried "
    assert said in verdict.reason and "a race with thread" in verdict.reason


@pytest.mark.parametrize("text", [TREE, ROTATED, UNUSED], ids=["tree", "rotated", "unused"])
def test_with_its_barriers_it_is_proved(text: str) -> None:
    assert str(verify(text, text.replace("%f1", "%f7"))) == "proved"
