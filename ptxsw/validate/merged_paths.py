"""Where all lanes of a warp come together in the second text, and for whom they wait there.

    vote.sync.any.pred %go, %in, -1;       waits for every lane of the warp that has not exited
    @%go bra LOOP;                         taken: %in is true in some lane, whichever asks

Such a vote gives all lanes one answer, so the branch parts nobody, and they come together to what
follows. A lane whose own %in is false may go round with the others: it waits for a lane in which
%in is true. This file tells from the text alone where all lanes come together, and of which
predicates it is known there that they are true in some lane.

    setp.lt.s32 %p5, %r7, 3;               %r7 is a parameter: %p5 is the same in all lanes, here
    @%p5 bra LOOP;
    setp.lt.s32 %p5, %r1, 3;               %r1 is %tid.x: here it is not
    vote.sync.any.pred %p5, %p4, -1;       and here it is again
    shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; %r2 is what the first lane holds

A register is the same in all lanes where on all paths it was last set only where all lanes come
together, with what is the same for all: constants, parameters, memory that nobody writes, and
other such registers. All lanes come to such places in the same order, so the last of these
instructions that was run is the same one in all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache, cached_property
from operator import and_

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.convergence import Convergence, waits
from ptxsw.flow.dataflow import Facts, ForwardAnalysis, closure, defs
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import memory_dependence
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int, Mem, Reg, Special, Symbol
from ptxsw.terms.node import Variance
from ptxsw.terms.specials import SPECIALS
from ptxsw.validate.outcome import GiveUp

ALL = (Int(-1), Int(0xFFFFFFFF))
"""A member mask that names all lanes."""
_ENDS = isa.opcodes(isa.Trait.LEAVE)
"""Behind these a lane is gone."""
_NOTHING: Facts = frozenset()


def names_all(instruction: Instruction) -> bool:
    """Is it a vote or shuffle of all lanes, by a literal member mask?"""
    return (
        instruction.opcode in ("vote", "shfl")
        and "sync" in instruction.modifiers
        and instruction.guard is None
        and bool(instruction.operands)
        and instruction.operands[-1] in ALL
    )


class UniformBranches:
    """The second text's branches at which no lanes part. `parameters` are the kernel's; `comes`: do
    all lanes come together to the end of a block, if lanes part where a function says?"""

    def __init__(
        self,
        cfg: Cfg,
        parameters: frozenset[str],
        comes: Callable[[int, Callable[[int], bool]], bool],
    ) -> None:
        self._cfg, self._parameters, self._comes = cfg, parameters, comes

    def parts(self, number: int) -> bool:
        """May lanes go different ways at the end of a block?"""
        return number in self._parting

    @cached_property
    def _parting(self) -> frozenset[int]:
        """The blocks at whose ends lanes may part. Which registers are uniform depends on where
        lanes come together, and that on which branches part them: none is taken to, until one is
        found that may."""
        parting: frozenset[int] = frozenset()
        while True:
            uniform = self._uniform_behind(parting)
            more = frozenset(n for n, held in uniform.items() if self._may_part(n, held))
            if more == parting:
                return parting
            parting = more

    def _may_part(self, number: int, uniform: Facts) -> bool:
        block = self._cfg.blocks[number]
        last = self._cfg.instructions[block.end - 1] if block.end > block.start else None
        if last is None or last.opcode not in _ENDS | {"bra", "brx"}:
            return len(block.successors) > 1
        return last.opcode == "brx" or (last.guard is not None and last.guard.reg not in uniform)

    def _uniform_behind(self, parting: frozenset[int]) -> Mapping[int, Facts]:
        """The registers that are the same in all lanes where a block ends, of those on which
        branches depend."""
        together = cache(lambda number: self._comes(number, parting.__contains__))

        def behind(number: int, held: Facts) -> Facts:
            now = set(held)
            for index in self._setters[number]:
                written = self._cfg.written[index]
                if not (self._is_uniform(index, now, parting) and together(number)):
                    now.difference_update(written)
                elif self._cfg.instructions[index].guard is None:
                    now.update(written)
            return frozenset(now)

        def through(number: int, held: Facts) -> Iterator[tuple[int, Facts]]:
            after = behind(number, held)
            return ((successor, after) for successor in self._cfg.blocks[number].successors)

        entries = ForwardAnalysis(self._cfg, _NOTHING, through, and_).everywhere()
        return {number: behind(number, held) for number, held in entries.items()}

    @cached_property
    def _setters(self) -> Mapping[int, list[int]]:
        """By block, the instructions that set what branches depend on."""
        cfg = self._cfg
        ends = (cfg.instructions[b.end - 1] for b in cfg.blocks if b.end > b.start)
        asked = closure(cfg, [last.guard.reg for last in ends if last.guard is not None])
        return {
            b.number: [at for at in range(b.start, b.end) if not asked.isdisjoint(cfg.written[at])]
            for b in cfg.blocks
        }

    def _is_uniform(self, index: int, uniform: set[Reg], parting: frozenset[int]) -> bool:
        """Does an instruction give the same in all lanes, if these come to it together? A vote of
        all lanes does, whatever each of them holds."""
        instruction = self._cfg.instructions[index]
        if _is_broadcast(instruction):
            return self._none_has_exited(index, parting)
        if instruction.opcode == "vote" and names_all(instruction):
            return True
        return uniform.issuperset(self._cfg.read[index]) and self._is_function(instruction)

    def _none_has_exited(self, index: int, parting: frozenset[int]) -> bool:
        """Are all lanes still there where an instruction stands? Nobody brings what a lane that has
        exited holds."""
        number = self._cfg.block_of[index]
        before = self._cfg.reaching([number])
        ahead = before if self._cfg.loops_around(number) else before - {number}
        return all(
            before.issuperset(block.successors)
            and self._cfg.instructions[block.end - 1].opcode not in _ENDS
            for block in map(self._cfg.blocks.__getitem__, ahead & parting)
        )

    def _is_function(self, instruction: Instruction) -> bool:
        """Does it give the same in all lanes, if what it reads is the same?"""
        plain = instruction._replace(guard=None)
        names = (o.name for o in isa.uses(plain) if isinstance(o, Special))
        if any(name not in SPECIALS or SPECIALS[name][0] is not Variance.UNIFORM for name in names):
            return False
        if kind(instruction) is Kind.COMPUTE:
            return not any(isinstance(o, Symbol) for o in instruction.operands)
        if kind(instruction) is not Kind.LOAD:
            return False
        if "nc" in instruction.modifiers or isa.space(instruction) == "const":
            return True
        bases = [o.base for o in instruction.operands if isinstance(o, Mem)]
        return isa.space(instruction) == "param" and all(
            isinstance(base, Symbol) and base.name in self._parameters for base in bases
        )


def _is_broadcast(instruction: Instruction) -> bool:
    """Is it a shuffle that brings all lanes what the first of them holds? Every warp has that
    lane."""
    match instruction:
        case Instruction(opcode="shfl", operands=(Reg(), _, Int(0), Int(31), _)):
            return "idx" in instruction.modifiers and names_all(instruction)
    return False


class MergedPaths:
    """The second text, as a warp runs it. `parameters` are the kernel's, by name."""

    def __init__(self, cfg: Cfg, parameters: frozenset[str]) -> None:
        self._cfg, self._parameters = cfg, parameters
        self._problems: dict[int, str | None] = {}
        self._whole: dict[int, bool] = {}

    def check(self, index: int) -> None:
        """Check a vote or shuffle that waits for all lanes: all of them must come to it, equally
        often, and none may wait before it for what another lane does after it. Raises GiveUp."""
        number = self._cfg.block_of[index]
        if number not in self._problems:
            self._problems[number] = self._problem(number)
        problem = self._problems[number]
        if problem is not None:
            raise GiveUp(problem)

    def true_somewhere(self, position: int) -> frozenset[Reg]:
        """Predicates that are true in some lane whenever the lanes come together to where a block
        begins."""
        number = self._starts.get(position)
        if number is None or not self.whole(number):
            return _NOTHING
        return self._somewhere.get(number, _NOTHING)

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
        return self._cfg.loops.get(self._starts.get(position, -1))

    def leave_together(self, loop: Loop) -> bool:
        """Do all lanes that have not exited leave a loop together, by whichever exit?"""
        return all(self._keeps_together(source) for source, _ in loop.exits)

    def _keeps_together(self, number: int) -> bool:
        return self.whole(number) and not self._branches.parts(number)

    # ------------------------------------------------------------ who comes together

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
        if number not in self._whole:
            self._whole[number] = self._comes(number, self._branches.parts)
        return self._whole[number]

    def _comes(self, number: int, parts: Callable[[int], bool]) -> bool:
        if self._cfg.irreducible or number not in self._cfg.rank:
            return False
        return self._convergence.blocker(number, parts) is None

    @cached_property
    def _convergence(self) -> Convergence:
        return Convergence(self._cfg)

    @cached_property
    def _branches(self) -> UniformBranches:
        return UniformBranches(self._cfg, self._parameters, self._comes)

    # ------------------------------------------------------------ true in some lane

    @cached_property
    def _somewhere(self) -> Mapping[int, Facts]:
        """For each block, the predicates known to be true in some lane when it begins: a forward
        analysis over all paths."""
        return ForwardAnalysis(self._cfg, _NOTHING, self._through, and_).everywhere()

    def _through(self, number: int, some: Facts) -> list[tuple[int, Facts]]:
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
        if self._branches.parts(number) and number not in self._closed:
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
            if block.end > block.start and self._cfg.instructions[block.end - 1].opcode in _ENDS
        }
        return frozenset(
            number
            for loop in self._cfg.loops.values()
            if self.leave_together(loop) and all(map(self._keeps_together, ends & loop.blocks))
            for number in loop.blocks
        )

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
