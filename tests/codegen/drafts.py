"""Texts as one scheme and form make them, straight from draft and code generation."""

from __future__ import annotations

from ptxsw.codegen.edit import apply
from ptxsw.codegen.emit import emit
from ptxsw.emulator.run import emulate
from ptxsw.emulator.solver import Solver
from ptxsw.parser import parse
from ptxsw.shuffle.draft import Draft, draft
from ptxsw.shuffle.legal import LOCKSTEP, NO_RACE, Judge


def made(
    text: str,
    scheme: str,
    form: str = "keep",
    *,
    hoist: bool = False,
    assume: frozenset[str] = frozenset({LOCKSTEP, NO_RACE}),
) -> tuple[str, Draft]:
    """The rewritten text of a module with one kernel, and what was drafted for it."""
    module = parse(text)
    (function,) = module.functions
    solver = Solver()
    trace = emulate(module, function, solver=solver)
    drafted = draft(
        trace, Judge(trace, solver, assume), scheme=scheme, form=form, max_delta=31, hoist=hoist
    )
    return apply(text, emit(text, drafted.plan)), drafted
