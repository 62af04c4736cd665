"""Inputs with which each comparison is true, and false, found by the symbolic run.

A kernel is run symbolically once; each comparison is wanted true, and false, on the path it stands
on. What the solver then says of parameters, of loaded values and of the thread becomes a launch:
a buffer holds what should be loaded from it, so every thread loads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import process_time

from msgspec import Struct

from ptxsw.emulator.run import emulate
from ptxsw.emulator.state import MemoryAccess, State
from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.isa import defs
from ptxsw.terms import op
from ptxsw.terms.node import Term, split
from ptxsw.terms.origin import Origin
from ptxsw.terms.solver import Solver
from ptxsw.verify.parameters import pointer_of

_MOST_WANTED = 128
_MOST_CONDITIONS = 24
_LARGEST = 400  # nodes of a condition
SECONDS = 3.0
"""CPU time for the symbolic run, and again for the solver."""


class BranchInput(Struct, frozen=True):
    """What gives a comparison one outcome: numbers by parameter; by pointer or variable what is
    loaded through it, each with its width in bits, in the order of addresses; special registers."""

    numbers: Mapping[str, int]
    loads: Mapping[str, tuple[tuple[int, int], ...]]
    specials: Mapping[str, int]


class BranchGoal(Struct, frozen=True):
    """The truth that is wanted of conditions; the last is the comparison's."""

    conditions: tuple[tuple[Term, bool], ...]


def traced(module: Module, function: Function) -> tuple[Trace, tuple[BranchGoal, ...]]:
    """The trace of a kernel, and both outcomes of each of its comparisons."""
    goals: dict[tuple[tuple[Term, bool], ...], None] = {}
    instructions = function.body.instructions

    def note(index: int, state: State, _: MemoryAccess | None) -> None:
        if instructions[index].opcode != "setp" or len(goals) >= _MOST_WANTED:
            return
        for reg in defs(instructions[index])[:1]:
            predicate = state.env.get(reg)
            if predicate is None or predicate.kind is op.CONST or predicate.size > _LARGEST:
                continue
            path = tuple((c, True) for c in state.conditions[-_MOST_CONDITIONS:])
            for truth in (True, False):
                goals[*path, (predicate, truth)] = None

    names = frozenset(i.name for i in instructions if i.opcode == "setp")
    trace = emulate(module, function, budget_s=SECONDS, follow=names, hook=note)
    return trace, tuple(map(BranchGoal, goals))


def branch_inputs(goals: tuple[BranchGoal, ...]) -> Iterator[BranchInput]:
    """Inputs for each goal, as far as they are found within the time."""
    solver, began, seen = Solver(SECONDS), process_time(), set()
    for each in goals:
        if process_time() - began > SECONDS:
            return
        if any(n.kind is op.FLOAT for condition, _ in each.conditions for n in _parts(condition)):
            continue
        values = solver.values(each.conditions)
        found = None if values is None else _input(values)
        if found is not None and str(found) not in seen:
            seen.add(str(found))
            yield found


def _parts(condition: Term) -> Iterator[Term]:
    """The nodes of a condition outside of unknowns."""
    stack = [condition]
    while stack:
        node = stack.pop()
        yield node
        if node.kind not in op.OPAQUE:
            stack += node.args


def _input(values: Mapping[Term, int]) -> BranchInput:
    numbers: dict[str, int] = {}
    specials: dict[str, int] = {}
    loads: dict[str, list[tuple[int, int, int]]] = {}
    for term, value in values.items():
        if term.origin is Origin.PARAMETER:
            numbers[str(term.value)] = value
        elif term.origin is Origin.SPECIAL:
            specials[str(term.value)] = value
        elif term.origin is Origin.LOAD and term.args:
            name = pointer_of(term.args[0])
            if name is not None:
                offset = split(term.args[0])[0]
                loads.setdefault(name, []).append((offset, value, term.width))
    placed = {name: tuple((v, w) for _, v, w in sorted(some)) for name, some in loads.items()}
    return BranchInput(numbers, placed, specials)
