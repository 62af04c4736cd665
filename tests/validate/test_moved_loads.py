"""A register that was moved from a loaded one still holds what the load gives, behind a branch."""

from __future__ import annotations

import pytest

from ptxsw.parser import parse
from ptxsw.validate import Proved, validate
from tests.heads import head

# The second load of `[%rd4]` takes what %keep holds; {arm} stands before it, in both texts.
KERNEL = (
    head()
    + """.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 n)
{{
	.reg .pred %p1;
	.reg .b32 %r<9>, %keep;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd3, %r2, 8;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	{load}
	{keep}
	setp.gt.u32 %p1, %r2, %r1;
	@%p1 bra DONE;
	{arm}
	{again}
	add.u32 %r3, %r3, %r4;
DONE:
	st.global.u32 [%rd5], %r3;
	ret;
}}
"""
)
LOAD, KEEP = "ld.global.u32 %r3, [%rd4];", "mov.b32 %keep, %r3;"
AGAIN, TAKEN = "ld.global.u32 %r4, [%rd4];", "mov.b32 %r4, %keep;"
PAIR = "ld.global.v2.u32 {%r3, %r5}, [%rd4];"


def proved(
    *, load: str = LOAD, keep: str = KEEP, arm: str = "", again: str = AGAIN, taken: str = TAKEN
) -> bool:
    old = parse(KERNEL.format(load=load, keep="", arm=arm, again=again))
    new = parse(KERNEL.format(load=load, keep=keep, arm=arm, again=taken))
    outcome = validate((old, old.kernels[0]), (new, new.kernels[0]))
    return isinstance(outcome, Proved)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"arm": "add.s32 %r6, %r1, %r2;"},
        {"keep": "mov.b32 %r6, %r3;\n\tmov.b32 %keep, %r6;"},
        {"load": PAIR},
        {"load": PAIR, "keep": "mov.b32 %keep, %r5;", "again": "ld.global.u32 %r4, [%rd4+4];"},
    ],
)
def test_the_load_need_not_be_made_again(changed: dict[str, str]) -> None:
    assert proved(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        # Something may be stored there meanwhile, or was.
        {"arm": "st.global.u32 [%rd5], %r1;"},
        {"arm": "st.global.u32 [%rd4], %r1;"},
        {"arm": "atom.global.add.u32 %r6, [%rd5], 1;"},
        {"arm": "bar.sync 0;"},
        {"load": LOAD + "\n\tst.global.u32 [%rd5], %r1;"},
        # Other bytes are read.
        {"again": "ld.global.u32 %r4, [%rd4+4];"},
        {"again": "ld.global.u32 %r4, [%rd5];"},
        {"arm": "add.s64 %rd4, %rd4, 8;"},
        {"load": PAIR, "keep": "mov.b32 %keep, %r5;"},
        # Another value is kept.
        {"keep": "mov.b32 %keep, %r2;"},
        {"keep": "add.s32 %keep, %r3, 1;"},
        {"keep": "@%p1 mov.b32 %keep, %r3;"},
    ],
)
def test_what_may_be_another_value_is_refused(changed: dict[str, str]) -> None:
    assert not proved(**changed)
