"""A `*.sync` instruction of a warp waits for the lanes that its mask names, and a shuffle reads
them (PTX ISA 9.7.9.6, 9.7.13.2): each has to come, in the same iteration.

    shfl.sync.down.b32 %r2, %r1, 16, 31, -1;     behind a branch that parts lanes: some never come

Lanes that have ended may be named, but not read. So may lanes that the last warp of a block does
not have: a shuffle is right for whole warps only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import prod

from ptxsw.analysis.coalescing import LANES
from ptxsw.correctness.barriers import EVERY_LANE
from ptxsw.correctness.block_values import same_in_warps
from ptxsw.correctness.lane_tiles import stays_inside, tile_bits
from ptxsw.correctness.subject import Subject
from ptxsw.correctness.verdict import Proof, Suspect
from ptxsw.flow.convergence import Convergence, waits_for
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.ptx.isa import Trait
from ptxsw.terms.node import Variance

RULE = "warp-mask"


def occurs(subject: Subject) -> bool:
    return any(map(is_masked, subject.cfg.instructions))


def is_masked(instruction: Instruction) -> bool:
    """Does it wait for the lanes of a mask?"""
    if "sync" not in instruction.modifiers:
        return False
    return isa.has(instruction, Trait.MASKED) or (
        isa.has(instruction, Trait.BARRIER) and "warp" in instruction.modifiers
    )


def prove(subject: Subject) -> Proof:
    cfg = subject.cfg
    graph = Convergence(cfg, lambda index: tile_bits(subject, index) is not None)
    parts = cache(lambda branch: _parts_lanes(subject, branch))
    open_: list[Suspect] = []
    reads = False
    for index, instruction in enumerate(cfg.instructions):
        if not is_masked(instruction) or cfg.block_of[index] not in cfg.rank:
            continue
        why = _stray(subject, graph, index, parts)
        reads |= instruction.opcode == "shfl"
        if not why and instruction.opcode == "shfl":
            why = _reads_ended(subject, index, parts)
        if why:
            open_.append(Suspect(RULE, index, why=f"line {subject.line(index)}: {why}"))
    if open_ or not reads:
        return Proof(tuple(open_))
    if subject.shape is None:
        return Proof(condition="blocks are whole warps")
    if prod(subject.shape) % LANES:
        last = next(_shuffles(subject))
        return Proof((Suspect(RULE, last, why="the last warp of a block is not whole"),))
    return Proof()


def _shuffles(subject: Subject) -> Iterator[int]:
    instructions = subject.cfg.instructions
    return (index for index, one in enumerate(instructions) if one.opcode == "shfl")


def _parts_lanes(subject: Subject, branch: int) -> bool:
    """May lanes of a warp go different ways at a branch?"""
    trace, shape = subject.trace, subject.shape
    if trace.branches.get(branch, Variance.UNIFORM) is Variance.UNIFORM:
        return False
    decided = trace.decisions.get(branch, ())
    values = [value for decision in decided for value in decision.values]
    if shape is None or len(decided) != 1 or not values:
        return True
    return not all(
        isinstance(value, int) or same_in_warps(trace.terms, value, shape) for value in values
    )


def _stray(subject: Subject, graph: Convergence, index: int, parts: Callable[[int], bool]) -> str:
    """Why not all lanes that its mask names may come to an instruction together; "" if they do."""
    cfg, instruction = subject.cfg, subject.cfg.instructions[index]
    mask, bits = subject.cfg.literal(waits_for(instruction)), tile_bits(subject, index)
    if bits is None and mask is None:
        return "its mask is computed"
    if bits is None and mask is not None:
        return f"its mask {mask & EVERY_LANE:#x} names some lanes only"
    if instruction.opcode == "shfl" and bits and not stays_inside(subject, index, bits):
        return "it may read lanes beyond its mask"
    if instruction.guard is not None:
        return "its guard may part lanes"
    if cfg.irreducible:
        return "the control flow around it has loops with several entries"
    blocker = graph.blocker(cfg.block_of[index], lambda n: parts(cfg.blocks[n].end - 1))
    return "" if blocker is None else f"{blocker.reason} (line {subject.line(blocker.index)})"


def _reads_ended(subject: Subject, index: int, parts: Callable[[int], bool]) -> str:
    """Why a shuffle may read a lane that has ended; "" if none has by then."""
    cfg = subject.cfg
    before = cfg.reaching([cfg.block_of[index]])
    for number in sorted(before):
        block = cfg.blocks[number]
        branch = block.end - 1
        lost = [s for s in block.successors if s not in before]
        leaves = block.end > block.start and isa.has(cfg.instructions[branch], Trait.LEAVE)
        if (lost or leaves) and cfg.block_of[index] != number and parts(branch):
            return f"lanes that end at line {subject.line(branch)} may be read"
    return ""
