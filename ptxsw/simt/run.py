"""`launch`: runs a kernel over numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Function, Module
from ptxsw.ptx.source import Span
from ptxsw.simt import (  # noqa: F401  (their handlers)
    access,
    async_copies,
    atomics,
    barrier,
    branches,
    warp,
)
from ptxsw.simt.chunk import Geometry
from ptxsw.simt.conflicts import RACE
from ptxsw.simt.counters import Counters, Recorder
from ptxsw.simt.machine import Machine
from ptxsw.simt.memory import Buffer
from ptxsw.simt.program import Program
from ptxsw.simt.races import Races
from ptxsw.simt.schedule import Converging, Fuzzing, Schedule
from ptxsw.simt.state import Array
from ptxsw.simt.translate import translate_all

RESIDENT = 1 << 16
"""Threads that run at once: as many blocks as fit, at least one."""
LIMIT = 1 << 26
"""Instructions of groups of threads after which a launch is taken to run for ever."""


class LaunchResult(Struct, frozen=True):
    """What a launch leaves behind."""

    buffers: list[Array]  # the array arguments after the launch, in their order
    counters: Counters | None
    memory: Mapping[int, Array]  # the buffers at given addresses
    printed: list[str]  # by `printf`, in the order it happened
    variables: Mapping[str, Array]  # the bytes of module variables in global memory
    dynamic_shared: int = 0  # bytes of it that were in use, from its start to the last one reached
    steps: int = 0  # instructions of groups of threads that were run
    sides: Mapping[str, Sequence[int]] = {}
    """By function, of each instruction's guard: 1 it held for some thread, 2 it did not for some,
    3 both, 0 it was not reached or there is none."""


def launch(
    module: Module,
    kernel: str | None,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared: int = 0,
    memory: Mapping[int, Array] | None = None,
    variables: Mapping[str, Array] | None = None,
    read_only: frozenset[int] = frozenset(),
    seed: int | None = None,
    schedule: Schedule | None = None,
    merge_iterations: bool = False,
    counters: bool = True,
    races: bool | Races = False,
    only: range | None = None,
    resident: int = RESIDENT,
    limit: int = LIMIT,
    recorder: Recorder | None = None,
    results: bool = True,
    progress: Callable[[int], None] | None = None,
) -> LaunchResult:
    """Runs a kernel (None: the only one). Arrays among `args` are copied in and come back in the
    result; other arguments are scalars, or bytes for structures. `shared` is the dynamic shared
    memory in bytes; `memory` puts more buffers at addresses of the caller's choice, for pointers
    given as integers, and those at the addresses `read_only` may not be written; `variables` gives
    variables of the module other first values. Of a large grid `only` some blocks may be run, by
    their numbers in order (x first). A `seed` asks for a fuzzed schedule; `resident` blocks' worth
    of threads run at the same time. After `limit` instructions of groups of threads, of all blocks
    together, the launch is given up. A `recorder` sees every access; `progress` is told now and
    then how many instructions were run. Without `results` no memory is copied out at the end, and
    the result is empty.

    Raises RunError for what the program does wrong, Unsupported for what is not modelled.
    """
    require_64_bits(module)
    function = entry(module, kernel)
    geometry = Geometry(_three(grid), _three(block))
    if geometry.threads == 0 or geometry.blocks == 0 or geometry.threads > 1024:
        raise Unsupported(
            f"{function.name}: a block of {geometry.threads} threads", module.source, function.span
        )
    if schedule is None:
        schedule = Converging() if seed is None else Fuzzing(seed, merge_iterations)
    program = Program(module, function, args, shared, memory, variables, read_only)
    translate_all(program)
    counts = Counters() if counters else None
    watch = races if isinstance(races, Races) else Races((RACE,)) if races else None
    printed: list[str] = []
    at_once = max(1, resident // geometry.padded)
    steps = 0
    with np.errstate(all="ignore"):
        span = (
            range(geometry.blocks)
            if only is None
            else range(geometry.blocks)[only.start : only.stop]
        )
        for first in range(span.start, span.stop, at_once):
            blocks = min(at_once, span.stop - first)
            machine = Machine(program, geometry, first, blocks, schedule, counts, watch, limit)
            machine.steps = steps
            machine.waiting_blocks = geometry.blocks - (first + blocks - span.start)
            machine.recorder, machine.progress = recorder, progress
            if watch is not None:
                watch.begin(machine)
            machine.run()
            steps = machine.steps
            printed += machine.printed
    if counts is not None:
        counts.add_codes(program.codes.values())
    if recorder is not None:
        for code in program.codes.values():
            recorder.executed(code.instructions, code.warps)
    used = max(0, program.shared_top - program.dynamic_start)
    sides = {name: code.sides for name, code in program.codes.items()}
    if not results:
        return LaunchResult([], counts, {}, printed, {}, used, steps, sides)
    buffers = [_read_back(program, *output) for output in program.outputs]
    kept = {at: _read_back(program, *placed) for at, placed in program.placed.items()}
    return LaunchResult(buffers, counts, kept, printed, _variables(program), used, steps, sides)


def entry(module: Module, name: str | None) -> Function:
    """The kernel of a name, or for None the only one. Raises Unsupported where there is none."""
    kernels = module.kernels
    for function in kernels:
        if function.name == name or (name is None and len(kernels) == 1):
            return function
    names = ", ".join(function.name for function in kernels)
    span = module.functions[0].span if module.functions else Span(0, 0)
    if not kernels:
        problem = "no kernel with a body"
    elif name is None:
        problem = f"which kernel? name one of: {names}"
    else:
        problem = f"no kernel {name!r}; available: {names}"
    raise Unsupported(problem, module.source, span)


def require_64_bits(module: Module) -> None:
    """Raises Unsupported for a module with 32-bit addresses: here they have 64 bits."""
    if module.address_size != 64:
        span = next(d.span for d in reversed(module.directives) if d.name == "address_size")
        why = "programs with 32-bit addresses are not run (ptxas 13 does not assemble them, either)"
        raise Unsupported(why, module.source, span)


def _three(size: int | Sequence[int]) -> tuple[int, int, int]:
    given = (size,) if isinstance(size, int) else tuple(size)
    x, y, z = (*given, 1, 1)[:3]
    return int(x), int(y), int(z)


def _read_back(program: Program, buffer: Buffer, array: Array) -> Array:
    data = program.arena.bytes_of(buffer).copy()
    return data.view(array.dtype).reshape(array.shape)


def _variables(program: Program) -> dict[str, Array]:
    return {
        buffer.name: program.arena.bytes_of(buffer).copy()
        for buffer in program.arena.buffers
        if buffer.writable and program.symbols.get(buffer.name) == buffer.address
    }
