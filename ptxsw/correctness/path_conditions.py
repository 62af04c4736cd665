"""What has to hold for a thread that comes to one place to have passed another one before.

@%p1 bra L;  st.shared …;  L: bar.sync 0;      it has stored before the barrier where %p1 is false
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ptxsw.correctness.callees import is_known
from ptxsw.correctness.subject import Subject
from ptxsw.flow.cfg import Cfg
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction
from ptxsw.terms.node import Term

Predicates = tuple[Term, ...]
"""Conditions that all have to hold."""


class Ways:
    """The ways through one kernel."""

    def __init__(self, subject: Subject) -> None:
        self._terms = subject.trace.terms
        self._decisions = subject.trace.decisions
        self._cfg: Cfg = subject.cfg

    def passed(self, place: int, before: int) -> Predicates | None:
        """Under what a thread that comes to instruction `before` has just executed `place`, in
        the same iteration of all loops around both; None where that is not known."""
        cfg = self._cfg
        block, end = cfg.block_of[place], cfg.block_of[before]
        if block == end:
            return () if place < before else None
        needed: list[Term] = []
        while not cfg.dominates(block, end):
            above = cfg.idom[block]
            if not self._joins(block, above):
                way = self._from_dominator(block)
                if way is None:
                    return None
                needed += way
            block = above
            if block == end:
                return None  # it comes later
        return tuple(needed)

    def reached(self, place: int) -> Predicates | None:
        """Under what every thread comes to an instruction in the first iteration of the loops
        around it; None where that is not known."""
        cfg, block = self._cfg, self._cfg.block_of[place]
        needed: list[Term] = []
        while block != cfg.order[0]:
            above = cfg.idom[block]
            if not self._always_follows(block, above):
                way = self._from_dominator(block)
                if way is None:
                    return None
                needed += way
            block = above
        return tuple(needed)

    def needed(self, place: int) -> tuple[Term, ...]:
        """What holds for every thread that comes to an instruction, as far as the branches above
        it tell."""
        block, found = self._cfg.block_of[place], list[Term]()
        while block != self._cfg.order[0]:
            found += self._from_dominator(block) or ()
            block = self._cfg.idom[block]
        return tuple(found)

    def _from_dominator(self, block: int) -> list[Term] | None:
        """The condition on which control goes on from the dominator of a block to it at once."""
        cfg, above = self._cfg, self._cfg.idom[block]
        loop = cfg.loops.get(block)
        inside = loop.blocks if loop is not None else frozenset()
        if [p for p in cfg.predecessors[block] if p not in inside] != [above]:
            return None
        last = cfg.blocks[above].end - 1
        instruction = cfg.instructions[last]
        if instruction.guard is None:
            return [] if len(cfg.blocks[above].successors) == 1 else None
        decided = {v.values for v in self._decisions.get(last, ())}
        if len(decided) != 1:
            return None
        (values,) = decided
        if len(values) != 1 or not isinstance(values[0], Term):
            return None
        taken = instruction.opcode == "bra" and cfg.blocks[above].successors[0] == block
        if instruction.opcode == "bra" and len(set(cfg.blocks[above].successors)) == 1:
            return []
        return [values[0] if taken else self._terms.not_(values[0])]

    def _always_follows(self, block: int, above: int) -> bool:
        """Does every thread that comes to a block go on to another one?"""
        cfg = self._cfg
        if cfg.ipdom.get(above) != block and not self._is_behind(block, above):
            return False
        between = cfg.reached_from(cfg.blocks[above].successors, barred={block}) | {above}
        return between.isdisjoint(self._leaving)

    def _joins(self, block: int, above: int) -> bool:
        """Do the ways from a block join again at another one, without going elsewhere before?"""
        cfg = self._cfg
        between = cfg.reached_from(cfg.blocks[above].successors, barred={block})
        return (
            len(cfg.predecessors[block]) > 1
            and block not in cfg.loops
            and self._always_follows(block, above)
            and all(cfg.dominates(above, each) for each in between)
        )

    def _is_behind(self, block: int, above: int) -> bool:
        """Is a block on all ways from another one to the end?"""
        at = above
        while at in self._cfg.ipdom and self._cfg.ipdom[at] not in (at, -1):
            at = self._cfg.ipdom[at]
            if at == block:
                return True
        return False

    def may_leave(self, loops: Iterable[int]) -> bool:
        """May threads end in the middle of some loops?"""
        return any(not self._leaving.isdisjoint(self._cfg.loops[h].blocks) for h in loops)

    @cached_property
    def _leaving(self) -> frozenset[int]:
        """Blocks in which threads may end that do not all end there, or in what these call."""
        cfg = self._cfg
        return frozenset(
            cfg.block_of[at] for at in cfg.indices(cfg.order) if _may_end(cfg.instructions[at])
        )


def _may_end(instruction: Instruction) -> bool:
    if instruction.opcode == "call":
        return not is_known(instruction)
    return instruction.guard is not None and isa.has(instruction, isa.Trait.LEAVE)
