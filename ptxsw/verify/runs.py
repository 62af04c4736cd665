"""One run of a kernel on a launch, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ptxsw.ptx.ir import Module, type_width
from ptxsw.simt import RACE, STRONG, Races, RunError
from ptxsw.simt import launch as simulate
from ptxsw.simt.run import RESIDENT
from ptxsw.simt.state import Livelock, Runaway
from ptxsw.verify.arguments import Argument, Data
from ptxsw.verify.contents import float_bits, is_float
from ptxsw.verify.launches import BASE, STEP, Fields, Launch

Array = NDArray[Any]

LIMIT = 1 << 21
"""Steps of groups of threads after which a kernel is taken to run for ever."""


class Outcome(Struct, frozen=True):
    """What one run left behind: the bytes of all buffers by name, or the error it ended with."""

    buffers: tuple[tuple[str, Array], ...] = ()
    printed: tuple[str, ...] = ()
    error: RunError | None = None
    idle: bool = False  # nothing was changed or printed
    dynamic_shared: int = 0  # bytes of it that were in use

    steps: int = 0  # of groups of threads
    sides: Mapping[str, Sequence[int]] = {}  # of guards, by function: as `LaunchResult` has them

    def same(self, other: Outcome) -> bool:
        """Did both end, or both fail, and leave the same behind? A NaN is as good as another: PTX
        leaves open which one most operations give."""
        return (
            (self.error is None) == (other.error is None)
            and sorted(self.printed) == sorted(other.printed)
            and differing(self, other) is None
        )


def differing(first: Outcome, second: Outcome) -> tuple[str, int, int, Any, Any] | None:
    """The first element that differs: the buffer's name, its number, how many more do, and its
    values."""
    for (name, one), (_, two) in zip(first.buffers, second.buffers, strict=False):
        if one.tobytes() == two.tobytes():
            continue
        x, y = (np.ascontiguousarray(v).reshape(-1) for v in (one, two))
        apart = (x.view(np.uint8) != y.view(np.uint8)).reshape(-1, x.itemsize).any(axis=1)
        if x.dtype.kind == "f":
            apart &= ~(np.isnan(x) & np.isnan(y))
        places = np.flatnonzero(apart)
        if len(places):
            at = int(places[0])
            return name, at, len(places) - 1, x[at], y[at]
    return None


def run(
    module: Module,
    kernel: str,
    launch: Launch,
    seed: int | None = None,
    *,
    resident: int = RESIDENT,
    merge_iterations: bool = False,
    races: bool = False,
    limit: int = LIMIT,
) -> Outcome:
    """One run of a kernel, given up after `limit` steps; with `races` one in which threads race,
    or strong accesses have no order, ends with an error. Raises Unsupported for what the
    interpreter does not model."""
    values, memory, names = placed(module, kernel, launch)
    try:
        result = simulate(
            module, kernel, launch.grid, launch.block, values, shared=launch.shared,
            memory=memory, variables=contents_of(launch), seed=seed, counters=False, limit=limit,
            resident=resident, merge_iterations=merge_iterations,
            races=Races((RACE, STRONG)) if races else False,
            only=None if launch.only is None else range(*launch.only),
        )  # fmt: skip
    except RunError as error:
        endless = isinstance(error, Runaway) and not isinstance(error, Livelock)
        return Outcome(error=error, steps=limit if endless else 0)
    buffers = [(names[at], array) for at, array in sorted(result.memory.items())]
    buffers += sorted(result.variables.items())
    idle = not result.printed and all(
        result.memory[at].tobytes() == array.tobytes() for at, array in memory.items()
    )
    return Outcome(
        tuple(buffers), tuple(result.printed), None, idle, result.dynamic_shared, result.steps,
        result.sides,
    )  # fmt: skip


def contents_of(launch: Launch) -> dict[str, Array]:
    """The first values of variables that a launch gives."""
    return {name: data.array() for name, data in launch.variables}


def placed(
    module: Module, kernel: str, launch: Launch, content: Callable[[Data], Array] = Data.array
) -> tuple[list[Any], dict[int, Array], dict[int, str]]:
    """The arguments with buffers at addresses of our own, the buffers, and their names. `content`
    says what a buffer holds."""
    params = next(f.params for f in module.functions if f.name == kernel)
    memory: dict[int, Array] = {}
    names: dict[int, str] = {}
    following = BASE

    def pointer(data: Data, name: str) -> int:
        nonlocal following
        address, array = following, content(data)
        following += STEP * (1 + (array.nbytes - 1) // STEP)
        memory[address - data.before] = array
        names[address - data.before] = name
        return address

    values: list[Any] = []
    for at, argument in enumerate(launch.args):
        name = params[at].name if at < len(params) else str(at)
        if isinstance(argument, Fields):
            size = params[at].dims[0] or 1
            values.append(_packed(argument, size * type_width(params[at].type) // 8, pointer, name))
        else:
            values.append(pointer(argument, name) if isinstance(argument, Data) else argument)
    for address, data in launch.memory:
        memory[address] = content(data)
        names[address] = f"memory at {address:#x}"
    return values, memory, names


def _packed(argument: Fields, size: int, pointer: Any, name: str) -> bytes:
    """A structure as its bytes."""
    block = bytearray(size)
    for at, type_, value in argument.fields:
        data = _bytes(value, type_, pointer, f"{name}+{at}")
        block[at : at + len(data)] = data
    return bytes(block)


def _bytes(value: Argument, type_: str, pointer: Any, name: str) -> bytes:
    width = type_width(type_) // 8
    if isinstance(value, Data):
        return int(pointer(value, name)).to_bytes(width, "little")
    if is_float(type_):
        return float_bits(float(value), type_).to_bytes(width, "little")
    number = int(value)
    return (number % (1 << 8 * width)).to_bytes(width, "little")
