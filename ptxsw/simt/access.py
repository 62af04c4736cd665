"""Loads, stores, and what asks about addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ptxsw.ptx.ir import Instruction, Mem, Operand, Reg, Symbol, flatten
from ptxsw.simt.code import Code
from ptxsw.simt.extents import Extent
from ptxsw.simt.lanes import Bits
from ptxsw.simt.machine import Machine
from ptxsw.simt.memory import FIRST, LOCAL, SHARED, WINDOW, AccessedBytes
from ptxsw.simt.modifiers import AccessModifiers, access_of, within
from ptxsw.simt.state import (
    Array,
    Fragment,
    MemoryFault,
    Misaligned,
    PastDynamicShared,
    Poison,
)
from ptxsw.simt.translate import LANES, Op, destinations, handles, read_operand

Addresses = Callable[[Machine, Fragment], Array]
Fault = TypeVar("Fault", bound=MemoryFault)


def addresses_of(code: Code, operand: Operand, what: str) -> Addresses:
    """How the addresses of `[base+offset]` are found, as 64-bit numbers: one for each thread, or
    a single one."""
    if not isinstance(operand, Mem) or operand.extra:
        raise ValueError("this kind of address is not modelled")
    if not isinstance(operand.base, Reg | Symbol):
        return _fixed(code, operand)
    read, offset = read_operand(code, operand.base), np.uint64(operand.offset % (1 << 64))

    def find(machine: Machine, fragment: Fragment) -> Array:
        value, poison = read(machine, fragment.frame, fragment.exact)
        if poison is not None:
            undefined = poison if isinstance(poison, np.ndarray) else None
            raise machine.poisoned(fragment, undefined, what)
        base: Array = value.array.astype(np.uint64, copy=False)
        return base + offset if offset else base

    return find


def _fixed(code: Code, operand: Mem) -> Addresses:
    value, _ = read_operand(code, operand.base)(None, None, slice(0))  # type: ignore[arg-type]
    address = np.array([(int(value) + operand.offset) % (1 << 64)], np.uint64)
    return lambda machine, fragment: address


# ---------------------------------------------------------------- from addresses to bytes


def locate(
    machine: Machine,
    fragment: Fragment,
    addresses: Array,
    access: AccessModifiers,
    all_threads: bool,
) -> list[AccessedBytes]:
    """Where the bytes are. Raises MemoryFault. With `all_threads` one offset for each thread
    even where all have the same address."""
    size = access.bytes
    crooked = addresses & np.uint64(size - 1)
    if crooked.any():
        error = _fault(
            machine, fragment, addresses, crooked != 0, access, f"not aligned to {size} bytes",
            Misaligned,
        )  # fmt: skip
        error.ways = frozenset(crooked.tolist())
        raise error
    if access.space == "global":
        return [_arena(machine, fragment, addresses, None, access, all_threads)]
    if access.space in ("shared", "local"):
        return [_window(machine, fragment, addresses, None, access, access.space)]
    low = int(addresses.min())
    if low >= FIRST:
        return [_arena(machine, fragment, addresses, None, access, all_threads)]
    addresses = np.broadcast_to(addresses, fragment.count)
    places: list[AccessedBytes] = []
    window = addresses >> np.uint64(24)
    for name, base in (("shared", SHARED), ("local", LOCAL)):
        inside = window == np.uint64(base >> 24)
        if inside.all():
            return [_window(machine, fragment, addresses, None, access, name)]
        if inside.any():
            places.append(_window(machine, fragment, addresses, inside, access, name))
    outside = (window != np.uint64(SHARED >> 24)) & (window != np.uint64(LOCAL >> 24))
    if outside.any():
        places.append(_arena(machine, fragment, addresses, outside, access, True))
    return places


def _arena(
    machine: Machine,
    fragment: Fragment,
    addresses: Array,
    which: Array | None,
    access: AccessModifiers,
    all_threads: bool,
) -> AccessedBytes:
    chosen = addresses if which is None else addresses[which]
    if all_threads and len(chosen) == 1 and which is None:
        chosen = np.broadcast_to(chosen, fragment.count)
    arena = machine.program.arena
    offsets, bad = arena.offsets(chosen, access.bytes, access.write)
    if bad is not None:
        why = arena.describe(int(chosen[np.argmax(bad)]), access.bytes, access.write)
        part = fragment if which is None else fragment.part(fragment.idx[which])
        raise _fault(machine, part, chosen, bad, access, why, MemoryFault)
    return AccessedBytes(arena.region, offsets, which, True)


def _window(
    machine: Machine,
    fragment: Fragment,
    addresses: Array,
    which: Array | None,
    access: AccessModifiers,
    name: str,
) -> AccessedBytes:
    """Shared memory by block, local memory by thread."""
    idx = fragment.idx if which is None else fragment.idx[which]
    chosen = addresses if which is None else addresses[which]
    program = machine.program
    base, size = (SHARED, program.shared_size) if name == "shared" else (
        LOCAL, machine.local_size,
    )  # fmt: skip
    offsets = np.broadcast_to(chosen, len(idx)).view(np.int64) - base
    bad = (offsets < 0) | (offsets + access.bytes > size)
    if bad.any():
        part = fragment if which is None else fragment.part(idx)
        inside = bool(((offsets[bad] >= 0) & (offsets[bad] < WINDOW)).any())
        why = f"past the {size} bytes of {name} memory" if inside else f"not in {name} memory"
        more = inside and name == "shared" and program.has_dynamic_shared
        kind = PastDynamicShared if more else MemoryFault
        raise _fault(machine, part, chosen, bad, access, why, kind, name)
    if access.extent is not None:
        _require_within(machine, fragment, which, chosen, access, access.extent, name)
    if name == "shared":
        program.shared_top = max(program.shared_top, int(offsets.max()) + access.bytes)
        return AccessedBytes(machine.shared, machine.block_of(idx) * size + offsets, which, False)
    return AccessedBytes(machine.local, idx * size + offsets, which, False)


def _require_within(
    machine: Machine,
    fragment: Fragment,
    which: Array | None,
    chosen: Array,
    access: AccessModifiers,
    extent: Extent,
    space: str,
) -> None:
    """Raises MemoryFault where an access leaves its variable, be it for the next one."""
    frame = fragment.frame.base if extent.in_frame else 0
    at = chosen.view(np.int64)
    bad = (at < extent.start + frame) | (at + access.bytes > extent.end + frame)
    if bad.any():
        part = fragment if which is None else fragment.part(fragment.idx[which])
        why = f"outside the {extent.end - extent.start} bytes of {extent.name}"
        raise _fault(machine, part, chosen, bad, access, why, MemoryFault, space)


def _fault(
    machine: Machine,
    fragment: Fragment,
    addresses: Array,
    bad: Array,
    access: AccessModifiers,
    why: str,
    kind: type[Fault],
    space: str = "",
) -> Fault:
    at = int(np.flatnonzero(bad)[0])
    thread = int(fragment.idx[at])
    address = int(addresses[at if len(addresses) > 1 else 0])
    name = machine.instruction(fragment).name
    error = machine.error(kind, fragment, thread, f"{name} at {address:#x}: {why}")
    error.address, error.bytes = address, access.bytes
    error.space = space or (access.space if access.space in ("shared", "local") else "")
    return error


# ---------------------------------------------------------------- loads


def load_values(
    machine: Machine, fragment: Fragment, addresses: Array, access: AccessModifiers
) -> tuple[list[Array], list[Poison]]:
    """What the threads of a fragment find, an array for each element, and what of it is
    undefined."""
    watched = machine.races is not None or machine.recorder is not None
    places = locate(machine, fragment, addresses, access, watched)
    for place in places:
        if place.arena and access.counted and machine.counters is not None:
            idx = fragment.idx if place.which is None else fragment.idx[place.which]
            machine.counters.load(idx, place.offsets, access.bytes)
        if machine.recorder is not None:
            machine.recorder.access(machine, fragment, place, access.bytes, False)
        if machine.races is not None:
            machine.races.record(
                machine, fragment, place, access.size, access.count, False, access.ordering
            )
    columns: list[Array] = []
    poisons: list[Poison] = []
    for at in range(access.count):
        step = at * access.size
        if len(places) == 1 and places[0].which is None:
            columns.append(places[0].region.load(places[0].offsets + step, access.size))
            place, used = places[0], access.used >> step
            poisons.append(place.region.undefined(place.offsets + step, access.size, used))
            continue
        column = np.zeros(fragment.count, f"u{access.size}")
        marks = np.zeros(fragment.count, np.bool_)
        for place in places:
            column[place.which] = place.region.load(place.offsets + step, access.size)
            undefined = place.region.undefined(
                place.offsets + step, access.size, access.used >> step
            )
            marks[place.which] = False if undefined is None else undefined
        columns.append(column)
        poisons.append(marks if marks.any() else None)
    return columns, poisons


@handles("ld", "ldu")
def load(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.9.8: every space, vectors, narrow types into wider registers."""
    access = within(code, instruction.operands[1], access_of(instruction, False))
    slots = destinations(code, instruction.operands[0])
    if len(slots) != access.count:
        raise ValueError("the destination does not fit the type")
    widths = [access.width if slot is None else code.widths[slot] for slot in slots]
    find = addresses_of(code, instruction.operands[1], "is an address")
    signed = access.type.startswith("s")

    def run(machine: Machine, fragment: Fragment) -> None:
        addresses = find(machine, fragment)
        columns, poisons = load_values(machine, fragment, addresses, access)
        arrays = [
            _widened(Bits(column, access.width), width, signed).array
            for column, width in zip(columns, widths, strict=True)
        ]
        fragment.frame.write_all(slots, fragment, arrays, poisons, exact=True)

    return run


