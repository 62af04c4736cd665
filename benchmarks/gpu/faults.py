"""Small kernels for the tools of compute-sanitizer, in twos: with one fault, and mended.

A body finds its thread in %r1, the array to write in %rd1, one to read in %rd2, and in %rd3 and
%rd4 the addresses of its own element of these; `tile` holds as many elements in shared memory, its
own at [%r2]. What it leaves in %r9 is written at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch

THREADS = 64
RACES, MEMORY, BARRIERS = "racecheck", "memcheck", "synccheck"


class Faulty(Struct, frozen=True):
    """A kernel `k`, a launch in words, and the tool that is to find its fault, if it has one."""

    name: str
    tool: str
    faulty: bool
    text: str
    words: str


class _Pair(Struct, frozen=True):
    """`body` with one of two lines at HERE. `written` are the elements of the array to write."""

    name: str
    tool: str
    body: str
    fault: str
    mended: str
    written: int = THREADS


_HEAD = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 to, .param .u64 from)
{{
	.reg .pred %p<5>;
	.reg .b32 %r<20>;
	.reg .b64 %rd<9>;
	.shared .align 8 .b8 tile[{4 * THREADS}];
	ld.param.u64 %rd1, [to];
	ld.param.u64 %rd2, [from];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd5, %r1, 4;
	add.s64 %rd3, %rd1, %rd5;
	add.s64 %rd4, %rd2, %rd5;
	mov.u32 %r3, tile;
	shl.b32 %r4, %r1, 2;
	add.u32 %r2, %r3, %r4;
	mov.u32 %r9, 0;
	ld.global.u32 %r5, [%rd4];
"""
_TAIL = "\tst.global.u32 [%rd3], %r9;\nEND:\n\tret;\n}\n"
_SWAPPED = """	xor.b32 %r6, %r4, 128;
	add.u32 %r6, %r6, %r3;
"""

_PAIRS: Sequence[_Pair] = (
    _Pair("neighbour", RACES, f"""{_SWAPPED}	st.shared.u32 [%r2], %r5;
	HERE
	ld.shared.u32 %r9, [%r6];
""", "", "bar.sync 0;"),
    _Pair("reused", RACES, f"""{_SWAPPED}	st.shared.u32 [%r2], %r5;
	bar.sync 0;
	ld.shared.u32 %r7, [%r6];
	HERE
	st.shared.u32 [%r2], %r7;
	bar.sync 0;
	ld.shared.u32 %r9, [%r6];
""", "", "bar.sync 0;"),
    _Pair("tree", RACES, """	st.shared.u32 [%r2], %r5;
	mov.u32 %r10, 32;
	bar.sync 0;
LOOP:
	setp.ge.u32 %p1, %r1, %r10;
	@%p1 bra NEXT;
	shl.b32 %r11, %r10, 2;
	add.u32 %r11, %r11, %r2;
	ld.shared.u32 %r12, [%r11];
	ld.shared.u32 %r13, [%r2];
	add.u32 %r13, %r13, %r12;
	st.shared.u32 [%r2], %r13;
NEXT:
	HERE
	shr.u32 %r10, %r10, 1;
	setp.ne.u32 %p2, %r10, 0;
	@%p2 bra LOOP;
	bar.sync 0;
	ld.shared.u32 %r9, [tile];
""", "", "bar.sync 0;"),
    _Pair("last-one", RACES, """	setp.ne.u32 %p1, %r1, 5;
	HERE
	bar.sync 0;
	ld.shared.u32 %r9, [tile];
""", "st.shared.u32 [tile], %r1;", "@!%p1 st.shared.u32 [tile], %r1;"),
    _Pair("counted", RACES, """	setp.ne.u32 %p1, %r1, 0;
	@!%p1 st.shared.u32 [tile], 0;
	bar.sync 0;
	HERE
	bar.sync 0;
	ld.shared.u32 %r9, [tile];
""", "ld.shared.u32 %r7, [tile];\n\tadd.u32 %r7, %r7, 1;\n\tst.shared.u32 [tile], %r7;",
          "atom.shared.add.u32 %r7, [tile], 1;"),
    _Pair("behind-the-end", MEMORY, f"""	setp.ge.u32 %p1, %r1, {THREADS - 5};
	HERE
	mov.u32 %r9, %r5;
""", "", "@%p1 bra END;", THREADS - 5),
    _Pair("before-the-first", MEMORY, """	setp.eq.u32 %p1, %r1, 0;
	HERE ld.global.u32 %r9, [%rd4+-4];
""", "", "@!%p1"),
    _Pair("misaligned", MEMORY, """	and.b32 %r6, %r1, 30;
	HERE
	mul.wide.u32 %rd5, %r6, 4;
	add.s64 %rd6, %rd2, %rd5;
	ld.global.v2.u32 {%r9, %r7}, [%rd6];
	add.u32 %r9, %r9, %r7;
""", "add.u32 %r6, %r6, 1;", ""),
    _Pair("half-a-warp", BARRIERS, """	setp.ge.u32 %p1, %r1, 48;
	HERE
	bar.sync 0;
OVER:
	mov.u32 %r9, %r5;
""", "@%p1 bra OVER;", ""),
    _Pair("not-in-the-mask", BARRIERS, """	and.b32 %r6, %r1, 31;
	setp.lt.u32 %p1, %r6, 16;
	HERE
	mov.u32 %r9, %r5;
""", "bar.warp.sync 65535;", "bar.warp.sync -1;"),
)  # fmt: skip


def _kernels() -> Iterator[Faulty]:
    for pair in _PAIRS:
        arrays = (Data("zeros", pair.written, "u32"), Data("random", THREADS, "u32", 1))
        words = str(Launch((1, 1, 1), (THREADS, 1, 1), arrays))
        for faulty, line in ((True, pair.fault), (False, pair.mended)):
            text = _HEAD + pair.body.replace("HERE", line) + _TAIL
            name = pair.name if faulty else f"{pair.name}-mended"
            yield Faulty(name, pair.tool, faulty, text, words)


KERNELS: Sequence[Faulty] = tuple(_kernels())
