"""The two ways of a branch at which lanes part: what lies on one of them only."""

from __future__ import annotations

from ptxsw.analysis.divergence import arms
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
