"""Two texts of a few instructions that differ in something small: none of them is proved.

What a rewrite might write by mistake, or a compiler's optimizer would write and be right about some
other language: sums of floats reassociated, loads over barriers, events in another order.
"""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Outcome, Proved, validate
from tests.heads import head

KERNEL = """.extern .func (.param .b32 q) f(.param .b32 x, .param .b32 y);
.extern .func (.param .b32 q) g(.param .b32 x, .param .b32 y);
.visible .global .align 4 .u32 counter;
.extern .shared .align 4 .b8 one[];
.extern .shared .align 4 .b8 other[];
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
.reg .pred %p<9>;
.reg .f32 %f<9>;
.reg .b16 %h<9>;
.reg .b32 %r<19>;
.reg .b64 %rd<19>;
.shared .align 16 .b8 tile[1024];
.local .align 4 .b8 own[64];
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u32 %r1, [n];
cvta.to.global.u64 %rd3, %rd1;
cvta.to.global.u64 %rd4, %rd2;
mov.u32 %r2, %tid.x;
setp.lt.u32 %p1, %r2, %r1;
mul.wide.u32 %rd5, %r2, 4;
add.s64 %rd6, %rd3, %rd5;
add.s64 %rd7, %rd4, %rd5;
BODY
END:
ret;
}
"""

# A value of each text, over two loaded numbers and the bits of the first.
FLOATS = (
    ("add.f32 %f3, %f1, 0f00000000", "mov.f32 %f3, %f1"),
    ("add.f32 %f3, %f1, 0f80000000", "mov.f32 %f3, %f1"),
    ("mul.f32 %f3, %f1, 0f3F800000", "mov.f32 %f3, %f1"),
    ("mul.f32 %f3, %f1, 0f40000000", "add.f32 %f3, %f1, %f1"),
    ("sub.f32 %f3, %f1, %f1", "mov.f32 %f3, 0f00000000"),
    ("sub.f32 %f3, %f1, %f2", "neg.f32 %f4, %f2; add.f32 %f3, %f1, %f4"),
    ("neg.f32 %f3, %f1", "sub.f32 %f3, 0f00000000, %f1"),
    ("neg.ftz.f32 %f3, %f1", "xor.b32 %r9, %r8, 0x80000000; mov.b32 %f3, %r9"),
    ("abs.ftz.f32 %f3, %f1", "and.b32 %r9, %r8, 0x7fffffff; mov.b32 %f3, %r9"),
    ("cvt.ftz.f32.f32 %f3, %f1", "mov.f32 %f3, %f1"),
    ("max.f32 %f3, %f1, %f1", "mov.f32 %f3, %f1"),
    ("min.NaN.f32 %f3, %f1, %f2", "min.f32 %f3, %f1, %f2"),
    ("min.f32 %f3, %f1, %f2", "setp.lt.f32 %p2, %f1, %f2; selp.f32 %f3, %f1, %f2, %p2"),
    ("fma.rn.f32 %f3, %f1, %f1, %f2", "mul.f32 %f4, %f1, %f1; add.f32 %f3, %f4, %f2"),
    (
        "mul.rn.f32 %f4, %f1, %f2; add.rn.f32 %f3, %f4, %f2",
        "mul.f32 %f4, %f1, %f2; add.f32 %f3, %f4, %f2",  # may be one fma
    ),
    ("rcp.rn.f32 %f3, %f1", "rcp.approx.ftz.f32 %f3, %f1"),
    (
        "setp.lt.f32 %p2, %f1, %f2; selp.f32 %f3, %f1, %f2, %p2",
        "setp.ge.f32 %p2, %f1, %f2; selp.f32 %f3, %f2, %f1, %p2",  # NaN
    ),
    ("setp.eq.f32 %p2, %f1, %f1; selp.f32 %f3, %f1, %f2, %p2", "mov.f32 %f3, %f1"),
    (
        "setp.lt.s32 %p2, %r8, 0; selp.f32 %f3, %f1, %f2, %p2",
        "setp.lt.f32 %p2, %f1, 0f00000000; selp.f32 %f3, %f1, %f2, %p2",  # -0
    ),
    ("copysign.f32 %f3, %f1, %f2", "copysign.f32 %f3, %f2, %f1"),
)
INTEGERS = (
    ("shl.b32 %r3, %r2, %r1", "and.b32 %r4, %r1, 31; shl.b32 %r3, %r2, %r4"),
    ("shr.s32 %r3, %r2, %r1", "and.b32 %r4, %r1, 31; shr.s32 %r3, %r2, %r4"),
    ("div.s32 %r3, %r1, 2", "shr.s32 %r3, %r1, 1"),
    ("rem.s32 %r3, %r1, 8", "and.b32 %r3, %r1, 7"),
    ("div.u32 %r3, %r1, %r1", "mov.u32 %r3, 1"),
    ("add.sat.s32 %r3, %r1, 1", "add.s32 %r3, %r1, 1"),
    ("mul24.lo.s32 %r3, %r1, %r2", "mul.lo.s32 %r3, %r1, %r2"),
    ("shf.l.wrap.b32 %r3, %r1, %r2, %r1", "shf.l.clamp.b32 %r3, %r1, %r2, %r1"),
    ("cvt.sat.u8.s32 %r3, %r1", "cvt.u8.s32 %r3, %r1"),
    ("set.lt.u32.s32 %r3, %r1, %r2", "set.lt.u32.u32 %r3, %r1, %r2"),
    ("dp4a.u32.s32 %r3, %r1, %r2, %r1", "dp4a.s32.u32 %r3, %r1, %r2, %r1"),
    ("mov.u32 %r3, %tid.x", "and.b32 %r3, %r2, 511"),
    ("mov.u32 %r3, %laneid", "and.b32 %r3, %r2, 31"),
    ("mov.u32 %r3, %dynamic_smem_size", "mov.u32 %r3, %total_smem_size"),
    ("ld.param.u32 %r3, [b+4]", "cvt.u32.u64 %r3, %rd2"),
    ("mov.b32 {%h1, _}, %r1; cvt.u32.u16 %r3, %h1", "shr.u32 %r3, %r1, 16"),
    (
        "add.cc.u32 %r4, %r1, %r2; addc.u32 %r3, %r1, 0",
        "add.cc.u32 %r4, %r1, %r2; add.cc.u32 %r5, %r1, 5; addc.u32 %r3, %r1, 0",
    ),
    ("mov.u32 %r3, %clock; sub.u32 %r3, %clock, %r3", "mov.u32 %r4, %clock; mov.u32 %r3, 0"),
    ("shfl.sync.up.b32 %r3, %r2, 1, 0, -1", "shfl.sync.up.b32 %r3, %r2, 1, 0, -2"),
)

