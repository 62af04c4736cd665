"""Two kernels run side by side on the same launches: all they leave behind must be equal.

Both run with threads that meet again where paths join, and under fuzzed schedules. What the
second does that no machine defines (an undefined value used, a deadlock, an access out of bounds)
and the first does not is a difference, too. A launch in which the first kernel's own results
depend on the schedule says nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from ptxsw.ptx.ir import Module, type_width
from ptxsw.simt import MemoryFault, RunError
from ptxsw.simt import launch as simulate
from ptxsw.simt.run import RESIDENT
from ptxsw.simt.state import PastDynamicShared
from ptxsw.verify.arguments import Argument, Data
from ptxsw.verify.launches import BASE, STEP, Fields, Launch, amended, buffers

Array = NDArray[Any]

_ATTEMPTS = 12  # at a launch in which the original stays in bounds
MOST_SHARED = 227 << 10
"""Bytes of shared memory that a block may have on the GPUs that allow most."""
LIMIT = 1 << 21
"""Steps of groups of threads after which a kernel is taken to run for ever."""


class Outcome(Struct, frozen=True):
    """What one run left behind: the bytes of all buffers by name, or the error it ended with."""

    buffers: tuple[tuple[str, Array], ...] = ()
    printed: tuple[str, ...] = ()
    error: RunError | None = None
    idle: bool = False  # nothing was changed or printed
    dynamic_shared: int = 0  # bytes of it that were in use

    def same(self, other: Outcome) -> bool:
        return (
            (self.error is None) == (other.error is None)
            and sorted(self.printed) == sorted(other.printed)
            and all(
                a.tobytes() == b.tobytes()
                for (_, a), (_, b) in zip(self.buffers, other.buffers, strict=True)
            )
        )


class Difference(Struct, frozen=True):
    """Where two kernels part: `seed` is of the schedule, None for the converging one."""

    launch: Launch
    seed: int | None
    what: str


class Comparison(Struct):
    """What was run, and the first difference."""

    difference: Difference | None = None
    launches: int = 0  # on which both were compared
    runs: int = 0
    skipped: list[str] = field(default_factory=list)  # why a launch said nothing


def run(
    module: Module,
    kernel: str,
    launch: Launch,
    seed: int | None = None,
    *,
    resident: int = RESIDENT,
    merge_iterations: bool = False,
    races: bool = False,
) -> Outcome:
    """One run of a kernel; with `races` one in which threads race ends with an error. Raises
    Unsupported for what the interpreter does not model."""
    values, memory, names = placed(module, kernel, launch)
    try:
        result = simulate(
            module, kernel, launch.grid, launch.block, values, shared=launch.shared,
            memory=memory, seed=seed, counters=False, limit=LIMIT, resident=resident,
            merge_iterations=merge_iterations, races=races,
            only=None if launch.only is None else range(*launch.only),
        )  # fmt: skip
    except RunError as error:
        return Outcome(error=error)
    buffers = [(names[at], array) for at, array in sorted(result.memory.items())]
    buffers += sorted(result.variables.items())
    idle = not result.printed and all(
        result.memory[at].tobytes() == array.tobytes() for at, array in memory.items()
    )
    return Outcome(tuple(buffers), tuple(result.printed), None, idle, result.dynamic_shared)


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
    if type_ in ("f32", "f64"):
        return struct.pack("<f" if width == 4 else "<d", value)
    number = int(value)
    return (number % (1 << 8 * width)).to_bytes(width, "little")


# ---------------------------------------------------------------- comparing


def compare(
    a: Module,
    b: Module,
    kernel: str,
    launches: Iterable[Launch],
    *,
    seeds: Sequence[int] = (1, 2, 3),
    amend: bool = True,
    merge_iterations: bool = False,
) -> Comparison:
    """Runs both on each launch until they differ. With `amend` a launch in which the first
    leaves its buffers is changed until it does not; with `merge_iterations` fuzzed schedules may
    merge lanes of the second kernel that are in different iterations of a loop.

    Raises Unsupported for what the interpreter does not model.
    """
    comparison = Comparison()
    compared: list[tuple[Launch, Outcome]] = []
    for proposed in launches:
        launch, first = cleaned(a, kernel, proposed, amend)
        comparison.runs += 1
        if first.error is not None:
            comparison.skipped.append(first.error.message)
            continue
        second = run(b, kernel, launch)
        comparison.runs += 1
        if amend and not launch.shared:
            launch, first, second = _with_room(a, b, kernel, launch, first, second)
        if second.same(first) and first.idle:
            comparison.skipped.append("the first kernel does nothing that can be seen")
        elif second.same(first):
            comparison.launches += 1
            compared.append((launch, first))
        elif _steady(comparison, a, kernel, launch, first, seeds):
            what = _described(b, kernel, launch, None, first, second)
            comparison.difference = _smaller(a, b, kernel, Difference(launch, None, what))
            return comparison
    for launch, first in compared:
        comparison.difference = _fuzzed(
            comparison, a, b, kernel, launch, first, seeds, merge_iterations
        )
        if comparison.difference is not None:
            return comparison
    return comparison


def cleaned(a: Module, kernel: str, launch: Launch, amend: bool = True) -> tuple[Launch, Outcome]:
    """A launch in which the first kernel stays within its buffers, if one is found. Dynamic shared
    memory is as large as it needs, and no larger."""
    outcome = run(a, kernel, launch)
    given = launch.shared
    for _ in range(_ATTEMPTS if amend else 0):
        if not isinstance(outcome.error, MemoryFault):
            break
        other = roomier(a, launch, outcome.error) or amended(launch, outcome.error.message)
        if other is None:
            break
        launch, outcome = other, run(a, kernel, other)
    if outcome.error is None and launch.shared > max(given, outcome.dynamic_shared):
        launch = replace(launch, shared=max(given, outcome.dynamic_shared))
        outcome = run(a, kernel, launch)
    return launch, outcome


def roomier(module: Module, launch: Launch, fault: MemoryFault) -> Launch | None:
    """The launch with all the dynamic shared memory that a block may have, after a fault past what
    it has; None if that is not what went wrong."""
    if not isinstance(fault, PastDynamicShared):
        return None
    static = sum(v.size for v in module.variables if v.space == "shared")
    most = (MOST_SHARED - static) // 16 * 16
    return replace(launch, shared=most) if launch.shared < most else None


def _with_room(
    a: Module, b: Module, kernel: str, launch: Launch, first: Outcome, second: Outcome
) -> tuple[Launch, Outcome, Outcome]:
    """A launch that gives the second kernel the dynamic shared memory that the first does without,
    and what both do in it."""
    if not isinstance(second.error, MemoryFault) or roomier(b, launch, second.error) is None:
        return launch, first, second
    more, again = cleaned(b, kernel, launch)
    if replace(more, shared=0) != launch:
        return launch, first, second
    return more, run(a, kernel, more), again


def _steady(
    comparison: Comparison,
    a: Module,
    kernel: str,
    launch: Launch,
    first: Outcome,
    seeds: Sequence[int],
) -> bool:
    """Does the first kernel do the same however its threads are scheduled? Asked only once the
    second differs. Blocks are run one after the other, and under more schedules; under many if
    threads race, which need not matter: they may all store the same."""
    same = run(a, kernel, launch, resident=1).same(first)
    racing = same and launch.fuzz and run(a, kernel, launch, races=True).error is not None
    more = (*seeds, *range(1, 33 if racing else 6)) if launch.fuzz else ()
    if same and all(run(a, kernel, launch, seed).same(first) for seed in dict.fromkeys(more)):
        return True
    comparison.skipped.append("the results of the first kernel depend on the schedule")
    return False


def _fuzzed(
    comparison: Comparison, a: Module, b: Module, kernel: str, launch: Launch, first: Outcome,
    seeds: Sequence[int], merge: bool,
) -> Difference | None:  # fmt: skip
    for seed in seeds if launch.fuzz else ():
        outcome = run(b, kernel, launch, seed, merge_iterations=merge)
        comparison.runs += 1
        if outcome.same(first):
            continue
        if not _steady(comparison, a, kernel, launch, first, (seed, *seeds)):
            comparison.launches -= 1
            return None
        return Difference(launch, seed, _described(b, kernel, launch, seed, first, outcome))
    return None


def _smaller(a: Module, b: Module, kernel: str, difference: Difference) -> Difference:
    """The same difference on fewer blocks, where it is there, too."""
    for axis in range(3):
        grid = list(difference.launch.grid)
        if grid[axis] == 1 or difference.launch.only is not None:
            continue
        grid[axis] = 1
        launch = replace(difference.launch, grid=(grid[0], grid[1], grid[2]))
        first, second = run(a, kernel, launch), run(b, kernel, launch, difference.seed)
        if first.error is None and not second.same(first):
            what = _described(b, kernel, launch, difference.seed, first, second)
            difference = Difference(launch, difference.seed, what)
    return difference


# ---------------------------------------------------------------- saying what differs


def _described(
    b: Module, kernel: str, launch: Launch, seed: int | None, first: Outcome, second: Outcome
) -> str:
    if second.error is not None:
        return f"the second kernel fails:\n{second.error}"
    if sorted(first.printed) != sorted(second.printed):
        return "the kernels print different things"
    for (name, one), (_, two) in zip(first.buffers, second.buffers, strict=True):
        x, y = (np.ascontiguousarray(v).reshape(-1) for v in (one, two))
        size = x.itemsize
        apart = (x.view(np.uint8) != y.view(np.uint8)).reshape(-1, size).any(axis=1)
        if apart.any():
            at = int(np.flatnonzero(apart)[0])
            more = int(np.count_nonzero(apart)) - 1
            data = next((d for n, d in _named(b, kernel, launch) if n == name), None)
            index = at - (data.first if data is not None else 0)
            return (
                f"{name}[{index}] is {x[at]!s} in the first and {y[at]!s} in the second"
                + (f", and {more} more elements differ" if more else "")
                + _writer(b, kernel, launch, seed, name, at)
            )
    raise AssertionError("nothing differs")


def _named(module: Module, kernel: str, launch: Launch) -> Iterator[tuple[str, Data]]:
    _, memory, names = placed(module, kernel, launch)
    for address, (_, data) in zip(memory, buffers(launch), strict=False):
        yield names[address], data


def _writer(
    b: Module, kernel: str, launch: Launch, seed: int | None, name: str, element: int
) -> str:
    """Who stores the element: the kernel is run without its bytes, and the fault tells."""
    values, memory, names = placed(b, kernel, launch)
    start = next((at for at, called in names.items() if called == name), None)
    if start is None:
        return ""
    array = memory.pop(start).reshape(-1)
    size = array.itemsize
    for low, part in (
        (start, array[:element]),
        (start + (element + 1) * size, array[element + 1 :]),
    ):
        if len(part):
            memory[low] = part
    try:
        simulate(
            b, kernel, launch.grid, launch.block, values, shared=launch.shared, memory=memory,
            seed=seed, counters=False, limit=LIMIT,
            only=None if launch.only is None else range(*launch.only),
        )  # fmt: skip
    except MemoryFault as fault:
        who = fault.message.partition(": ")[2].partition(": ")[0]
        text = fault.source.slice(fault.span).strip()
        verb = "loaded" if text.partition(" ")[0].startswith("ld") else "stored"
        return f"; {verb} first by {who} at line {fault.line}: {text}"
    except RunError:
        pass
    return ""
