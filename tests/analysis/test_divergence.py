"""The two ways of a branch at which lanes part: what lies on one of them only."""

from __future__ import annotations

import pytest

from ptxsw.analysis.divergence import arms, divergent_regions
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse

KERNEL = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
 .reg .pred %p<2>;
 .reg .b32 %r<4>;
 mov.u32 %r1, %tid.x;
 setp.lt.u32 %p1, %r1, 7;
 @%p1 bra THEN;
FALLEN
THEN:
 add.s32 %r2, %r1, 1;
JOIN:
 add.s32 %r3, %r2, %r1;
 xor.b32 %r3, %r3, 5;
 ret;
}
"""


def _arms(fallen: str) -> list[tuple[list[str], list[str]]]:
    """By the labels of their blocks."""
    module = parse(KERNEL.replace("FALLEN", fallen))
    trace = emulate(module, module.functions[0])
    return [
        (sorted(map(trace.cfg.name, taken)), sorted(map(trace.cfg.name, other)))
        for taken, other in arms(trace).values()
    ]


def test_each_way_has_its_own_code() -> None:
    assert _arms("ELSE: mov.u32 %r2, 0; bra.uni JOIN;") == [(["THEN"], ["ELSE"])]


def test_what_lies_behind_the_join_is_on_no_way() -> None:
    """The code behind an `if` without an `else` is run by all lanes together."""
    assert _arms("SKIP: mov.u32 %r2, 0;") == [([], ["SKIP"])]
    assert _arms("bra.uni JOIN;") == [(["THEN"], ["block 1"])]


ARMS = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{
    .reg .pred %p<9>;
    .reg .b32 %r<9>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [a];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra $END;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    BRANCH
    ld.global.f32 %f1, [%rd3];
    ld.global.f32 %f2, [%rd3+4];
    add.f32 %f3, %f1, %f2;
    AGAIN
$SKIP:
    st.global.f32 [%rd3+4096], %f3;
$END:
    ret;
}
"""


@pytest.mark.parametrize(
    ("branch", "again", "in_an_arm"),
    [
        ("", "", False),  # behind an early exit
        ("and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra $SKIP;", "", True),
        ("setp.eq.u32 %p2, %r1, 7; @%p2 bra $SKIP;", "", False),  # uniform
        (  # a loop whose trip count varies, and the test before it
            "mov.u32 %r4, %r2; setp.gt.u32 %p2, %r4, 90; @%p2 bra $SKIP;\n$LOOP:",
            "add.u32 %r4, %r4, 32; setp.lt.u32 %p3, %r4, 90; @%p3 bra $LOOP;",
            False,
        ),
        (  # a uniform loop in an arm
            "mov.u32 %r4, 0; setp.gt.u32 %p2, %r2, 90; @%p2 bra $SKIP;\n$LOOP:",
            "add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r1; @%p3 bra $LOOP;",
            True,
        ),
    ],
    ids=["early exit", "if", "uniform if", "loop", "loop in an if"],
)
def test_arms_of_divergent_ifs(branch: str, again: str, in_an_arm: bool) -> None:
    text = ARMS.replace("BRANCH", branch).replace("AGAIN", again)
    module = parse(text)
    trace = emulate(module, module.functions[0])
    loads = [a.index for a in trace.accesses if a.kind == "load" and a.space == "global"]
    assert len(loads) == 2
    arms = divergent_regions(trace)
    assert {trace.cfg.block_of[index] in arms for index in loads} == {in_an_arm}
