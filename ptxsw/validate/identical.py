"""Blocks that are the same in both texts: equal registers and equal memory make equal ones."""

from __future__ import annotations

from ptxsw.analysis.instruction_kinds import Kind, kind, meets
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ir import Instruction
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.images import Images
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.text import Text


def prove_identical(context: ProofContext, pair: Pair) -> bool:
    """Is the block the same in both texts, and does it go to places that correspond? Then
    equal registers and equal memory make equal registers and memory."""
    (p, q), old, new = pair, context.old, context.new
    relation, lanes = context.relation, context.waiting_lanes
    if not _same_block(old, new, p, q):
        return False
    run = old.cfg.instructions[p : old.cfg.blocks[old.block(p)].end]
    # A comparison would end in the middle of the block, where something may be claimed.
    if any(q < stop < q + len(run) for stop in context.images.stops):
        return False
    if context.layout is not None and any(map(context.layout.touches, run)):
        return False
    if relation.claims.puts_off(p):
        return False
    ends = _successors(old, new, context.images, p, q)
    if ends is None:
        return False
    # A claim that speaks only where a predicate is true says nothing where a branch has found it
    # false, unless the block sets the predicate anew.
    false = relation.claims.false_at(q)
    if false:
        false = false.difference(r.name for i in run for r in defs(i))
    if any(relation.needs_proof(end, false) for end in ends):
        return False
    if any(relation.extra.at(end) for end in ends):
        return False  # what they hold there has to be said anew
    told = relation.cut(pair) if context.lanes.gathered is not None else None
    for end in ends:
        if told is not None and lanes.arrive(end, told.new.get, told.conditions):
            context.worklist.reopen(end)
    for at, instruction in enumerate(run):
        if meets(instruction):
            context.meetings.meet(p + at, q + at, whole=False)
    for end in ends:
        context.worklist.come_to(end)
    return True


def _same_block(old: Text, new: Text, p: int, q: int) -> bool:
    """Does the block of the first text at `p` stand at `q` of the second, word for word?"""
    block = old.cfg.blocks[old.block(p)]
    first = old.cfg.instructions[p : block.end]
    second = new.cfg.instructions[q : q + len(first)]
    return (
        bool(first)
        and len(first) == len(second)
        and all(_same_instruction(old, new, a, b) for a, b in zip(first, second, strict=True))
    )


def _same_instruction(old: Text, new: Text, a: Instruction, b: Instruction) -> bool:
    if a.opcode != b.opcode or a.modifiers != b.modifiers or a.guard != b.guard:
        return False
    if a.operands != b.operands and a.opcode != "bra":
        return False
    return all(old.evaluator.width(r) == new.evaluator.width(r) for r in (*uses(a), *defs(a)))


def _successors(old: Text, new: Text, images: Images, p: int, q: int) -> list[Pair] | None:
    """The pairs of places that equal blocks go to; None where they do not correspond."""
    block = old.cfg.blocks[old.block(p)]
    last = q + block.end - block.start - 1
    if kind(old.cfg.instructions[block.end - 1]) is Kind.CONTROL:
        other = new.cfg.blocks[new.cfg.block_of[last]]
        olds = [old.cfg.blocks[n].start for n in (*block.successors, *block.table)]
        news = [new.cfg.blocks[n].start for n in (*other.successors, *other.table)]
    else:
        olds = [old.cfg.blocks[n].start for n in block.successors]
        news = [last + 1]
    if len(olds) != len(news):
        return None
    pairs = list(zip(olds, news, strict=True))
    return pairs if all(n in images.of(o) for o, n in pairs) else None
