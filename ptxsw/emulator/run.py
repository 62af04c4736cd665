"""Running a function symbolically, from its entry to a trace of its memory accesses."""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.emulator.budget import Budget
from ptxsw.emulator.emulation import Emulation
from ptxsw.emulator.state import Hook, State
from ptxsw.emulator.trace import Trace
from ptxsw.emulator.warp_values import broadcasts
from ptxsw.ptx.garbage import no_collection
from ptxsw.ptx.ir import Function, Module
from ptxsw.terms.solver import Solver
from ptxsw.terms.terms import Terms


def emulate(
    module: Module,
    function: Function,
    *,
    budget_s: float = 10.0,
    solver: Solver | None = None,
    follow: frozenset[str] = frozenset(),
    note: frozenset[str] = frozenset(),
    hook: Hook | None = None,
) -> Trace:
    """The memory trace of a function. Of instructions whose name with all modifiers is in `follow`
    it has the values that they read, too; of those in `note`, if their registers are followed
    anyway (`Trace.followed`). `hook` is told of each instruction that is run.

    Raises ParseError where its body does not parse. Past `budget_s` seconds of this thread's CPU
    time the trace holds what was found so far and `statistics.timed_out` is set; nothing may be
    concluded from it.
    """
    with no_collection(), Budget(budget_s) as budget:
        asked = solver or Solver()
        emulation = Emulation(module, function, budget, asked, follow, note=note)
        emulation.hook = hook
        emulation.machine.broadcasts.places = frozenset(broadcasts(emulation.cfg))
        trace = emulation.trace()
        if solver is None:
            asked.rest()
        return trace


def emulate_blocks(
    module: Module,
    function: Function,
    terms: Terms,
    *,
    budget_s: float = 10.0,
    track: frozenset[str] = frozenset(),
) -> tuple[Trace, Mapping[int, tuple[State, ...]]]:
    """A trace over a given table of terms, and what is known where each block begins: the states
    in which it was run, with the registers that such a trace follows, and those that instructions
    of the names in `track` have to do with. As with `emulate`, nothing may be concluded if the
    budget was too small. Raises ParseError where the body does not parse."""
    with no_collection(), Budget(budget_s) as budget:
        solver = Solver()
        emulation = Emulation(module, function, budget, solver, track, terms)
        emulation.followed = frozenset()  # nobody asks what instructions have read
        emulation.entries = {}
        emulation.machine.broadcasts.places = frozenset(broadcasts(emulation.cfg))
        trace = emulation.trace()
        solver.rest()
        return trace, {n: tuple(e) for n, e in emulation.entries.items()}
