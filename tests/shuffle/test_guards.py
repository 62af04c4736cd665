"""Where an index is tested at run time, and what may be assumed in its stead."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kernelgen import operators
from ptxsw.driver.pipeline import DEFAULT_ASSUME
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.shuffle.candidate_plan import draft
from ptxsw.shuffle.legality import Legality
from ptxsw.terms.solver import Solver
from tests.shuffle.judged import Judged, hold, judged

NO_WRAP = DEFAULT_ASSUME | {"no-index-wrap"}
UNPROVED = "the index may wrap, and no test is possible here (--assume no-index-wrap)"

BRANCHED = """	add.s32 %r7, %r1, %r3;
	setp.eq.s32 %p1, %r2, 7;
	@%p1 bra LEFT;
	add.s32 %r7, %r7, %r2;
LEFT:
	mul.wide.s32 %rd3, %r7, 4;
	add.s64 %rd4, %rd1, %rd3;
	@%p1 bra RIGHT;
	ld.global.nc.f32 %f1, [%rd4];
	ld.global.nc.f32 %f2, [%rd4+4];
RIGHT:
	ld.global.nc.f32 %f3, [%rd4+64];
	ld.global.nc.f32 %f4, [%rd4+60];
"""


def places(one: Judged) -> dict[int, set[tuple[str, str, int, int]]]:
    """For each load: instruction, register, addend and step of the tests of its neighbours."""
    numbers = {load.index: number for number, load in enumerate(one.loads)}
    found: dict[int, set[tuple[str, str, int, int]]] = {}
    for candidate, proof in one.legal().items():
        for g in proof.guards:
            name = one.trace.cfg.instructions[g.index].name
            place = (name, g.reg.name, g.addend, g.step)
            found.setdefault(numbers[candidate.dest.index], set()).add(place)
    return found


def test_a_register_with_a_value_for_each_path_can_be_tested() -> None:
    """At the extension it holds one value or another; on the way to a load it is known which."""
    assert places(judged(BRANCHED)) == {
        1: {("mul.wide.s32", "%r7", 0, 1)},
        3: {("mul.wide.s32", "%r7", 0, -1)},
    }


def test_a_value_that_only_some_lanes_have_there_is_not_tested() -> None:
    """Between the test and the load the path is not known: two values are possible."""
    body = BRANCHED.replace("setp.eq.s32 %p1, %r2, 7", "setp.eq.s32 %p1, %r3, 7")
    assert set(places(judged(body))) == {1}


LOOP = """	mov.u32 %r7, 0;
	add.s32 %r8, %r3, %r1;
	bra AGAIN;
AGAIN:
	mul.wide.s32 %rd3, %r8, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f32 %f1, [%rd4];
	ld.global.nc.f32 %f2, [%rd4+4];
	add.f32 %f3, %f3, %f1;
	add.f32 %f3, %f3, %f2;
	CHANGE
	add.s32 %r7, %r7, 1;
	setp.lt.s32 %p1, %r7, %r2;
	@%p1 bra AGAIN;
"""


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("", ("bra", "%r8", 0, 1)),  # before the loop
        ("add.s32 %r8, %r8, 64;", ("mul.wide.s32", "%r8", 0, 1)),
    ],
)
def test_an_invariant_index_is_tested_outside_the_loop(
    change: str, place: tuple[str, str, int, int]
) -> None:
    assert places(judged(LOOP.replace("CHANGE", change))) == {1: {place}}


# The parts of the index are extended one by one here, and their sum there.
PARTS = """	add.s32 %r7, %r1, %r3;
	add.s32 %r8, %r7, %r2;
	mul.wide.s32 %rd3, %r8, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.f32 %f1, [%rd4];
	mul.wide.s32 %rd5, %r7, 4;
	mul.wide.s32 %rd6, %r2, 4;
	add.s64 %rd7, %rd1, %rd5;
	add.s64 %rd8, %rd7, %rd6;
	ld.global.nc.f32 %f2, [%rd8+4];
"""
THREE = """mul.wide.s32 %rd10, %r1, 4;
	mul.wide.s32 %rd11, %r3, 4;
	add.s64 %rd5, %rd10, %rd11;"""


def test_sums_that_are_extended_in_parts() -> None:
    """Each part is tested to be less than a quarter of its type, or the user's word is taken."""
    tested = judged(PARTS)
    steps = {(1 << 30) + 1, -(1 << 30) - 1}
    legal = {c.delta: p for c, p in tested.legal().items()}
    assert set(legal) == {1}
    parts = {(g.reg.name, g.step) for g in legal[1].guards}
    assert parts == {(name, step) for name in ("%r7", "%r2") for step in steps}
    allowed = judged(PARTS, assume=NO_WRAP).legal()
    assert {c.delta for c in allowed} == {1}
    assert all(p.assumptions == ("no-index-wrap",) for p in allowed.values())


def test_three_parts_need_the_users_word() -> None:
    body = PARTS.replace("mul.wide.s32 %rd5, %r7, 4;", THREE)
    assert not judged(body).legal()
    assert UNPROVED in judged(body).reasons()
    assert judged(body, assume=NO_WRAP).legal()


def test_an_unsigned_sum_may_wrap_whatever_is_assumed() -> None:
    body = PARTS.replace("mul.wide.s32", "mul.wide.u32")
    assert not judged(body, assume=NO_WRAP).legal()


@pytest.mark.parametrize(("name", "least"), [("lapgsrb", (11, 12)), ("tricubic", (33, 48))])
def test_operators_by_clang(name: str, least: tuple[int, int]) -> None:
    """Clang extends parts of an index in one place and their sum in another: what is more than
    the first figure is the same value only where no index wraps."""
    text = (Path(operators.__file__).parent / "ptx" / "clang" / f"{name}.ptx").read_text()
    module = parse(text)
    found = []
    for assume in (DEFAULT_ASSUME, NO_WRAP):
        solver = Solver()
        trace = emulate(module, module.functions[0], solver=solver)
        judge = Legality(trace, solver, assume)
        made = draft(trace, judge, scheme="paper", form="keep", max_delta=31, hoist=False)
        found.append(len(made.plan.rewrites))
        assert {k.reason for k in made.kept} <= {UNPROVED}
    assert tuple(found) == least


def test_tests_keep_what_they_promise() -> None:
    straight = LOOP.split("bra AGAIN;\nAGAIN:")
    body = straight[0] + straight[1].replace("CHANGE", "").replace("@%p1 bra AGAIN;", "")
    assert hold(judged(body)) > 1000
