"""Blocks that are the same in both texts: equal registers and equal memory make equal ones."""

from __future__ import annotations

from collections.abc import Sequence

from ptxsw.analysis.instruction_kinds import Kind, kind, meets
from ptxsw.flow.dataflow import defs
from ptxsw.ptx.ir import Instruction
from ptxsw.validate.cut_point_map import CutPointMap
from ptxsw.validate.edit_map import Pair
from ptxsw.validate.proof_context import ProofContext
from ptxsw.validate.text import Text


def prove_identical(context: ProofContext, pair: Pair) -> bool:
    """Are both texts the same to the end of the block, and do they go to places that correspond?
    Then equal registers and equal memory make equal registers and memory."""
    (p, q), old, new = pair, context.basis.old, context.basis.new
    relation, run = context.relation, _rest(context.basis.old, p)
    if not _same_code(old, new, p, q, len(run)):
        return False
    # A comparison would end in the middle of the block, where something may be claimed.
    if any(q < stop < q + len(run) for stop in context.images.stops):
        return False
    if context.layout is not None and any(map(context.layout.touches, run)):
        return False
    ends = _successors(old, new, context.images, p, q)
    if relation.claims.puts_off(p) or ends is None:
        return False
    # A claim that speaks only where a predicate is true says nothing where a branch has found it
    # false, unless the block sets the predicate anew.
    false = relation.claims.false_at(q)
    if false:
        false = false.difference(r.name for i in run for r in defs(i))
    # What registers of the second text alone hold there has to be said anew.
    if any(relation.needs_proof(end, false) or relation.extra.at(end) for end in ends):
        return False
    for at, instruction in enumerate(run):
        if meets(instruction):
            context.barrier_pairs.meet(p + at, q + at, whole=False)
    for end in ends:
        context.worklist.come_to(end)
    return True


def _rest(text: Text, position: int) -> Sequence[Instruction]:
    """A block's instructions from a position on; none of an empty block at the very end."""
    if position >= len(text.cfg.instructions):
        return ()
    block = text.cfg.blocks[text.cfg.block_of[position]]
    return text.cfg.instructions[position : block.end]


def _same_code(old: Text, new: Text, p: int, q: int, count: int) -> bool:
    """Do some instructions of the first text, from `p` on, stand at `q` of the second, word for
    word?"""
    first = old.cfg.instructions[p : p + count]
    second = new.cfg.instructions[q : q + count]
    if not count or len(second) != count or not all(map(_is_same, first, second)):
        return False
    parts = (*old.cfg.read[p : p + count], *old.cfg.written[p : p + count])
    registers = frozenset(reg for part in parts for reg in part)
    return all(old.evaluator.width(r) == new.evaluator.width(r) for r in registers)


def _is_same(a: Instruction, b: Instruction) -> bool:
    """Word for word, but for where a branch goes?"""
    if a[:4] == b[:4]:  # all but where it stands
        return True
    named = a.opcode == b.opcode == "bra"
    return named and a.modifiers == b.modifiers and a.guard == b.guard


def _successors(old: Text, new: Text, images: CutPointMap, p: int, q: int) -> list[Pair] | None:
    """The pairs of places that equal blocks go to; None where they do not correspond."""
    block = old.cfg.blocks[old.cfg.block_of[p]]
    last = q + block.end - p - 1
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
