"""Where all lanes of a warp come together, for certain.

A vote waits for every lane that has not exited. So it may stand only where they all come, the same
number of times, and where none of them waits for another on its way. Branches whose predicate is
the same in all lanes part nobody. Where the others part lanes, these must meet again before, or
exit at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import Struct

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.flow_graph import Block, dominators, reverse_postorder
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction, Int, Operand
from ptxsw.ptx.isa import Effect, Trait

_END = -1
_WAITS = Effect.BARRIER | Effect.ASYNC | Effect.CALL
_COLLECTIVE = isa.opcodes(Trait.COLLECTIVE)
_ASKING = isa.opcodes(Trait.TELLS_LANES)
_MASKED = isa.opcodes(Trait.MASKED)
_BARRIERS = isa.opcodes(Trait.BARRIER)
_LEAVING = isa.opcodes(Trait.LEAVE) | {"bra"}
_SEGMENT_ENDS = Effect.BARRIER | Effect.CALL | Effect.ASYNC | Effect.EXIT


def segments(cfg: Cfg) -> tuple[int, ...]:
    """The number of each instruction's segment: lanes that run one instruction of a segment
    together run the others together, too. A block ends one, and so does a call, a barrier and
    whatever is not known."""
    # The lanes need not run it in the same cycle. It is enough that whoever executes one of its
    # instructions executes all: a shuffle then finds every lane that `activemask` has named.
    numbers: list[int] = []
    current = 0
    for block in cfg.blocks:
        current += 1
        for index in range(block.start, block.end):
            numbers.append(current)
            instruction = cfg.instructions[index]
            if _ends_segment(instruction.opcode, instruction.modifiers):
                current += 1
    return tuple(numbers)


def ends_of_segments(cfg: Cfg, number: int) -> list[int]:
    """The instructions of a block behind which another segment begins, or that are its last."""
    block = cfg.blocks[number]
    code = ((at, cfg.instructions[at]) for at in range(block.start, block.end))
    return [at for at, one in code if _ends_segment(one.opcode, one.modifiers)]


@isa.by_name
def _ends_segment(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return bool(isa.effects(opcode, modifiers) & _SEGMENT_ENDS)


class Divergence(Struct, frozen=True):
    """Why lanes may not be together: the instruction, and what it does."""

    index: int
    reason: str


def computes(instruction: Instruction) -> bool:
    """Does it only set registers, and that for its own lane alone?"""
    return _computes(instruction.opcode, instruction.modifiers)


@isa.by_name
def _computes(opcode: str, modifiers: tuple[str, ...]) -> bool:
    row = isa.row(opcode, modifiers)
    return (
        row is not None
        and row.defs > 0
        and not row.space
        and not isa.effects(opcode, modifiers)
        and opcode not in _COLLECTIVE
        and "sync" not in modifiers
    )


def waits(instruction: Instruction) -> bool:
    """May a lane wait at this instruction until other lanes have reached it or another one?"""
    return _waits(instruction.opcode, instruction.modifiers)


@isa.by_name
def _waits(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return (
        isa.row(opcode, modifiers) is None
        or bool(isa.effects(opcode, modifiers) & _WAITS)
        or opcode in _COLLECTIVE
        or "sync" in modifiers
    )


def waits_for(instruction: Instruction) -> Operand | None:
    """The operand that tells for whom an instruction waits: its member mask, or the number of its
    barrier; None where it has none."""
    operands = instruction.operands
    if instruction.opcode in _BARRIERS and "warp" not in instruction.modifiers:
        number = operands[1:] if "red" in instruction.modifiers else operands
        return number[0] if number else None
    masked = instruction.opcode in _MASKED and "sync" in instruction.modifiers
    return operands[-1] if operands and (masked or instruction.opcode == "bar") else None


@isa.by_name
def _keeps_nobody(opcode: str, modifiers: tuple[str, ...]) -> bool:
    """Does no instruction of this name keep lanes back, whatever its operands and its guard?"""
    whom = opcode in _BARRIERS or opcode in _MASKED or opcode == "bar"
    return not whom and not _waits(opcode, modifiers)


class Convergence:
    """Answers for one flow graph, which has to be reducible. What instructions of a block do to
    lanes is looked at once for all of them. `in_tiles` tells of those with a computed mask at which
    lanes that come together wait for each other alone."""

    def __init__(self, cfg: Cfg, in_tiles: Callable[[int], bool] = lambda _: False) -> None:
        self.cfg, self._in_tiles = cfg, in_tiles
        self._asked: dict[Operand, bool] = {}  # is a member mask what was asked of lanes here?
        self._kept: dict[int, Divergence | None] = {}
        self._waiting: dict[int, Divergence | None] = {}

    def blocker(self, block: int, parts: Callable[[int], bool]) -> Divergence | None:
        """Do all lanes that have not exited come to the end of a block together? `parts` tells at
        the end of which blocks lanes may go different ways. None where they do.

        Two lanes are together if they come there in the same iteration of every loop around the
        block.
        """
        return _Question(self, block, parts).answer()

    @cached_property
    def ends(self) -> frozenset[int]:
        """Blocks from which lanes run to an end, without a loop, an access or a wait."""
        return _ending_at_once(self.cfg)

    def kept_back(self, number: int) -> Divergence | None:
        """An instruction of a block that may keep some lanes until others have gone on."""
        if number not in self._kept:
            self._kept[number] = self._keeping(self.cfg.blocks[number])
        return self._kept[number]

    def waiting(self, number: int) -> Divergence | None:
        """An instruction of a block at which lanes that have parted may wait for others."""
        if number not in self._waiting:
            block = self.cfg.blocks[number]
            self._waiting[number] = next(
                (
                    Divergence(
                        index,
                        f"{self.cfg.instructions[index].name} before it, where lanes have parted, "
                        "may wait",
                    )
                    for index in range(block.start, block.end)
                    if waits(self.cfg.instructions[index])
                ),
                None,
            )
        return self._waiting[number]

    def _keeping(self, block: Block) -> Divergence | None:
        for index in range(block.start, block.end):
            instruction = self.cfg.instructions[index]
            if _keeps_nobody(instruction.opcode, instruction.modifiers):
                continue
            effects = isa.effects(instruction.opcode, instruction.modifiers)
            if effects & Effect.CALL or not isa.known(instruction):
                return Divergence(index, f"{instruction.name} before it may keep lanes back")
            if instruction.guard is not None and waits(instruction):
                return Divergence(index, f"{instruction.name} before it waits under a guard")
            if not self._same_for_all(instruction) and not self._in_tiles(index):
                return Divergence(index, f"{instruction.name} before it may wait for later lanes")
        return None

    def _same_for_all(self, instruction: Instruction) -> bool:
        """Do lanes that reach an instruction together certainly wait only for each other? They do
        if its barrier or member mask is a literal, a register that only ever holds one, or the
        result of a query of the lanes that are here."""
        whom = waits_for(instruction)
        if whom is None or isinstance(whom, Int):
            return True
        if whom not in self._asked:
            setters = [i for i in self.cfg.instructions if whom in isa.defs(i)]
            fixed = all(_sets_to_literal(i) for i in setters)
            same = fixed and len({i.operands[1] for i in setters}) == 1
            self._asked[whom] = same or (
                bool(setters) and all(i.opcode in _ASKING for i in setters)
            )
        return self._asked[whom]


def _sets_to_literal(instruction: Instruction) -> bool:
    return instruction.opcode == "mov" and isinstance(instruction.operands[1], Int)


class _Question:
    def __init__(self, graph: Convergence, block: int, parts: Callable[[int], bool]) -> None:
        self._graph, self._cfg, self._block, self._parts = graph, graph.cfg, block, parts
        self._before = self._cfg.reaching([block])

    def answer(self) -> Divergence | None:
        # A call, or a barrier for some, may keep lanes back even on straight code.
        for number in self._before:
            blocker = self._graph.kept_back(number)
            if blocker is not None:
                return blocker
        for number in sorted(self._before):
            if self._comes_again(number) and self._parts(number):
                blocker = self.blocker_at_branch(number)
                if blocker is not None:
                    return blocker
        return None

    def _comes_again(self, number: int) -> bool:
        """May a lane come to the block in question from the end of another? From its own end it
        may in a loop."""
        return number != self._block or self._looping

    @cached_property
    def _looping(self) -> bool:
        return not self._before.isdisjoint(self._cfg.blocks[self._block].successors)

    def blocker_at_branch(self, number: int) -> Divergence | None:
        """Why lanes that part at the end of a block may not be together at the block in question;
        None if they are."""
        branch = self._cfg.blocks[number].end - 1
        sides = self._cfg.blocks[number].successors
        here = [s for s in sides if s in self._before]
        for side in sides:
            if side not in self._before and side not in self._graph.ends:
                return Divergence(branch, "some lanes never reach it")
        if len(here) < 2:
            return None
        # Both sides lead to the block, so they must come together on the way, in one iteration,
        # and nobody may wait there for a lane that took the other side.
        meet = self._next_meeting() if number == self._block else self._meeting.get(number, _END)
        if meet == _END:
            return Divergence(branch, "lanes reach it on different paths")
        region = self._cfg.reached_from(here, {meet})
        if self._iterations_apart({number, *region}, number, meet):
            return Divergence(branch, "lanes reach it in different iterations of a loop around it")
        for inside in sorted(region):
            waiting = self._graph.waiting(inside)
            if waiting is not None:
                return waiting
        return None

    @cached_property
    def _meeting(self) -> Mapping[int, int]:
        """For each block, where lanes that part at its end meet again: the next block on all paths
        from there to the block in question. Paths that end at once are left out."""
        after = {number: self._onward(number) for number in self._before}
        after[self._block].append(_END)
        return self._met(after)

    def _next_meeting(self) -> int:
        """The same for lanes that part at the block in question itself and come back to it."""
        # That block is both start and end of the paths: edges back to it are led to the end.
        after = {number: self._onward(number) for number in self._before}
        after = {
            n: [_END if s == self._block else s for s in onward] for n, onward in after.items()
        }
        meet = self._met(after).get(self._block, _END)
        return self._block if meet == _END else meet

    def _onward(self, number: int) -> list[int]:
        """The successors of a block on paths to the block in question; `_END` stands for the
        others, unless they end at once."""
        successors = self._cfg.blocks[number].successors
        onward = [s for s in successors if s in self._before]
        lost = [s for s in successors if s not in self._before]
        return onward if self._graph.ends.issuperset(lost) else [*onward, _END]

    def _met(self, after: Mapping[int, list[int]]) -> Mapping[int, int]:
        """Immediate post-dominators, as dominators of the reversed graph."""
        backward: dict[int, list[int]] = {_END: [], **{n: [] for n in after}}
        for number in self._cfg.in_order(after):
            for successor in after[number]:
                backward[successor].append(number)
        return dominators(reverse_postorder(_END, backward), after)

    def _iterations_apart(self, region: set[int], branch: int, meet: int) -> bool:
        """Does a path in the region go round a loop that contains both the branch and the block
        where the lanes meet?"""
        for source, header in self._cfg.retreating:
            if source in region and header in region:
                blocks = self._cfg.loops[header].blocks
                if branch in blocks and meet in blocks:
                    return True
        return False


def _ending_at_once(cfg: Cfg) -> frozenset[int]:
    """Blocks from which lanes run to an end, without a loop, an access or a wait."""
    # In postorder successors come first, except over back edges: a block in a loop is never
    # taken, as it must not be.
    ending: set[int] = set()
    for number in reversed(cfg.order):
        block = cfg.blocks[number]
        run = cfg.instructions[block.start : block.end]
        if ending.issuperset(block.successors) and all(
            instruction.opcode in _LEAVING or computes(instruction) for instruction in run
        ):
            ending.add(number)
    return frozenset(ending)
