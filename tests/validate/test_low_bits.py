"""Low bits of registers: what tells that pointers stay aligned in loops."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Proved, validate
from tests.heads import head

# A pointer that two loops move: the outer one by rows of n elements, the inner one by 16 bytes.
KERNEL = (
    head()
    + """.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.reg .b64 %rd<20>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u32 %r1, [n];
{entry}
mov.u32 %r2, %ctaid.x;
mul.lo.s32 %r3, %r2, %r1;
mov.u32 %r4, 0;
mov.u32 %r9, 0;
ROWS:
mul.wide.s32 %rd3, %r3, 4;
add.s64 %rd4, %rd1, %rd3;
mov.u32 %r5, 0;
LOOP:
{loads}
add.s32 %r9, %r9, %r10;
add.s32 %r9, %r9, %r11;
add.s64 %rd4, %rd4, {step};
add.s32 %r5, %r5, 1;
setp.lt.s32 %p1, %r5, 8;
@%p1 bra LOOP;
add.s32 %r3, %r3, {row};
add.s32 %r4, %r4, 1;
setp.lt.s32 %p2, %r4, 8;
@%p2 bra ROWS;
st.global.u32 [%rd2], %r9;
ret;
}}
"""
)
SINGLE = "ld.global.u32 %r10, [%rd4];\nld.global.u32 %r11, [%rd4+4];"
TESTED = f"""@%p3 bra SLOW;
ld.global.v2.u32 {{%r10, %r11}}, [%rd4];
bra.uni DONE;
SLOW:
{SINGLE}
DONE:"""


def proved(entry: str, step: int = 8, row: str = "%r1") -> bool:
    """Is the inner loop's vector proved to be aligned, behind tests at the entry?"""
    old = parse(KERNEL.format(entry="", loads=SINGLE, step=step, row=row))
    new = parse(KERNEL.format(entry=entry, loads=TESTED, step=step, row=row))
    return isinstance(validate((old, old.kernels[0]), (new, new.kernels[0])), Proved)


def test_of(a: int, n: int) -> str:
    """Code that sets %p3 where `a` or `n` has one of some bits."""
    return f"""
cvt.u32.u64 %r15, %rd1;
and.b32 %r16, %r15, {a};
and.b32 %r17, %r1, {n};
or.b32 %r18, %r16, %r17;
setp.ne.u32 %p3, %r18, 0;
"""


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("a", "n", "step", "row", "holds"),
    [
        (7, 1, 8, "%r1", True),
        (15, 3, 8, "%r1", True),
        (7, 1, 24, "%r1", True),
        (7, 1, 16, "2", True),
        (7, 1, -8, "6", True),
        (3, 1, 8, "%r1", False),  # the pointer may be off
        (7, 0, 8, "%r1", False),  # rows may be of odd length
        (7, 2, 8, "%r1", False),
        (7, 1, 4, "%r1", False),  # each other iteration is off
        (7, 1, 12, "%r1", False),
        (7, 1, 8, "1", False),  # each other row is
        (7, 1, 8, "%r9", False),  # what was loaded may be anything
    ],
)
def test_what_loops_move(a: int, n: int, step: int, row: str, holds: bool) -> None:
    assert proved(test_of(a, n), step, row) is holds
