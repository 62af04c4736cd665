"""Liveness and slices of small bodies."""

from __future__ import annotations

from ptxsw.cfg import Cfg, build
from ptxsw.dataflow import liveness, slice_registers
from ptxsw.ir import Instruction, Mem, Reg
from ptxsw.parser import parse

BODY = """.version 8.0
.target sm_80
.address_size 64
.entry k()
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
mov.u32 %r1, 1;
@%p1 mov.u32 %r2, 2;
@%p2 bra NEXT;
mov.u32 %r3, 3;
NEXT:
add.s32 %r4, %r1, %r2;
cvt.u64.u32 %rd1, %r3;
st.global.u32 [%rd1], %r4;
ret;
}
"""


def cfg() -> Cfg:
    return build(parse(BODY).functions[0].body)


def names(regs: frozenset[Reg]) -> set[str]:
    return {r.name for r in regs}


def test_a_guarded_write_kills_nothing() -> None:
    live = liveness(cfg())
    assert names(live[0]) == {"%p1", "%p2", "%r2", "%r3"}
    assert names(live[1]) == {"%r1", "%r2"}
    assert names(live[2]) == {"%r1", "%r2", "%r3"}


def test_uses_that_do_not_count() -> None:
    live = liveness(cfg(), lambda ins: ins.opcode != "st")
    assert "%r3" in names(live[2])
    assert names(liveness(cfg(), lambda ins: ins.opcode == "mov")[2]) == set()


def test_slice_of_an_address() -> None:
    def roots(ins: Instruction) -> tuple[Reg, ...]:
        return tuple(o.base for o in ins.operands if isinstance(o, Mem) and isinstance(o.base, Reg))

    assert names(slice_registers(cfg(), roots)) == {"%rd1", "%r3"}
