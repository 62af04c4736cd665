"""Which loops may become uniform: driven by a vote of all lanes, a predicate `in` for each.

A lane that has left such a loop goes on round it with the others and must do no harm. The rules,
each with a reason where it fails, are those of `docs/soundness.md`:

1. The loop has one exit, which every turn passes, and is entered from one place.
2. All lanes come together to the branch that takes some of them past the loop, or to the loop.
3. Its instructions compute, or are weak loads and stores: these are made only under `in`, as is
   whatever sets a register that is read behind the loop.
4. Loops inside it end in lanes that have left it, too: they go round a fixed number of times, or
   as often as in the other lanes, or become uniform themselves.
5. No lane's leaving depends on memory that another may write after it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct, field

from ptxsw import isa
from ptxsw.analysis.trip_count import turns
from ptxsw.emulator.node import Variance
from ptxsw.emulator.trace import Trace
from ptxsw.flow.cfg import Loop
from ptxsw.flow.convergence import blocks_before, blocks_behind, computes, convergence_blocker
from ptxsw.flow.dataflow import Facts, defs, liveness, uses
from ptxsw.flow.loop_exits import executes_every_iteration, memory_dependence
from ptxsw.ir import Instruction, Mem, Reg, Symbol
from ptxsw.isa import Effect
from ptxsw.plan import UniformLoop

MOST_LOOPS = 64
"""Loops of a kernel that are looked at."""

_FIRST_VERSION = (6, 0)  # vote.sync
_FIRST_ARCH = 70  # lanes with a program counter each
_ACCESSES = frozenset({
    "ld", "ldu", "st", "tex", "tld4", "suld", "sust", "prefetch", "prefetchu",
})  # fmt: skip
_CLEARABLE = (1, 16, 32, 64)


class RefusedLoop(Struct, frozen=True):
    """A loop that lanes leave apart and that stays as it is. `header` is the position of its
    first instruction."""

    header: int
    reason: str


class LoopChoices(Struct, frozen=True):
    """The loops of a kernel that lanes may leave in different turns."""

    made: tuple[UniformLoop, ...]  # outer ones first
    kept: tuple[RefusedLoop, ...]


def uniform_loops(trace: Trace) -> LoopChoices:
    """The loops that may become uniform, and why the others may not. Loops that all lanes leave
    together anyway are neither."""
    return _Finder(trace).run()


class _Refused(Exception):
    """The reason why a loop stays as it is."""


class _Shape(Struct, frozen=True):
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


class _Nest(Struct):
    """A loop to be made uniform and those inside it, by headers, the outermost first."""

    shapes: dict[int, _Shape] = field(default_factory=dict)
    tainted: frozenset[Reg] = frozenset()  # may differ in lanes that have left

    @property
    def blocks(self) -> frozenset[int]:
        return next(iter(self.shapes.values())).blocks if self.shapes else frozenset()

    @property
    def votes(self) -> frozenset[int]:
        """Blocks whose last branch becomes one of the whole warp."""
        found = {s.leave for s in self.shapes.values()}
        return frozenset(found | {s.start for s in self.shapes.values() if s.enters is not None})


class _Finder:
    def __init__(self, trace: Trace) -> None:
        self._trace, self._cfg = trace, trace.cfg
        self._written: dict[int, tuple[Reg, ...]] = {}
        self._read: dict[int, frozenset[Reg]] = {}

    @cached_property
    def _live(self) -> Mapping[int, Facts]:
        return liveness(self._cfg)

    def run(self) -> LoopChoices:
        cfg = self._cfg
        outer_first = sorted(cfg.loops.values(), key=lambda lp: (lp.depth, cfg.rank[lp.header]))
        varying = [lp for lp in outer_first if lp.header not in self._trace.uniform_loops]
        made: list[UniformLoop] = []
        kept: list[RefusedLoop] = []
        settled: set[int] = set()
        unfit = self._unfit()
        for number, loop in enumerate(varying):
            if loop.header in settled:
                continue
            try:
                if unfit is not None:
                    raise _Refused(unfit)
                if number >= MOST_LOOPS:
                    raise _Refused(f"the kernel has more than {MOST_LOOPS} such loops")
                nest = self._nest(loop)
                planned = list(self._planned(nest))
            except _Refused as refused:
                kept.append(RefusedLoop(cfg.blocks[loop.header].start, str(refused)))
                continue
            made.extend(planned)
            settled.update(lp.header for lp in varying if lp.header in loop.blocks)
        return LoopChoices(tuple(made), tuple(kept))

    def _unfit(self) -> str | None:
        """Why no loop of the kernel can become uniform."""
        trace, module = self._trace, self._trace.module
        if trace.statistics.timed_out:
            return "the symbolic run of the kernel took too long"
        if trace.function.kind != "entry":
            return "it is not known which lanes call a device function together"
        if module.version < _FIRST_VERSION or module.sm < _FIRST_ARCH:
            return f"it needs .version 6.0 and sm_{_FIRST_ARCH}"
        if self._cfg.irreducible:
            return "the kernel jumps into the middle of a loop"
        return None

    # ------------------------------------------------------------ a loop and those inside

    def _nest(self, loop: Loop) -> _Nest:
        """The loop with those inside it that have to become uniform, too."""
        nest = _Nest()
        nest.shapes[loop.header] = self._shape(loop, nest)
        inner = [lp for lp in self._cfg.loops.values() if lp.header in loop.blocks]
        inner = [lp for lp in reversed(inner) if lp.header != loop.header]  # outer ones first
        while True:
            nest.tainted = self._tainted(nest)
            more = [
                lp
                for lp in inner
                if lp.header not in nest.shapes and not self._ends_alike(lp, nest)
            ]
            for found in more:
                nest.shapes[found.header] = self._inner(found, nest)
            if not more:
                break
        for header in [h for h in nest.shapes if h != loop.header]:
            self._inner(self._cfg.loops[header], nest)  # once more: others may part lanes now
        nest.shapes = dict(sorted(nest.shapes.items(), key=lambda item: item[1].loop.depth))
        return nest

    def _inner(self, loop: Loop, nest: _Nest) -> _Shape:
        try:
            return self._shape(loop, nest)
        except _Refused as refused:
            line = self._line(self._cfg.blocks[loop.header].start)
            raise _Refused(
                f"the loop inside it (line {line}) cannot be uniform: {refused}"
            ) from None

    def _ends_alike(self, loop: Loop, nest: _Nest) -> bool:
        """Does a loop inside end in lanes that have left the nest, though it stays as it is?"""
        return turns(self._trace, loop) is not None or self._in_step(loop, nest)

    def _in_step(self, loop: Loop, nest: _Nest) -> bool:
        """Do all lanes, those that have left the nest too, go round a loop together?"""
        if loop.header not in self._trace.uniform_loops:
            return False
        for source, _ in loop.exits:
            guard = self._last(source).guard
            if guard is None or guard.reg in nest.tainted:
                return False
        return convergence_blocker(self._cfg, loop.header, self._parts(nest)) is None

    # ------------------------------------------------------------ one loop

    def _shape(self, loop: Loop, nest: _Nest) -> _Shape:
        """The loop's place in the flow. Raises _Refused."""
        leave, after, stays = self._exit(loop)
        self._no_wait_for_memory(loop)
        voting = _Nest({**nest.shapes, -1: _Shape(loop, -1, None, (), leave, stays, after)})
        voting.tainted = nest.tainted
        start, enters, lead = self._entry(loop, after, voting)
        shape = _Shape(loop, start, enters, lead, leave, stays, after)
        for number in sorted(shape.blocks):
            for index in self._indices(number):
                self._fits(index)
        return shape

    def _exit(self, loop: Loop) -> tuple[int, int, bool]:
        """Rule 1: the block that lanes leave from, where they go, and the side that stays."""
        if len(loop.exits) != 1:
            many = "it has several exits" if loop.exits else "it has no exit"
            raise _Refused(many)
        ((leave, after),) = loop.exits
        last = self._last(leave)
        if last.opcode != "bra" or last.guard is None:
            raise _Refused(f"{last.name} leaves it")
        if not executes_every_iteration(self._cfg, leave, loop):
            raise _Refused("not every iteration passes its exit")
        return leave, after, self._cfg.blocks[leave].successors[0] in loop.blocks

    def _entry(
        self, loop: Loop, after: int, nest: _Nest
    ) -> tuple[int, bool | None, tuple[int, ...]]:
        """Rules 1 and 2: where `in` starts, and the blocks between there and the loop."""
        cfg = self._cfg
        outside = [p for p in cfg.predecessors[loop.header] if p not in loop.blocks]
        if len(outside) != 1 or not self._indices(outside[0]):
            raise _Refused("it is entered from several places")
        parts = self._parts(nest)
        block = outside[0]
        apart = convergence_blocker(cfg, block, parts)
        if apart is None and not parts(block):
            self._none_waits_before(block, nest)
            return block, None, ()
        lead: list[int] = []
        while apart is not None and len(cfg.blocks[block].successors) == 1:
            lead.insert(0, block)
            if len(cfg.predecessors[block]) != 1:
                raise _Refused(self._why(apart.index, apart.reason))
            block = cfg.predecessors[block][0]
            apart = convergence_blocker(cfg, block, parts)
        if apart is not None:
            raise _Refused(self._why(apart.index, apart.reason))
        self._none_waits_before(block, nest)
        return block, self._guard(block, [*lead, loop.header][0], after), tuple(lead)

    def _guard(self, block: int, entered: int, after: int) -> bool:
        """The branch that takes lanes past the loop: does its taken side enter?"""
        last, sides = self._last(block), self._cfg.blocks[block].successors
        if last.opcode != "bra" or last.guard is None or len(sides) != 2:
            raise _Refused(f"{last.name} leads to it")
        enters = sides[0] == entered
        if self._landing(sides[1] if enters else sides[0]) != self._landing(after):
            line = self._line(self._cfg.blocks[block].end - 1)
            raise _Refused(f"lanes that bypass it (line {line}) do not continue behind it")
        return enters

    def _landing(self, number: int) -> int:
        """The first block behind an edge that holds more than a jump."""
        for _ in self._cfg.blocks:
            block = self._cfg.blocks[number]
            run = self._cfg.instructions[block.start : block.end]
            if len(block.successors) != 1 or any(i.opcode != "bra" or i.guard for i in run):
                break
            number = block.successors[0]
        return number

    # ------------------------------------------------------------ 2: all lanes come together

    def _parts(self, nest: _Nest) -> Callable[[int], bool]:
        """May lanes go different ways at the end of a block?"""
        votes, blocks = nest.votes, nest.blocks

        def parts(number: int) -> bool:
            block = self._cfg.blocks[number]
            if number in votes or len(block.successors) < 2:
                return False
            last = self._last(number)
            if last.opcode != "bra" or last.guard is None:
                return True
            if self._trace.branches.get(block.end - 1) is not Variance.UNIFORM:
                return True
            return number in blocks and last.guard.reg in nest.tainted

        return parts

    def _none_waits_before(self, block: int, nest: _Nest) -> None:
        """No lane is kept in a loop before this one by what another lane writes behind it."""
        before = blocks_before(self._cfg, block)
        for other in self._cfg.loops.values():
            if (
                other.header not in before
                or other.header in self._trace.uniform_loops
                or any(other.header == shape.loop.header for shape in nest.shapes.values())
            ):
                continue
            index = memory_dependence(self._cfg, other)
            if index is not None:
                line = self._line(self._cfg.blocks[other.header].start)
                raise _Refused(f"a lane may wait in the loop before it (line {line}) for another")

    # ------------------------------------------------------------ 3: what it does

    def _fits(self, index: int) -> None:
        """May a lane that has left pass this instruction, under a predicate where needed?"""
        instruction = self._cfg.instructions[index]
        if instruction.opcode == "bra" or computes(instruction):
            return
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        if instruction.opcode not in _ACCESSES:
            raise _Refused(self._why(index, f"it contains {instruction.name}"))
        if effects & ~(Effect.READ | Effect.WRITE):
            raise _Refused(self._why(index, f"{instruction.name} is a strong or ordered access"))

    def _reads_behind(self, nest: _Nest) -> Iterator[tuple[int, int, Facts]]:
        """Each instruction of a nest with the innermost of its loops, by header, and the
        registers that are read behind any of its loops."""
        around: dict[int, list[_Shape]] = {}
        for shape in nest.shapes.values():  # outer ones first
            for number in shape.blocks:
                around.setdefault(number, []).append(shape)
        for number, shapes in sorted(around.items()):
            inmost = max(shapes, key=lambda s: s.loop.depth)
            live = frozenset[Reg]().union(*(self._live[s.after] for s in shapes))
            for index in self._indices(number):
                yield index, inmost.loop.header, live

    def _tainted(self, nest: _Nest) -> frozenset[Reg]:
        """Registers that may hold something else in lanes that have left: set under the
        predicate, or from such registers, or where a branch on one of them leads."""
        tainted: set[Reg] = set()
        for index, _, live in self._reads_behind(nest):
            if self._is_access(index) or not live.isdisjoint(self._sets(index)):
                tainted.update(self._sets(index))
        blocks = nest.blocks
        astray: set[int] = set()  # blocks that such branches lead to
        size = -1
        while size != len(tainted) + len(astray):
            size = len(tainted) + len(astray)
            for number in blocks:
                for index in self._indices(number):
                    if number in astray or not tainted.isdisjoint(self._reads(index)):
                        tainted.update(self._sets(index))
                guard = self._last(number).guard if self._indices(number) else None
                sides = self._cfg.blocks[number].successors
                if guard is not None and guard.reg in tainted and number not in nest.votes:
                    meet = self._cfg.ipdom.get(number, -1)
                    astray |= blocks_behind(self._cfg, sides, meet) & blocks
        return frozenset(tainted)

    def _is_access(self, index: int) -> bool:
        """Does it touch memory at an address that may be wrong in a lane that has left?"""
        instruction = self._cfg.instructions[index]
        if instruction.opcode not in _ACCESSES:
            return False
        fixed = isa.space(instruction) in ("param", "const") and all(
            isinstance(o.base, Symbol) for o in instruction.operands if isinstance(o, Mem)
        )
        return not fixed

    # ------------------------------------------------------------ 5: what its exit depends on

    def _no_wait_for_memory(self, loop: Loop) -> None:
        index = memory_dependence(self._cfg, loop)
        if index is not None:
            name = self._cfg.instructions[index].name
            raise _Refused(self._why(index, f"when lanes leave it depends on {name}"))

    # ------------------------------------------------------------ the plan

    def _planned(self, nest: _Nest) -> Iterator[UniformLoop]:
        inside: dict[int, set[int]] = {}
        lasting: dict[int, set[int]] = {}
        for index, header, live in self._reads_behind(nest):
            inside.setdefault(header, set()).add(index)
            if not live.isdisjoint(self._sets(index)):
                lasting.setdefault(header, set()).add(index)
        gathered = self._gathered(nest)
        for header, shape in nest.shapes.items():
            mine = frozenset(inside[header])
            lasts = frozenset(lasting.get(header, ()))
            outer = self._outer(shape, nest)
            yield UniformLoop(
                self._cfg.blocks[header].start,
                self._cfg.blocks[shape.start].end - 1,
                shape.enters,
                self._cfg.blocks[shape.leave].end - 1,
                shape.stays,
                mine,
                lasts | {i for i in mine if self._is_access(i)},
                lasts,
                mine & gathered,
                None if outer is None else self._cfg.blocks[outer].start,
                self._cleared(nest) if outer is None else (),
                frozenset(
                    self._cfg.blocks[h].start
                    for h in nest.shapes
                    if h != header and h in shape.loop.blocks
                ),
            )

    def _cleared(self, nest: _Nest) -> tuple[Reg, ...]:
        """Registers that only lanes in a loop set, but that branches and guards of the nest
        depend on in every lane. Those that have a value before it keep that."""
        setters: dict[Reg, set[Reg]] = {}
        wanted: set[Reg] = set()
        under: set[Reg] = set()
        for index, _, live in self._reads_behind(nest):
            for reg in self._sets(index):
                setters.setdefault(reg, set()).update(self._reads(index))
            if self._is_access(index) or not live.isdisjoint(self._sets(index)):
                under.update(self._sets(index))
            guard = self._cfg.instructions[index].guard
            if guard is not None:
                wanted.add(guard.reg)
        work = list(wanted)
        while work:
            for reg in setters.get(work.pop(), set()) - wanted:
                wanted.add(reg)
                work.append(reg)
        root = next(iter(nest.shapes.values()))
        behind = self._cfg.blocks[root.start].successors
        known = frozenset[Reg]().union(*(self._live[number] for number in behind))
        found = sorted((wanted & under) - known, key=lambda reg: (reg.name, reg.scope))
        body, start = self._trace.function.body, self._cfg.blocks[root.start].end - 1
        for reg in found:
            if not body.means(reg, start) or body.width(reg) not in _CLEARABLE:
                raise _Refused(f"a branch in it depends on {reg.name}, which cannot be cleared")
        return tuple(found)

    def _outer(self, shape: _Shape, nest: _Nest) -> int | None:
        """The header of the uniform loop around a loop."""
        around = self._cfg.loops_around(shape.loop.header)[1:]
        return next((h for h in around if h in nest.shapes), None)

    def _gathered(self, nest: _Nest) -> frozenset[int]:
        """The instructions of a nest that all lanes come to together, once in each turn."""
        leads = {n for shape in nest.shapes.values() for n in shape.lead}
        kept: dict[int, bool] = {}
        found: set[int] = set()
        for number in nest.blocks:
            header = self._cfg.loop_of.get(number)
            if number in leads:
                found.update(self._indices(number))
                continue
            assert header is not None
            loop = self._cfg.loops[header]
            shape = nest.shapes.get(header)
            if shape is None and header not in kept:
                kept[header] = self._in_step(loop, nest)
            always = executes_every_iteration(self._cfg, number, loop)
            if shape is not None:
                in_turn = self._cfg.dominates(number, shape.leave) or always
            else:
                in_turn = kept[header] and always
            if in_turn:
                found.update(self._indices(number))
        return frozenset(found)

    # ------------------------------------------------------------ small things

    def _indices(self, number: int) -> range:
        block = self._cfg.blocks[number]
        return range(block.start, block.end)

    def _last(self, number: int) -> Instruction:
        return self._cfg.instructions[self._cfg.blocks[number].end - 1]

    def _sets(self, index: int) -> tuple[Reg, ...]:
        found = self._written.get(index)
        if found is None:
            found = self._written[index] = defs(self._cfg.instructions[index])
        return found

    def _reads(self, index: int) -> frozenset[Reg]:
        found = self._read.get(index)
        if found is None:
            found = self._read[index] = uses(self._cfg.instructions[index])
        return found

    def _line(self, index: int) -> int:
        return self._trace.module.source.line(self._cfg.instructions[index].span.start)

    def _why(self, index: int, reason: str) -> str:
        return f"{reason} (line {self._line(index)})"
