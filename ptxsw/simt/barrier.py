"""Barriers of a warp and of a block (manual 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from ptxsw.ptx.ir import Instruction, Int
from ptxsw.simt.code import Code
from ptxsw.simt.lanes import as_array
from ptxsw.simt.machine import Machine
from ptxsw.simt.releases import ordering_of
from ptxsw.simt.state import Array, Fragment, Index, PartialBarrier
from ptxsw.simt.threads import Threads
from ptxsw.simt.translate import (
    DONE,
    Op,
    Read,
    destinations,
    handles,
    read_operand,
    taking_part,
)
from ptxsw.simt.warp import Exchange, meeting


def _nothing(machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
    if machine.races is not None:
        machine.races.warps_met(idx)
    return [np.zeros(len(idx), np.bool_)]


def _warp_barrier(code: Code, instruction: Instruction, pc: int) -> Op:
    rite = Exchange(instruction.name, read_operand(code, instruction.operands[0]), (), (), _nothing)
    return meeting(code, instruction, pc, rite)


@handles("membar", "fence")
def fence(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.13.4. Memory is in order here: a fence counts for who looks for races. Between
    proxies it orders nothing that is modelled."""
    if {"proxy", "mbarrier_init"} & {name.split("::")[0] for name in instruction.modifiers}:
        return lambda machine, fragment: None
    ordering = ordering_of(instruction)

    def run(machine: Machine, fragment: Fragment) -> None:
        if machine.races is not None:
            machine.races.fence(fragment.idx, ordering)

    return run


@handles("bar", "barrier", guarded=True)
def bar(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.13.1 and 9.7.13.2: `.sync`, `.arrive`, `.red`, and `bar.warp.sync`."""
    modifiers = instruction.modifiers
    if "warp" in modifiers:
        return _warp_barrier(code, instruction, pc)
    if "cluster" in modifiers:
        raise ValueError("clusters are not modelled")
    operands = list(instruction.operands)
    slot, vote_read = None, None
    if "red" in modifiers:
        (slot,) = destinations(code, operands.pop(0))
        vote_read = read_operand(code, operands.pop())
    number = read_operand(code, operands[0] if operands else Int(0))
    expected = read_operand(code, operands[1]) if len(operands) > 1 else None
    kind = next((m for m in modifiers if m in ("popc", "and", "or")), "")
    aligned = instruction.opcode == "bar" or "aligned" in modifiers
    waits = "arrive" not in modifiers
    arrival = _Arrival(code, number, expected, vote_read, slot, kind, waits, aligned)

    def run(machine: Machine, fragment: Fragment) -> int | None:
        going = taking_part(machine, fragment, code, instruction)
        if len(going) == 0:
            return None
        part = fragment if len(going) == fragment.count else fragment.part(going)
        if arrival.opens(machine, part):
            return None
        if part is not fragment:
            rest = np.setdiff1d(fragment.idx, going, assume_unique=True)
            left_out = rest[np.isin(rest >> 5, part.warps)]
            if aligned and len(left_out):
                what = f"{instruction.name} by part of a warp: its guard leaves this thread out"
                raise machine.error(PartialBarrier, fragment, int(left_out[0]), what)
            machine.go(fragment, rest, pc + 1)
        arrival.come(machine, part)
        return DONE

    return run


class _Arrival(Struct, frozen=True):
    """A barrier instruction."""

    code: Code
    number: Read
    expected: Read | None
    votes: Read | None
    slot: int | None
    kind: str
    waits: bool
    aligned: bool

    def _numbers(self, machine: Machine, part: Fragment, read: Read) -> Array:
        value, poison = read(machine, part.frame, part.exact)
        if poison is not None:
            raise machine.poisoned(part, None, "is an operand of a barrier")
        return np.broadcast_to(as_array(value), part.count)

    def opens(self, machine: Machine, part: Fragment) -> bool:
        """Everybody is here: no need to wait."""
        numbers = self._numbers(machine, part, self.number)
        expected = None if self.expected is None else self._numbers(machine, part, self.expected)
        if not self.waits or (numbers != numbers[0]).any():
            return False
        count = None if expected is None else int(expected[0])
        if expected is not None and (expected != count).any():
            return False
        if not machine.barriers.open_for(part, count):
            return False
        machine.disturbed = True
        if self.aligned:
            machine.barriers.require_whole(part)
        if self.votes is not None:
            blocks = machine.block_of(part.idx)
            yes = np.bincount(blocks, self._truth(machine, part), machine.blocks)
            everybody = np.bincount(blocks, minlength=machine.blocks)
            self.give(part, yes[blocks].astype(np.int64), everybody[blocks])
        if machine.races is not None:
            machine.races.blocks_met(machine, part.idx)
        return True

    def _truth(self, machine: Machine, part: Fragment) -> Array:
        assert self.votes is not None
        value, poison = self.votes(machine, part.frame, part.exact)
        if poison is not None:
            raise machine.poisoned(part, None, "is an operand of a barrier")
        return np.broadcast_to(as_array(value), part.count).astype(np.int64)

    def come(self, machine: Machine, part: Fragment) -> None:
        """Arrives at the barriers that its threads name."""
        numbers = self._numbers(machine, part, self.number).astype(np.int64)
        counts = np.zeros(part.count, np.int64)
        if self.expected is not None:
            counts = self._numbers(machine, part, self.expected).astype(np.int64)
        truth = np.zeros(part.count, np.int64) if self.votes is None else self._truth(machine, part)
        if self.aligned:
            self._require_one(machine, part, numbers)
        for key in np.unique(numbers << 32 | counts):
            chosen = (numbers << 32 | counts) == key
            inner = part.part(part.idx[chosen])
            write = None if self.votes is None else self.give
            machine.barriers.arrive(
                inner, int(key) >> 32, int(key) & 0xFFFFFFFF, self.waits, truth[chosen], write,
                self.aligned,
            )  # fmt: skip
            if not self.waits:
                machine.go(part, inner.idx, part.pc + 1)

    def _require_one(self, machine: Machine, part: Fragment, numbers: Array) -> None:
        """Raises PartialBarrier where lanes of one warp name different barriers."""
        other = (numbers[1:] != numbers[:-1]) & (part.idx[1:] >> 5 == part.idx[:-1] >> 5)
        if other.any():
            at = int(np.argmax(other)) + 1
            name = self.code.instructions[part.pc].name
            which = f"of barrier {numbers[at]}, others of {numbers[at - 1]}"
            what = f"{name} by part of a warp: {which}"
            raise machine.error(PartialBarrier, part, int(part.idx[at]), what)

    def give(self, part: Fragment, yes: Array, everybody: Array) -> None:
        """Writes the result of `bar.red`, from how many said yes among how many."""
        answers: dict[str, Any] = {
            "popc": yes.astype(np.uint32), "and": yes == everybody, "or": yes > 0,
        }  # fmt: skip
        if self.slot is not None:
            part.frame.write(self.slot, part, answers[self.kind], None, exact=True)