LOAD = "ld.global.u32 %r3, [%rd6];"
KEEP = "st.global.u32 [%rd7+64], %r3;"
TILE = "ld.shared.u32 %r3, [tile];"
# Two instructions whose order counts.
ORDERS = (
    ("st.global.u32 [%rd7], %r1;", LOAD),
    ("st.global.u8 [%rd6+3], %r1;", LOAD),
    ("st.global.u32 [counter], %r1;", LOAD),
    ("st.shared.u32 [one], %r1;", "ld.shared.u32 %r3, [other];"),
    ("st.local.u32 [own], %r1;", "ld.local.u32 %r3, [own];"),
    ("bar.sync 0;", TILE),
    ("bar.warp.sync -1;", TILE),
    ("membar.cta;", TILE),
    ("cp.async.wait_all;", TILE),
    ("cp.async.ca.shared.global [tile], [%rd6], 4;", "st.global.u32 [%rd6], %r1;"),
    ("griddepcontrol.wait;", "ld.global.nc.u32 %r3, [%rd6];"),
    ("bar.sync 0;", "ld.global.nc.u32 %r3, [%rd6];"),  # where some thread never arrives
    ("ld.volatile.global.u32 %r4, [%rd6];", "ld.volatile.global.u32 %r3, [%rd7];"),
    ("ld.volatile.global.u32 %r4, [%rd6];", "ld.global.u32 %r3, [%rd7];"),
    ("st.relaxed.gpu.global.u32 [%rd6], %r1;", "st.global.u32 [%rd7], %r2;"),
    ("atom.global.add.u32 %r4, [%rd7], %r1;", "atom.global.add.u32 %r3, [%rd7], %r1;"),
    ("brkpt;", "st.global.u32 [%rd7], %r2;"),
    ("@%p1 bra END;", LOAD),
    ("@%p1 exit;", "st.global.u32 [%rd7], %r2;"),
    ("@%p1 trap;", LOAD),
)
# An instruction, and one that is nearly the same.
EVENTS = (
    ("membar.gl;", "membar.cta;"),
    ("bar.sync 0;", "bar.sync 1;"),
    ("bar.sync 1, 64;", "bar.sync 1, 96;"),
    ("bar.sync 1, 64;", "bar.arrive 1, 64;"),
    ("atom.global.add.u32 %r3, [%rd7], 1;", "atom.cta.global.add.u32 %r3, [%rd7], 1;"),
    ("atom.acquire.global.add.u32 %r3, [%rd7], 1;", "atom.relaxed.global.add.u32 %r3, [%rd7], 1;"),
    ("atom.global.cas.b32 %r3, [%rd7], %r1, %r2;", "atom.global.cas.b32 %r3, [%rd7], %r2, %r1;"),
    ("@%p1 red.global.add.u32 [%rd7], 1;", "@!%p1 red.global.add.u32 [%rd7], 1;"),
    ("@%p1 bra END;", "@%p1 bra.uni END;"),
    ("@%p1 trap;", "@%p1 exit;"),
    ("ld.global.cv.u32 %r3, [%rd6];", "ld.global.u32 %r3, [%rd6];"),
    ("LOOP: bra LOOP;", "LOOP: bra END;"),
    ("LOOP: @%p1 bra LOOP;", "LOOP:"),
    ("LOOP:", "LOOP: @%p1 bra LOOP;"),
)  # fmt: skip
CALL = """{
.param .b32 x;
.param .b32 y;
.param .b32 q;
st.param.b32 [x], %r1;
st.param.b32 [y], %r2;
call (q), f, (x, y);
ld.param.b32 %r3, [q];
}
"""
SWITCH = """ways: .branchtargets ONE, TWO;
and.b32 %r4, %r2, 1;
brx.idx %r4, ways;
ONE: mov.u32 %r3, 1;
bra.uni BOTH;
TWO: mov.u32 %r3, 2;
BOTH:
"""
JOIN = "@%p1 bra JOIN;\nadd.u32 %r4, %r2, 1;\nJOIN: QUESTION\n"
APART = "@%p1 bra JOIN;\nQUESTION\nKEEP\nret;\nJOIN: QUESTION\n".replace("KEEP", KEEP)
SHAPES = (
    (CALL, CALL.replace("%r1", "%r0").replace("%r2", "%r1").replace("%r0", "%r2")),
    (CALL, CALL.replace("f, (", "g, (")),
    (CALL, CALL.replace("[q]", "[x]")),
    (SWITCH, SWITCH.replace("ONE, TWO", "TWO, ONE")),
    (SWITCH, SWITCH.replace("r3, 1", "r3, 0").replace("r3, 2", "r3, 1").replace("r3, 0", "r3, 2")),
    *(
        (JOIN.replace("QUESTION", asked), APART.replace("QUESTION", asked))
        for asked in (
            "activemask.b32 %r3;", "shfl.sync.down.b32 %r3, %r2, 1, 31, -1;",
            "redux.sync.add.u32 %r3, %r2, -1;", "barrier.red.popc.u32 %r3, 0, %p1;",
        )
    ),
)  # fmt: skip


