"""A loop that is to become uniform with those inside it, and what the code of such a nest does.

Blocks are numbered as in the flow graph, instructions by their positions in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct, field

from ptxsw.changes.plan import UniformLoop
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import Facts, closure, in_order, liveness
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import executes_every_iteration
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Mem, Reg, Symbol

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


class NestEffect(Struct, frozen=True):
    """What an instruction of a nest does."""

    index: int
    header: int  # of the innermost of the nest's loops around it
    lasts: bool  # it sets a register that is read behind any of the loops around it
    is_access: bool  # of memory, at an address that may be wrong in a lane that has left


class NestCode:
    """The instructions of a kernel, as its nests ask for them; each is read once."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.cfg = trace, trace.cfg

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

    def line(self, index: int) -> int:
        return self.trace.module.source.line(self.cfg.instructions[index].span.start)

    def why(self, index: int, reason: str) -> str:
        return f"{reason} (line {self.line(index)})"

    def effects(self, nest: LoopNest) -> Iterator[NestEffect]:
        """What each instruction of a nest does, block by block."""
        around: dict[int, list[LoopShape]] = {}
        for shape in nest.shapes.values():  # outer ones first
            for number in shape.blocks:
                around.setdefault(number, []).append(shape)
        for number, shapes in sorted(around.items()):
            inmost = max(shapes, key=lambda s: s.loop.depth)
            live = frozenset[Reg]().union(*(self.live[s.after] for s in shapes))
            for index in self.indices(number):
                lasts = not live.isdisjoint(self.sets(index))
                yield NestEffect(index, inmost.loop.header, lasts, self.is_access(index))

    def tainted(self, nest: LoopNest) -> frozenset[Reg]:
        """Registers that may hold something else in lanes that have left: set under the
        predicate, or from such registers, or where a branch on one of them leads."""
        tainted: set[Reg] = set()
        for effect in self.effects(nest):
            if effect.is_access or effect.lasts:
                tainted.update(self.sets(effect.index))
        readers: dict[Reg, list[int]] = {}
        branches: dict[Reg, list[int]] = {}  # blocks by the guards of their last instructions
        blocks, votes = nest.blocks, nest.votes
        for number in blocks:
            for index in self.indices(number):
                for reg in self.cfg.read[index]:
                    readers.setdefault(reg, []).append(index)
            guard = self.last(number).guard if self.indices(number) else None
            if guard is not None and number not in votes:
                branches.setdefault(guard.reg, []).append(number)
        astray: set[int] = set()  # blocks that branches on such registers lead to
        work = list(tainted)
        while work:
            # Data: from a tainted register. Control: in a block to which a branch on one may
            # lead the wrong lanes, up to where the ways meet. A vote leads all lanes alike.
            reg = work.pop()
            wrong = readers.pop(reg, [])
            for number in branches.get(reg, ()):
                meet = self.cfg.ipdom.get(number, -1)
                sides = self.cfg.blocks[number].successors
                more = (self.cfg.reached_from(sides, {meet}) & blocks) - astray
                astray |= more
                wrong += self.cfg.indices(more)
            for index in wrong:
                work += [reg for reg in self.sets(index) if reg not in tainted]
                tainted.update(self.sets(index))
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


_CLEARABLE = (1, 16, 32, 64)  # widths in bits of registers that `mov` can set to zero

InStep = Callable[[Loop, LoopNest], bool]
"""Do all lanes, those that have left the nest too, go round a loop inside it together?"""


def nest_plans(code: NestCode, nest: LoopNest, in_step: InStep) -> Iterator[UniformLoop]:
    inside: dict[int, set[int]] = {}
    lasting: dict[int, set[int]] = {}
    under: dict[int, set[int]] = {}
    for effect in code.effects(nest):
        inside.setdefault(effect.header, set()).add(effect.index)
        if effect.lasts:
            lasting.setdefault(effect.header, set()).add(effect.index)
        if effect.lasts or effect.is_access:
            under.setdefault(effect.header, set()).add(effect.index)
    gathered = _gathered(code, nest, in_step)
    for header, shape in nest.shapes.items():
        inner = frozenset(inside[header])
        outer = _outer(code, shape, nest)
        yield UniformLoop(
            code.cfg.blocks[header].start,
            code.cfg.blocks[shape.start].end - 1,
            shape.enters,
            code.cfg.blocks[shape.leave].end - 1,
            shape.stays,
            inner,
            frozenset(under.get(header, ())),
            frozenset(lasting.get(header, ())),
            inner & gathered,
            None if outer is None else code.cfg.blocks[outer].start,
            _cleared(code, nest) if outer is None else (),
            frozenset(
                code.cfg.blocks[h].start
                for h in nest.shapes
                if h != header and h in shape.loop.blocks
            ),
        )


def _cleared(code: NestCode, nest: LoopNest) -> tuple[Reg, ...]:
    """Registers to be cleared before the nest: only lanes inside a loop set them, but branches and
    guards depend on them in every lane. Registers that already have a value keep it."""
    inside: list[int] = []
    under: set[Reg] = set()
    for effect in code.effects(nest):
        inside.append(effect.index)
        if effect.is_access or effect.lasts:
            under.update(code.sets(effect.index))
    # In a lane that never entered the loop they would be undefined, and its branches could go
    # anywhere.
    guards = (code.cfg.instructions[index].guard for index in inside)
    wanted = closure(code.cfg, [guard.reg for guard in guards if guard is not None], inside)
    root = next(iter(nest.shapes.values()))
    behind = code.cfg.blocks[root.start].successors
    live_before = frozenset[Reg]().union(*(code.live[number] for number in behind))
    registers = in_order((wanted & under) - live_before)
    body, start = code.trace.function.body, code.cfg.blocks[root.start].end - 1
    for reg in registers:
        if not body.means(reg, start) or body.width(reg) not in _CLEARABLE:
            raise RefusedNest(f"a branch in it depends on {reg.name}, which cannot be cleared")
    return tuple(registers)


def _outer(code: NestCode, shape: LoopShape, nest: LoopNest) -> int | None:
    """The header of the uniform loop around a loop."""
    around = code.cfg.loops_around(shape.loop.header)[1:]
    return next((h for h in around if h in nest.shapes), None)


def _gathered(code: NestCode, nest: LoopNest, in_step: InStep) -> frozenset[int]:
    """The instructions of a nest that all lanes reach together, once in each iteration."""
    leads = {n for shape in nest.shapes.values() for n in shape.lead}
    kept: dict[int, bool] = {}
    positions: set[int] = set()
    for number in nest.blocks:
        header = code.cfg.loop_of.get(number)
        if number in leads:
            positions.update(code.indices(number))
            continue
        assert header is not None
        loop = code.cfg.loops[header]
        shape = nest.shapes.get(header)
        if shape is None and header not in kept:
            kept[header] = in_step(loop, nest)
        always = executes_every_iteration(code.cfg, number, loop)
        # All lanes come to the exit of a uniform loop, so what stands before it is passed even in
        # the last iteration.
        if shape is not None:
            each_iteration = code.cfg.dominates(number, shape.leave) or always
        else:
            each_iteration = kept[header] and always
        if each_iteration:
            positions.update(code.indices(number))
    return frozenset(positions)
