"""Races of small kernels, faulty and mended; a second detector by brute force says the same."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest

from ptxsw.simt import Race, Races, Undefined, launch
from tests.simt.brute_force import BruteForce, Told
from tests.simt.programs import from_body

HEAD = """
	.shared .align 16 .b8 tile[1024];
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	shl.b32 %r4, %r1, 2;
	add.u32 %r3, %r2, %r4;
	mov.u32 %r5, %ctaid.x;
	and.b32 %r6, %r1, 31;
	shr.u32 %r7, %r1, 5;
	xor.b32 %r8, %r4, 128;
	add.u32 %r8, %r8, %r2;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd2, %rd1, %rd2;
	setp.eq.u32 %p1, %r1, 0;
	setp.eq.u32 %p2, %r6, 0;
	setp.lt.u32 %p3, %r1, 32;
	setp.eq.u32 %p4, %r5, 0;
"""
"""%r3 and %rd2 are the thread's own words in shared and global memory, %r8 another warp's; %p1 is
for thread 0, %p2 for lane 0, %p3 for the first warp, %p4 for the first block."""


def run(body: str, found: Races, seed: int | None = None, block: int = 64, grid: int = 1) -> None:
    module = from_body(HEAD + body + "\nret;", version="8.3")
    launch(module, "k", grid, block, [np.zeros(512, np.uint32)], seed=seed, races=found)


def told(races: Races) -> Told:
    return {
        (c.kind, c.shared, *sorted((c.line, c.other_line)))  # type: ignore[misc]
        for c in races.conflicts
    }


REDUCE = """st.shared.u32 [%r3], %r1;
bar.sync 0;
mov.u32 %r9, 32;
LOOP:
setp.ge.u32 %p5, %r1, %r9;
@%p5 bra NEXT;
shl.b32 %r10, %r9, 2;
add.u32 %r10, %r10, %r3;
ld.shared.u32 %r11, [%r10];
ld.shared.u32 %r12, [%r3];
add.u32 %r12, %r12, %r11;
st.shared.u32 [%r3], %r12;
NEXT:
shr.u32 %r9, %r9, 1;
setp.lt.u32 %p6, %r9, HERE;
@%p6 bra SKIP;
bar.sync 0;
SKIP:
setp.ne.u32 %p6, %r9, 0;
@%p6 bra LOOP;
ld.shared.u32 %r13, [tile];"""
FLAG = """@%p4 bra WRITER;
@!%p1 bra OVER;
SPIN: ld.GET.global.u32 %r9, [%rd1];
setp.eq.u32 %p5, %r9, 0;
@%p5 bra SPIN;
THERE ld.global.u32 %r10, [%rd1+4];
bra OVER;
WRITER:
@!%p1 bra OVER;
st.global.u32 [%rd1+4], 7;
HERE st.SET.global.u32 [%rd1], 1;
OVER: mov.u32 %r10, 0;"""


def flag(here: str, there: str, set_: str = "relaxed.gpu", get: str = "relaxed.gpu") -> str:
    text = FLAG.replace("THERE", there).replace("HERE", here)
    return text.replace("SET", set_).replace("GET", get)


LAST = """st.global.u32 [%rd2], %r1;
HERE
bar.sync 0;
@!%p1 bra OVER;
atom.global.add.u32 %r9, [%rd1+1024], 1;
setp.ne.u32 %p5, %r9, 1;
@%p5 bra OVER;
membar.gl;
ld.global.u32 %r10, [%rd1];
ld.global.u32 %r10, [%rd1+256];
OVER: mov.u32 %r10, 0;"""
"""The last block to come reads what others wrote (each block its own words)."""
LAST = LAST.replace(
    "st.global.u32 [%rd2]", "mad.wide.u32 %rd3, %r5, 256, %rd2;\nst.global.u32 [%rd3]"
)
PIPE = """@%p3 bra CONSUME;
st.shared.u32 [%r3], %r1;
A
bra OVER;
CONSUME:
B
ld.shared.u32 %r9, [%r8];
C
OVER: mov.u32 %r9, 0;"""


def pipe(a: str, b: str, c: str = "") -> str:
    return PIPE.replace("A\n", a + "\n").replace("B\n", b + "\n").replace("C\n", c + "\n", 1)


COPY = """cp.async.ca.shared.global [%r3], [%rd2], 4;
cp.async.commit_group;
HERE
ld.shared.u32 %r9, [%r8];"""
BROADCAST = """@%p1 st.shared.u32 [tile], 5;
bar.sync 0;
ld.shared.u32 %r9, [tile];
HERE
@%p1 st.shared.u32 [tile], 6;
bar.sync 0;
ld.shared.u32 %r9, [tile];"""
RANGES = """@%p2 st.shared.u32 [tile+512], %r1;
HERE
ld.shared.u32 %r9, [tile+512];"""
RANGES = RANGES.replace("[tile+512], %r1", "[%r10], %r1").replace(
    "@%p2", "shl.b32 %r10, %r7, 2;\nadd.u32 %r10, %r10, %r2;\nadd.u32 %r10, %r10, 512;\n@%p2"
)
NORM = """@%p2 st.shared.u32 [%r10], 1;
bar.sync 0;
ld.shared.u32 %r9, [tile];
ld.shared.u32 %r11, [tile+4];
HERE
@%p2 st.shared.u32 [%r10], 2;
bar.sync 0;
ld.shared.u32 %r9, [tile];"""
NORM = "shl.b32 %r10, %r7, 2;\nadd.u32 %r10, %r10, %r2;\n" + NORM

PAIRS: dict[str, tuple[str, str, int]] = {
    "a broadcast value overwritten": (
        BROADCAST.replace("HERE", ""), BROADCAST.replace("HERE", "bar.sync 0;"), 1),
    "the last levels of a tree": (REDUCE.replace("HERE", "16"), REDUCE.replace("HERE", "0"), 1),
    "ranges of several warps": (
        RANGES.replace("HERE", "bar.warp.sync -1;"), RANGES.replace("HERE", "bar.sync 0;"), 1),
    "a norm that reuses its buffer": (
        NORM.replace("HERE", ""), NORM.replace("HERE", "bar.sync 0;"), 1),
    "a gradient of several warps": (
        "ld.shared.u32 %r9, [tile];\nadd.u32 %r9, %r9, %r1;\n@%p2 st.shared.u32 [tile], %r9;",
        "@%p2 red.shared.add.u32 [tile], %r1;\nbar.sync 0;\nld.shared.u32 %r9, [tile];", 1),
    "a flag without a fence": (flag("", "membar.gl;"), flag("membar.gl;", "membar.gl;"), 2),
    "a flag whose reader has no fence": (
        flag("membar.gl;", ""), flag("fence.acq_rel.gpu;", "fence.acq_rel.gpu;"), 2),
    "a flag with a fence of the block": (
        flag("membar.cta;", "membar.gl;"), flag("fence.sc.gpu;", "fence.sc.sys;"), 2),
    "a release read without acquire": (
        flag("", "", "release.gpu"), flag("", "", "release.gpu", "acquire.gpu"), 2),
    "a release of the block": (
        flag("", "", "release.cta", "acquire.gpu"), flag("", "", "release.sys", "acquire.gpu"), 2),
    "a weak flag": (
        flag("membar.gl;", "membar.gl;").replace("st.relaxed.gpu.", "st."),
        flag("membar.gl;", "membar.gl;", "volatile", "volatile"), 2),
    "the last block": (LAST.replace("HERE", ""), LAST.replace("HERE", "membar.gl;"), 2),
    "a consumer that does not wait": (
        pipe("bar.sync 1, 64;", "bar.arrive 1, 64;"), pipe("bar.arrive 1, 64;", "bar.sync 1, 64;"),
        1),
    "two barriers": (
        pipe("bar.sync 1, 32;", "bar.sync 2, 32;"), pipe("bar.sync 1, 64;", "bar.sync 1, 64;"), 1),
    "a slot filled again too soon": (
        pipe("bar.arrive 1, 64;\nst.shared.u32 [%r3], 0;", "bar.sync 1, 64;"),
        pipe("bar.arrive 1, 64;\nbar.sync 2, 64;\nst.shared.u32 [%r3], 0;", "bar.sync 1, 64;",
             "bar.arrive 2, 64;"), 1),
    "an early exit": (
        "st.shared.u32 [%r3], 1;\n@!%p3 exit;\nbar.sync 0;\nld.shared.u32 %r9, [%r8];",
        "st.shared.u32 [%r3], 1;\nbar.sync 0;\n@!%p3 exit;\nld.shared.u32 %r9, [%r8];", 1),
    "a copy waited for too late": (
        COPY.replace("HERE", "bar.sync 0;\ncp.async.wait_group 0;"),
        COPY.replace("HERE", "cp.async.wait_group 0;\nbar.sync 0;"), 1),
    "a copy of the thread itself": (
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\nld.shared.u32 %r9, [%r3];",
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\ncp.async.wait_all;\n"
        "ld.shared.u32 %r9, [%r3];", 1),
    "a source overwritten": (
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\nst.global.u32 [%rd2], 1;",
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\ncp.async.wait_all;\nst.global.u32 [%rd2], 1;",
        1),
    "a copy and a zero": (  # what a copy writes is not known to be 0
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\n@%p3 st.shared.u32 [%r3], 0;",
        "@%p3 cp.async.ca.shared.global [%r3], [%rd2], 4;\n@!%p3 st.shared.u32 [%r3], 0;", 1),
    "one group too few": (
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r3+256], [%rd2], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 1;\nld.shared.u32 %r9, [%r3+256];",
        "cp.async.ca.shared.global [%r3], [%rd2], 4;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r3+256], [%rd2], 4;\ncp.async.commit_group;\n"
        "cp.async.wait_group 1;\nld.shared.u32 %r9, [%r3];", 1),
    "lanes of a warp": (
        "st.shared.u32 [%r3], %r1;\nshfl.sync.bfly.b32 %r10, %r1, 1, 31, -1;\n"
        "xor.b32 %r9, %r4, 4;\nadd.u32 %r9, %r9, %r2;\nld.shared.u32 %r9, [%r9];",
        "st.shared.u32 [%r3], %r1;\nbar.warp.sync -1;\n"
        "xor.b32 %r9, %r4, 4;\nadd.u32 %r9, %r9, %r2;\nld.shared.u32 %r9, [%r9];", 1),
    "halves of a warp": (
        "st.shared.u32 [%r3], %r1;\nsetp.lt.u32 %p5, %r6, 16;\nselp.b32 %r10, 65535, -65536, %p5;\n"
        "bar.warp.sync %r10;\nxor.b32 %r9, %r4, 64;\nadd.u32 %r9, %r9, %r2;\n"
        "ld.shared.u32 %r9, [%r9];",
        "st.shared.u32 [%r3], %r1;\nsetp.lt.u32 %p5, %r6, 16;\nselp.b32 %r10, 65535, -65536, %p5;\n"
        "bar.warp.sync %r10;\nxor.b32 %r9, %r4, 32;\nadd.u32 %r9, %r9, %r2;\n"
        "ld.shared.u32 %r9, [%r9];", 1),
    "atomics of the block": (
        "red.relaxed.cta.global.add.u32 [%rd1], 1;",
        "red.relaxed.gpu.global.add.u32 [%rd1], 1;", 2),
    "atomics of two sizes": (
        "red.global.add.u32 [%rd1], 1;\natom.global.add.u64 %rd3, [%rd1], 1;",
        "red.global.add.u64 [%rd1], 1;\natom.global.add.u64 %rd3, [%rd1], 1;", 1),
    "one value, and a reader": (
        "st.shared.u32 [tile], 1;\nld.shared.u32 %r9, [tile];",
        "st.shared.u32 [tile], 1;\nbar.sync 0;\nld.shared.u32 %r9, [tile];", 1),
    "bytes of a word": (
        "add.u32 %r9, %r2, %r1;\nst.shared.u8 [%r9], 1;\nld.shared.u16 %r10, [tile];",
        "add.u32 %r9, %r2, %r1;\nst.shared.u8 [%r9], 1;\nld.shared.u8 %r10, [%r9];", 1),
}  # fmt: skip
SEEDS = [None, 1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PAIRS)
def test_faulty_and_mended(name: str, seed: int | None) -> None:
    faulty, mended, grid = PAIRS[name]
    for body, wrong in ((faulty, True), (mended, False)):
        races, second = Races(), BruteForce()
        run(body, races, seed, grid=grid)
        run(body, second, seed, grid=grid)
        assert told(races) == second.conflicts_found()
        assert any(c.kind == "race" for c in races.conflicts) == wrong


LINES = [
    "st.shared.u32 [%r3], %r1;", "ld.shared.u32 %r9, [%r8];", "st.shared.u32 [%r8+256], %r1;",
    "ld.shared.u32 %r9, [%r3+256];", "@%p1 st.shared.u32 [tile], 3;", "ld.shared.u32 %r9, [tile];",
    "@%p2 st.shared.u32 [tile+4], 3;", "ld.shared.v2.u32 {%r9, %r10}, [tile];",
    "ld.shared.u8 %r9, [%r3+1];", "st.shared.u16 [%r3+2], 7;",
    "ld.volatile.shared.u32 %r9, [tile+4];",
    "@%p2 st.volatile.shared.u32 [tile+4], 3;", "red.shared.add.u32 [tile+4], 1;",
    "red.release.cta.shared.add.u32 [tile+4], 1;",
    "atom.acquire.cta.shared.add.u32 %r9, [tile+4], 1;",
    "st.global.u32 [%rd2], %r1;", "ld.global.u32 %r9, [%rd1+4];", "red.global.add.u32 [%rd1], 1;",
    "atom.relaxed.cta.global.add.u32 %r9, [%rd1], 1;",
    "atom.acq_rel.gpu.global.add.u32 %r9, [%rd1], 1;",
    "atom.global.exch.b32 %r9, [%rd1], %r1;", "ld.relaxed.gpu.global.u32 %r9, [%rd1];",
    "ld.acquire.cta.global.u32 %r9, [%rd1];", "@%p2 st.release.gpu.global.u32 [%rd1], 2;",
    "membar.gl;", "membar.cta;", "fence.acq_rel.gpu;",
    "bar.sync 0;", "bar.sync 0;", "barrier.sync 1;", "bar.warp.sync -1;",
    "@%p3 bar.arrive 3, 64;\n@!%p3 bar.sync 3, 64;",
    "@!%p3 bar.arrive 4, 64;\n@%p3 bar.sync 4, 64;",
    "cp.async.ca.shared.global [%r3+512], [%rd2], 4;", "cp.async.commit_group;",
    "cp.async.wait_group 1;", "cp.async.wait_all;", "ld.shared.u32 %r9, [%r3+512];",
    "ld.shared.u32 %r9, [%r8+512];",
]  # fmt: skip


@pytest.mark.parametrize("number", range(60))
def test_random_kernels(number: int) -> None:
    """Threads of some warps, or some lanes, end early in some of them."""
    dice = random.Random(number)
    lines = dice.choices(LINES, k=dice.randint(4, 14))
    if number % 4 == 3:
        lines.insert(dice.randrange(len(lines)), dice.choice(["@%p3 exit;", "@!%p2 exit;"]))
        lines = [line for line in lines if ", 64;" not in line]
    body, seed = "\n".join(lines), None if number % 3 else number
    races, second = Races(), BruteForce()
    for each in (races, second):
        with suppress(Undefined):  # a warp comes to a barrier twice before it opens
            run(body, each, seed, grid=2)
    assert told(races) == second.conflicts_found(), body


def test_the_first_race_ends_a_run_that_does_not_collect() -> None:
    body = "st.shared.u32 [tile], %r1;\nbar.sync 0;\nst.global.u32 [%rd1], %r1;"
    races = Races()
    run(body, races)
    assert [(c.shared, c.line == c.other_line) for c in races.conflicts] == [
        (True, True),
        (False, True),
    ]
    with pytest.raises(Race, match=r"a race with thread .*, the same instruction"):
        run(body, Races(("race",)))
