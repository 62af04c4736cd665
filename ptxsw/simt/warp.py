"""What the lanes of a warp tell each other: shuffles, votes, matches; and barriers of the block.

PTX ISA 9.7.9.6 (shfl), 9.7.13 (bar, vote, match, activemask, redux, elect). The `.sync` forms wait
for all living lanes of their mask; the old forms take the lanes that are there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from ptxsw.ptx.ir import Instruction
from ptxsw.simt.code import Code
from ptxsw.simt.machine import Machine
from ptxsw.simt.rendezvous import lane_bits
from ptxsw.simt.state import Array, Fragment, Index
from ptxsw.simt.threads import Threads
from ptxsw.simt.translate import (
    DONE,
    LANES,
    Op,
    Read,
    destinations,
    handles,
    read_operand,
    taking_part,
)

Perform = Callable[[Threads, Index, list[Array]], list[Array]]
"""From the mask, the operands and marks of undefined operands to results and their marks."""


class Exchange(Struct, frozen=True):
    """A `WarpCollective`: reads operands of every lane, performs, writes as many results as there
    are destinations. After the mask and the operands come marks of what is undefined, an array for
    each operand; the last result marks what is undefined."""

    name: str
    mask: Read | None  # None: the lanes that are there
    operands: tuple[tuple[Read, int], ...]  # with widths
    slots: tuple[int | None, ...]
    compute: Perform

    def read(self, machine: Threads, fragment: Fragment) -> list[Array]:
        if self.mask is None:
            mask = lane_bits(machine, fragment.idx)[fragment.idx >> 5]
        else:
            mask, poison = self._value(machine, fragment, self.mask, 32)
            if poison.any():
                raise machine.poisoned(fragment, poison, "is a mask of lanes")
        pairs = [self._value(machine, fragment, read, width) for read, width in self.operands]
        return [mask, *(value for value, _ in pairs), *(marks for _, marks in pairs)]

    def _value(
        self, machine: Threads, fragment: Fragment, read: Read, width: int
    ) -> tuple[Array, Array]:
        value, poison = read(machine, fragment.frame, fragment.exact)
        if isinstance(value, int):
            value = LANES.const(value % (1 << width), width)
        array = LANES.extract(value, 0, width).array if value.width > width else value.array
        marks = np.zeros(1, np.bool_) if poison is None else np.asarray(poison)
        count = fragment.count
        return np.broadcast_to(array, count).copy(), np.broadcast_to(marks, count)

    def perform(self, machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
        machine.disturbed = True
        results = self.compute(machine, idx, brought)
        outside = (brought[0] >> (idx & 31).astype(np.uint32)) & np.uint32(1) == 0
        results[-1] = results[-1] | outside  # a lane that its own mask does not name
        return results

    def write(self, machine: Threads, fragment: Fragment, results: list[Array]) -> None:
        for thread in machine.unanswered if machine.unanswered else ():
            if machine.unanswered[thread] is None and thread in fragment.idx:
                machine.unanswered[thread] = machine.place(fragment, thread)
        undefined = results[-1]
        poison = undefined if undefined.any() else None
        count = len(self.slots)
        fragment.frame.write_all(self.slots, fragment, results[:count], [poison] * count, True)


def meeting(code: Code, instruction: Instruction, pc: int, rite: Exchange) -> Op:
    """An instruction that performs a rite among the lanes that its guard lets take part."""

    def run(machine: Machine, fragment: Fragment) -> int | None:
        going = taking_part(machine, fragment, code, instruction)
        code.threads[pc] -= fragment.count - len(going)
        if len(going) == 0:
            return None
        part = fragment if len(going) == fragment.count else fragment.part(going)
        if rite.mask is None:
            rite.write(machine, part, rite.perform(machine, part.idx, rite.read(machine, part)))
            return None
        return None if machine.meetings.hold(fragment, part, rite) else DONE

    return run


def _mask(code: Code, instruction: Instruction, at: int) -> Read | None:
    """The membermask of a `.sync` form."""
    return read_operand(code, instruction.operands[at]) if "sync" in instruction.modifiers else None


# ---------------------------------------------------------------- shuffles


def _source_lane(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The lane to take from, and whether it is in range."""
    clamp, segment = c & 31, c >> 8 & 31
    low = lane & segment
    last = low | (clamp & ~segment)
    b = b & 31
    if mode == "up":
        source = lane - b
        return source, source >= last
    if mode == "down":
        source = lane + b
    elif mode == "bfly":
        source = lane ^ b
    else:
        source = low | (b & ~segment)
    return source, source <= last


