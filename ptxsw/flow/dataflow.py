"""Data-flow analyses over a flow graph: who writes and who needs a register."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ptxsw.flow.cfg import Cfg
from ptxsw.flow.def_use import CARRY, defs, uses
from ptxsw.ir import Instruction, Reg

__all__ = [
    "CARRY", "Facts", "closure", "defs", "forward", "in_order", "liveness", "read_first",
    "slice_registers", "uses", "writers",
]  # fmt: skip

Facts = frozenset[Reg]
_Held = TypeVar("_Held")


def in_order(registers: Iterable[Reg]) -> list[Reg]:
    """Registers of a set, in an order that is the same in each run of the program."""
    return sorted(registers, key=lambda reg: (reg.name, reg.scope))


def writers(
    written: Sequence[tuple[Reg, ...]], among: Iterable[int] | None = None
) -> dict[Reg, list[int]]:
    """The instructions that write each register, by index and in the order of `among`, to which
    they belong (all, where it is None). `written` are the registers that each of them writes."""
    indices: dict[Reg, list[int]] = {}
    for index in range(len(written)) if among is None else among:
        for reg in written[index]:
            indices.setdefault(reg, []).append(index)
    return indices


def forward(
    cfg: Cfg,
    start: _Held,
    through: Callable[[int, _Held], Iterable[tuple[int, _Held]]],
    meet: Callable[[_Held, _Held], _Held],
) -> dict[int, _Held]:
    """What holds at the start of each reachable block: `start` at that of the first. From what
    holds there `through` tells what each successor gets, and `meet` joins what a block gets over
    several edges; of an edge from where nothing has come yet it is not asked (optimistic)."""
    # A block without an entry yet is skipped by `meet`: so loops start from what comes in, and
    # only lose what the way back contradicts.
    entry = {0: start}
    work = dict.fromkeys(cfg.order)
    while work:
        number = next(iter(work))
        del work[number]
        for successor, held in through(number, entry[number]):
            before = entry.get(successor)
            now = held if before is None else meet(before, held)
            if now != before:
                entry[successor] = now
                work[successor] = None
    return entry


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
    kills = cfg.surely_written
    steps = {
        number: [
            (kills[at], cfg.read[at])
            for at in range(block.end - 1, block.start - 1, -1)
            if wanted is None or wanted(at)
        ]
        for number, block in enumerate(cfg.blocks)
    }

    live: dict[int, Facts] = {}
    work = dict.fromkeys(reversed(cfg.order))  # an ordered set: last blocks first
    while work:
        number = next(iter(work))
        del work[number]
        nothing: Facts = frozenset()
        now = set(nothing.union(*(live.get(n, nothing) for n in cfg.blocks[number].successors)))
        for killed, read in steps[number]:
            now.difference_update(killed)
            now.update(read)
        if number not in live or now != live[number]:
            live[number] = frozenset(now)
            work.update(dict.fromkeys(n for n in cfg.predecessors[number] if n in cfg.rank))
    return live


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
    return closure(cfg, range(len(cfg.instructions)), roots)


def closure(
    cfg: Cfg, positions: Iterable[int], roots: Callable[[Instruction], tuple[Reg, ...]]
) -> Facts:
    """The same of some instructions alone."""
    feeds: dict[Reg, set[Reg]] = {}
    work: list[Reg] = []
    for at in positions:
        work.extend(roots(cfg.instructions[at]))
        for reg in cfg.written[at]:
            feeds.setdefault(reg, set()).update(cfg.read[at])
    needed: set[Reg] = set()
    while work:
        reg = work.pop()
        if reg not in needed:
            needed.add(reg)
            work.extend(feeds.get(reg, ()))
    return frozenset(needed)
