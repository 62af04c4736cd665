"""Blocks that are the same in both texts: equal registers and equal memory make equal ones."""

from __future__ import annotations

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.flow.dataflow import defs, uses
from ptxsw.ir import Instruction
from ptxsw.validate.images import Images
from ptxsw.validate.starts import Pair
from ptxsw.validate.text import Text


def are_alike(old: Text, new: Text, p: int, q: int) -> bool:
    """Does the block of the first text at `p` stand at `q` of the second, word for word?"""
    block = old.cfg.blocks[old.block(p)]
    mine = old.cfg.instructions[p : block.end]
    theirs = new.cfg.instructions[q : q + len(mine)]
    return (
        bool(mine)
        and len(mine) == len(theirs)
        and all(_same(old, new, a, b) for a, b in zip(mine, theirs, strict=True))
    )


def _same(old: Text, new: Text, a: Instruction, b: Instruction) -> bool:
    if a.opcode != b.opcode or a.modifiers != b.modifiers or a.guard != b.guard:
        return False
    if a.operands != b.operands and a.opcode != "bra":
        return False
    return all(old.evaluator.width(r) == new.evaluator.width(r) for r in (*uses(a), *defs(a)))


def successors(old: Text, new: Text, images: Images, p: int, q: int) -> list[Pair] | None:
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
