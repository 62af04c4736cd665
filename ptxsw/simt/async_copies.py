"""Asynchronous copies to shared memory that are waited for by groups: PTX ISA 9.7.9.25.3.

A copy reads when it is issued and writes when a thread waits for its group, as late as it may.
"""

from __future__ import annotations

import numpy as np

from ptxsw.ptx.ir import Instruction, Int
from ptxsw.simt.access import addresses_of, load_values, locate, read_defined
from ptxsw.simt.code import Code
from ptxsw.simt.machine import Machine
from ptxsw.simt.modifiers import AccessModifiers, within
from ptxsw.simt.releases import Ordering
from ptxsw.simt.state import AsyncCopy, Fragment
from ptxsw.simt.translate import Op, handles

_LASTS = Ordering(lasting=True)


@handles("cp")
def cp(code: Code, instruction: Instruction, pc: int) -> Op:
    """`cp.async` with its `commit_group`, `wait_group` and `wait_all`."""
    modifiers = instruction.modifiers
    if "async" not in modifiers or "bulk" in modifiers or "mbarrier" in modifiers:
        raise ValueError("copies that a barrier object completes are not modelled")
    if "commit_group" in modifiers:
        return _commit
    if "wait_all" in modifiers:
        return lambda machine, fragment: _wait(machine, fragment, -1)
    if "wait_group" in modifiers:
        (count,) = instruction.operands
        if not isinstance(count, Int):
            raise ValueError("the number of groups is not a literal")
        left = count.value
        return lambda machine, fragment: _wait(machine, fragment, left)
    return _issue(code, instruction)


def _issue(code: Code, instruction: Instruction) -> Op:
    target, source, size, *rest = instruction.operands
    if not isinstance(size, Int) or size.value not in (4, 8, 16):
        raise ValueError("the size of a copy is 4, 8 or 16")
    words = size.value // 4
    to, of = (
        addresses_of(code, target, "is an address"),
        addresses_of(code, source, "is an address"),
    )
    write = within(code, target, AccessModifiers("shared", "b32", 32, words, True, False, _LASTS))
    read = AccessModifiers("global", "b32", 32, words, False, True, _LASTS)
    # The bytes actually read, zeros after them; or a predicate to read none.
    ignore = next((o for o in rest), None) if "ignore" not in instruction.modifiers else None
    valid = None if ignore is None else read_defined(code, ignore, 32, "is the size of a copy")

    def run(machine: Machine, fragment: Fragment) -> None:
        (place,) = locate(machine, fragment, to(machine, fragment), write, True)
        if machine.races is not None:
            machine.races.record(machine, fragment, place, 4, words, True, _LASTS)
        count = np.full(fragment.count, 4 * words)
        if valid is not None:
            count[:] = valid(machine, fragment)
        columns = [np.zeros(fragment.count, np.uint32) for _ in range(words)]
        reading = np.flatnonzero(count > 0)
        if len(reading):
            part = fragment.part(fragment.idx[reading])
            addresses = np.broadcast_to(of(machine, fragment), fragment.count)[reading]
            loaded, _ = load_values(machine, part, addresses, read)
            for at, column in enumerate(loaded):
                bits = np.clip(8 * (count[reading] - 4 * at), 0, 32).astype(np.uint64)
                keep = ((np.uint64(1) << bits) - np.uint64(1)).astype(np.uint32)
                columns[at][reading] = column & keep
        group = machine.committed[fragment.idx].copy()
        machine.disturbed = True
        machine.copies.append(AsyncCopy(fragment.idx, place.offsets, columns, group))

    return run


def _commit(machine: Machine, fragment: Fragment) -> None:
    """What was copied since is a group."""
    machine.disturbed = True
    machine.committed[fragment.idx] += 1


def _wait(machine: Machine, fragment: Fragment, left: int) -> None:
    """All but the last `left` groups of each thread are written now; -1: all copies are."""
    waits = np.zeros(machine.threads, np.bool_)
    waits[fragment.idx] = True
    if machine.races is not None:
        machine.races.waited(machine, waits, left)
    still: list[AsyncCopy] = []
    for copy in machine.copies:
        done = waits[copy.idx] & (copy.group < machine.committed[copy.idx] - left)
        if not done.any():
            still.append(copy)
            continue
        now = copy if done.all() else copy.split(done)
        for at, column in enumerate(now.columns):
            machine.shared.store(now.offsets + 4 * at, 4, column)
        if not done.all():
            still.append(copy.split(~done))
    machine.copies = still
