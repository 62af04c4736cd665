"""Machine code counted: instructions of innermost loops, loads and stores by width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ptxsw.cost.machine_code import MachineInstruction, MachineKernel


class Counts(NamedTuple):
    """Instructions, altogether and by pipe, and loads and stores by opcode and bytes for each lane:
    `accesses["LDG", 16]`."""

    instructions: int
    pipes: Counter[str]
    accesses: Counter[tuple[str, int]]

    def of(self, root: str) -> int:
        """Loads or stores of an opcode, of any width."""
        return sum(n for (name, _), n in self.accesses.items() if name == root)


def count(instructions: Iterable[MachineInstruction]) -> Counts:
    """Counts instructions. Those that do nothing, NOP, are left out."""
    real = [i for i in instructions if i.root != "NOP"]
    accesses = Counter((i.root, i.width) for i in real if i.width is not None)
    return Counts(len(real), Counter(i.pipe for i in real), accesses)


def inner_loops(kernel: MachineKernel) -> tuple[tuple[MachineInstruction, ...], ...]:
    """The instructions of each loop of the kernel's own code that has none inside it, in the order
    of the code."""
    if not kernel.routines:
        return ()
    flow = kernel.routines[0].flow
    around = {loop.parent for loop in flow.loops.values()}
    inner = sorted(set(flow.loops) - around, key=lambda header: flow.blocks[header].start)
    return tuple(
        tuple(
            instruction
            for number in sorted(flow.loops[header].blocks)
            for instruction in kernel.of_block(flow.blocks[number])
        )
        for header in inner
    )