def shuffle(mode: str) -> Perform:
    """d = a of another lane, own a where that is out of range; p tells which."""

    def compute(machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
        mask, a, b, c, a_undefined, *others = brought
        undefined = others[0] | others[1]
        lane = idx & 31
        source, inside = _source_lane(mode, lane, b.astype(np.int64), c.astype(np.int64))
        source = np.where(inside, source, lane)
        position = np.full(machine.threads, -1, np.int64)
        position[idx] = np.arange(len(idx))
        source_position = position[(idx & ~np.int64(31)) | source]
        there = (source_position >= 0) & (mask[source_position] == mask)
        there &= (mask >> source.astype(np.uint32)) & np.uint32(1) == 1
        if not there.all():
            machine.unanswered |= dict.fromkeys(idx[~there].tolist())
        return [a[source_position], inside, ~there | undefined | a_undefined[source_position]]

    return compute


@handles("shfl", guarded=True)
def shfl(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.9.6."""
    mode = _mode(instruction, "up", "down", "bfly", "idx")
    slots = (*destinations(code, instruction.operands[0]), None)[:2]
    operands = tuple((read_operand(code, o), 32) for o in instruction.operands[1:4])
    rite = Exchange(instruction.name, _mask(code, instruction, 4), operands, slots, shuffle(mode))
    return meeting(code, instruction, pc, rite)


# ---------------------------------------------------------------- votes


def vote_of(mode: str) -> Perform:
    """Over the lanes that take part."""

    def compute(machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
        mask, truth, undefined = brought
        warps = idx >> 5
        named = (mask >> (idx & 31).astype(np.uint32)) & np.uint32(1) == 1
        yes = lane_bits(machine, idx[truth & named])[warps]
        everybody = lane_bits(machine, idx[named])[warps]
        marks = (lane_bits(machine, idx[undefined & named]) != 0)[warps]
        answers: dict[str, Any] = {
            "ballot": yes, "any": yes != 0, "all": yes == everybody,
            "uni": (yes == 0) | (yes == everybody),
        }  # fmt: skip
        return [answers[mode], marks]

    return compute


def _mode(instruction: Instruction, *modes: str) -> str:
    """Which of its modes an instruction has. Raises ValueError if it has none."""
    for modifier in instruction.modifiers:
        if modifier in modes:
            return modifier
    raise ValueError(f"none of {', '.join(modes)}")


@handles("vote", guarded=True)
def vote(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.13.8 and 9.7.13.9."""
    mode = _mode(instruction, "all", "any", "uni", "ballot")
    slots = tuple(destinations(code, instruction.operands[0]))
    operands = ((read_operand(code, instruction.operands[1]), 1),)
    rite = Exchange(instruction.name, _mask(code, instruction, 2), operands, slots, vote_of(mode))
    return meeting(code, instruction, pc, rite)


@handles("activemask")
def activemask(code: Code, instruction: Instruction, pc: int) -> Op:
    """The lanes that execute this very instruction; it waits for nobody."""
    (slot,) = destinations(code, instruction.operands[0])

    def run(machine: Machine, fragment: Fragment) -> None:
        machine.disturbed = True
        bits = lane_bits(machine, fragment.idx)[fragment.idx >> 5]
        if slot is not None:
            fragment.frame.write(slot, fragment, bits, None, exact=True)

    return run


# ---------------------------------------------------------------- by warp


def _by_warp(idx: Index, brought: list[Array]) -> list[tuple[slice, int]]:
    """The stretch of each warp within `idx`, and its mask."""
    cuts = np.flatnonzero(np.diff(idx >> 5)) + 1
    edges = [0, *map(int, cuts), len(idx)]
    return [(slice(low, high), int(brought[0][low])) for low, high in itertools.pairwise(edges)]


def match_of(everybody: bool) -> Perform:
    """The lanes that hold the same value; or whether all do."""

    def compute(machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
        _, values, undefined = brought
        bits = np.zeros(len(idx), np.uint32)
        agreed = np.zeros(len(idx), np.bool_)
        marks = undefined.copy()
        weights = np.uint32(1) << (idx & 31).astype(np.uint32)
        for stretch, _ in _by_warp(idx, brought):
            own, weight = values[stretch], weights[stretch]
            same = own[:, None] == own[None, :]
            bits[stretch] = (same * weight[None, :]).sum(axis=1, dtype=np.uint32)
            if everybody:
                agreed[stretch] = same.all()
                bits[stretch] *= np.uint32(same.all())
            marks[stretch] = undefined[stretch].any()
        return [bits, agreed, marks]

    return compute


@handles("match", guarded=True)
def match(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.13.10."""
    slots = (*destinations(code, instruction.operands[0]), None)[:2]
    width = 64 if "b64" in instruction.modifiers else 32
    operands = ((read_operand(code, instruction.operands[1]), width),)
    compute = match_of("all" in instruction.modifiers)
    rite = Exchange(instruction.name, _mask(code, instruction, 2), operands, slots, compute)
    return meeting(code, instruction, pc, rite)


def redux_of(operation: str, signed: bool) -> Perform:
    """One value of all lanes that take part."""
    functions: dict[str, Any] = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip

    def compute(machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
        _, values, undefined = brought
        view = values.view(np.int32) if signed else values
        out, marks = np.empty_like(view), undefined.copy()
        for stretch, _ in _by_warp(idx, brought):
            out[stretch] = functions[operation].reduce(view[stretch], dtype=view.dtype)
            marks[stretch] = undefined[stretch].any()
        return [out.view(np.uint32), marks]

    return compute


@handles("redux", guarded=True)
def redux(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.13.12, integers."""
    operation = _mode(instruction, "add", "min", "max", "and", "or", "xor")
    type_ = _mode(instruction, "s32", "u32", "b32")
    slots = tuple(destinations(code, instruction.operands[0]))
    operands = ((read_operand(code, instruction.operands[1]), 32),)
    compute = redux_of(operation, type_ == "s32")
    rite = Exchange(instruction.name, _mask(code, instruction, 2), operands, slots, compute)
    return meeting(code, instruction, pc, rite)


def _elect(machine: Threads, idx: Index, brought: list[Array]) -> list[Array]:
    leader = np.zeros(len(idx), np.uint32)
    for stretch, _ in _by_warp(idx, brought):
        order = machine.schedule.order(len(idx[stretch]))
        leader[stretch] = idx[stretch][0 if order is None else order[0]] & 31
    return [leader, leader == (idx & 31), np.zeros(len(idx), np.bool_)]


@handles("elect", guarded=True)
def elect(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.13.14: the lowest lane leads, or the one the schedule likes."""
    slots = tuple(destinations(code, instruction.operands[0]))
    rite = Exchange(
        instruction.name, read_operand(code, instruction.operands[1]), (), slots, _elect
    )
    return meeting(code, instruction, pc, rite)


# ---------------------------------------------------------------- barriers
