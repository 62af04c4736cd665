"""Roles of warps: which warps run which loops; and the rings of mbarriers between them."""

from __future__ import annotations

import pytest

from ptxsw.analysis.barrier_rings import BarrierRings
from ptxsw.analysis.warp_roles import Role, warp_roles, working_loops
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from tests.heads import head
from tests.specialised import BY_TABLE, BY_THREAD, BY_WARP, specialised, wrapping

LOADS, MULTIPLIES = "LOADS", "MULTIPLIES"


def roles(text: str, block: tuple[int, int, int] | None = None) -> dict[tuple[int, ...], list[str]]:
    module = parse(text)
    [function] = module.kernels
    cfg = build(function.body)
    found = warp_roles(module, function, block or function.block_shape)
    return {role.warps: [cfg.name(header) for header in role.loops] for role in found}


@pytest.mark.parametrize("choose", [BY_WARP, BY_THREAD], ids=["warp", "thread"])
def test_the_number_of_a_warp_decides(choose: str) -> None:
    assert roles(specialised(choose)) == {
        (0, 1, 2, 3): [MULTIPLIES], (4,): [LOADS], (5, 6, 7): [],
    }  # fmt: skip


def test_a_table_in_shared_memory_decides() -> None:
    """As Triton tells its warps: 0 for the first four, then 1, 0, 3 and 2."""
    assert roles(specialised(BY_TABLE)) == {
        (0, 1, 2, 3, 5): [MULTIPLIES], (4,): [LOADS], (6, 7): [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "stores",
    [
        "st.shared.v2.b32 [states], {%r8, %r8};",
        "st.shared.b32 [states], 0;",  # of warps 4 to 7 nothing is known
        "st.shared.v2.b32 [states], {0, 33751041}; st.shared.b8 [states+4], %r8;",
        "st.shared.v2.b32 [states], {0, 33751041}; st.shared.b8 [states+4], 0;",
    ],
)
def test_what_is_stored_decides_only_where_all_of_it_is_known(stores: str) -> None:
    """Where a byte may be anything, or one of two, warp 4 runs both loops."""
    text = specialised(BY_TABLE.replace("st.shared.v2.b32 [states], {0, 33751041};", stores))
    assert roles(text) == {}


@pytest.mark.parametrize(
    ("choose", "why"),
    [
        ("@%p8 bra MULTIPLY; bra.uni LOAD;", "a predicate of which nothing is known"),
        ("setp.lt.u32 %p2, %r8, 128; @%p2 bra MULTIPLY; bra.uni LOAD;", "a parameter"),
        ("and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra MULTIPLY; bra.uni LOAD;", "lanes"),
        (BY_WARP.replace("%r3, -1", "%r3, %r8"), "a shuffle among we do not know whom"),
        (BY_WARP.replace("%r2, %r1, 5", "%r2, %r1, 4"), "halves of warps"),
        (BY_WARP.replace("setp.lt", "add.u32 %r4, %r4, %r8; setp.lt"), "two writers"),
    ],
)
def test_no_roles_where_warps_may_go_either_way(choose: str, why: str) -> None:
    assert roles(specialised(choose)) == {}, why


def test_a_loop_that_all_warps_run_is_no_role() -> None:
    """The rest of a sum by the first warp: the others wait."""
    text = f"""{head()}.visible .entry k(.param .u32 n)
.reqntid 128, 1, 1
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    ld.param.u32 %r8, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
ALL:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r8;
    @%p1 bra ALL;
    setp.gt.u32 %p2, %r1, 31;
    @%p2 bra DONE;
FIRST:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p3, %r2, %r8;
    @%p3 bra FIRST;
DONE:
    ret;
}}
"""
    assert roles(text) == {}


def test_blocks_of_another_shape_have_other_roles() -> None:
    """Where threads lie in rows of 16, `tid.x` is below 128 for all of them."""
    text = specialised(BY_THREAD).replace(".reqntid 256, 1, 1", "")
    assert (4,) in roles(text, (256, 1, 1))
    assert roles(text, (16, 16, 1)) == {}


def rings(text: str) -> dict[str, list[int]]:
    module = parse(text)
    [function] = module.kernels
    cfg, found = build(function.body), BarrierRings(module, function)
    return {
        cfg.name(header): [len(ring) for ring in found.of(cfg.loops[header]).values()]
        for header in working_loops(cfg)
    }


BRANCHING = """
    add.s32 %stage, %stage, 1;
    setp.lt.s32 %p5, %stage, 5;
    @%p5 bra $next{place};
    mov.u32 %stage, 0;
$next{place}:
"""


@pytest.mark.parametrize(
    ("step", "length"),
    [
        (wrapping(3), 3),
        (wrapping(1), 1),
        (wrapping(16), 16),
        (wrapping(17), None),
        ("add.s32 %stage0, %stage, 1; and.b32 %stage, %stage0, 3;", 4),
        ("add.s32 %stage0, %stage, 1; rem.u32 %stage, %stage0, 6;", 6),
        ("xor.b32 %stage, %stage, 1;", 2),
        ("", 1),
        ("add.s32 %stage, %stage, 1;", None),
        ("ld.shared.b32 %stage, [states];", None),
        ("add.s32 %stage0, %stage, %r8; rem.u32 %stage, %stage0, 6;", None),
    ],
)
def test_rings(step: str, length: int | None) -> None:
    """Each loop names a barrier that it waits for, and one where it arrives."""
    found = rings(specialised(next_stage=step))
    expected = [length, length] if length else []
    assert found == {LOADS: expected, MULTIPLIES: expected}


def test_a_ring_by_a_branch() -> None:
    first, second = (BRANCHING.format(place=place) for place in (1, 2))
    text = specialised(next_stage="STEP").replace("STEP", first, 1).replace("STEP", second)
    assert rings(text) == {LOADS: [5, 5], MULTIPLIES: [5, 5]}


def test_a_stage_that_begins_anywhere_is_no_ring() -> None:
    text = specialised().replace("mov.u32 %stage, %r10;", "mov.u32 %stage, %r8;")
    assert rings(text) == {LOADS: [], MULTIPLIES: []}


def test_roles_are_plain_data() -> None:
    module = parse(specialised())
    [function] = module.kernels
    [first, *_] = warp_roles(module, function, (256, 1, 1))
    assert isinstance(first, Role) and set(first.loops) <= first.blocks
