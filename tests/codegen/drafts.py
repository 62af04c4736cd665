"""Texts as one scheme and form make them, straight from draft and code generation."""

from __future__ import annotations

from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.codegen.emit import emit
from ptxsw.codegen.splice import apply
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.shuffle.candidate_plan import CandidatePlan, draft
from ptxsw.shuffle.legality import Legality
from ptxsw.terms.solver import Solver


def made(
    text: str,
    scheme: str,
    form: str = "keep",
    *,
    hoist: bool = False,
    assume: frozenset[str] = frozenset({LOCKSTEP, NO_RACE}),
) -> tuple[str, CandidatePlan]:
    """The rewritten text of a module with one kernel, and what was drafted for it."""
    module = parse(text)
    (function,) = module.functions
    solver = Solver()
    trace = emulate(module, function, solver=solver)
    drafted = draft(
        trace, Legality(trace, solver, assume), scheme=scheme, form=form, max_delta=31, hoist=hoist
    )
    return apply(text, emit(text, drafted.plan)), drafted
