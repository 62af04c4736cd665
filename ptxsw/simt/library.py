"""Functions that programs call and no PTX holds: `vprintf`, `__assertfail`, `malloc`, `free`."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np

from ptxsw.ptx.ir import Operand, Symbol
from ptxsw.ptx.patterns import pattern
from ptxsw.simt.machine import Machine
from ptxsw.simt.memory import FIRST, LOCAL
from ptxsw.simt.state import Fragment, Trap

Routine = Callable[[Machine, Fragment, tuple[Operand, ...], tuple[Operand, ...]], None]
_CONVERSION = pattern(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d+|\*)?(?:\.(?P<precision>\d+|\*))?(?P<size>hh|h|ll|l|j|z|t)?"
    r"(?P<kind>[diouxXeEfFgGaAcsp%])"
)


def _bytes_at(machine: Machine, thread: int, address: int, size: int) -> bytes:
    """Bytes at a generic address as a thread sees it."""
    if address >= FIRST:
        data = machine.program.arena.data_at(address)
        return b"" if data is None else data[:size].tobytes()
    start = thread * machine.local_size + address - LOCAL
    return machine.local.data[start : start + size].tobytes()


def _string_at(machine: Machine, thread: int, address: int) -> str:
    data = machine.program.arena.data_at(address)
    if data is None:
        return f"<{address:#x}>"
    text: bytes = data.tobytes()
    return text.partition(b"\0")[0].decode("utf-8", "replace")


def _argument(
    machine: Machine, fragment: Fragment, operand: Operand, thread: int, size: int
) -> int:
    """An argument that lies in a variable of the caller's frame."""
    assert isinstance(operand, Symbol)
    offset = fragment.frame.base + fragment.frame.code.address(operand)[0]
    return int.from_bytes(_bytes_at(machine, thread, offset, size), "little")


def formatted(machine: Machine, thread: int, text: str, buffer: int) -> str:
    """A format with its arguments, which lie in a buffer as a C struct would hold them."""
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at = -(-at // size) * size
        data = _bytes_at(machine, thread, buffer + at, size)
        if len(data) < size:
            raise ValueError(f"printf reads {size} bytes at the end of its arguments' memory")
        at += size
        return data

    def replace(match: re.Match[str]) -> str:
        kind = match["kind"]
        if kind == "%":
            return "%"
        width = match["width"] or ""
        if width == "*":
            width = str(struct.unpack("<i", take(4))[0])
        precision = match["precision"]
        if precision == "*":
            precision = str(struct.unpack("<i", take(4))[0])
        spec = "%" + match["flags"] + width + ("" if precision is None else "." + precision)
        if kind in "eEfFgGaA":
            (number,) = struct.unpack("<d", take(8))
            return str(number.hex()) if kind in "aA" else (spec + kind) % number
        if kind == "s":
            address = int.from_bytes(take(8), "little")
            return (spec + "s") % _string_at(machine, thread, address)
        if kind == "p":
            return f"{int.from_bytes(take(8), 'little'):#x}"
        size = 8 if match["size"] in ("l", "ll", "j", "z", "t") else 4
        value = int.from_bytes(take(size), "little", signed=kind in "di")
        return (spec + ("c" if kind == "c" else "d" if kind in "diu" else kind)) % value

    return _CONVERSION.sub(replace, text)


def vprintf(
    machine: Machine,
    fragment: Fragment,
    given: tuple[Operand, ...],
    results: tuple[Operand, ...],
) -> None:
    """Keeps what each thread prints; the result is the number of arguments, which nobody reads."""
    for thread in map(int, fragment.idx):
        text = _string_at(machine, thread, _argument(machine, fragment, given[0], thread, 8))
        buffer = _argument(machine, fragment, given[1], thread, 8)
        machine.printed.append(formatted(machine, thread, text, buffer))
    _give(machine, fragment, results, [0] * fragment.count, 4)


def _give(
    machine: Machine,
    fragment: Fragment,
    results: tuple[Operand, ...],
    values: list[int],
    size: int,
) -> None:
    """Writes the result of each thread to the variable of the caller's frame it wants it in."""
    for result in results:
        if isinstance(result, Symbol):
            offset = fragment.frame.base + fragment.frame.code.address(result)[0] - LOCAL
            words = np.array(values, f"u{size}")
            machine.local.store(fragment.idx * machine.local_size + offset, size, words)


def malloc(
    machine: Machine,
    fragment: Fragment,
    given: tuple[Operand, ...],
    results: tuple[Operand, ...],
) -> None:
    """New memory for each thread, 0 where the heap is full; nothing is ever used again."""
    program, addresses = machine.program, []
    for thread in map(int, fragment.idx):
        size = -(-_argument(machine, fragment, given[0], thread, 8) // 16) * 16
        heap = program.heap
        if heap is None or program.heap_used + size > heap.size:
            addresses.append(0)
            continue
        addresses.append(heap.address + program.heap_used)
        program.heap_used += size
        machine.disturbed = True
    _give(machine, fragment, results, addresses, 8)


def free(
    machine: Machine,
    fragment: Fragment,
    given: tuple[Operand, ...],
    results: tuple[Operand, ...],
) -> None:
    """Does nothing: an access after it is not noticed."""


def assertfail(
    machine: Machine,
    fragment: Fragment,
    given: tuple[Operand, ...],
    results: tuple[Operand, ...],
) -> None:
    """`__assertfail(message, file, line, function, size)` stops the kernel."""
    thread = int(fragment.idx[0])
    message, file = (
        _string_at(machine, thread, _argument(machine, fragment, operand, thread, 8))
        for operand in given[:2]
    )
    line = _argument(machine, fragment, given[2], thread, 4)
    raise machine.error(Trap, fragment, thread, f"{file}:{line}: assertion `{message}` failed")


LIBRARY: dict[str, Routine] = {
    "vprintf": vprintf,
    "__assertfail": assertfail,
    "malloc": malloc,
    "free": free,
}
