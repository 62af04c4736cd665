"""Which earlier load is said to have had the same bytes, and what in between forbids to say so."""

from __future__ import annotations

import pytest

from ptxsw.driver import pipeline
from ptxsw.report import Access
from tests.heads import head

KERNEL = (
    head("8.0", "sm_90")
    + """\
.func other();
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[4096];
    .shared .align 16 .b8 wall[4096];
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    ld.param.u32 %r8, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    mov.u32 %r2, tile;
    shl.b32 %r3, %r1, 2;
    add.s32 %r2, %r2, %r3;
    mov.u32 %r4, wall;
    add.s32 %r4, %r4, %r3;
    mov.u32 %r7, 0;
{body}
    ret;
}}
"""
)


def loads(body: str) -> list[Access]:
    text = KERNEL.format(body="\n".join(f"    {line.strip()};" for line in body.split(";")))
    [kernel] = pipeline.analyze(text).kernels
    return [a for a in kernel.accesses or () if a.kind == "load"]


def reused(body: str) -> list[int]:
    """By which lanes, i + N, an earlier load had the bytes of the last one."""
    return [reuse.delta for reuse in loads(body)[-1].reuse]


LOAD = "ld.global.u32 %r5, [%rd1]"
SHARED = "ld.shared.u32 %r5, [%r2]"


@pytest.mark.parametrize(
    ("first", "between", "second", "lanes"),
    [
        (LOAD, "mov.u32 %r6, 0", LOAD, [0]),
        (LOAD, "mov.u32 %r6, 0", "ld.global.u32 %r6, [%rd1+4]", [1]),
        (LOAD, "mov.u32 %r6, 0", "ld.global.u32 %r6, [%rd1+128]", []),  # 32 lanes away
        (LOAD, "mov.u32 %r6, 0", "ld.global.u32 %r6, [%rd2]", []),
        (LOAD, "st.global.u32 [%rd2], %r5", LOAD, [0]),  # through another pointer
        (LOAD, "st.global.u32 [%rd1], %r5", LOAD, []),
        (LOAD, "st.global.u32 [%rd1+4], %r5", LOAD, []),  # by the lane before
        (LOAD, "st.global.u32 [%rd1+2], %r5", LOAD, [0]),  # no lane's word
        (LOAD, "st.shared.u32 [%r2], %r5", LOAD, [0]),
        (LOAD, "bar.sync 0", LOAD, [0]),
        (LOAD, "call other, ()", LOAD, []),
        (LOAD, "cvt.u64.u32 %rd4, %r5; st.u32 [%rd4], %r5", LOAD, []),  # anywhere
        (LOAD, "st.u32 [%rd1], %r5", LOAD, []),  # a generic address of the same pointer
        (LOAD, "st.u32 [%rd2], %r5", LOAD, [0]),
        ("ld.global.nc.u32 %r5, [%rd1]", "call other, ()", "ld.global.nc.u32 %r5, [%rd1]", [0]),
        (SHARED, "mov.u32 %r6, 0", SHARED, [0]),
        (SHARED, "st.shared.u32 [%r4], %r5", SHARED, [0]),  # another array
        (SHARED, "st.shared.u32 [%r2+256], %r5", SHARED, []),
        (SHARED, "cp.async.ca.shared.global [%r2], [%rd1], 4", SHARED, []),
        (SHARED, "atom.shared.add.u32 %r6, [%r2], 1", SHARED, []),
        (SHARED, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r2]", SHARED, [0]),
    ],
)
def test_what_stands_between(first: str, between: str, second: str, lanes: list[int]) -> None:
    assert reused(f"{first}; {between}; {second}") == lanes


LOOP = "L: {}; add.s32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r8; @%p1 bra L"
NEXT = "add.s64 %rd1, %rd1, 4; add.s64 %rd2, %rd2, 4"


@pytest.mark.parametrize(
    ("iteration", "carried"),
    [
        (f"{LOAD}; {NEXT}", (0, 1, 1)),  # the lane after had it in the iteration before
        (LOAD, (0, 0, 1)),
        (f"{LOAD}; ld.global.u32 %r6, [%rd1+8]; {NEXT}; {NEXT}", (1, 0, 1)),
        (f"{LOAD}; ld.global.u32 %r6, [%rd1+12]; add.s64 %rd1, %rd1, 4", (0, 1, 1)),
        (f"{LOAD}; ld.global.u32 %r6, [%rd1+1024]; add.s64 %rd1, %rd1, 512", (1, 0, 2)),
        (f"{LOAD}; add.s64 %rd1, %rd1, 128", None),
        (f"{LOAD}; st.global.u32 [%rd2], %r5; {NEXT}", (0, 1, 1)),
        (f"{LOAD}; st.global.u32 [%rd1], %r5; {NEXT}", None),
        (f"{LOAD}; call other, (); {NEXT}", None),
        (f"{LOAD}; cvt.u64.u32 %rd4, %r5; add.s64 %rd1, %rd1, %rd4", None),  # a list
        ("ld.global.nc.u32 %r5, [%rd1]; call other, ()", (0, 0, 1)),
        (f"{SHARED}; st.shared.u32 [%r2+4], %r5", None),
        (f"{SHARED}; st.shared.u32 [%r4], %r5", (0, 0, 1)),
    ],
)
def test_earlier_iterations(iteration: str, carried: tuple[int, int, int] | None) -> None:
    """`carried`: the load that had the bytes of the first one, by number; lane and iterations."""
    found = loads(LOOP.format(iteration))
    first = found[0]
    if carried is None:
        assert first.carried == ()
        return
    [answer] = first.carried
    number = [load.line for load in found].index(answer.line)
    assert (number, answer.delta, answer.iterations, answer.loop) == (*carried, "L")


def test_the_innermost_loop_comes_first() -> None:
    inner = LOOP.format("ld.global.nc.u32 %r5, [%rd2]; add.s64 %rd2, %rd2, 128")
    outer = f"M: mov.u32 %r7, 0; {inner}; add.s64 %rd2, %rd1, 0; bra M"
    text = f"add.s64 %rd2, %rd1, 0; {outer}"
    [load] = loads(text)
    assert [(c.delta, c.loop, c.iterations) for c in load.carried] == [(0, "M", 1)]


@pytest.mark.parametrize(("width", "lanes"), [(64, [17]), (48, [17]), (32, [17]), (16, [])])
def test_lanes_of_the_next_row_are_no_neighbours(width: int, lanes: list[int]) -> None:
    """17 elements to the right there is a lane of this warp only if rows are that long."""
    text = KERNEL.format(body=f"{LOAD}; ld.global.u32 %r6, [%rd1+68];")
    [kernel] = pipeline.analyze(text, block=(width, 1024 // width // 2, 1)).kernels
    assert [reuse.delta for reuse in (kernel.accesses or ())[-1].reuse] == lanes
