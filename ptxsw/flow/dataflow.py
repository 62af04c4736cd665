"""Data-flow analyses over a flow graph, each data handed to one worklist solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from ptxsw import isa
from ptxsw.flow.cfg import Block, Cfg
from ptxsw.ir import Instruction, Reg

Facts = frozenset[Reg]

CARRY = Reg("%cc", -1)
"""The carry bit of the condition code register, which `add.cc` writes and `addc` reads (manual
9.7.2). It has no name in PTX, so that no instruction names it among its operands."""

_CARRIES_IN = frozenset({"addc", "subc", "madc"})


def defs(instruction: Instruction) -> tuple[Reg, ...]:
    """Registers written, the carry bit included: calls do not preserve it."""
    written = isa.defs(instruction)
    if _writes_carry(instruction.opcode, instruction.modifiers):
        return (*written, CARRY)
    return written


@isa.by_name
def _writes_carry(opcode: str, modifiers: tuple[str, ...]) -> bool:
    return "cc" in modifiers or opcode == "call" or isa.row(opcode, modifiers) is None


def uses(instruction: Instruction) -> frozenset[Reg]:
    """Registers read, the carry bit included, special registers left out."""
    read = frozenset([r for r in isa.uses(instruction) if type(r) is Reg])
    return read | {CARRY} if instruction.opcode in _CARRIES_IN else read


def in_order(registers: Iterable[Reg]) -> list[Reg]:
    """Registers of a set, in an order that is the same in each run of the program."""
    return sorted(registers, key=lambda reg: (reg.name, reg.scope))


class Analysis(Struct, frozen=True):
    """A union (may) analysis: how facts pass a block, and in which direction."""

    backward: bool
    transfer: Callable[[Block, Facts], Facts]


def solve(cfg: Cfg, analysis: Analysis) -> Mapping[int, Facts]:
    """Facts where they enter each reachable block: at its end for a backward analysis (the
    result is what holds at its start), at its start for a forward one."""
    order = cfg.order[::-1] if analysis.backward else cfg.order
    nothing: Facts = frozenset()
    out: dict[int, Facts] = {}
    work = dict.fromkeys(order)
    while work:
        number = next(iter(work))
        del work[number]
        block = cfg.blocks[number]
        before = block.successors if analysis.backward else cfg.predecessors[number]
        after = cfg.predecessors[number] if analysis.backward else block.successors
        facts = nothing.union(*(out.get(n, nothing) for n in before))
        new = analysis.transfer(block, facts)
        if new != out.get(number):
            out[number] = new
            work.update(dict.fromkeys(n for n in after if n in cfg.rank))
    return out


def liveness(cfg: Cfg, wanted: Callable[[Instruction], bool] | None = None) -> Mapping[int, Facts]:
    """Registers live at the start of each block. Only instructions for which `wanted` holds
    count as uses (all, where it is None)."""
    steps = {
        number: [
            (_kills(ins), uses(ins))
            for ins in reversed(cfg.instructions[block.start : block.end])
            if wanted is None or wanted(ins)
        ]
        for number, block in enumerate(cfg.blocks)
    }

    def transfer(block: Block, live: Facts) -> Facts:
        now = set(live)
        for killed, read in steps[block.number]:
            now -= killed
            now |= read
        return frozenset(now)

    return solve(cfg, Analysis(backward=True, transfer=transfer))


def _kills(instruction: Instruction) -> Facts:
    """Registers surely overwritten: a guarded write may not happen, so it kills nothing."""
    return frozenset() if instruction.guard is not None else frozenset(defs(instruction))


def read_first(instructions: Iterable[Instruction]) -> Facts:
    """Registers that a straight line of instructions may read before it has set them."""
    registers: set[Reg] = set()
    known: set[Reg] = set()
    for instruction in instructions:
        registers |= uses(instruction) - known
        known |= _kills(instruction)
    return frozenset(registers)


def slice_registers(cfg: Cfg, roots: Callable[[Instruction], tuple[Reg, ...]]) -> Facts:
    """Registers that `roots` of any instruction depend on, through data, flow-insensitively."""
    return closure(cfg.instructions, roots)


def closure(
    instructions: Iterable[Instruction], roots: Callable[[Instruction], tuple[Reg, ...]]
) -> Facts:
    """The same of some instructions alone."""
    feeds: dict[Reg, set[Reg]] = {}
    work: list[Reg] = []
    for ins in instructions:
        work.extend(roots(ins))
        written = defs(ins)
        if written:
            used = uses(ins)
            for reg in written:
                feeds.setdefault(reg, set()).update(used)
    found: set[Reg] = set()
    while work:
        reg = work.pop()
        if reg not in found:
            found.add(reg)
            work.extend(feeds.get(reg, ()))
    return frozenset(found)
