"""What the exits of a loop depend on: may a lane stay in it until another has done something?"""

from __future__ import annotations

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import computes
from ptxsw.flow.dataflow import in_order, uses, writers
from ptxsw.flow.flow_graph import Loop
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Reg
from ptxsw.ptx.isa import Effect, Trait

_READ_ONLY = frozenset({"const", "param", "local"})


def executes_every_iteration(cfg: Cfg, number: int, loop: Loop) -> bool:
    """Is a block run exactly once in every iteration of a loop that goes on?"""
    return cfg.loop_of[number] == loop.header and all(
        cfg.dominates(number, latch) for latch in loop.latches
    )


def ends_iterations(cfg: Cfg, number: int, loop: Loop) -> bool:
    """Does each iteration come to the end of a block and there leave the loop, or go straight back
    to the header?"""
    block = cfg.blocks[number]
    branch = cfg.instructions[block.end - 1] if block.end > block.start else None
    if branch is None or branch.opcode != "bra" or branch.guard is None:
        return False
    if sum(successor in loop.blocks for successor in block.successors) != 1:
        return False
    if len(block.successors) != 2 or not all(cfg.dominates(number, n) for n in loop.latches):
        return False
    # Nothing may be computed on the way back: the condition is then also one about the registers
    # as the next iteration begins.
    for _ in loop.blocks:
        inside = [n for n in cfg.blocks[number].successors if n in loop.blocks]
        if len(inside) != 1:
            return False
        (number,) = inside
        if number == loop.header:
            return True
        block = cfg.blocks[number]
        if any(i.opcode != "bra" for i in cfg.instructions[block.start : block.end]):
            return False
    return False


def waits_for_mbarrier(cfg: Cfg, loop: Loop) -> bool:
    """Does a loop do nothing but ask whether an mbarrier's phase is over?"""
    instructions = [cfg.instructions[index] for index in cfg.indices(loop.blocks)]
    polls = [isa.has(instruction, Trait.POLLS) for instruction in instructions]
    return any(polls) and all(
        poll or _is_idle(instruction) for poll, instruction in zip(polls, instructions, strict=True)
    )


def _is_idle(instruction: Instruction) -> bool:
    """Does an instruction touch no memory and signal nobody?"""
    effects = isa.effects(instruction.opcode, instruction.modifiers)
    return isa.known(instruction) and not effects & ~Effect.BRANCH


def memory_dependence(cfg: Cfg, loop: Loop) -> int | None:
    """An instruction of a loop that its exits depend on and that may give something else when
    another thread has gone on: an access of memory that is not read-only, an atomic."""
    written_at = writers(cfg.written, cfg.indices(loop.blocks))
    choices: set[Reg] = set()
    for block in (cfg.blocks[number] for number in loop.blocks):
        if len(block.successors) > 1:
            choices.update(uses(cfg.instructions[block.end - 1]))
    sources = [source for source, _ in loop.exits]
    asked = frozenset().union(*(uses(cfg.instructions[cfg.blocks[n].end - 1]) for n in sources))
    work = in_order(asked)  # so that it is the same instruction in each run
    # Whether an exit is come to at all depends on the branches of the loop, too.
    if not all(executes_every_iteration(cfg, n, loop) for n in sources):
        work += in_order(choices)
    seen = set(work)
    while work:
        for index in written_at.get(work.pop(), ()):
            instruction = cfg.instructions[index]
            if not _steady(instruction):
                return index
            more = set(uses(instruction))
            if not executes_every_iteration(cfg, cfg.block_of[index], loop):
                more |= choices  # which value the register has depends on the way
            work.extend(in_order(more - seen))
            seen |= more
    return None


def _steady(instruction: Instruction) -> bool:
    """Is its result independent of what other threads do?"""
    if computes(instruction):
        return True
    if isa.effects(instruction.opcode, instruction.modifiers) != Effect.READ:
        return False
    return "nc" in instruction.modifiers or isa.space(instruction) in _READ_ONLY
