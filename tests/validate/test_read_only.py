"""Loads by `.nc` that the second text makes by other addresses, beside stores."""

from __future__ import annotations

import pytest

from ptxsw.changes.assumptions import DEFAULT_ASSUME as DEFAULT
from ptxsw.parser import parse
from ptxsw.validate import Mismatch, Proved, validate

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .f32 %f<4>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	setp.ge.u32 %p1, %r2, 4096;
	@%p1 bra DONE;
	mul.wide.s32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s32 %r3, %r2, 1;
	mul.wide.s32 %rd5, %r3, 4;
	add.s64 %rd6, %rd1, %rd5;
	add.s32 %r4, %r3, %r1;
	mul.wide.s32 %rd7, %r4, 4;
	add.s64 %rd8, %rd1, %rd7;
"""
TAIL = """	add.f32 %f3, %f1, %f2;
	st.global.f32 [%rd2], %f3;
DONE:
	ret;
}
"""
FIRST = "	ld.global.nc.f32 %f1, [%rd6];\n	ld.global.f32 %f2, [%rd8];\n"


@pytest.mark.parametrize(
    ("second", "right"),
    [
        ("	ld.global.nc.f32 %f1, [%rd4+4];\n	ld.global.f32 %f2, [%rd8];\n", True),
        ("	ld.global.nc.f32 %f1, [%rd4+4];\n	ld.global.nc.f32 %f2, [%rd8];\n", False),
        ("	ld.global.f32 %f1, [%rd4+4];\n	ld.global.nc.f32 %f2, [%rd8];\n", False),
        ("	ld.global.nc.f32 %f1, [%rd4];\n	ld.global.f32 %f2, [%rd8];\n", False),
    ],
)
def test_what_the_first_text_reads_by_nc_may_be_read_so(second: str, right: bool) -> None:
    """However the address is computed, and nothing else beside it."""
    old, new = parse(HEAD + FIRST + TAIL), parse(HEAD + second + TAIL)
    outcome = validate((old, old.kernels[0]), (new, new.kernels[0]))
    assert isinstance(outcome, Proved if right else Mismatch)
    if isinstance(outcome, Proved):
        assert "no-fault-in-struct" not in outcome.assumptions


LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
	.reg .pred %p<4>;
	.reg .b32 %r<6>;
	.reg .f32 %f<6>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u64 %rd3, [c];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	and.b32 %r3, %r2, 3;
	sub.s32 %r4, %r1, %r3;
	setp.lt.s32 %p1, %r4, 1;
	@%p1 bra DONE;
	setp.eq.u32 %p2, %r2, 7;
	mul.wide.u32 %rd4, %r2, 4;
	add.s64 %rd5, %rd1, %rd4;
	add.s64 %rd6, %rd2, %rd4;
	mov.f32 %f1, 0f00000000;
	AHEAD
ITERATION:
	BEGIN
	ld.global.f32 %f2, [%rd5];
	add.f32 %f1, %f1, %f2;
	st.global.f32 [%rd6], %f1;
	add.s64 %rd5, %rd5, 128;
	add.s64 %rd6, %rd6, 128;
	END
	add.s32 %r4, %r4, -1;
	setp.ne.s32 %p3, %r4, 0;
	@%p3 bra ITERATION;
DONE:
	ret;
}
"""
READ = "ld.global.f32 %f2, [%rd5];"


def looping(begin: str = "", end: str = "", **lines: str) -> tuple[str, str]:
    """The loop, and with its load by `.nc`; `lines` stand for others in both."""
    old = LOOP.replace("BEGIN", begin).replace("END", end).replace("AHEAD", lines.get("ahead", ""))
    read, store = lines.get("read", READ), lines.get("store", "st.global.f32 [%rd6], %f1;")
    assert READ in old and "st.global.f32 [%rd6], %f1;" in old
    old = old.replace(READ, read).replace("st.global.f32 [%rd6], %f1;", store)
    by_nc = lines.get("by_nc", read.replace("ld.global", "ld.global.nc"))
    return old, old.replace(read, by_nc)


@pytest.mark.parametrize(
    ("texts", "right"),
    [
        (looping(), True),
        (looping(end="add.s64 %rd5, %rd5, 16;"), True),
        (looping(store="@%p2 st.global.f32 [%rd6], %f1;"), True),
        # the first text does not load these bytes
        (looping(by_nc="ld.global.nc.f32 %f2, [%rd5+4];"), False),
        (looping(by_nc="ld.global.nc.f32 %f2, [%rd6];"), False),
        # the loads, or the stores, are in either array, or in one that was loaded
        (looping(end="selp.b64 %rd5, %rd6, %rd5, %p2;"), False),
        (looping(end="selp.b64 %rd6, %rd5, %rd6, %p2;"), False),
        (looping(end="@%p2 mov.b64 %rd5, %rd2;"), False),
        (looping(end="@%p2 mov.b64 %rd6, %rd1;"), False),
        (looping(end="ld.global.u64 %rd5, [%rd5+-128];"), False),
        (looping(end="ld.global.u64 %rd6, [%rd6+-128];"), False),
        (looping(end="sub.s64 %rd5, %rd2, %rd5;"), False),
        # or, from the second iteration on, in the other array
        (
            looping(
                ahead="mov.u64 %rd7, 0;",
                begin="add.s64 %rd8, %rd5, %rd7;",
                end="sub.s64 %rd7, %rd2, %rd1;",
                read="ld.global.f32 %f2, [%rd8];",
            ),
            False,
        ),
        (
            looping(
                ahead="mov.u64 %rd7, 0;",
                begin="add.s64 %rd8, %rd6, %rd7;",
                end="sub.s64 %rd7, %rd1, %rd2;",
                store="st.global.f32 [%rd8], %f1;",
            ),
            False,
        ),
        # another store to the array that is read
        (looping(end="st.global.f32 [%rd5+64], %f1;"), False),
        (looping(begin="st.global.f32 [%rd1], %f1;"), False),
        (looping(store="st.global.f32 [%rd5], %f1;"), False),
        (looping(store="st.f32 [%rd6], %f1;\n\tst.f32 [%rd5], %f1;"), False),
        # of the array that is written the same is known
        (looping(read="ld.global.f32 %f2, [%rd6+4];"), False),
    ],
)
def test_other_parameters_lead_elsewhere(texts: tuple[str, str], right: bool) -> None:
    """In a loop that each lane leaves in an iteration of its own: what is loaded there is built on
    a parameter as the first text's run tells, and nothing is stored through that."""
    old, new = map(parse, texts)
    kernels = (old, old.kernels[0]), (new, new.kernels[0])
    outcome = validate(*kernels, assume=DEFAULT | {"no-alias"})
    assert isinstance(outcome, Proved) == right
    if isinstance(outcome, Proved):
        assert "no-alias" in outcome.assumptions
        assert not isinstance(validate(*kernels), Proved)


def test_a_load_that_is_not_always_made_tells_nothing_of_others() -> None:
    """Of a third array, where %p2 is true alone: in all lanes the second text reads it."""
    read = f"{READ}\n\t@%p2 ld.global.f32 %f3, [%rd3];"
    old, new = looping(read=read, by_nc=f"{READ}\n\tld.global.nc.f32 %f3, [%rd3];")
    first, second = parse(old), parse(new)
    kernels = (first, first.kernels[0]), (second, second.kernels[0])
    assert not isinstance(validate(*kernels, assume=DEFAULT | {"no-alias"}), Proved)
