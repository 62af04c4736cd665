"""Data-flow analyses over a flow graph: who writes and who needs a register."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from itertools import chain
from typing import Generic, TypeVar

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.def_use import CARRY, defs, uses, writers
from ptxsw.flow.flow_graph import reached
from ptxsw.ptx.ir import Instruction, Reg

__all__ = [
    "CARRY", "Facts", "ForwardAnalysis", "closure", "defs", "in_order", "live_at",
    "liveness", "read_first", "slice_registers", "uses", "writers",
]  # fmt: skip

Facts = frozenset[Reg]
_Held = TypeVar("_Held")


def in_order(registers: Iterable[Reg]) -> list[Reg]:
    """Registers of a set, in an order that is the same in each run of the program."""
    return sorted(registers, key=lambda reg: (reg.name, reg.scope))


class ForwardAnalysis(Generic[_Held]):
    """What holds at the start of each reachable block: `start` at that of the first. From what
    holds there `through` tells what each successor gets, and `meet` joins what a block gets over
    several edges; of an edge from where nothing has come yet it is not asked (optimistic). It is
    worked out for blocks that are asked for and for those on the way to them."""

    def __init__(
        self,
        cfg: Cfg,
        start: _Held,
        through: Callable[[int, _Held], Iterable[tuple[int, _Held]]],
        meet: Callable[[_Held, _Held], _Held],
    ) -> None:
        self._cfg, self._through, self._meet = cfg, through, meet
        # A block without an entry yet is skipped by `meet`: so loops start from what comes in, and
        # only lose what the way back contradicts.
        self._entry = {0: start}
        self._solved: set[int] = set()

    def at(self, number: int) -> _Held | None:
        """What holds at the start of a block; None where control never comes."""
        if number not in self._solved and number in self._cfg.rank:
            ways = self._cfg.reaching(self._cfg.predecessors[number], barred=self._solved)
            self._solve(ways, ways | {number})
        return self._entry.get(number)

    def everywhere(self) -> Mapping[int, _Held]:
        """What holds at the start of each reachable block."""
        rest = self._cfg.rank.keys() - self._solved
        self._solve(rest, rest)
        return self._entry

    def _solve(self, ways: Set[int], blocks: Set[int]) -> None:
        """Work out some more blocks, to which control comes from solved ones and over `ways`, which
        are such blocks themselves."""
        cfg, entry, rank = self._cfg, self._entry, self._cfg.rank
        before = {p for number in blocks for p in cfg.predecessors[number]}
        work = dict.fromkeys(sorted((before & self._solved) | ways, key=rank.__getitem__))
        while work:
            number = next(iter(work))
            del work[number]
            for successor, held in self._through(number, entry[number]):
                if successor in blocks:
                    so_far = entry.get(successor)
                    now = held if so_far is None else self._meet(so_far, held)
                    if now != so_far:
                        entry[successor] = now
                        if successor in ways:
                            work[successor] = None
        self._solved |= blocks


def liveness(cfg: Cfg, wanted: Callable[[int], bool] | None = None) -> Mapping[int, Facts]:
    """Registers live at the start of each block. Only instructions for whose positions `wanted`
    holds count as uses (all, where it is None: that is worked out once for a graph)."""
    if wanted is not None:
        return _liveness(cfg, wanted)
    kept = vars(cfg)
    live: Mapping[int, Facts] | None = kept.get(_LIVE)
    if live is None:
        live = kept[_LIVE] = _liveness(cfg, None)
    return live


_LIVE = "liveness"


def _liveness(cfg: Cfg, wanted: Callable[[int], bool] | None) -> Mapping[int, Facts]:
    kills, read = cfg.surely_written, cfg.read
    needed: dict[int, set[Reg]] = {}  # by a block itself
    killed: dict[int, set[Reg]] = {}
    for number in cfg.order:
        block, first, over = cfg.blocks[number], set[Reg](), set[Reg]()
        for at in range(block.end - 1, block.start - 1, -1):
            if wanted is None or wanted(at):
                first.difference_update(kills[at])
                first.update(read[at])
                over.update(kills[at])
        needed[number], killed[number] = first, over
    live: dict[int, Facts] = {}
    nothing: Facts = frozenset()
    work = dict.fromkeys(reversed(cfg.order))  # an ordered set: last blocks first
    while work:
        number = next(iter(work))
        del work[number]
        behind = nothing.union(*[live.get(n, nothing) for n in cfg.blocks[number].successors])
        now = (behind - killed[number]) | needed[number]
        if number not in live or now != live[number]:
            live[number] = now
            work.update(dict.fromkeys(n for n in cfg.predecessors[number] if n in cfg.rank))
    return live


def live_at(cfg: Cfg, live: Callable[[int], Facts], position: int) -> Facts:
    """The registers that live on before an instruction, from those at the starts of blocks."""
    if position >= len(cfg.instructions):
        return frozenset()
    block = cfg.blocks[cfg.block_of[position]]
    if position == block.start:
        return live(block.number)
    now: set[Reg] = set()
    for successor in block.successors:
        now |= live(successor)
    for at in range(block.end - 1, position - 1, -1):
        now.difference_update(cfg.surely_written[at])
        now.update(cfg.read[at])
    return frozenset(now)


def _kills(instruction: Instruction) -> Facts:
    """Registers surely overwritten: a guarded write may not happen, so it kills nothing."""
    return frozenset() if instruction.guard is not None else frozenset(defs(instruction))


def read_first(instructions: Iterable[Instruction]) -> Facts:
    """Registers that a straight line of instructions may read before it has set them."""
    registers: set[Reg] = set()
    overwritten: set[Reg] = set()
    for instruction in instructions:
        registers |= uses(instruction) - overwritten
        overwritten |= _kills(instruction)
    return frozenset(registers)


def slice_registers(cfg: Cfg, roots: Callable[[Instruction], tuple[Reg, ...]]) -> Facts:
    """Registers that `roots` of any instruction depend on, through data, flow-insensitively."""
    return closure(cfg, chain.from_iterable(map(roots, cfg.instructions)))


def closure(cfg: Cfg, roots: Iterable[Reg], among: Collection[int] | None = None) -> Facts:
    """Some registers and those that they are computed from, flow-insensitively: by any instruction,
    or by those at the positions `among`."""
    writers, read = cfg.writers, cfg.read
    inside = None if among is None else frozenset(among)

    def sources(reg: Reg) -> Iterable[Reg]:
        ats = (at for at in writers.get(reg, ()) if inside is None or at in inside)
        return (source for at in ats for source in read[at])

    return frozenset(reached(roots, sources))
