"""What code generation makes of drafts is proved, and nothing that was spoilt since."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from benchmarks.kernelgen import operators
from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.changes.plan import Plan
from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import apply
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.shuffle.candidate_plan import draft
from ptxsw.shuffle.legality import Legality
from ptxsw.terms.solver import Solver
from ptxsw.validate import Proved
from tests.shuffle.pairs import Pair
from tests.validate.test_warp import judged
from tests.verify.mutators import MUTATORS
from tests.verify.programs import original

PTX = Path(operators.__file__).parent / "ptx"
REWRITTEN = [
    "divergence", "gameoflife", "gaussblur", "gradient", "jacobi", "lapgsrb", "laplacian",
    "tricubic", "tricubic2", "uxx1", "wave13pt", "whispering",
]  # fmt: skip


@cache
def planned(name: str, scheme: str = "paper", form: str = "keep") -> tuple[Plan, str]:
    """The plan of a KernelGen operator and the text that it makes."""
    text = (PTX / f"{name}.ptx").read_text()
    plan = drafted(text, scheme, form)
    return plan, apply(text, emit(text, plan))


def drafted(text: str, scheme: str, form: str) -> Plan:
    module = parse(text)
    solver = Solver()
    trace = emulate(module, module.functions[0], solver=solver)
    judge = Legality(trace, solver, frozenset({LOCKSTEP, NO_RACE}))
    return draft(trace, judge, scheme=scheme, form=form, max_delta=31, hoist=scheme == "halo").plan


def _cases() -> list[ParameterSet]:
    """Each operator in each scheme in one form, in turn; in the other one in the slow runs."""
    ways = product(REWRITTEN, ["paper", "early", "halo"], ["keep", "versioned"])
    return [
        pytest.param(*way, marks=[pytest.mark.slow] * (number % 4 in (1, 2)))
        for number, way in enumerate(ways)
    ]


@pytest.mark.parametrize(("name", "scheme", "form"), _cases())
def test_what_is_emitted_is_proved(name: str, scheme: str, form: str) -> None:
    plan, text = planned(name, scheme, form)
    assert plan.rewrites
    assert isinstance(judged(original(name), text), Proved)


@pytest.mark.parametrize("mutator", MUTATORS)
@pytest.mark.parametrize(
    "name", ["jacobi", pytest.param("gaussblur", marks=pytest.mark.slow), "laplacian"]
)
def test_what_is_spoilt_does_not(name: str, mutator: str) -> None:
    _, text = planned(name)
    spoilt = list(MUTATORS[mutator](text))
    assert spoilt
    for wrong in spoilt:
        assert wrong != text
        assert not isinstance(judged(original(name), wrong), Proved)


def test_a_change_beside_the_rewrites_is_found() -> None:
    _, text = planned("jacobi")
    for old, new, reason in (
        ("add.rn.f32 \t%f8, %f7, %f6;", "sub.rn.f32 \t%f8, %f7, %f6;", "memory may differ"),
        ("mov.b32 %sw_src1, %f4;", "mov.b32 %f4, %sw_src1;", "memory may differ"),
        (".param .u32 jacobi_param_0", ".param .s32 jacobi_param_0", "the parameters"),
    ):
        spoilt = text.replace(old, new, 1)
        assert spoilt != text
        outcome = judged(original("jacobi"), spoilt)
        assert not isinstance(outcome, Proved) and reason in str(outcome)
    for old, new in (("ret;", "ret;\nret;"), ("$L__BB0_5:", "$L__BB0_5:\n$L__BB0_7:")):
        assert isinstance(judged(original("jacobi"), text.replace(old, new, 1)), Proved)


IN_A_ROW = """
	ld.global.nc.f32 %f4, [%rd4];
	ld.global.nc.f32 %f5, [%rd4+4];
	ld.global.nc.f32 %f5, [%rd4];
	ld.global.nc.f32 %f5, [%rd4+8];
	ld.global.nc.f32 %f5, [%rd4+8];
	fma.rn.f32 %f1, %f4, %f5, %f1;
"""


@pytest.mark.parametrize("form", ["keep", "versioned"])
@pytest.mark.parametrize("scheme", ["paper", "early", "halo"])
def test_loads_in_a_row_may_fill_one_register(scheme: str, form: str) -> None:
    """What is added for each is told apart, though nothing of the original stands between. The last
    one counts."""
    text = Pair("", IN_A_ROW, "", "", "").text("right")
    plan = drafted(text, scheme, form)
    assert len(plan.rewrites) == 4
    made = apply(text, emit(text, plan))
    assert isinstance(judged(text, made), Proved)
    if scheme != "halo":
        *_, spoilt = MUTATORS["farther"](made)
        assert not isinstance(judged(text, spoilt), Proved)
