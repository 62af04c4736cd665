"""The local check passes what code generation makes, and nothing that was spoilt since."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from benchmarks.kernelgen import operators
from ptxsw.codegen.edit import apply
from ptxsw.codegen.emit import emit
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.parser import parse
from ptxsw.shuffle.draft import draft
from ptxsw.shuffle.legal import LOCKSTEP, NO_RACE, Judge
from ptxsw.shuffle.plan import Plan
from ptxsw.verify.local import check
from tests.verify.mutators import MUTATORS

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
    judge = Judge(trace, solver, frozenset({LOCKSTEP, NO_RACE}))
    return draft(trace, judge, scheme=scheme, form=form, max_delta=31, hoist=scheme == "halo").plan


@pytest.mark.parametrize("form", ["keep", "versioned"])
@pytest.mark.parametrize("scheme", ["paper", "early", "halo"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_what_is_emitted_passes(name: str, scheme: str, form: str) -> None:
    plan, text = planned(name, scheme, form)
    assert plan.rewrites
    assert check(plan, parse(text)) is None


@pytest.mark.parametrize("mutator", MUTATORS)
@pytest.mark.parametrize("name", ["jacobi", "gaussblur", "laplacian"])
def test_what_is_spoilt_does_not(name: str, mutator: str) -> None:
    plan, text = planned(name)
    spoilt = list(MUTATORS[mutator](text))
    assert spoilt
    for wrong in spoilt:
        assert wrong != text
        assert check(plan, parse(wrong)) is not None


def test_a_change_beside_the_rewrites_is_found() -> None:
    plan, text = planned("jacobi")
    for old, new, reason in (
        ("add.rn.f32 \t%f8, %f7, %f6;", "sub.rn.f32 \t%f8, %f7, %f6;", "an instruction of"),
        ("ret;", "ret;\nret;", "an instruction of"),
        ("mov.b32 %sw_src1, %f4;", "mov.b32 %f4, %sw_src1;", "writes %f4"),
        ("$L__BB0_5:", "$L__BB0_5:\n$L__BB0_7:", "labels"),
        (".param .u32 jacobi_param_0", ".param .s32 jacobi_param_0", "the parameters"),
    ):
        spoilt = text.replace(old, new, 1)
        assert spoilt != text
        problem = check(plan, parse(spoilt))
        assert problem is not None and reason in str(problem)