def judged(before: str, after: str) -> Outcome:
    old, new = (parse(head("8.3", "sm_90") + KERNEL.replace("BODY", t)) for t in (before, after))
    return validate((old, old.kernels[0]), (new, new.kernels[0]))


def refused(before: str, after: str) -> bool:
    """Is each text proved equal to itself, and not to the other?"""
    assert isinstance(judged(before, before), Proved)
    return not isinstance(judged(before, after), Proved)


@pytest.mark.parametrize(("before", "after"), FLOATS)
def test_floating_point_has_no_algebra(before: str, after: str) -> None:
    loads = "ld.global.f32 %f1, [%rd6];\nld.global.f32 %f2, [%rd6+4];\nmov.b32 %r8, %f1;\n"
    keep = ";\nst.global.f32 [%rd7], %f3;"
    assert refused(loads + before + keep, loads + after + keep)


@pytest.mark.parametrize(("before", "after"), INTEGERS)
def test_integers_are_of_their_type(before: str, after: str) -> None:
    assert refused(f"{before};\n{KEEP}", f"{after};\n{KEEP}")


@pytest.mark.parametrize(("one", "other"), ORDERS)
def test_some_things_do_not_change_places(one: str, other: str) -> None:
    assert refused(f"{one}\n{other}\n{KEEP}", f"{other}\n{one}\n{KEEP}")


@pytest.mark.parametrize(("before", "after"), EVENTS)
def test_events_are_the_same(before: str, after: str) -> None:
    assert refused(f"{before}\n{KEEP}", f"{after}\n{KEEP}")


@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_calls_tables_and_meetings_are_the_same(before: str, after: str) -> None:
    assert refused(before + KEEP, after + KEEP)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (f"@%r2 {KEEP}", "a guard is not a predicate"),
        ("activemask.b32 %r9; shfl.sync.down.b32 %r8, %rd6, 1, 31, %r9;", "is not followed"),
        ("activemask.b32 %r9; vote.sync.any.pred %p8, %r2, %r9;", "has no predicate"),
        ("ld.param.u64 %r8, [a];", "ptxas rejects it"),
    ],
)
def test_ill_typed_texts_are_refused(after: str, reason: str) -> None:
    """ptxas takes none of them, but somebody may ask whether they are equal to another one."""
    assert reason in str(judged(f"{LOAD}\n{KEEP}", f"{LOAD}\n{after}\n{KEEP}"))