def _widened(value: Bits, width: int, signed: bool) -> Bits:
    if width == value.width:
        return value
    if width < value.width:
        return LANES.extract(value, 0, width)
    return LANES.sext(value, width) if signed else LANES.zext(value, width)


# ---------------------------------------------------------------- stores


def read_source(
    code: Code, operand: Operand, width: int
) -> Callable[[Machine, Fragment], tuple[Array, Poison]]:
    """How a source is read, as `width` bits: one element for each thread, or a single one."""
    read = read_operand(code, operand)

    def find(machine: Machine, fragment: Fragment) -> tuple[Array, Poison]:
        value, poison = read(machine, fragment.frame, fragment.exact)
        if isinstance(value, int):
            value = LANES.const(value % (1 << width), width)
        return _widened(value, width, False).array, poison

    return find


def read_defined(
    code: Code, operand: Operand, width: int, what: str
) -> Callable[[Machine, Fragment], Array]:
    """How a source that must be defined is read."""
    read = read_source(code, operand, width)

    def find(machine: Machine, fragment: Fragment) -> Array:
        value, poison = read(machine, fragment)
        if poison is not None:
            undefined = poison if isinstance(poison, np.ndarray) else None
            raise machine.poisoned(fragment, undefined, what)
        return value

    return find


@handles("st")
def store(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.9.11. Local memory, where registers are kept and arguments handed over, and
    shared memory may hold what is undefined; memory that is seen from outside may not."""
    access = within(code, instruction.operands[0], access_of(instruction, True))
    find = addresses_of(code, instruction.operands[0], "is an address")
    sources = [
        read_source(code, operand, access.width) for operand in flatten(instruction.operands[1:2])
    ]
    if len(sources) != access.count:
        raise ValueError("the source does not fit the type")

    def run(machine: Machine, fragment: Fragment) -> None:
        addresses = find(machine, fragment)
        values = [source(machine, fragment) for source in sources]
        for place in locate(machine, fragment, addresses, access, True):
            if machine.recorder is not None:
                machine.recorder.access(machine, fragment, place, access.bytes, True)
            if machine.races is not None:
                which = slice(None) if place.which is None else place.which
                written = [v if len(v) == 1 else v[which] for v, _ in values]
                machine.races.record(
                    machine, fragment, place, access.size, access.count, True, access.ordering,
                    written,
                )  # fmt: skip
            for at, (value, poison) in enumerate(values):
                step = at * access.size
                if poison is not None and place.arena and machine.recorder is None:
                    _refuse_poison(machine, fragment, place, poison)
                if place.which is not None and len(value) > 1:
                    value = value[place.which]
                place.region.store(place.offsets + step, access.size, value)
                if poison is not None and not place.arena:
                    marks = np.broadcast_to(np.asarray(poison), fragment.count)
                    marks = marks if place.which is None else marks[place.which]
                    place.region.leave_undefined(place.offsets + step, access.size, marks)

    return run


def _refuse_poison(
    machine: Machine, fragment: Fragment, place: AccessedBytes, poison: Poison
) -> None:
    """Raises Poisoned if a thread of the place stores what is undefined."""
    marks = np.broadcast_to(np.asarray(poison), fragment.count)
    if place.which is not None:
        marks = marks & np.isin(np.arange(fragment.count), np.flatnonzero(place.which))
    if marks.any():
        raise machine.poisoned(fragment, marks, "is stored")


@handles("isspacep")
def isspacep(code: Code, instruction: Instruction, pc: int) -> Op:
    """PTX ISA 9.7.9.19: which window an address is in; all else is global."""
    space = instruction.modifiers[0].split("::")[0]
    if space not in ("global", "shared", "local", "const", "param"):
        raise ValueError(f"isspacep.{space}")
    (slot,) = destinations(code, instruction.operands[0])
    read = read_operand(code, instruction.operands[1])

    def run(machine: Machine, fragment: Fragment) -> None:
        value, poison = read(machine, fragment.frame, fragment.exact)
        window = value.array.astype(np.uint64) >> np.uint64(24)
        shared, local = window == SHARED >> 24, window == LOCAL >> 24
        answers: dict[str, Any] = {"shared": shared, "local": local, "global": ~(shared | local)}
        answer = answers.get(space, np.zeros(1, np.bool_))
        if slot is not None:
            fragment.frame.write(slot, fragment, answer, poison, exact=True)

    return run
