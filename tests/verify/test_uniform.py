"""Uniform loops as code generation writes them are proved, and no spoilt text is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmarks.kernelgen import operators
from ptxsw.changes.assumptions import DEFAULT_ASSUME
from ptxsw.changes.plan import Plan
from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import apply
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.shuffle.candidate_plan import draft
from ptxsw.shuffle.legality import Legality
from ptxsw.shuffle.uniform_loops import uniform_loops
from ptxsw.simt import RunError
from ptxsw.terms.solver import Solver
from ptxsw.validate import Outcome, Proved, validate
from tests.shuffle import test_uniform
from tests.shuffle.looping import SHAPES, kernel, lengths, outputs
from tests.verify.uniform_mutators import MUTATORS

PTX = Path(operators.__file__).parent / "ptx"

# Neighbours' sums that last: the loaded register itself is read behind the loop.
LASTING = """
	mov.u32 %r10, %r1;
	mov.u64 %rd10, %rd5;
	setp.ge.u32 %p1, %r1, %r2;
	mov.f32 %f4, 0f3F800000;
	@%p1 bra AFTER;
LOOP:
	ld.global.nc.f32 %f2, [%rd10];
	ld.global.nc.f32 %f4, [%rd10+4];
	fma.rn.f32 %f1, %f2, %f4, %f1;
	add.s64 %rd10, %rd10, %rd7;
	add.u32 %r10, %r10, %r5;
	setp.lt.u32 %p2, %r10, %r2;
	@%p2 bra LOOP;
AFTER:
	add.f32 %f1, %f1, %f4;
	st.global.f32 [%rd4], %f1;
"""

# A condition that comes true again in lanes that have left.
TURNING = """
	// i = tid; do { s += a[i]; i++; } while (i & 7);
	mov.u32 %r10, %r1;
	mov.u64 %rd10, %rd5;
LOOP:
	ld.global.f32 %f2, [%rd10];
	add.f32 %f1, %f1, %f2;
	add.s64 %rd10, %rd10, 4;
	add.u32 %r10, %r10, 1;
	and.b32 %r11, %r10, 7;
	setp.ne.u32 %p1, %r11, 0;
	@%p1 bra LOOP;
	st.global.f32 [%rd4], %f1;
"""

TEXTS = {
    "turning": (kernel(TURNING), "keep"),
    "sum": (kernel(test_uniform.SUM), "keep"),
    "guards": (test_uniform.ALLOWED["guards of its own"], "keep"),
    "rows": (test_uniform.nested(test_uniform.CSR), "keep"),
    "lasting": (kernel(LASTING), "paper"),
    "lasting early": (kernel(LASTING), "early"),
    "lasting halo": (kernel(LASTING), "halo"),
    "jacobi": ((PTX / "jacobi.ptx").read_text(), "paper"),
    "gradient": ((PTX / "gradient.ptx").read_text(), "early"),
}
HARMLESS = {("guards", "no_vote"), ("rows", "no_vote")}
"""Damage that changes nothing: nobody asks all lanes behind this vote, and each comes out of the
loop by itself."""
NUMPY = [name for name in TEXTS if TEXTS[name][0].startswith(".version 7.0")]


@cache
def planned(name: str) -> tuple[Plan, str]:
    """The plan for a text, and what is made of it."""
    text, scheme = TEXTS[name]
    module, solver = parse(text), Solver()
    (function,) = module.functions
    trace = emulate(module, function, solver=solver)
    judge = Legality(trace, solver, DEFAULT_ASSUME, loops=uniform_loops(trace).uniform)
    plan = draft(
        trace, judge, scheme="paper" if scheme == "keep" else scheme, form="keep", max_delta=31,
        hoist=scheme == "halo", why_not="copies only" if scheme == "keep" else None,
    ).plan  # fmt: skip
    assert plan.loops
    return plan, apply(text, emit(text, plan))


def judged(name: str, text: str) -> Outcome:
    first, second = parse(TEXTS[name][0]), parse(text)
    return validate((first, first.kernels[0]), (second, second.kernels[0]))


@pytest.mark.parametrize("name", TEXTS)
def test_passes(name: str) -> None:
    plan, text = planned(name)
    proof = judged(name, text)
    assert isinstance(proof, Proved) and proof.loops == len(plan.loops)
    assert plan.rewrites or TEXTS[name][1] == "keep"


@pytest.mark.parametrize("name", NUMPY)
def test_does_what_it_did(name: str) -> None:
    text, rewritten = TEXTS[name][0], planned(name)[1]
    for block in SHAPES:
        for n in lengths(block):
            assert outputs(rewritten, block, n) == outputs(text, block, n)
    want = outputs(text, (48, 1, 1), 111)
    for seed in range(3):
        assert outputs(rewritten, (48, 1, 1), 111, seed=seed, merge_iterations=True) == want


@pytest.mark.parametrize("name", TEXTS)
def test_spoilt_texts_are_refused(name: str) -> None:
    text = planned(name)[1]
    spoilt = [(kind, each) for kind, mutate in MUTATORS.items() for each in mutate(text)]
    assert len(spoilt) >= 8
    for kind, each in spoilt:
        if isinstance(judged(name, each), Proved):
            assert (name, kind) in HARMLESS
            assert all(
                outputs(each, block, n) == outputs(TEXTS[name][0], block, n)
                for block in SHAPES
                for n in lengths(block)
            )


def test_every_kind_of_damage_is_done() -> None:
    done = {kind for name in TEXTS for kind, m in MUTATORS.items() if any(m(planned(name)[1]))}
    assert done == set(MUTATORS)


# What must show when it runs: those that change results on any machine. Loads and votes of lanes
# that have left may stay without effect.
SEEN = {
    "comes_back": "turning", "leaves_with_the_first": "sum", "all_take_part": "guards",
    "others_take_part": "guards", "branch_turned": "sum", "accumulator_of_all": "sum",
    "own_guard_alone": "guards", "store_of_all": "guards", "not_merged": "lasting",
}  # fmt: skip


@pytest.mark.parametrize("kind", SEEN)
def test_damage_shows_when_it_runs(kind: str) -> None:
    """The interpreter tells, too: another result, an access out of bounds, or no end."""
    name = SEEN[kind]
    text = TEXTS[name][0]

    def shows(spoilt: str) -> bool:
        for block in ((48, 1, 1), (7, 1, 1)):
            for n in lengths(block):
                try:
                    got = outputs(spoilt, block, n, limit=1 << 16)
                except RunError:
                    return True
                if got != outputs(text, block, n):
                    return True
        return False

    assert any(shows(each) for each in MUTATORS[kind](planned(name)[1]))
