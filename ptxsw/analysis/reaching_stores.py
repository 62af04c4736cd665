"""Stores that a thread may have made before a load, and what may have shown it the stores of
others, with no barrier of the block between.

Stores through the same pointers are told apart no further: one stands for all of them. So a
question costs as much as there are pointers, however many stores there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct, field

from ptxsw.analysis.pointers import Pointers, pointers
from ptxsw.emulator.trace import Trace
from ptxsw.flow.dataflow import ForwardAnalysis
from ptxsw.ptx import isa
from ptxsw.ptx.ir import Instruction

ORDER = "order"


class _Block(Struct):
    """Positions in one block, in order."""

    barriers: list[int] = field(default_factory=list)
    writes: dict[Pointers | str, list[int]] = field(default_factory=dict)

    def since_barrier(self, start: int, stop: int) -> dict[Pointers | str, int]:
        """For each set of pointers one write of a stretch behind its last barrier; for `ORDER`
        what orders memory and writes nothing."""
        at = bisect_left(self.barriers, stop)
        start = self.barriers[at - 1] if at else start  # behind the last barrier before `stop`
        stores = {}
        for named, places in self.writes.items():
            first = bisect_left(places, start)
            if first < len(places) and places[first] < stop:
                stores[named] = places[first]
        return stores

    def open_above(self, stop: int) -> bool:
        """Has it no barrier before `stop`?"""
        return not self.barriers or self.barriers[0] >= stop


class ReachingStores:
    """The stores of one function. `writes` tells of an instruction whether it may write global
    memory, `orders` whether it orders memory between threads."""

    def __init__(
        self,
        trace: Trace,
        writes: Callable[[Instruction], bool],
        orders: Callable[[Instruction], bool],
    ) -> None:
        self._cfg = trace.cfg
        accesses = {a.index: a for a in trace.accesses}
        self._blocks: dict[int, _Block] = {}
        for block in self._cfg.blocks:
            own = self._blocks[block.number] = _Block()
            for index in range(block.start, block.end):
                instruction = self._cfg.instructions[index]
                if is_barrier(instruction):
                    own.barriers.append(index)
                elif writes(instruction):
                    own.writes.setdefault(pointers(accesses.get(index)), []).append(index)
                elif orders(instruction):
                    own.writes.setdefault(ORDER, []).append(index)

    def reaching(self, at: int) -> Iterable[tuple[Pointers | str, int]]:
        """For each set of pointers one store from which `at` can be reached without a barrier;
        for `ORDER` what orders memory and stores nothing."""
        block = self._cfg.blocks[self._cfg.block_of[at]]
        own = self._blocks[block.number]
        stores = own.since_barrier(block.start, at)
        if own.open_above(at):
            stores = {**self._before.get(block.number, {}), **stores}
        return stores.items()

    @cached_property
    def _before(self) -> Mapping[int, Mapping[Pointers | str, int]]:
        """Of each block that is reached, the stores from which its start can be reached without a
        barrier."""

        def through(
            number: int, held: dict[Pointers | str, int]
        ) -> Iterable[tuple[int, dict[Pointers | str, int]]]:
            block, own = self._cfg.blocks[number], self._blocks[number]
            after = own.since_barrier(block.start, block.end)
            if own.open_above(block.end):
                after = {**held, **after}
            return ((successor, after) for successor in block.successors)

        # The first store through some pointers stands for all others.
        nothing: dict[Pointers | str, int] = {}
        return ForwardAnalysis(self._cfg, nothing, through, lambda a, b: {**b, **a}).everywhere()


_BARRIERS = isa.opcodes(isa.Trait.BARRIER)


def is_barrier(instruction: Instruction) -> bool:
    """A barrier of the whole block that every thread comes to."""
    return (
        instruction.guard is None
        and instruction.opcode in _BARRIERS
        and "sync" in instruction.modifiers
        and "warp" not in instruction.modifiers
        and len(instruction.operands) == 1  # a second one would be a number of threads
    )
