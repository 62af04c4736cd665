"""What rows ask of the judge: a source that is moved up, guards that are tested early, and a
load made for others some bytes further on."""

from __future__ import annotations

from ptxsw.analysis.lane_reuse import Candidate
from ptxsw.changes.plan import Proof, Refused
from ptxsw.driver.pipeline import DEFAULT_ASSUME
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Access, Trace
from ptxsw.parser import parse
from ptxsw.shuffle.legality import Legality
from ptxsw.terms.solver import Solver
from tests.heads import head

ROW = (
    head("7.0", "sm_70")
    + """.visible .entry row(.param .u64 from, .param .u64 to, .param .u32 first)
{
	.reg .f32 %f<8>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [from];
	ld.param.u64 %rd2, [to];
	ld.param.u32 %r1, [first];
	mov.u32 %r2, %tid.x;
	add.s32 %r3, %r1, %r2;
	mul.wide.s32 %rd3, %r3, 4;
	add.s64 %rd4, %rd1, %rd3;
	mul.wide.u32 %rd5, %r2, 4;
	add.s64 %rd6, %rd2, %rd5;
	ld.global.f32 %f1, [%rd4];
	MIDDLE
	ld.global.f32 %f2, [%rd4+4];
	ld.global.f32 %f3, [%rd4+8];
	sub.f32 %f3, %f1, %f2;
	st.global.f32 [%rd6], %f3;
	ret;
}
"""
)


def judged(middle: str = "") -> tuple[Legality, Trace, tuple[Access, ...]]:
    module = parse(ROW.replace("MIDDLE", middle))
    (function,) = module.functions
    solver = Solver()
    trace = emulate(module, function, solver=solver)
    return Legality(trace, solver, DEFAULT_ASSUME), trace, trace.global_loads


def test_a_source_below_serves_a_load_above_once_it_is_moved_up() -> None:
    judge, _, (left, centre, _) = judged()
    below = Candidate(left, centre, -1)
    assert judge.legal(below) == Refused("the source load comes later")
    assert isinstance(judge.legal(below, source_at=left.index), Proof)
    assert judge.can_hoist(centre, left.index) is None


def test_nothing_that_may_change_it_stands_in_the_way_of_a_moved_load() -> None:
    changed = "st.global.f32 (line 19) may change what the moved load reads"
    stores = {
        "st.global.f32 [%rd6], %f1;": changed,
        "st.global.f32 [%rd4], %f1;": changed,
        "membar.gl;": "membar.gl (line 19) prevents moving the load",
        "bar.sync 0;": "the load cannot be moved out of its straight-line segment",
        "@%p1 bra on;\n on:": "the load cannot be moved out of its straight-line segment",
        "ld.volatile.global.f32 %f4, [%rd6];": "ld.volatile.global.f32 (line 19) prevents "
        "moving the load",
    }
    for line, reason in stores.items():
        judge, _, (left, *more) = judged(f".reg .pred %p1;\n{line}".replace("\n", " "))
        centre = more[-2]
        assert judge.can_hoist(centre, left.index) == Refused(reason), line
        assert isinstance(judge.legal(Candidate(left, centre, -1), source_at=left.index), Refused)
    judge, _, (left, centre, _) = judged("st.shared.f32 [%r2], %f1;")
    assert judge.can_hoist(centre, left.index) is None


def test_every_guard_can_be_tested_before_the_place_asked_for() -> None:
    judge, trace, (left, centre, _) = judged()
    pair = Candidate(centre, left, 1)
    outcome = judge.legal(pair, before=left.index)
    assert isinstance(outcome, Proof)
    (guard,) = outcome.guards
    assert trace.cfg.instructions[guard.index].name == "mul.wide.s32"
    refused = judge.legal(pair, before=guard.index)
    assert refused == Refused("the index may wrap, and no register holds it for a test")


def test_a_halo_load_is_judged_at_its_own_address() -> None:
    """A load of the row's lead 32 elements on holds what lane i needs in lane i + d - 32."""
    judge, _, (left, centre, right) = judged()
    for dest, distance in ((centre, 1), (right, 2)):
        for displacement, right_one in ((128, True), (124, False), (-128, False), (0, False)):
            halo = Candidate(dest, left, distance - 32, displacement=displacement)
            assert isinstance(judge.legal(halo), Proof) == right_one
    back = Candidate(left, right, -2 + 32, displacement=-128)
    assert isinstance(judge.legal(back, source_at=left.index), Proof)
