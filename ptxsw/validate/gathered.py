"""Where all lanes of a warp come together in the second text, and for whom they wait there.

    vote.sync.any.pred %go, %in, -1;       waits for every lane of the warp that has not exited
    @%go bra LOOP;                         taken: %in is true in some lane, whichever asks

Such a vote gives all lanes one answer, so the branch parts nobody, and they come together to what
follows. A lane whose own %in is false may go round with the others: it waits for a lane in which
%in is true. This file tells from the text alone where all lanes come together, and of which
predicates it is known there that they are true in some lane.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cached_property
from operator import and_

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import Convergence, waits
from ptxsw.flow.dataflow import defs, forward
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import memory_dependence
from ptxsw.ptx.ir import Instruction, Int, Reg
from ptxsw.validate.outcome import GiveUp
from ptxsw.validate.uniform_definitions import ENDS, UniformDefinitions

ALL = (Int(-1), Int(0xFFFFFFFF))
"""A member mask that names all lanes."""

_Some = frozenset[Reg]


def names_all(instruction: Instruction) -> bool:
    """Is it a vote or shuffle of all lanes, by a literal member mask?"""
    return (
        instruction.opcode in ("vote", "shfl")
        and "sync" in instruction.modifiers
        and instruction.guard is None
        and bool(instruction.operands)
        and instruction.operands[-1] in ALL
    )


class Gathered:
    """The second text, as a warp runs it. `parameters` are the kernel's, by name."""

    def __init__(self, cfg: Cfg, parameters: frozenset[str]) -> None:
        self._cfg, self._parameters = cfg, parameters

    def check(self, index: int) -> None:
        """Check a vote or shuffle that waits for all lanes: all of them must come to it, equally
        often, and none may wait before it for what another lane does after it. Raises GiveUp."""
        number = self._cfg.block_of[index]
        if number not in self._checked:
            self._checked[number] = self._problem(number)
        if self._checked[number] is not None:
            raise GiveUp(self._checked[number] or "")

    def at(self, position: int) -> bool:
        """Do all lanes come together to where a block begins?"""
        number = self._number(position)
        return number is not None and self.whole(number)

    def true_somewhere(self, position: int) -> frozenset[Reg]:
        """Predicates that are true in some lane whenever the lanes come together to where a block
        begins."""
        number = self._number(position)
        if number is None or not self.whole(number):
            return frozenset()
        return self._somewhere.get(number, frozenset())

    @cached_property
    def asked(self) -> frozenset[Reg]:
        """The predicates that all lanes vote on."""
        registers = set()
        for instruction in self._cfg.instructions:
            if instruction.opcode == "vote" and names_all(instruction):
                operand = instruction.operands[1]
                if isinstance(operand, Reg):
                    registers.add(operand)
        return frozenset(registers)

    def loop_at(self, position: int) -> Loop | None:
        """The loop whose header begins there."""
        number = self._number(position)
        return None if number is None else self._cfg.loops.get(number)

    def leave_together(self, loop: Loop) -> bool:
        """Do all lanes that have not exited leave a loop together, by whichever exit?"""
        return all(self._keeps_together(source) for source, _ in loop.exits)

    def _keeps_together(self, number: int) -> bool:
        return self.whole(number) and not self._parts(number)

    # ------------------------------------------------------------ who comes together

    @cached_property
    def _checked(self) -> dict[int, str | None]:
        return {}

    def _problem(self, number: int) -> str | None:
        if not self.whole(number):
            return "not all lanes come to a vote or shuffle that waits for all of them"
        before = self._cfg.reaching([number])
        for loop in self._cfg.loops.values():
            apart = loop.header in before and not self.leave_together(loop)
            if apart and memory_dependence(self._cfg, loop) is not None:
                return "a lane may wait for another in a loop before a vote of all lanes"
        return None

    def whole(self, number: int) -> bool:
        """Do all lanes that have not exited come together to the end of a block?"""
        answers = self._answers
        if number not in answers:
            answers[number] = self._comes(number, self._parts)
        return answers[number]

    @cached_property
    def _answers(self) -> dict[int, bool]:
        return {}

    def _comes(self, number: int, parts: Callable[[int], bool]) -> bool:
        if self._cfg.irreducible or number not in self._cfg.rank:
            return False
        return self._convergence.blocker(number, parts) is None

    @cached_property
    def _convergence(self) -> Convergence:
        return Convergence(self._cfg)

    def _parts(self, number: int) -> bool:
        """May lanes go different ways at the end of a block?"""
        return self._uniform_definitions.parts(number)

    @cached_property
    def _uniform_definitions(self) -> UniformDefinitions:
        return UniformDefinitions(self._cfg, self._parameters, names_all, self._comes)

    # ------------------------------------------------------------ true in some lane

    @cached_property
    def _somewhere(self) -> Mapping[int, _Some]:
        """For each block, the predicates known to be true in some lane when it begins: a forward
        analysis over all paths."""
        nothing: _Some = frozenset()
        return forward(self._cfg, nothing, self._through, and_)

    def _through(self, number: int, some: _Some) -> list[tuple[int, _Some]]:
        """What is known behind a block, on each edge."""
        block = self._cfg.blocks[number]
        now = set(some)
        voted: dict[Reg, Reg] = {}  # what a vote has asked, by its answer
        for index in range(block.start, block.end):
            instruction = self._cfg.instructions[index]
            told = self._told(instruction, now) if self.whole(number) else None
            for reg in defs(instruction):
                now.discard(reg)
                voted = {a: p for a, p in voted.items() if reg not in (a, p)}
            if told is not None:
                now.add(told)
            if names_all(instruction) and instruction.modifiers == ("sync", "any", "pred"):
                answer, asked = instruction.operands[:2]
                if isinstance(answer, Reg) and isinstance(asked, Reg) and answer != asked:
                    voted[answer] = asked
        if self._parts(number) and number not in self._closed:
            now = set()  # the lane in which one is true may leave the others, and exit
        last = self._cfg.instructions[block.end - 1] if block.end > block.start else None
        guard = last.guard if last is not None and last.opcode == "bra" else None
        if guard is None or guard.reg not in voted or len(block.successors) != 2:
            return [(s, frozenset(now)) for s in block.successors]
        # The side on which the vote's answer is true: there the predicate holds in some lane.
        taken = now if guard.negated else now | {voted[guard.reg]}
        fallen = now | {voted[guard.reg]} if guard.negated else now
        return list(zip(block.successors, map(frozenset, (taken, fallen)), strict=True))

    def _told(self, instruction: Instruction, now: Container[Reg]) -> Reg | None:
        """A predicate that becomes true in some lane: in all of them, or where another is."""
        if instruction.name != "mov.pred" or instruction.guard is not None:
            return None
        dest, value = instruction.operands
        true = value in (*ALL, Int(1)) or value in now
        return dest if true and isinstance(dest, Reg) else None

    @cached_property
    def _closed(self) -> frozenset[int]:
        """The blocks of loops that no lane leaves alone, and in which none exits alone."""
        ends = {
            block.number
            for block in self._cfg.blocks
            if block.end > block.start and self._cfg.instructions[block.end - 1].opcode in ENDS
        }
        return frozenset(
            number
            for loop in self._cfg.loops.values()
            if self.leave_together(loop) and all(map(self._keeps_together, ends & loop.blocks))
            for number in loop.blocks
        )

    # ------------------------------------------------------------ small things

    def _number(self, position: int) -> int | None:
        return self._starts.get(position)

    @cached_property
    def _starts(self) -> Mapping[int, int]:
        return {b.start: b.number for b in self._cfg.blocks if b.number in self._cfg.rank}


def may_be_kept(cfg: Cfg, header: int) -> str | None:
    """Why a lane in a loop, or in one inside it, may stay there until another lane that has left
    it does something; None where it cannot."""
    blocks = cfg.loops[header].blocks
    for loop in cfg.loops.values():
        if loop.header in blocks and memory_dependence(cfg, loop) is not None:
            return "when lanes leave a loop depends on memory that others may write"
    for number in blocks:
        block = cfg.blocks[number]
        if any(map(waits, cfg.instructions[block.start : block.end])):
            return "lanes wait for each other in a loop that some of them have left"
    return None
