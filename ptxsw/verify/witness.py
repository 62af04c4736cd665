"""A launch that shows a difference, made small, and what differs in it, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ptxsw.ptx.ir import Module
from ptxsw.simt import MemoryFault, RunError
from ptxsw.simt import launch as simulate
from ptxsw.verify.arguments import Data
from ptxsw.verify.contents import DTYPES, float_bits, is_float, spelled, width_of
from ptxsw.verify.launches import Fields, Launch, buffers, with_argument
from ptxsw.verify.runs import LIMIT, Outcome, contents_of, differing, placed

Array = NDArray[Any]
Differs = Callable[[Launch], bool]

_MOST_TRIES = 80
_MOST_LISTED = 4  # values that a buffer of the witness holds in turn


def smaller(
    launch: Launch, differs: Differs, simpler: Callable[[Launch], Iterator[Launch]]
) -> Launch:
    """The smallest launch found that shows the difference, too, by one simplification after the
    other."""
    tries = 0
    changed = True
    while changed and tries < _MOST_TRIES:
        changed = False
        for other in simpler(launch):
            tries += 1
            if differs(other):
                launch, changed = other, True
                break
            if tries >= _MOST_TRIES:
                break
    return launch


def simpler_grids(launch: Launch) -> Iterator[Launch]:
    """The launch with one block along an axis."""
    for axis in range(3) if launch.only is None else ():
        if launch.grid[axis] > 1:
            yield replace(launch, grid=_with_axis(launch.grid, axis, 1))


def simpler(launch: Launch, *, fixed_block: bool, element: int) -> Iterator[Launch]:
    """Fewer blocks and threads, smaller numbers, plainer and shorter buffers. `element` is the one
    of a buffer that differs."""
    yield from simpler_grids(launch)
    for axis in (2, 1, 0) if not fixed_block else ():
        for size in (1, 2, 7, 32, 33):
            if size < launch.block[axis]:
                yield replace(launch, block=_with_axis(launch.block, axis, size))
    for at in range(len(launch.variables)):
        yield replace(launch, variables=launch.variables[:at] + launch.variables[at + 1 :])
    yield from _plainer_numbers(launch)
    for place, data in buffers(launch):
        for plainer in _plainer(data, element):
            yield with_argument(launch, place, plainer)
    for at, (address, data) in enumerate(launch.memory):
        for plainer in _plainer(data, element):
            memory = (*launch.memory[:at], (address, plainer), *launch.memory[at + 1 :])
            yield replace(launch, memory=memory)


def _with_axis(shape: tuple[int, int, int], axis: int, size: int) -> tuple[int, int, int]:
    x, y, z = (size if n == axis else old for n, old in enumerate(shape))
    return x, y, z


def _plainer_numbers(launch: Launch) -> Iterator[Launch]:
    for at, argument in enumerate(launch.args):
        fields = argument.fields if isinstance(argument, Fields) else [(0, "", argument)]
        for field, (_, _, value) in enumerate(fields):
            if isinstance(value, Data):
                continue
            place = (at, field if isinstance(argument, Fields) else -1)
            whole = isinstance(value, int)
            if whole and abs(value) >= 1 << 40:
                continue  # an address
            for plain in (0, 1, 2) if whole else (0.0, 1.0):
                if _simplicity(plain) < _simplicity(value):
                    yield with_argument(launch, place, plain)


def _simplicity(value: float) -> float:
    return abs(value) if value == value else float("inf")


def _plainer(data: Data, element: int) -> Iterator[Data]:
    """Zeros, one value everywhere, fewer elements. A buffer of zeros cannot be plainer."""
    if data.kind == "file":
        return
    if data.kind != "zeros":
        yield replace(data, kind="zeros", seed=0, values=())
        array = data.array()
        at = data.first + element
        near = [n for n in (at, data.first, at + 1, data.first + 1) if 0 <= n < len(array)]
        if data.kind != "values" or len(data.values) > 1:
            words = array.view(f"u{array.itemsize}")
            one = 1 if not is_float(data.type) else float_bits(1.0, data.type)
            for bits in dict.fromkeys([one, *(int(words[n]) for n in near)]):
                yield replace(data, kind="values", seed=0, values=(bits,))
        if data.kind not in ("values", "iota", "random"):
            low = words[data.first : data.first + _MOST_LISTED]
            if len(low) and data.first % len(low) == 0:
                yield replace(data, kind="values", seed=0, values=tuple(map(int, low)))
    if data.first:
        yield replace(data, first=0, count=data.count - data.first)
    for count in (1 << 6, 1 << 10):
        if data.first + count < data.count:
            yield replace(data, count=data.first + count)


# ---------------------------------------------------------------- saying what differs


def described(
    a: Module, b: Module, kernel: str, launch: Launch, seed: int | None, first: Outcome,
    second: Outcome,
) -> str:  # fmt: skip
    """The first element that differs, its values, and who stored it first in each text."""
    if second.error is not None:
        return f"the second kernel fails:\n{second.error}"
    if sorted(first.printed) != sorted(second.printed):
        return "the kernels print different things"
    found = differing(first, second)
    assert found is not None
    name, at, more, one, two = found
    own = _writer(a, kernel, launch, None, name, at)
    other = _writer(b, kernel, launch, seed, name, at)
    type_ = next((w.type for w in (other, own) if w is not None), None)
    index = index_in(b, kernel, launch, name, at)
    said = f"{name}[{index}] is {_value(one, type_)} in the first and {_value(two, type_)} in the"
    said += " second" + (f", and {more} more elements differ" if more else "")
    if other is None:
        return f"{said}; stored first {own} of the first" if own is not None else said
    return f"{said}; stored first {other}" + ("" if own is None else f" (in the first {own.at})")


def _value(element: Any, type_: str | None) -> str:
    """An element as the instruction that stores it sees it."""
    if type_ is None or width_of(type_) != 8 * element.itemsize:
        return shown(element)
    return spelled(int(np.array(element).view(f"u{element.itemsize}")), type_)


def shown(element: Any) -> str:
    """An element of a buffer; a float so small that it may well be an integer by its bits."""
    if element.dtype.kind == "f" and 0 < abs(element) < np.finfo(element.dtype).tiny:
        return f"{int(np.array(element).view(f'u{element.itemsize}')):#x}"
    return str(element)


def index_in(module: Module, kernel: str, launch: Launch, name: str, at: int) -> int:
    """The number of a buffer's element, counted from where the pointer points to."""
    _, memory, names = placed(module, kernel, launch)
    for address, (_, data) in zip(memory, buffers(launch), strict=False):
        if names[address] == name:
            return at - data.first
    return at


