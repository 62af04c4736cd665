"""Which loops may become uniform, each rule in both directions; and those that may do what they
did, on odd blocks and under schedules that split warps anywhere."""

from __future__ import annotations

import pytest

from ptxsw.driver.pipeline import Options, optimize
from tests.shuffle.looping import SHAPES, found, kernel, lengths, outputs, plain, reasons

SUM = """
	// s = 0; i = tid; while (i < n) { s += a[i]; i += 5; } out[tid] = s;
	mov.u32 %r10, %r1;
	mov.u64 %rd10, %rd5;
LOOP:
	setp.ge.u32 %p1, %r10, %r2;
	@%p1 bra AFTER;
	ld.global.f32 %f2, [%rd10];
	add.f32 %f1, %f1, %f2;
	{middle}
	add.s64 %rd10, %rd10, 20;
	add.u32 %r10, %r10, 5;
	{last}
	bra LOOP;
AFTER:
	st.global.f32 [%rd4], %f1;
"""

DO_WHILE = """
	// i = tid; do { s += a[i]; i += 3; } while (i < n); out[tid] = s;
	mov.u32 %r10, %r1;
	mov.u64 %rd10, %rd5;
LOOP:
	ld.global.f32 %f2, [%rd10];
	add.f32 %f1, %f1, %f2;
	add.s64 %rd10, %rd10, 12;
	add.u32 %r10, %r10, 3;
	setp.lt.u32 %p1, %r10, %r2;
	@%p1 bra LOOP;
	st.global.f32 [%rd4], %f1;
"""

GUARDED = """
	// if (a[i] > 0) is a guard of the instructions, not a branch
	setp.gt.f32 %p3, %f2, 0f00000000;
	@%p3 add.f32 %f1, %f1, %f2;
	@!%p3 ld.global.f32 %f3, [%rd10+4];
"""

IF = """
	setp.gt.f32 %p3, %f2, 0f00000000;
	@%p3 bra ELSE;
	add.f32 %f3, %f3, 0f40000000;
	bra JOIN;
ELSE:
	ld.global.f32 %f3, [%rd10+8];
JOIN:
"""

NESTED = """
	// for (i = tid; i < n; i += 40) { s = 0; for (j = rows[i]; j < rows[i+1]; j++) s += a[j]; .. }
	ld.param.u64 %rd20, [rows];
	mov.u32 %r10, %r1;
	setp.ge.u32 %p1, %r1, %r2;
	@%p1 bra AFTER;
	mov.u64 %rd11, %rd4;
	add.s64 %rd20, %rd20, %rd6;
	cvta.to.global.u64 %rd20, %rd20;
LOOP:
	mov.f32 %f1, 0f00000000;
	{bounds}
	setp.ge.s32 %p3, %r11, %r12;
	@%p3 bra STORE;
	mul.wide.s32 %rd12, %r11, 4;
	add.s64 %rd12, %rd2, %rd12;
INNER:
	ld.global.nc.f32 %f2, [%rd12];
	add.f32 %f1, %f1, %f2;
	add.s64 %rd12, %rd12, 4;
	add.u32 %r11, %r11, 1;
	setp.lt.s32 %p4, %r11, %r12;
	@%p4 bra INNER;
STORE:
	st.global.f32 [%rd11], %f1;
	add.s64 %rd11, %rd11, 160;
	add.s64 %rd20, %rd20, 160;
	add.u32 %r10, %r10, 40;
	setp.lt.u32 %p2, %r10, %r2;
	@%p2 bra LOOP;
AFTER:
	st.global.u32 [%rd4+8192], %r1;
"""

CSR = "ld.global.nc.u32 %r11, [%rd20];\n\tld.global.nc.u32 %r12, [%rd20+4];"
FIRST_ROW = "ld.global.nc.u32 %r11, [%rd3];\n\tld.global.nc.u32 %r12, [%rd3+24];"
FOUR = "mov.u32 %r11, 0;\n\tmov.u32 %r12, 4;"
MANY = "mov.u32 %r11, 0;\n\tshr.u32 %r12, %r2, 3;"
MINE = "mov.u32 %r11, 0;\n\tand.b32 %r12, %r10, 3;"


def nested(bounds: str) -> str:
    return kernel(NESTED.replace("{bounds}", bounds))


def in_an_if(bounds: str) -> str:
    """The inner loop in an arm that some lanes take."""
    text = NESTED.replace("{bounds}", bounds + "\n\tand.b32 %r13, %r10, 1;").replace(
        "setp.ge.s32 %p3, %r11, %r12;", "setp.eq.u32 %p3, %r13, 0;"
    )
    return kernel(text)


