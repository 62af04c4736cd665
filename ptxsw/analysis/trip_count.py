"""How often a loop goes round, as a number.

It is counted where its counter starts as a literal and is compared with one. Counted loops end in
every lane, even in one whose other registers hold arbitrary values. Of others the most may be
known: the rest of an unrolled loop, `n & 3` iterations, or `s /= 2` from the size of a block on.
Where nothing is known, `TRIPS` are assumed. (Bounds over parameters: `facts.iteration_bounds`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ptxsw.emulator.recurrences import Iterations
from ptxsw.emulator.state import State
from ptxsw.emulator.symbolic_machine import SymbolicMachine
from ptxsw.emulator.trace import Trace
from ptxsw.facts.conditions import decided
from ptxsw.facts.grid import Grid
from ptxsw.facts.ranges import most_trips
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import Facts, closure, defs
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import executes_every_iteration
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Function, Instruction, Module
from ptxsw.terms import op
from ptxsw.terms.evaluate import evaluate
from ptxsw.terms.node import Term, unknowns
from ptxsw.terms.terms import Terms

TRIPS: Final = 16
"""Iterations of a loop if no launch is known: a guess, the same everywhere, so that counts can be
compared."""
_MOST_NESTED = 3  # loops deeper inside count no more: the figures stay comparable
MOST_ITERATIONS = 1024
"""Loops of more iterations are not counted."""
_MOST_STEPS = 1 << 14
_MOST_BLOCKS = 8  # before the loop, in which its counter may start


def times_in_loops(depth: int) -> float:
    """How often a warp is assumed to run code at this loop depth."""
    return float(TRIPS ** min(_MOST_NESTED, depth))


def iterations(trace: Trace, loop: Loop) -> int | None:
    """How often a loop's body is run, if that is fixed by literals in the code; None where it is
    not, or not seen to be."""
    return counted_iterations(trace.module, trace.function, trace.cfg, loop)


def most_iterations(trace: Trace, loop: Loop, sizes: Mapping[str, int]) -> int | None:
    """How often a loop's body is run at most, where blocks have some sizes; None where that may be
    any number."""
    label = trace.cfg.name(loop.header)
    bounds = [_most_values(trace, label, sizes), _most_counted(trace, label)]
    return min((bound for bound in bounds if bound is not None), default=None)


def _most_values(trace: Trace, label: str, sizes: Mapping[str, int]) -> int | None:
    """By what a register such as `s *= 2` holds in each iteration."""
    for atom, counted in trace.iterations.items():
        if atom.of[0] == label:
            for number, iteration in enumerate(counted, 1):
                if number_of(iteration.again, sizes) == 0:
                    return number
    return None


def _most_counted(trace: Trace, label: str) -> int | None:
    """By where its counter starts and ends."""
    terms = trace.terms
    grid = Grid.of(trace, {}, lambda claim, given: bool(decided(terms, claim, tuple(given))))
    return most_trips(grid, label)


def values_in(counted: Iterations, sizes: Mapping[str, int]) -> tuple[list[int], bool]:
    """A register's values in the iterations of a loop, as long as another may follow, and whether
    it is known when none does; no values where they depend on what only the run knows."""
    values: list[int] = []
    for iteration in counted:
        value = number_of(iteration.value, sizes)
        if value is None:
            return [], False
        values.append(value)
        if number_of(iteration.again, sizes) == 0:
            return values, True
    return values, False


def number_of(term: Term, sizes: Mapping[str, int]) -> int | None:
    """The value of a term in which there is nothing but sizes of the block."""
    leaves = unknowns(term)
    if any(leaf.value not in sizes for leaf in leaves):
        return None
    return evaluate(term, {leaf: sizes[leaf.value] for leaf in leaves})


def counted_iterations(module: Module, function: Function, cfg: Cfg, loop: Loop) -> int | None:
    """The same of a kernel that was not run symbolically."""
    sources = {source for source, _ in loop.exits}
    if len(sources) != 1 or cfg.loop_of[(leave := sources.pop())] != loop.header:
        return None
    branch = cfg.instructions[cfg.blocks[leave].end - 1]
    if branch.guard is None or branch.opcode != "bra":
        return None
    stays = cfg.blocks[leave].successors[0] in loop.blocks
    wanted = _wanted(cfg, loop, branch)
    inside = _each_iteration(cfg, loop, leave, wanted)
    if inside is None:
        return None
    machine = SymbolicMachine(module, function, Terms())
    return _count(machine, cfg, loop, branch, stays, inside, wanted)


def _wanted(cfg: Cfg, loop: Loop, branch: Instruction) -> Facts:
    """The registers set in the loop that the branch depends on."""
    assert branch.guard is not None
    return closure(cfg, (branch.guard.reg,), cfg.indices(loop.blocks))


def _each_iteration(
    cfg: Cfg, loop: Loop, leave: int, wanted: Facts
) -> list[tuple[int, bool]] | None:
    """The instructions that set the wanted registers, in order, each with whether it stands
    before the exit; None where one is not made once in every iteration."""
    steps: list[tuple[int, bool]] = []
    for number in cfg.in_order(loop.blocks):
        block = cfg.blocks[number]
        for index in range(block.start, block.end):
            instruction = cfg.instructions[index]
            if wanted.isdisjoint(defs(instruction)):
                continue
            # The exit may be in the middle: the last iteration runs only what stands before it.
            before = cfg.dominates(number, leave)
            behind = before or cfg.dominates(leave, number)
            if not behind or not executes_every_iteration(cfg, number, loop):
                return None
            if not _plain(instruction):
                return None
            steps.append((index, before))
    return steps


def _plain(instruction: Instruction) -> bool:
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return instruction.guard is None and not effects and isa.space(instruction) is None


def _count(
    machine: SymbolicMachine,
    cfg: Cfg,
    loop: Loop,
    branch: Instruction,
    stays: bool,
    inside: list[tuple[int, bool]],
    wanted: Facts,
) -> int | None:
    """Run the wanted instructions iteration by iteration, from the values before the loop, and
    count until the branch leaves."""
    state = State({})
    leading = _leading(cfg, loop)
    steps = {i: machine.prepare(cfg.instructions[i], wanted) for i in (*leading, *dict(inside))}

    def run(indices: Iterable[int]) -> None:
        for index in indices:
            if (step := steps[index]) is not None:
                machine.run(step, state, index)

    run(leading)
    for iteration in range(1, min(MOST_ITERATIONS, _MOST_STEPS // max(1, len(inside))) + 1):
        run(index for index, before in inside if before)
        taken = machine.guard(state, branch)
        if taken.kind is not op.CONST:
            return None
        if bool(taken.value) != stays:
            return iteration
        run(index for index, before in inside if not before)
    return None


def _leading(cfg: Cfg, loop: Loop) -> list[int]:
    """The instructions that every lane runs right before the loop, in order."""
    chain: list[int] = []
    ahead = [p for p in cfg.predecessors[loop.header] if p not in loop.blocks]
    while len(ahead) == 1 and len(chain) < _MOST_BLOCKS:
        chain.insert(0, ahead[0])
        ahead = list(cfg.predecessors[ahead[0]])
    return cfg.indices(chain)
