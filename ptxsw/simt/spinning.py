"""Threads that spin: they come back to where they were, and nothing has changed meanwhile.

Whoever waits for a word of memory goes round a loop without an effect. A fragment spins if one
iteration leaves all its registers as they were and changes no byte of memory, not even for a
moment. It then goes round until somebody else changes memory. If all that can run do so, nobody
does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxsw.simt.code import Code
from ptxsw.simt.state import Array, Fragment
from ptxsw.simt.threads import Threads

FIRST_LOOK = 1 << 12
"""Instructions of a turn before the first look; then each stretch is twice as long."""
_LONGEST = 1 << 9  # instructions of one iteration
_READS = ("ld", "ldu", "atom")
_WRITES = ("st", "atom", "red")
_MORE = ("call", "cp", "bar", "barrier")  # they change what is neither register nor memory

Step = Callable[[Fragment, int], bool]
"""Runs so many instructions of a fragment; False where it is no more."""


def spins(machine: Threads, fragment: Fragment, step: Step) -> bool | None:
    """Does it come round without an effect? None where it parted or ended on the way. If it does,
    it is left where it reads memory, if it reads any."""
    code = fragment.frame.code
    for _ in range(_LONGEST):
        if _opcode(code, fragment.pc) in _READS:
            break
        if not step(fragment, 1):
            return None
    return _comes_round(machine, fragment, step)


def _comes_round(machine: Threads, fragment: Fragment, step: Step) -> bool | None:
    code, start, registers = fragment.frame.code, fragment.pc, _registers(fragment)
    memory: list[Array | None] | None = None
    for _ in range(_LONGEST):
        opcode = _opcode(code, fragment.pc)
        if opcode in _MORE:
            return False
        if opcode in _WRITES and memory is None:
            memory = [None if part is None else part.copy() for part in _memory(machine)]
        steps = machine.steps
        if not step(fragment, 1):
            return None
        if machine.steps != steps + 1:  # it read the clock
            return False
        if opcode in _WRITES and memory is not None and not _same(memory, _memory(machine)):
            return False
        if fragment.pc == start:
            return _same(registers, _registers(fragment))
    return False


def _opcode(code: Code, pc: int) -> str:
    return code.instructions[pc].opcode if pc < len(code.instructions) else ""


def _registers(fragment: Fragment) -> list[Array | None]:
    """The registers of a fragment, and which of them hold nothing defined: copies."""
    frame = fragment.frame
    values = [None if v is None else v[fragment.exact].copy() for v in frame.values]
    poison = [
        p[fragment.exact].copy() if isinstance(p, np.ndarray) else np.array(p is True)
        for p in frame.poison
    ]
    return [*values, *poison]


def _memory(machine: Threads) -> list[Array | None]:
    arena = machine.program.arena.region
    return [arena.data, machine.shared.data, machine.local.data, machine.local_marks]


def _same(one: list[Array | None], other: list[Array | None]) -> bool:
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in zip(one, other, strict=True)
    )
