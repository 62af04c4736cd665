"""Which branches of the second text no lanes part at: their predicates are the same in all lanes.

    setp.lt.s32 %p5, %r7, 3;               %r7 is a parameter: %p5 is the same in all lanes, here
    @%p5 bra LOOP;
    setp.lt.s32 %p5, %r1, 3;               %r1 is %tid.x: here it is not
    vote.sync.any.pred %p5, %p4, -1;       and here it is again
    shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; %r2 is what the first lane holds

What counts is the definitions that reach a read. One is alike if it is made only where all lanes
come together, with what is the same for all: constants, parameters, memory that nobody writes,
and other such definitions. All lanes come to such places in the same order. So if all definitions
that reach a read are alike, the last of them that was made is the same one in all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import cached_property, partial
from operator import or_

from ptxsw.analysis.instruction_kinds import Kind, kind
from ptxsw.flow.cfg import Cfg
from ptxsw.flow.dataflow import defs, forward, uses, writers
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int, Mem, Reg, Special, Symbol
from ptxsw.terms.node import Variance
from ptxsw.terms.specials import SPECIALS

Comes = Callable[[int, Callable[[int], bool]], bool]
"""Do all lanes come together to the end of a block, if lanes part where the function says?"""

ENDS = frozenset({"ret", "exit", "trap"})
"""Behind these a lane is gone."""

_ENTRY = -1  # stands for what a register holds before it is set


class UniformDefinitions:
    """The second text's definitions on which it depends where control goes. `parameters` are the
    kernel's; `asks_all` tells a vote or shuffle of all lanes."""

    def __init__(
        self,
        cfg: Cfg,
        parameters: frozenset[str],
        asks_all: Callable[[Instruction], bool],
        comes: Comes,
    ) -> None:
        self._cfg, self._parameters = cfg, parameters
        self._asks_all, self._comes = asks_all, comes

    def parts(self, number: int) -> bool:
        """May lanes go different ways at the end of a block?"""
        return self._may_part(number, self._uniform)

    def _may_part(self, number: int, uniform: Set[int]) -> bool:
        block = self._cfg.blocks[number]
        index = block.end - 1
        last = self._cfg.instructions[index] if block.end > block.start else None
        if last is None or last.opcode not in ("bra", "brx", "ret", "exit", "trap"):
            return len(block.successors) > 1
        if last.opcode == "brx":
            return True
        return last.guard is not None and not self._sources[index] <= uniform

    # ------------------------------------------------------------ the greatest fixed point

    @cached_property
    def _uniform(self) -> set[int]:
        """The definitions that are alike, by instruction. Assumed of all that compute, and taken
        back until nothing more falls: by the time a lane has read a register, all lanes have
        written it alike."""
        uniform = {
            index
            for index in self._sources
            if defs(self._cfg.instructions[index]) and self._is_function(index)
        }
        while True:
            while lost := {index for index in uniform if not self._sources[index] <= uniform}:
                uniform -= lost
            # Which branches diverge depends on which definitions are uniform, and these depend on
            # where lanes come together: the set shrinks until both agree.
            parts = partial(self._may_part, uniform=frozenset(uniform))
            apart = {
                number
                for number in {self._cfg.block_of[index] for index in uniform}
                if not self._comes(number, parts)
            }
            lost = {
                index
                for index in uniform
                if self._cfg.block_of[index] in apart
                or (self._is_broadcast(index) and not self._none_has_exited(index, parts))
            }
            if not lost:
                return uniform
            uniform -= lost

    def _none_has_exited(self, index: int, parts: Callable[[int], bool]) -> bool:
        """Are all lanes still there where an instruction stands? Nobody brings what a lane that has
        exited holds."""
        number = self._cfg.block_of[index]
        before = self._cfg.reaching([number])
        ahead = before if self._cfg.loops_around(number) else before - {number}
        return all(
            before.issuperset(block.successors)
            and self._cfg.instructions[block.end - 1].opcode not in ENDS
            for block in map(self._cfg.blocks.__getitem__, ahead)
            if parts(block.number)
        )

    def _is_broadcast(self, index: int) -> bool:
        """Is it a shuffle that brings all lanes what the first of them holds? Every warp has that
        lane."""
        match self._cfg.instructions[index]:
            case Instruction(opcode="shfl", operands=(Reg(), _, lane, clamp, _)) as shuffle:
                first = (lane, clamp) == (Int(0), Int(31)) and "idx" in shuffle.modifiers
                return first and self._asks_all(shuffle)
        return False

    def _answers_all(self, index: int) -> bool:
        """Does it give all lanes that come together one value, whatever they hold?"""
        instruction = self._cfg.instructions[index]
        vote = instruction.opcode == "vote" and self._asks_all(instruction)
        return vote or self._is_broadcast(index)

    def _is_function(self, index: int) -> bool:
        """Does it give the same in all lanes, if what it reads is the same?"""
        instruction = self._cfg.instructions[index]
        if self._answers_all(index):
            return True
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

    # ------------------------------------------------------------ definitions that reach reads

    @cached_property
    def _sources(self) -> Mapping[int, frozenset[int]]:
        """By branch, and by instruction on whose result one depends: all definitions that reach
        what it reads."""
        sources: dict[int, frozenset[int]] = {}
        work = [
            block.end - 1
            for block in self._cfg.blocks
            if block.end > block.start and block.number in self._cfg.rank
        ]
        work = [i for i in work if self._cfg.instructions[i].guard is not None]
        while work:
            index = work.pop()
            if index not in sources:
                sources[index] = self._reaching(index)
                work.extend(sources[index] - {_ENTRY})
        return sources

    def _reaching(self, index: int) -> frozenset[int]:
        """The definitions that reach what an instruction reads, as far as its result depends on
        it: that of a vote of all lanes does not depend on what each of them holds."""
        if self._answers_all(index):
            return frozenset()
        instruction = self._cfg.instructions[index]
        number = self._cfg.block_of[index]
        definitions: set[int] = set()
        for reg in uses(instruction):
            definitions |= self._before(reg, index, self._cfg.blocks[number].start)
        return frozenset(definitions)

    def _before(self, reg: Reg, index: int, start: int) -> frozenset[int]:
        """The definitions of a register that reach an instruction, whose block begins at
        `start`."""
        definitions: set[int] = set()
        own = (at for at in self._writers.get(reg, ()) if start <= at < index)
        for writer in reversed(list(own)):
            definitions.add(writer)
            if self._cfg.instructions[writer].guard is None:
                return frozenset(definitions)
        return self._entering(reg)[self._cfg.block_of[index]] | definitions

    @cached_property
    def _writers(self) -> Mapping[Reg, list[int]]:
        blocks = enumerate(self._cfg.block_of)
        return writers(self._cfg.written, (i for i, number in blocks if number in self._cfg.rank))

    @cached_property
    def _entered(self) -> dict[Reg, Mapping[int, frozenset[int]]]:
        return {}

    def _entering(self, reg: Reg) -> Mapping[int, frozenset[int]]:
        """By block, the definitions of a register that reach its start."""
        if reg not in self._entered:
            self._entered[reg] = self._solved(reg)
        return self._entered[reg]

    def _solved(self, reg: Reg) -> Mapping[int, frozenset[int]]:
        cfg = self._cfg
        nothing: frozenset[int] = frozenset()
        own: dict[int, tuple[frozenset[int], bool]] = {}  # in a block; do others get past them?
        for index in self._writers.get(reg, ()):
            number = cfg.block_of[index]
            before, passes = own.get(number, (nothing, True))
            if cfg.instructions[index].guard is None:
                before, passes = nothing, False
            own[number] = before | {index}, passes

        def through(number: int, entering: frozenset[int]) -> Iterator[tuple[int, frozenset[int]]]:
            last, passes = own.get(number, (nothing, True))
            out = last | entering if passes else last
            return ((successor, out) for successor in cfg.blocks[number].successors)

        return forward(cfg, frozenset({_ENTRY}), through, or_)
