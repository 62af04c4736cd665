"""Which loops may become uniform: driven by a vote of all lanes, a predicate `in` for each.

A lane that has left such a loop goes on round it with the others and must do no harm. The rules,
each with a reason where it fails, are those of `docs/soundness.md`:

1. The loop has one exit, which every iteration passes, and is entered from one place.
2. All lanes come together to the branch that takes some of them past the loop, or to the loop.
3. Its instructions compute, or are weak loads and stores: these are made only under `in`, as is
   whatever sets a register that is read behind the loop.
4. Loops inside it end in lanes that have left it, too: they go round a fixed number of times, or
   as often as in the other lanes, or become uniform themselves.
5. No lane's leaving depends on memory that another may write after it has left.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ptxsw.analysis.trip_count import iterations
from ptxsw.changes.plan import UniformLoop
from ptxsw.emulator.trace import Trace
from ptxsw.flow.convergence import Convergence, computes
from ptxsw.flow.flow_graph import Loop
from ptxsw.flow.loop_exits import executes_every_iteration, memory_dependence
from ptxsw.ptx import isa
from ptxsw.ptx.isa import Effect
from ptxsw.shuffle.loop_nest import ACCESSES, LoopNest, LoopShape, NestCode, RefusedNest, nest_plans
from ptxsw.terms.node import Variance

MOST_LOOPS = 64
"""Loops of a kernel that are looked at."""

_FIRST_VERSION = (6, 0)  # vote.sync
_FIRST_ARCH = 70  # lanes with a program counter each


class RefusedLoop(Struct, frozen=True):
    """A loop that lanes leave apart and that stays as it is. `header` is the position of its
    first instruction."""

    header: int
    reason: str


class LoopChoices(Struct, frozen=True):
    """The loops of a kernel that lanes may leave in different iterations."""

    uniform: tuple[UniformLoop, ...]  # outer ones first
    kept: tuple[RefusedLoop, ...]


def uniform_loops(trace: Trace) -> LoopChoices:
    """The loops that may become uniform, and why the others may not. Loops that all lanes leave
    together anyway are neither."""
    return _Finder(trace).run()


class _Finder:
    def __init__(self, trace: Trace) -> None:
        self._trace, self._cfg = trace, trace.cfg
        self._code = NestCode(trace)
        self._convergence = Convergence(trace.cfg)

    def run(self) -> LoopChoices:
        cfg = self._cfg
        outer_first = sorted(cfg.loops.values(), key=lambda lp: (lp.depth, cfg.rank[lp.header]))
        varying = [lp for lp in outer_first if lp.header not in self._trace.uniform_loops]
        uniform: list[UniformLoop] = []
        kept: list[RefusedLoop] = []
        settled: set[int] = set()
        unfit = self._unfit()
        for number, loop in enumerate(varying):
            if loop.header in settled:
                continue
            try:
                if unfit is not None:
                    raise RefusedNest(unfit)
                if number >= MOST_LOOPS:
                    raise RefusedNest(f"the kernel has more than {MOST_LOOPS} such loops")
                nest = self._nest(loop)
                plans = list(nest_plans(self._code, nest, self._in_step))
            except RefusedNest as refused:
                kept.append(RefusedLoop(cfg.blocks[loop.header].start, str(refused)))
                continue
            uniform.extend(plans)
            settled.update(lp.header for lp in varying if lp.header in loop.blocks)
        return LoopChoices(tuple(uniform), tuple(kept))

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

    def _nest(self, loop: Loop) -> LoopNest:
        """The loop with those inside it that have to become uniform, too."""
        nest = LoopNest()
        nest.shapes[loop.header] = self._shape(loop, nest)
        inner = [lp for lp in self._cfg.loops.values() if lp.header in loop.blocks]
        inner = [lp for lp in reversed(inner) if lp.header != loop.header]  # outer ones first
        while True:
            nest.tainted = self._code.tainted(nest)
            more = [
                lp
                for lp in inner
                if lp.header not in nest.shapes and not self._ends_alike(lp, nest)
            ]
            for inner_loop in more:
                nest.shapes[inner_loop.header] = self._inner(inner_loop, nest)
            if not more:
                break
        for header in [h for h in nest.shapes if h != loop.header]:
            self._inner(self._cfg.loops[header], nest)  # once more: others may part lanes now
        nest.shapes = dict(sorted(nest.shapes.items(), key=lambda item: item[1].loop.depth))
        return nest

    def _inner(self, loop: Loop, nest: LoopNest) -> LoopShape:
        try:
            return self._shape(loop, nest)
        except RefusedNest as refused:
            line = self._code.line(self._cfg.blocks[loop.header].start)
            raise RefusedNest(
                f"the loop inside it (line {line}) cannot be uniform: {refused}"
            ) from None

    def _ends_alike(self, loop: Loop, nest: LoopNest) -> bool:
        """Does a loop inside end in lanes that have left the nest, though it stays as it is?"""
        return iterations(self._trace, loop) is not None or self._in_step(loop, nest)

    def _in_step(self, loop: Loop, nest: LoopNest) -> bool:
        """Do all lanes, those that have left the nest too, go round a loop together?"""
        if loop.header not in self._trace.uniform_loops:
            return False
        for source, _ in loop.exits:
            guard = self._code.last(source).guard
            if guard is None or guard.reg in nest.tainted:
                return False
        return self._convergence.blocker(loop.header, self._parts(nest)) is None

    # ------------------------------------------------------------ one loop

    def _shape(self, loop: Loop, nest: LoopNest) -> LoopShape:
        """The loop's place in the flow. Raises RefusedNest."""
        leave, after, stays = self._exit(loop)
        self._no_wait_for_memory(loop)
        # Judged as if the loop were uniform already: its exit is then a vote, at which no lanes
        # part. The shape stands under -1 until its start is known.
        voting = LoopNest({**nest.shapes, -1: LoopShape(loop, -1, None, (), leave, stays, after)})
        voting.tainted = nest.tainted
        start, enters, lead = self._entry(loop, after, voting)
        shape = LoopShape(loop, start, enters, lead, leave, stays, after)
        for number in sorted(shape.blocks):
            for index in self._code.indices(number):
                self._fits(index)
        return shape

    def _exit(self, loop: Loop) -> tuple[int, int, bool]:
        """Rule 1: the block that lanes leave from, where they go, and the side that stays."""
        if len(loop.exits) != 1:
            many = "it has several exits" if loop.exits else "it has no exit"
            raise RefusedNest(many)
        ((leave, after),) = loop.exits
        last = self._code.last(leave)
        if last.opcode != "bra" or last.guard is None:
            raise RefusedNest(f"{last.name} leaves it")
        if not executes_every_iteration(self._cfg, leave, loop):
            raise RefusedNest("not every iteration passes its exit")
        return leave, after, self._cfg.blocks[leave].successors[0] in loop.blocks

    def _entry(
        self, loop: Loop, after: int, nest: LoopNest
    ) -> tuple[int, bool | None, tuple[int, ...]]:
        """Rules 1 and 2: where `in` starts, and the blocks between there and the loop."""
        cfg = self._cfg
        outside = [p for p in cfg.predecessors[loop.header] if p not in loop.blocks]
        if len(outside) != 1 or not self._code.indices(outside[0]):
            raise RefusedNest("it is entered from several places")
        parts = self._parts(nest)
        block = outside[0]
        apart = self._convergence.blocker(block, parts)
        if apart is None and not parts(block):
            self._none_waits_before(block, nest)
            return block, None, ()
        # Some lanes were sent past the loop before. Go up through the blocks that only the others
        # pass, such as one that loads a bound, to the branch that parts them: it becomes a vote.
        lead: list[int] = []
        while apart is not None and len(cfg.blocks[block].successors) == 1:
            lead.insert(0, block)
            if len(cfg.predecessors[block]) != 1:
                raise RefusedNest(self._code.why(apart.index, apart.reason))
            block = cfg.predecessors[block][0]
            apart = self._convergence.blocker(block, parts)
        if apart is not None:
            raise RefusedNest(self._code.why(apart.index, apart.reason))
        self._none_waits_before(block, nest)
        return block, self._guard(block, [*lead, loop.header][0], after), tuple(lead)

    def _guard(self, block: int, entered: int, after: int) -> bool:
        """The branch that takes lanes past the loop: does its taken side enter?"""
        last, sides = self._code.last(block), self._cfg.blocks[block].successors
        if last.opcode != "bra" or last.guard is None or len(sides) != 2:
            raise RefusedNest(f"{last.name} leads to it")
        # Lanes that pass by are now led through the loop and come out at its exit: that must be
        # where they were going.
        enters = sides[0] == entered
        if self._landing(sides[1] if enters else sides[0]) != self._landing(after):
            line = self._code.line(self._cfg.blocks[block].end - 1)
            raise RefusedNest(f"lanes that bypass it (line {line}) do not continue after it")
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

    def _parts(self, nest: LoopNest) -> Callable[[int], bool]:
        """May lanes go different ways at the end of a block?"""
        votes, blocks = nest.votes, nest.blocks

        def parts(number: int) -> bool:
            block = self._cfg.blocks[number]
            if number in votes or len(block.successors) < 2:
                return False
            last = self._code.last(number)
            if last.opcode != "bra" or last.guard is None:
                return True
            if self._trace.branches.get(block.end - 1) is not Variance.UNIFORM:
                return True
            return number in blocks and last.guard.reg in nest.tainted

        return parts

    def _none_waits_before(self, block: int, nest: LoopNest) -> None:
        """No lane is kept in a loop before this one by what another lane writes behind it."""
        before = self._cfg.reaching([block])
        for other in self._cfg.loops.values():
            if (
                other.header not in before
                or other.header in self._trace.uniform_loops
                or any(other.header == shape.loop.header for shape in nest.shapes.values())
            ):
                continue
            index = memory_dependence(self._cfg, other)
            if index is not None:
                line = self._code.line(self._cfg.blocks[other.header].start)
                raise RefusedNest(
                    f"a lane may wait in the loop before it (line {line}) for another"
                )

    # ------------------------------------------------------------ 3: what it does

    def _fits(self, index: int) -> None:
        """May a lane that has left pass this instruction, under a predicate where needed?"""
        instruction = self._cfg.instructions[index]
        if instruction.opcode == "bra" or computes(instruction):
            return
        effects = isa.effects(instruction.opcode, instruction.modifiers)
        if instruction.opcode not in ACCESSES:
            raise RefusedNest(self._code.why(index, f"it contains {instruction.name}"))
        if effects & ~(Effect.READ | Effect.WRITE):
            raise RefusedNest(
                self._code.why(index, f"{instruction.name} is a strong or ordered access")
            )

    # ------------------------------------------------------------ 5: what its exit depends on

    def _no_wait_for_memory(self, loop: Loop) -> None:
        index = memory_dependence(self._cfg, loop)
        if index is not None:
            name = self._cfg.instructions[index].name
            raise RefusedNest(self._code.why(index, f"when lanes leave it depends on {name}"))