def around(inside: str, back: str = "") -> str:
    """The plain loop in a loop of three iterations, with a line before it."""
    first = "\tmov.u32 %r33, 0;\nOUTER:\n\t" + inside + "\n"
    last = "add.u32 %r33, %r33, 1;\n\tsetp.lt.u32 %p10, %r33, 3;\n\t@%p10 bra OUTER;\n"
    last += "\tst.global.u32 [%rd4+8192], %r2;"
    if back:
        first = f"\tmov.u32 %r33, 0;\n\tbra OUTER;\n{back}: add.u32 %r33, %r33, 1;\nOUTER:\n"
        first += "\t" + inside + "\n"
    return plain(ahead=first, after=last)


ALLOWED = {
    "plain": plain(),
    "accumulator": kernel(SUM),
    "do while": kernel(DO_WHILE),
    "guards of its own": plain(middle=GUARDED, after="st.global.f32 [%rd4], %f1;"),
    "an if in it": plain(middle=IF),
    "early exit": plain(ahead="\tsetp.gt.u32 %p9, %r1, 900;\n\t@%p9 bra DONE;\n"),
    "a guarded return": plain(ahead="\tsetp.gt.u32 %p9, %r1, 900;\n\t@%p9 ret;\n"),
    "an if before": plain(
        ahead="\tsetp.gt.u32 %p9, %r1, 9;\n\t@%p9 bra J;\n\tadd.u32 %r1, %r1, 0;\nJ:\n"
    ),
    "a barrier before": plain(ahead="\tbar.sync 0;\n"),
    "collectives before": plain(
        ahead="\tbar.warp.sync -1;\n\tactivemask.b32 %r20;\n"
        "\tshfl.sync.idx.b32 %r21, %r1, 0, 31, %r20;\n"
    ),
    "a load before it": plain(lead="ld.global.f32 %f4, [%rd5];", middle="add.f32 %f3, %f3, %f4;"),
    "taken to enter": plain(guard="@!%p1 bra IN;\n\tbra AFTER;\nIN:"),
    "its exit depends on constants": plain(
        last="ld.global.nc.u32 %r20, [%rd3];\n\tmax.u32 %r10, %r10, %r20;"
    ),
    "nested, fixed": nested(FOUR),
    "nested, as often in all lanes": nested(MANY),
    "nested, by what was loaded": nested(FIRST_ROW),
    "nested, by lane": nested(MINE),
    "nested, by row": nested(CSR),
    "nested in an arm, fixed": in_an_if(FOUR),
    "nested, for some lanes": in_an_if(MANY),
    "lanes that go by exit at once": plain(
        ahead="\tsetp.gt.u32 %p9, %r1, 9;\n\t@%p9 bra OTHER;\n", after="OTHER:"
    ),
    "a waiting loop behind": plain(
        after="WAIT: ld.acquire.gpu.global.u32 %r30, [%rd3];\n\tsetp.eq.u32 %p9, %r30, 77;\n"
        "\t@%p9 bra WAIT;"
    ),
    "again and again": around("add.u32 %r33, %r33, 0;"),
    "prefetches": plain(middle="prefetch.global.L2 [%rd10];"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    """All varying loops become uniform, through the whole pipeline with its check."""
    text = ALLOWED[name]
    loops = found(text)
    others = [k for k in loops.kept if "wait" not in k.reason and "depends" not in k.reason]
    assert loops.uniform and not others
    rewritten = optimize(text, Options(mode="force", scheme="keep", form="uniform")).text
    assert rewritten.count("vote.sync.any.pred") == sum(
        1 + (loop.enters is not None) for loop in loops.uniform
    )
    for block in SHAPES:
        for n in lengths(block):
            assert outputs(rewritten, block, n) == outputs(text, block, n), (block, n)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_under_any_schedule(name: str) -> None:
    text = ALLOWED[name]
    rewritten = optimize(text, Options(mode="force", scheme="keep", form="uniform")).text
    for block in ((33, 1, 1), (16, 3, 1)):
        n = lengths(block)[-1]
        want = outputs(text, block, n)
        for seed in range(3):
            assert outputs(rewritten, block, n, seed=seed) == want
            assert outputs(rewritten, block, n, seed=seed, merge_iterations=True) == want


REFUSED = {
    "a break": (
        plain(middle="setp.gt.f32 %p3, %f2, 0f40E00000;\n\t@%p3 bra AFTER;"),
        "it has several exits",
    ),
    "a continue": (
        plain(middle="setp.gt.f32 %p3, %f2, 0f40E00000;\n\t@%p3 bra LOOP;"),
        "not every iteration passes its exit",
    ),
    "two ways in": (
        plain(ahead="\tsetp.eq.u32 %p9, %r2, 3;\n\t@%p9 bra IN;\n", lead="IN:")
        .replace("LOOP:", "LOOP: add.u32 %r10, %r10, 0;")
        .replace("IN:", "bra LOOP;\nIN: mov.u32 %r10, 0; bra LOOP;"),
        "it is entered from several places",
    ),
    "lanes past it go elsewhere": (
        plain(guard="@%p1 bra OTHER;", after="OTHER: st.global.f32 [%rd4], %f1;"),
        "lanes that bypass it do not continue after it",
    ),
    "in an arm": (
        plain(ahead="\tsetp.gt.u32 %p9, %r1, 9;\n\t@%p9 bra AFTER;\n"),
        "some lanes never reach it",
    ),
    "in an arm, time and again": (
        around("setp.gt.u32 %p9, %r1, 9;\n\t@%p9 bra AFTER;"),
        "lanes reach it on different paths",
    ),
    "lanes skip it and come again": (
        around("setp.eq.u32 %p9, %r1, %r33;\n\t@%p9 bra NEXT;", back="NEXT"),
        "lanes reach it in different iterations of a loop around it",
    ),
    "some lanes go by and store": (
        plain(
            ahead="\tsetp.gt.u32 %p9, %r1, 9;\n\t@%p9 bra OTHER;\n",
            after="bra DONE;\nOTHER: st.global.f32 [%rd4], %f1;",
        ),
        "some lanes never reach it",
    ),
    "an atomic": (
        plain(middle="red.global.add.u32 [%rd3], 1;"),
        "it contains red.global.add.u32",
    ),
    "a volatile store": (
        plain(middle="st.volatile.global.f32 [%rd11], %f2;"),
        "st.volatile.global.f32 is a strong or ordered access",
    ),
    "a release": (
        plain(middle="st.release.gpu.global.f32 [%rd11], %f2;"),
        "st.release.gpu.global.f32 is a strong or ordered access",
    ),
    "a barrier": (plain(middle="bar.warp.sync -1;"), "it contains bar.warp.sync"),
    "a fence": (plain(middle="membar.gl;"), "it contains membar.gl"),
    "a shuffle": (
        plain(middle="activemask.b32 %r20;\n\tshfl.sync.idx.b32 %f3, %f2, 0, 31, %r20;"),
        "it contains activemask.b32",
    ),
    "a vote": (plain(middle="vote.ballot.b32 %r20, %p1;"), "it contains vote.ballot.b32"),
    "a trap": (plain(middle="@%p1 trap;"), "it contains trap"),
    "an exit": (plain(middle="@%p1 exit;"), "it contains exit"),
    "a call": (
        plain(middle="call f;", before=".func f() { ret; }"),
        "it contains call",
    ),
    "a jump table": (
        plain(middle="ts: .branchtargets C1, C2;\n\tand.b32 %r20, %r10, 1;\n\tbrx.idx %r20, ts;\n"
              "C1:\n\tadd.f32 %f3, %f3, %f2;\nC2:"),
        "it contains brx.idx",
    ),
    "a spin": (
        plain(last="ld.volatile.global.u32 %r20, [%rd3];\n\tmax.u32 %r10, %r10, %r20;"),
        "when lanes leave it depends on ld.volatile.global.u32",
    ),
    "a spin on plain memory": (
        plain(last="ld.global.u32 %r20, [%rd3];\n\tmax.u32 %r10, %r10, %r20;"),
        "when lanes leave it depends on ld.global.u32",
    ),
    "a spin by a branch": (
        plain(
            middle="ld.global.u32 %r20, [%rd3];\n\tsetp.eq.u32 %p3, %r20, 0;\n\t@%p3 bra SKIP;\n"
            "\tadd.u32 %r10, %r10, 32;\nSKIP:"
        ),
        "when lanes leave it depends on ld.global.u32",
    ),
    "a waiting loop before": (
        plain(
            ahead="\tmov.u32 %r31, 0;\n"
            "WAIT: ld.acquire.gpu.global.u32 %r30, [%rd3];\n\tsetp.eq.u32 %p9, %r30, %r1;\n"
            "\t@%p9 bra WAIT;\n"
        ),
        "a lane may wait in the loop before it for another",
    ),
    "a barrier where lanes have parted": (
        plain(
            ahead="\tsetp.gt.u32 %p9, %r1, 9;\n\t@%p9 bra J;\n\tbarrier.sync 1, 64;\nJ:\n"
        ),
        "barrier.sync before it, where lanes have parted, may wait",
    ),
    "a barrier under a guard before": (
        plain(ahead="\tsetp.gt.u32 %p9, %r1, 9;\n\t@%p9 barrier.sync 1, 64;\n"),
        "barrier.sync before it waits under a guard",
    ),
    "a barrier of each lane's own": (
        plain(ahead="\tand.b32 %r20, %r1, 3;\n\tbarrier.sync %r20, 64;\n"),
        "barrier.sync before it may wait for later lanes",
    ),
    "lanes that name others": (
        plain(ahead="\tshl.b32 %r20, %r1, 3;\n\tbar.warp.sync %r20;\n"),
        "bar.warp.sync before it may wait for later lanes",
    ),
    "a call before": (
        plain(ahead="\tcall f;\n", before=".func f() { ret; }"),
        "call before it may keep lanes back",
    ),
    "nested in an arm": (
        in_an_if(MANY).replace("bra STORE;", "bra ELSE;").replace(
            "STORE:", "bra STORE;\nELSE: mov.f32 %f1, 0f3F800000;\nSTORE:"
        ),
        "the loop inside it cannot be uniform: lanes that bypass it do not continue after it",
    ),
    "an inner loop with two exits": (
        nested(MINE).replace(
            "add.s64 %rd12, %rd12, 4;",
            "setp.lt.f32 %p9, %f2, 0f00000000;\n\t@%p9 bra STORE;\n\tadd.s64 %rd12, %rd12, 4;",
        ),
        "the loop inside it cannot be uniform: it has several exits",
    ),
    "an old target": (plain(target="sm_60"), "it needs .version 6.0 and sm_70"),
    "a jump into a loop": (
        plain(ahead="\tsetp.eq.u32 %p9, %r2, 3;\n\t@%p9 bra IN;\nL: add.u32 %r31, %r31, 1;\n"
              "IN:\tadd.u32 %r31, %r31, 1;\n\tsetp.lt.u32 %p8, %r31, 5;\n\t@%p8 bra L;\n"),
        "the kernel jumps into the middle of a loop",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, why = REFUSED[name]
    assert why in reasons(text)
    same = optimize(text, Options(mode="force", scheme="keep", form="uniform"))
    assert "vote.sync.any" not in same.text


def test_loops_that_all_lanes_leave_together_are_neither() -> None:
    text = plain().replace("setp.lt.u32 %p2, %r10, %r2;", "setp.lt.u32 %p2, %r11, %r2;").replace(
        "add.u32 %r10, %r10, 32;", "add.u32 %r11, %r11, 32;"
    ).replace("LOOP:", "mov.u32 %r11, 0;\nLOOP:")  # fmt: skip
    assert found(text) == type(found(text))((), ())


def test_what_is_under_the_predicate() -> None:
    """Loads, stores, and what sets a register that is read behind the loop: nothing else."""
    text = kernel(SUM, middle="st.global.f32 [%rd4+4096], %f2;")
    (loop,) = found(text).uniform
    from ptxsw.parser import parse

    (function,) = parse(text).functions
    under = [function.body.instructions[i].name for i in sorted(loop.under)]
    assert under == ["ld.global.f32", "add.f32", "st.global.f32"]
    assert [function.body.instructions[i].name for i in sorted(loop.lasting)] == ["add.f32"]


def test_the_inner_loop_narrows_the_outer() -> None:
    outer, inner = found(nested(CSR)).uniform
    assert outer.outer is None and inner.outer == outer.header
    assert not outer.inside & inner.inside
    assert len(found(nested(FOUR)).uniform) == 1


def test_lanes_in_an_arm_are_not_together() -> None:
    text = plain(middle=IF)
    (loop,) = found(text).uniform
    from ptxsw.parser import parse

    (function,) = parse(text).functions
    apart = [function.body.instructions[i].name for i in sorted(loop.inside - loop.together)]
    assert apart == ["add.f32", "bra", "ld.global.f32"]


def test_registers_that_decide_are_cleared() -> None:
    (loop,) = found(plain(middle=IF)).uniform
    assert [reg.name for reg in loop.cleared] == ["%f2"]
    assert not found(plain()).uniform[0].cleared
