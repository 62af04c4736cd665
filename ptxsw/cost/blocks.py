"""Blocks and loops of machine code, from what nvdisasm prints and what the cubin says of branches.

A block ends at a branch, exit or return, as in PTX (`ptxsw.flow.cfg`); a call does not end one.
ptxas also leaves loops by a `CALL.REL.NOINC` that never comes back: such a call is a jump. Where a
branch depends on a register (`BRX`), the cubin lists its targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from ptxsw.cost.cubin import FunctionCode
from ptxsw.cost.nvdisasm import DisassembledLine
from ptxsw.flow.flow_graph import Block, FlowGraph, reverse_postorder

BYTES: Final = 16  # of an instruction
_ENDS: Final = frozenset({"BRA", "BRX", "BRXU", "EXIT", "JMP", "JMX", "JMXU", "KILL", "RET"})
_LEAVES: Final = frozenset({"EXIT", "KILL", "RET"})
_DIRECT: Final = frozenset({"BRA", "CALL", "JMP", "WARPSYNC"})
_IF_TOGETHER: Final = frozenset({"CONV", "DIV"})  # of BRA, on sm_75 without a further operand
_INDIRECT: Final = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_STEERING: Final = _ENDS | _LEAVES | _DIRECT | _INDIRECT


class Routine(Struct, frozen=True):
    """Code with an entry of its own: the kernel itself, or what it calls. Its blocks are runs of
    the kernel's instructions. `unresolved` are the blocks that end in an indirect branch whose
    targets are not known."""

    name: str
    flow: FlowGraph
    unresolved: frozenset[int]


def routines(listing: Sequence[DisassembledLine], code: FunctionCode) -> tuple[Routine, ...]:
    """The kernel's own code first, then the routines in it. `listing` is without padding."""
    starts = [(0, code.name), *((at // BYTES, name) for at, name in code.routines)]
    ends = [start for start, _ in starts[1:]] + [len(listing)]
    return tuple(
        _routine(name, _Stretch(start, min(end, len(listing)), listing, code.branches))
        for (start, name), end in zip(starts, ends, strict=True)
        if start < min(end, len(listing))
    )


def without_padding(listing: Sequence[DisassembledLine]) -> int:
    """How many instructions there are before what only fills the end: NOPs, and before them a
    branch to itself that nothing leads to."""
    end = len(listing)
    while end and listing[end - 1].opcode == "NOP":
        end -= 1
    last = end - 1
    if last < 1 or not _always_jumps(listing[last]) or _target(listing[last]) != last:
        return end
    led_to = any(_target(line) == last for line in listing[:last] if _steers(line.opcode))
    return end if led_to or _falls_through(listing[last - 1]) else last


class _Stretch(NamedTuple):
    """The code of one routine: instructions `start` to `end` of a listing."""

    start: int
    end: int
    listing: Sequence[DisassembledLine]
    branches: Mapping[int, tuple[int, ...]]

    def steering(self) -> list[int]:
        """Behind which instructions control may go on elsewhere than at the next one."""
        lines = self.listing[self.start : self.end]
        return [at for at, line in enumerate(lines, self.start) if _steers(line.opcode)]

    def successors(self, number: int) -> tuple[list[int], bool]:
        """Where control goes from an instruction, taken side first; and is all of that known?"""
        line = self.listing[number]
        root = line.opcode.partition(".")[0]
        after = [number + 1] if number + 1 < self.end and _falls_through(line) else []
        if root in _INDIRECT:
            targets = self.branches.get(number * BYTES)
            return self._inside(at // BYTES for at in targets or ()) + after, bool(targets)
        target = _target(line)
        return self._inside(() if target is None else (target,)) + after, True

    def _inside(self, targets: Iterable[int]) -> list[int]:
        return [at for at in targets if self.start <= at < self.end]


def _routine(name: str, stretch: _Stretch) -> Routine:
    leaders, targets, unresolved = {stretch.start}, dict[int, list[int]](), set[int]()
    for number in stretch.steering():
        to, is_known = stretch.successors(number)
        if not is_known:
            unresolved.add(number)
        if to == [number + 1] and not _ends_block(stretch.listing[number]):
            continue
        targets[number] = to
        leaders.update(to)
        if number + 1 < stretch.end:
            leaders.add(number + 1)
    starts = sorted(leaders)
    at = {start: number for number, start in enumerate(starts)}
    blocks = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else stretch.end
        after = targets.get(end - 1, [end] if end < stretch.end else [])
        blocks.append(Block(number, start, end, (), tuple(dict.fromkeys(at[t] for t in after))))
    order = reverse_postorder(0, {b.number: b.successors for b in blocks})
    open_ends = frozenset(b.number for b in blocks if b.end - 1 in unresolved)
    return Routine(name, FlowGraph(tuple(blocks), tuple(order)), open_ends)


# ---------------------------------------------------------------- one instruction


@lru_cache(maxsize=1 << 10)
def _steers(opcode: str) -> bool:
    """May control go on elsewhere than at the next instruction, or does a block end here?"""
    return opcode.partition(".")[0] in _STEERING


def _ends_block(line: DisassembledLine) -> bool:
    return line.opcode.partition(".")[0] in _ENDS


def _always_jumps(line: DisassembledLine) -> bool:
    """A branch without any condition: neither a predicate before it nor one among its operands, nor
    whether the warp is together."""
    root, _, modifier = line.opcode.partition(".")
    jumps = root in ("BRA", "JMP") or (root == "CALL" and _target(line) is not None)
    asks = line.predicate or "," in line.operands or modifier in _IF_TOGETHER
    return jumps and not asks


def _falls_through(line: DisassembledLine) -> bool:
    """May control go on behind this instruction?"""
    root = line.opcode.partition(".")[0]
    if root in _LEAVES or root in _INDIRECT:
        return line.predicate != ""
    return not _always_jumps(line)


def _target(line: DisassembledLine) -> int | None:
    """The number of the instruction that a direct branch leads to, None for anything else:
    `BSSY` names where lanes will meet, and the operand of `BPT` or `NANOSLEEP` is a plain number.
    """
    last = line.operands.rpartition(",")[2]
    if line.call or line.opcode.partition(".")[0] not in _DIRECT:
        return None
    return int(last, 16) // BYTES if last.startswith("0x") else None
