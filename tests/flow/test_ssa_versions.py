"""Which value of a register reaches a place."""

from __future__ import annotations

from ptxsw.flow.cfg import build
from ptxsw.flow.ssa_versions import Versions
from ptxsw.parser import parse
from ptxsw.ptx.ir import Reg
from tests.rewrites.pair import kernel

R7 = Reg("%r7")


def versions(body: str) -> tuple[Versions, dict[int, int]]:
    """The versions of a kernel of some lines, and where instructions that read `%r7` stand, by
    their order."""
    cfg = build(parse(kernel(body)).kernels[0].body)
    readers = [at for at, read in enumerate(cfg.read) if R7 in read]
    return Versions(cfg), dict(enumerate(readers))


def test_the_last_write_of_a_block_counts() -> None:
    found, at = versions(
        "mov.u32 %r7, 1; add.s32 %r8, %r7, 1; mov.u32 %r7, 2; add.s32 %r8, %r7, 1;"
    )
    assert found.at(R7, at[0]) == at[0] - 1 and found.at(R7, at[1]) == at[1] - 1


def test_ways_that_meet_are_another_value() -> None:
    found, at = versions(
        """mov.u32 %r7, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra ARM; add.s32 %r8, %r7, 1;
        mov.u32 %r7, 2; ARM: add.s32 %r8, %r7, 2; add.s32 %r8, %r7, 3; @%p1 bra END;
        add.s32 %r8, %r7, 4; END: add.s32 %r8, %r7, 5;"""
    )
    first, *others = (found.at(R7, at[n]) for n in range(5))
    assert first >= 0 > others[0]
    assert len(set(others)) == 1  # nothing sets it after the ways have met


def test_a_loop_that_sets_a_register_begins_with_a_value_of_its_own() -> None:
    found, at = versions(
        """mov.u32 %r7, 1; mov.u32 %r9, 1; LOOP: add.s32 %r8, %r7, %r9; add.s32 %r7, %r7, 1;
        add.s32 %r8, %r7, 1; setp.lt.u32 %p1, %r7, %r1; @%p1 bra LOOP; add.s32 %r8, %r7, 1;"""
    )
    carried = found.at(R7, at[0])
    assert carried < 0 and found.at(R7, at[1]) == carried
    assert {found.at(R7, at[n]) for n in (2, 3, 4)} == {at[1]}
    assert found.at(Reg("%r9"), at[0]) >= 0  # that one stays


def test_a_write_under_a_guard_leaves_a_value_of_its_own() -> None:
    found, at = versions("mov.u32 %r7, 1; @%p1 mov.u32 %r7, 2; add.s32 %r8, %r7, 1;")
    assert found.at(R7, at[0]) == at[0] - 1


def test_what_nobody_sets_on_some_way_meets() -> None:
    found, at = versions("@%p1 bra ON; mov.u32 %r7, 1; ON: add.s32 %r8, %r7, 1;")
    assert found.at(R7, at[0]) < 0
