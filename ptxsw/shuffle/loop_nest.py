"""A loop that is to become uniform with those inside it, and what the code of such a nest does.

Blocks are numbered as in the flow graph, instructions by their positions in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from msgspec import Struct, field

from ptxsw import isa
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import Facts, liveness
from ptxsw.flow.flow_graph import Loop
from ptxsw.ir import Instruction, Mem, Reg, Symbol

ACCESSES = frozenset({
    "ld", "ldu", "st", "tex", "tld4", "suld", "sust", "prefetch", "prefetchu",
})  # fmt: skip
"""Opcodes that touch memory and may be made under a predicate, in a lane that has left."""


class RefusedNest(Exception):
    """The reason why a loop stays as it is."""


class LoopShape(Struct, frozen=True):
    """A loop to be made uniform, by blocks."""

    loop: Loop
    start: int  # ends with the branch that takes lanes past the loop, or leads to the loop
    enters: bool | None
    lead: tuple[int, ...]  # between that branch and the loop
    leave: int
    stays: bool
    after: int  # where lanes go from it

    @property
    def blocks(self) -> frozenset[int]:
        return self.loop.blocks.union(self.lead)


class LoopNest(Struct):
    """A loop to be made uniform and those inside it, by headers, the outermost first."""

    shapes: dict[int, LoopShape] = field(default_factory=dict)
    tainted: frozenset[Reg] = frozenset()  # may differ in lanes that have left

    @property
    def blocks(self) -> frozenset[int]:
        return next(iter(self.shapes.values())).blocks if self.shapes else frozenset()

    @property
    def votes(self) -> frozenset[int]:
        """Blocks whose last branch becomes one of the whole warp."""
        leaving = {s.leave for s in self.shapes.values()}
        return frozenset(leaving | {s.start for s in self.shapes.values() if s.enters is not None})


class NestCode:
    """The instructions of a kernel, as its nests ask for them; each is read once."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.cfg = trace, trace.cfg
        self._read: dict[int, frozenset[Reg]] = {}

    @cached_property
    def live(self) -> Mapping[int, Facts]:
        return liveness(self.cfg)

    def indices(self, number: int) -> range:
        block = self.cfg.blocks[number]
        return range(block.start, block.end)

    def last(self, number: int) -> Instruction:
        return self.cfg.instructions[self.cfg.blocks[number].end - 1]

    def sets(self, index: int) -> tuple[Reg, ...]:
        return self.cfg.written[index]

    def reads(self, index: int) -> frozenset[Reg]:
        registers = self._read.get(index)
        if registers is None:
            registers = self._read[index] = frozenset(self.cfg.read[index])
        return registers

    def line(self, index: int) -> int:
        return self.trace.module.source.line(self.cfg.instructions[index].span.start)

    def why(self, index: int, reason: str) -> str:
        return f"{reason} (line {self.line(index)})"

    def reads_behind(self, nest: LoopNest) -> Iterator[tuple[int, int, Facts]]:
        """Each instruction of a nest with the innermost of its loops, by header, and the
        registers that are read behind any of its loops."""
        around: dict[int, list[LoopShape]] = {}
        for shape in nest.shapes.values():  # outer ones first
            for number in shape.blocks:
                around.setdefault(number, []).append(shape)
        for number, shapes in sorted(around.items()):
            inmost = max(shapes, key=lambda s: s.loop.depth)
            live = frozenset[Reg]().union(*(self.live[s.after] for s in shapes))
            for index in self.indices(number):
                yield index, inmost.loop.header, live

    def tainted(self, nest: LoopNest) -> frozenset[Reg]:
        """Registers that may hold something else in lanes that have left: set under the
        predicate, or from such registers, or where a branch on one of them leads."""
        tainted: set[Reg] = set()
        for index, _, live in self.reads_behind(nest):
            if self.is_access(index) or not live.isdisjoint(self.sets(index)):
                tainted.update(self.sets(index))
        blocks = nest.blocks
        astray: set[int] = set()  # blocks that such branches lead to
        size = -1
        while size != len(tainted) + len(astray):
            size = len(tainted) + len(astray)
            for number in blocks:
                # Data: from a tainted register. Control: in a block to which a branch on one may
                # lead the wrong lanes, up to where the ways meet. A vote leads all lanes alike.
                for index in self.indices(number):
                    if number in astray or not tainted.isdisjoint(self.reads(index)):
                        tainted.update(self.sets(index))
                guard = self.last(number).guard if self.indices(number) else None
                sides = self.cfg.blocks[number].successors
                if guard is not None and guard.reg in tainted and number not in nest.votes:
                    meet = self.cfg.ipdom.get(number, -1)
                    astray |= self.cfg.reached_from(sides, {meet}) & blocks
        return frozenset(tainted)

    def is_access(self, index: int) -> bool:
        """Does it touch memory at an address that may be wrong in a lane that has left?"""
        instruction = self.cfg.instructions[index]
        if instruction.opcode not in ACCESSES:
            return False
        fixed = isa.space(instruction) in ("param", "const") and all(
            isinstance(o.base, Symbol) for o in instruction.operands if isinstance(o, Mem)
        )
        return not fixed
