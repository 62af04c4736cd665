"""How often loops go round, as a number: held against what a launch executes."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsw.analysis.trip_count import iterations, most_iterations
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.simt import launch
from tests.heads import head

KERNEL = (
    head()
    + """.visible .entry k(.param .u64 out, .param .u32 n)
{{
	.reg .pred %p<5>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r8, 0;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd3, %rd1, %rd2;
	{before}
LOOP:
	{first}
	add.s32 %r8, %r8, 1;
	st.global.u32 [%rd3], %r8;
	{after}
END:
	ret;
}}
"""
)
# What stands before the loop, in it before the body, and behind that; what is known of its trips
# as they are counted, and the most in a block of any size, and of 64 threads.
LOOPS = {
    "literals": (
        "mov.u32 %r4, 3;", "", "add.s32 %r4, %r4, 4;\nsetp.lt.s32 %p1, %r4, 20;\n@%p1 bra LOOP;",
        (5, 5, 5),
    ),
    "rest of a loop unrolled by 4": (
        "and.b32 %r4, %r1, 3;\nsetp.eq.s32 %p2, %r4, 0;\n@%p2 bra END;", "",
        "add.s32 %r4, %r4, -1;\nsetp.ne.s32 %p1, %r4, 0;\n@%p1 bra LOOP;",
        (None, 3, 3),
    ),
    "not guarded: from 0 on it goes round 2^32 times": (
        "and.b32 %r4, %r1, 3;\nor.b32 %r4, %r4, 1;\nadd.s32 %r4, %r4, -1;", "",
        "add.s32 %r4, %r4, -1;\nsetp.gt.s32 %p1, %r4, 0;\n@%p1 bra LOOP;",
        (None, None, None),
    ),
    "rest that differs by thread": (
        "and.b32 %r4, %r2, 7;\nsetp.eq.s32 %p2, %r4, 0;\n@%p2 bra END;", "",
        "add.s32 %r4, %r4, -1;\nsetp.ne.s32 %p1, %r4, 0;\n@%p1 bra LOOP;",
        (None, 7, 7),
    ),
    "steps of three to what is no multiple": (
        "and.b32 %r4, %r1, 7;\nsetp.eq.s32 %p2, %r4, 0;\n@%p2 bra END;", "",
        "add.s32 %r4, %r4, -3;\nsetp.gt.s32 %p1, %r4, 0;\n@%p1 bra LOOP;",
        (None, None, None),  # it is not seen that `0 < %r4` as the loop is entered
    ),
    "tested first": (
        "and.b32 %r4, %r2, 31;", "setp.ge.s32 %p1, %r4, 20;\n@%p1 bra END;",
        "add.s32 %r4, %r4, 8;\nbra.uni LOOP;",
        (None, 3, 3),
    ),
    "halves of the block": (
        "shr.u32 %r4, %r3, 1;\nsetp.eq.s32 %p2, %r4, 0;\n@%p2 bra END;", "",
        "shr.u32 %r4, %r4, 1;\nsetp.ne.s32 %p1, %r4, 0;\n@%p1 bra LOOP;",
        (None, 31, 6),
    ),
    "doubled up to the block": (
        "mov.u32 %r4, 1;\nsetp.ge.u32 %p2, %r4, %r3;\n@%p2 bra END;", "",
        "shl.b32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, %r3;\n@%p1 bra LOOP;",
        (None, 11, 6),
    ),
    "doubled up to a parameter": (
        "mov.u32 %r4, 1;\nsetp.ge.u32 %p2, %r4, %r1;\n@%p2 bra END;", "",
        "shl.b32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, %r1;\n@%p1 bra LOOP;",
        (None, None, None),
    ),
    "entered on two ways": (
        "mov.u32 %r4, 2;\nsetp.lt.s32 %p2, %r2, 5;\n@%p2 bra LOOP;\nmov.u32 %r4, 6;", "",
        "add.s32 %r4, %r4, 2;\nsetp.lt.s32 %p1, %r4, 9;\n@%p1 bra LOOP;",
        (None, 4, 4),
    ),
    "to a parameter": (
        "mov.u32 %r4, 0;\nsetp.lt.s32 %p2, %r1, 1;\n@%p2 bra END;", "",
        "add.s32 %r4, %r4, 1;\nsetp.lt.s32 %p1, %r4, %r1;\n@%p1 bra LOOP;",
        (None, None, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_the_most_that_a_loop_goes_round(name: str) -> None:
    before, first, after, (exact, most, in_block) = LOOPS[name]
    module = parse(KERNEL.format(before=before, first=first, after=after))
    trace = emulate(module, module.kernels[0])
    (loop,) = trace.cfg.loops.values()
    assert iterations(trace, loop) == exact
    assert most_iterations(trace, loop, {}) == most
    assert most_iterations(trace, loop, {"%ntid.x": 64}) == in_block
    for n in (0, 1, 2, 3, 4, 5, 6, 7, 11, 100):
        result = launch(module, "k", 1, 64, [1 << 44, n], memory={1 << 44: np.zeros(256, "u1")})
        trips = result.memory[1 << 44].view("u4")
        assert in_block is None or trips.max() <= in_block
        assert exact is None or set(trips) == {exact}
