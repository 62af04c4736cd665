"""Launches that show whether two texts do the same: usual ones, and hostile ones made of them.

A trial is a name. What it stands for is made anew wherever it is run, and a digest of the inputs
says whether they are those that the expected results were made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.gpu.subjects import Subject
from benchmarks.kernelgen.cases import Run
from ptxsw.gpu.driver import Array
from ptxsw.gpu.problem import DeviceArray, PreparedLaunch, Value

USUAL = "usual"
_ODD_BLOCKS = (1, 7, 33, 97)  # threads: one, a part of a warp, a whole one and a lane, and three


class Trial(Struct, frozen=True):
    """Number `run` of the subject's own launches, changed. Inputs and expected results as digests;
    there is none of results that PTX leaves open."""

    run: int
    change: str
    inputs: str = ""
    expected: str | None = None

    @property
    def name(self) -> str:
        return f"{self.change} {self.run}"


def made(subject: Subject, trial: Trial) -> PreparedLaunch:
    """The launch. Raises ValueError where the change cannot be made of it."""
    return changed(prepared(subject.runs[trial.run]()), trial.change)


def hostile(launch: PreparedLaunch) -> Iterator[str]:
    """The changes that can be made of a launch."""
    yield "shifted"
    yield from (f"block {threads}" for threads in _ODD_BLOCKS if threads != launch.block[0])
    if any(isinstance(value, int) for value in launch.values):
        yield from ("sizes 0", "sizes 1")
    arrays = [each for each in launch.values if isinstance(each, DeviceArray)]
    if len(arrays) > 1:
        last = len(arrays) - 1
        yield from (f"overlap {n} {last} {d}" for n in range(min(last, 2)) for d in (0, 1, -1, 5))


# ---------------------------------------------------------------- digests


def digest(arrays: Sequence[Array]) -> str:
    """Of the bytes of arrays, and where one ends."""
    total = sha256()
    for array in arrays:
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        total.update(len(content).to_bytes(8, "little"))
        total.update(content.data)
    return total.hexdigest()[:24]


def inputs(launch: PreparedLaunch) -> str:
    """A digest of all that a launch is given."""
    places = {id(buffer.array): number for number, buffer in enumerate(launch.buffers)}
    values = [
        ("buffer", places[id(value.array)], value.before)
        if isinstance(value, DeviceArray)
        else value
        for value in launch.values
    ]
    words = repr((launch.grid, launch.block, launch.shared, values))
    return digest([np.frombuffer(words.encode(), np.uint8), *(b.array for b in launch.buffers)])


# ---------------------------------------------------------------- from a program's own launch


def prepared(run: Run) -> PreparedLaunch:
    """A launch of a program as a device takes it. Arrays that have an address of their own are
    placed anew, with the addresses that lie in other arrays."""
    placed = dict(run.placed.values())
    numbers = {at: number for number, at in enumerate(placed)}
    behind = [
        DeviceArray(np.ascontiguousarray(array), 0, tuple(_pointers(array, placed, numbers)))
        for array in placed.values()
    ]
    values = tuple(_value(value, numbers, behind) for value in run.args)
    return PreparedLaunch(run.grid, run.block, values, run.shared, tuple(behind))


def _value(value: object, numbers: Mapping[int, int], behind: Sequence[DeviceArray]) -> Value:
    if isinstance(value, np.ndarray):
        return DeviceArray(value)
    number: int | float = np.asarray(value).item()
    at = numbers.get(number) if isinstance(number, int) else None
    return number if at is None else behind[at]


def _pointers(
    array: Array, placed: Mapping[int, Array], numbers: Mapping[int, int]
) -> Iterator[tuple[int, int, int]]:
    """The eight bytes of an array of integers that are an address in one of the placed arrays. None
    of the numbers that programs hold is as large as that."""
    if array.dtype.kind != "i":
        return
    words = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for at in range(0, len(words) - 7, 8):
        address = int.from_bytes(words[at : at + 8].tobytes(), "little")
        for start, other in placed.items():
            if start <= address < start + max(other.nbytes, 1):
                yield at, numbers[start], address - start


# ---------------------------------------------------------------- hostile ones


def changed(launch: PreparedLaunch, change: str) -> PreparedLaunch:
    """A launch made hostile in one way. Raises ValueError."""
    kind, *given = change.split()
    return _CHANGES[kind](launch, *map(int, given))


def _shifted(launch: PreparedLaunch) -> PreparedLaunch:
    """No array lies on a multiple of more than its own element."""
    return replace(launch, values=tuple(map(_one_further, launch.values)))


def _one_further(value: Value) -> Value:
    if not isinstance(value, DeviceArray) or value.pointers:
        return value
    array = np.ascontiguousarray(value.array).reshape(-1)
    return DeviceArray(np.concatenate([array[:1], array]), array.itemsize)


def _in_blocks(launch: PreparedLaunch, threads: int) -> PreparedLaunch:
    return replace(launch, block=(threads, 1, 1))


def _sized(launch: PreparedLaunch, size: int) -> PreparedLaunch:
    """All sizes so small that loops make no iteration, or few."""
    values = tuple(size if isinstance(value, int) else value for value in launch.values)
    return replace(launch, values=values)


def _overlapping(launch: PreparedLaunch, first: int, second: int, elements: int) -> PreparedLaunch:
    """One thread, for which the second of two arrays begins so many elements behind the first, in
    one buffer. Of several threads PTX would not say what they see of each other."""
    where = [n for n, value in enumerate(launch.values) if isinstance(value, DeviceArray)]
    one, other = (launch.values[where[n]] for n in (first, second))
    assert isinstance(one, DeviceArray) and isinstance(other, DeviceArray)
    size = other.array.itemsize
    ahead = max(-elements, 0) * size  # of the first
    behind = max(elements, 0) * size
    length = max(ahead + one.array.nbytes, behind + other.array.nbytes)
    both = np.zeros(length, np.uint8)
    for array, at in ((other.array, behind), (one.array, ahead)):
        both[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    values = list(launch.values)
    values[where[first]], values[where[second]] = (
        DeviceArray(both, ahead),
        DeviceArray(both, behind),
    )
    return replace(launch, grid=(1, 1, 1), block=(1, 1, 1), values=tuple(values))


_CHANGES: Mapping[str, Callable[..., PreparedLaunch]] = {
    USUAL: lambda launch: launch,
    "shifted": _shifted,
    "block": _in_blocks,
    "sizes": _sized,
    "overlap": _overlapping,
}
