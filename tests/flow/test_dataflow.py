"""Liveness and slices of small bodies."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsw.flow.cfg import Cfg, build
from ptxsw.flow.dataflow import (
    CARRY,
    closure,
    defs,
    in_order,
    liveness,
    slice_registers,
    uses,
)
from ptxsw.parser import parse
from ptxsw.ptx.ir import Instruction, Mem, Reg
from tests.heads import head
from tests.real import FIXTURES, text_of

BODY = (
    head()
    + """.entry k()
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
)


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
    code = cfg().instructions
    live = liveness(cfg(), lambda at: code[at].opcode != "st")
    assert "%r3" in names(live[2])
    assert names(liveness(cfg(), lambda at: code[at].opcode == "mov")[2]) == set()


def by_instructions(graph: Cfg) -> dict[int, frozenset[Reg]]:
    """Liveness at the start of each block, with every instruction on its own."""
    live = {number: frozenset[Reg]() for number in graph.order}
    changed = True
    while changed:
        changed = False
        for number in reversed(graph.order):
            block = graph.blocks[number]
            now = set().union(*(live[n] for n in block.successors))
            for at in range(block.end - 1, block.start - 1, -1):
                now -= set(graph.surely_written[at])
                now |= set(graph.read[at])
            changed |= now != live[number]
            live[number] = frozenset(now)
    return live


@pytest.mark.parametrize("path", FIXTURES[::2], ids=lambda path: path.stem)
def test_blocks_need_what_their_instructions_need(path: Path) -> None:
    module = parse(text_of(path))
    for function in module.functions:
        if function.body:
            graph = build(function.body)
            assert liveness(graph) == by_instructions(graph)


def test_slice_of_an_address() -> None:
    def roots(ins: Instruction) -> tuple[Reg, ...]:
        return tuple(o.base for o in ins.operands if isinstance(o, Mem) and isinstance(o.base, Reg))

    assert names(slice_registers(cfg(), roots)) == {"%rd1", "%r3"}


CHAIN = (
    head()
    + """.extern .func f();
.entry k()
{
.reg .pred %p<4>; .reg .b32 %r<19>; .reg .b64 %rd<4>;
add.cc.u32 %r1, %r2, %r3;
addc.u32 %r4, %r5, 0;
madc.hi.cc.u32 %r6, %r7, %r8, 0;
@%p1 sub.cc.u32 %r9, %r10, 1;
call f;
subc.u32 %r11, %r12, 0;
ret;
}
"""
)


def test_the_carry_bit_is_written_and_read() -> None:
    graph = build(parse(CHAIN).functions[-1].body)
    add, addc, madc, sub, call, subc, _ = graph.instructions
    for writes in (add, madc, sub, call):
        assert CARRY in defs(writes)
    for reads in (addc, madc, subc):
        assert CARRY in uses(reads)
    assert CARRY not in uses(add) and CARRY not in defs(addc)
    found = slice_registers(graph, lambda ins: (Reg("%r4"),) if ins is addc else ())
    assert names(found) == {"%r4", "%r5", "%cc", "%r2", "%r3", "%r7", "%r8", "%r10", "%p1"}


def test_a_carry_is_live_from_its_sum_to_its_reader() -> None:
    text = CHAIN.replace("add.cc.u32 %r1, %r2, %r3;", "add.u32 %r1, %r2, %r3;")
    assert "%cc" in names(liveness(build(parse(text).functions[-1].body))[0])
    assert "%cc" not in names(liveness(build(parse(CHAIN).functions[-1].body))[0])


def test_registers_of_a_set_have_an_order_that_is_the_same_in_each_run() -> None:
    """The order of sets is another in each run of Python: text must not depend on it."""
    regs = [Reg("%r10"), Reg("%r2"), Reg("%r2", 1), Reg("%rd1")]
    assert in_order(frozenset(reversed(regs))) == in_order(set(regs)) == regs


def test_registers_that_one_instruction_sets_for_certain() -> None:
    sole = {reg.name: at for reg, at in cfg().sole_writers.items()}
    assert sole == {"%r1": 0, "%r3": 3, "%r4": 4, "%rd1": 5}


def test_a_slice_of_some_instructions() -> None:
    graph = cfg()
    assert names(closure(graph, (Reg("%r4"),))) == {"%r4", "%r1", "%r2", "%p1"}
    assert names(closure(graph, (Reg("%r4"),), (4,))) == {"%r4", "%r1", "%r2"}
