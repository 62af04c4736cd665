"""Atomics and reductions: PTX ISA 9.7.13.5 and 9.7.13.6.

The threads of one instruction come one after the other, in the order of their numbers or in the
schedule's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxsw.ptx.ir import Instruction
from ptxsw.simt.access import addresses_of, locate, read_defined
from ptxsw.simt.code import Code
from ptxsw.simt.lanes import Bits
from ptxsw.simt.machine import Machine
from ptxsw.simt.memory import AccessedBytes, MemoryRegion
from ptxsw.simt.modifiers import AccessModifiers, access_of, within
from ptxsw.simt.state import Array, Fragment, Index
from ptxsw.simt.translate import LANES, Op, destinations, handles

Update = Callable[[Array, Array, Array | None], Array]
_OPERATIONS = ("add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas")
_FEW, _MANY = 48, 24  # up to so many addresses; more threads than this at one of them


def update_of(operation: str, type_: str, width: int, modifiers: tuple[str, ...]) -> Update:
    """What an atomic operation writes, from the old value, b and c."""
    if type_.startswith(("f", "bf")) and operation in ("add", "min", "max"):
        name = f"{operation}.{type_}" if operation != "add" else f"add.rn.{type_}"
        return lambda old, b, c: _floating(name, old, b, width)
    signed = type_.startswith("s")

    def least(old: Array, b: Array, c: Array | None) -> Array:
        x, y = Bits(old, width), Bits(b, width)
        less = LANES.slt(x, y) if signed else LANES.ult(x, y)
        return np.where(less.array, old, b)

    def greatest(old: Array, b: Array, c: Array | None) -> Array:
        x, y = Bits(old, width), Bits(b, width)
        less = LANES.slt(x, y) if signed else LANES.ult(x, y)
        return np.where(less.array, b, old)

    one, zero = np.dtype(f"u{width // 8}").type(1), np.dtype(f"u{width // 8}").type(0)
    table: dict[str, Update] = {
        "add": lambda old, b, c: old + b,
        "and": lambda old, b, c: old & b,
        "or": lambda old, b, c: old | b,
        "xor": lambda old, b, c: old ^ b,
        "min": least,
        "max": greatest,
        "inc": lambda old, b, c: np.where(old >= b, zero, old + one),
        "dec": lambda old, b, c: np.where((old == 0) | (old > b), b, old - one),
        "exch": lambda old, b, c: b,
        "cas": lambda old, b, c: np.where(old == b, c if c is not None else b, old),
    }
    return table[operation]


def _floating(name: str, old: Array, b: Array, width: int) -> Array:
    return LANES.floating(name, width, (Bits(old, width), Bits(b, width))).array


def _accumulated(operation: str, type_: str, old: Array, b: Array) -> Array | None:
    """All values a word goes through under one operation, or None where numpy has no such chain."""
    chain = np.concatenate([old, b])
    if type_ in ("f32", "f64") and operation == "add":
        values = np.add.accumulate(chain.view(f"f{chain.dtype.itemsize}"))
        return None if np.isnan(values).any() else values.view(chain.dtype)
    if type_[0] not in "usb":
        return None
    view = chain.view(f"i{chain.dtype.itemsize}") if type_[0] == "s" else chain
    functions: dict[str, Any] = {
        "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "min": np.minimum, "max": np.maximum,
    }  # fmt: skip
    if operation not in functions:
        return None
    out: Array = functions[operation].accumulate(view, dtype=view.dtype)
    return out.view(chain.dtype)


def _one_by_one(
    region: MemoryRegion, offsets: Index, size: int, b: Array, c: Array | None, update: Update,
    operation: str, type_: str,
) -> Array:  # fmt: skip
    """Old values seen by threads that come in the order of the arrays."""
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(ordered)]]))
    old = np.empty(len(offsets), f"u{size}")
    if len(starts) <= _FEW and lengths.max() > _MANY and not region.watched:
        done = True
        for start, length in zip(starts, lengths, strict=True):
            who = order[start : start + length]
            first = region.load(ordered[start : start + 1], size)
            chain = _accumulated(operation, type_, first, b[who])
            if chain is None:
                done = False
                break
            old[who] = chain[:-1]
        if done:
            for start, length in zip(starts, lengths, strict=True):
                who = order[start + length - 1 : start + length]
                region.store(offsets[who], size, update(old[who], b[who], None))
            return old
    rank = np.arange(len(ordered)) - np.repeat(starts, lengths)
    for turn in range(int(lengths.max())):
        who = order[rank == turn]
        before = region.load(offsets[who], size)
        old[who] = before
        region.store(offsets[who], size, update(before, b[who], None if c is None else c[who]))
    return old


@handles("atom", "red")
def atomic(code: Code, instruction: Instruction, pc: int) -> Op:
    """`atom` gives the old value, `red` nothing."""
    access = access_of(instruction, True)
    if access.count > 1:
        raise ValueError("vector atomics are not modelled")
    gives = instruction.opcode == "atom"
    operation = next((m for m in instruction.modifiers if m in _OPERATIONS), "")
    if not operation:
        raise ValueError(f"{instruction.name} is not modelled")
    (slot,) = destinations(code, instruction.operands[0]) if gives else (None,)
    rest = instruction.operands[1:] if gives else instruction.operands
    access = within(code, rest[0], access)
    find = addresses_of(code, rest[0], "is an address")
    wanted = 2 if operation == "cas" else 1
    sources = [read_defined(code, o, access.width, "is stored") for o in rest[1 : 1 + wanted]]
    update = update_of(operation, access.type, access.width, instruction.modifiers)

    def run(machine: Machine, fragment: Fragment) -> None:
        addresses = find(machine, fragment)
        values = [np.broadcast_to(source(machine, fragment), fragment.count) for source in sources]
        old = np.empty(fragment.count, f"u{access.size}")
        marks = np.zeros(fragment.count, np.bool_)
        for place in locate(machine, fragment, addresses, access, True):
            come = machine.schedule.order(len(place.offsets))
            if machine.recorder is not None:
                machine.recorder.access(machine, fragment, place, access.bytes, True)
            if machine.races is not None:
                machine.races.record(
                    machine, fragment, place, access.size, 1, True, access.ordering, (), come
                )
            undefined = place.region.undefined(place.offsets, access.size)
            seen = _apply(place, access, values, update, operation, come)
            which = slice(None) if place.which is None else place.which
            old[which] = seen
            if undefined is not None:
                place.region.leave_undefined(place.offsets, access.size, undefined)
                marks[which] = undefined
        if slot is not None:
            poison = marks if marks.any() else None
            fragment.frame.write(slot, fragment, old, poison, exact=True)

    return run


def _apply(
    place: AccessedBytes, access: AccessModifiers, values: list[Array], update: Update,
    operation: str, shuffled: Index | None,
) -> Array:  # fmt: skip
    """Old values in the order of the threads, which come in another."""
    if place.which is not None:
        values = [value[place.which] for value in values]
    b, c = values[0], values[1] if len(values) > 1 else None
    offsets = place.offsets
    if shuffled is None:
        return _one_by_one(place.region, offsets, access.size, b, c, update, operation, access.type)
    seen = _one_by_one(
        place.region, offsets[shuffled], access.size, b[shuffled],
        None if c is None else c[shuffled], update, operation, access.type,
    )  # fmt: skip
    old = np.empty_like(seen)
    old[shuffled] = seen
    return old