class Writer(Struct, frozen=True):
    """Who stores an element: a thread, and an instruction."""

    who: str
    at: str
    type: str | None  # that the instruction names, if it is more than a width

    def __str__(self) -> str:
        return f"by {self.who} {self.at}"


def _writer(
    module: Module, kernel: str, launch: Launch, seed: int | None, name: str, element: int
) -> Writer | None:
    """Who stores an element first: the kernel is run with that element read-only, and the fault
    tells."""
    values, memory, names = placed(module, kernel, launch)
    start = next((at for at, called in names.items() if called == name), None)
    if start is None:
        return None
    array = memory.pop(start).reshape(-1)
    ends = (0, element, element + 1, len(array))
    for low, high in pairwise(ends):
        if high > low:
            memory[start + low * array.itemsize] = array[low:high]
    try:
        simulate(
            module, kernel, launch.grid, launch.block, values, shared=launch.shared, memory=memory,
            variables=contents_of(launch), seed=seed, counters=False, limit=LIMIT,
            read_only=frozenset({start + element * array.itemsize}),
            only=None if launch.only is None else range(*launch.only),
        )  # fmt: skip
    except MemoryFault as fault:
        who = fault.message.partition(": ")[2].partition(": ")[0]
        text = fault.source.slice(fault.span).strip()
        types = [word for word in text.split()[0].split(".") if word in DTYPES]
        typed = next((word for word in types if word[0] != "b"), None)
        return Writer(who, f"at line {fault.line}: {text}", typed)
    except RunError:
        pass
    return None
