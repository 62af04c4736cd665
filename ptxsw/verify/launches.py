"""Launches to compare two kernels on, as JSON and as data.

Where a kernel leaves a buffer, the buffer grows, or the sizes shrink, until it runs clean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.ptx.documented import Documented
from ptxsw.ptx.ir import type_width
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.text_files import parsed
from ptxsw.verify.arguments import Argument, Data, parse_argument

Shape = tuple[int, int, int]

BASE = 0x100000000000
"""Where the buffer of the first parameter begins; that of the next is 4 GiB further."""
STEP = 1 << 32


class Launch(Documented, frozen=True):
    """One launch of a kernel."""

    grid: Shape
    """Blocks along x, y and z."""
    block: Shape
    """Threads of a block along x, y and z."""
    args: tuple[Argument | Fields, ...]
    """Arguments of the kernel, in order."""
    shared: int = 0
    """Dynamic shared memory per block, in bytes."""
    memory: tuple[tuple[int, Data], ...] = ()
    """Buffers by their addresses, for pointers given as numbers."""
    only: tuple[int, int] | None = None
    """Numbers of the first block of the grid that runs, and of the first after the last."""
    fuzz: bool = True
    """True if it is small enough for a fuzzed schedule."""
    variables: tuple[tuple[str, Data], ...] = ()
    """Initial values of module variables, by name."""
    condition: str = ""
    """What an invented launch assumes although callers may never do it, such as two overlapping
    buffers; "" if nothing."""
    seed: int | None = None
    """Seed of the fuzzed schedule under which a witness shows its fault."""
    races: bool = False
    """True if a witness shows its fault only with race detection (`ptxsw run --races`)."""

    @property
    def threads(self) -> int:
        blocks = self.grid[0] * self.grid[1] * self.grid[2]
        if self.only is not None:
            blocks = min(blocks, self.only[1] - self.only[0])
        return blocks * self.block[0] * self.block[1] * self.block[2]

    def json(self) -> dict[str, Any]:
        """The launch as `--launch` takes it."""
        fields: dict[str, Any] = {"grid": list(self.grid), "block": list(self.block)}
        fields["args"] = [_to_json(a) for a in self.args]
        if self.shared:
            fields["shared"] = self.shared
        if self.memory:
            fields["memory"] = {f"{at:#x}": str(data) for at, data in self.memory}
        if self.variables:
            fields["variables"] = {name: str(data) for name, data in self.variables}
        if self.only is not None:
            fields["only"] = list(self.only)
        if self.seed is not None:
            fields["seed"] = self.seed
        if self.races:
            fields["races"] = True
        return fields

    def __str__(self) -> str:
        return json.dumps(self.json())


class Fields(Struct, frozen=True):
    """A structure given by value."""

    fields: tuple[tuple[int, str, Argument], ...]
    """Offset in bytes, type and value of each."""


def _to_json(argument: Argument | Fields) -> Any:
    if isinstance(argument, Fields):
        return {f"{at}:{type_}": _to_json(value) for at, type_, value in argument.fields}
    if isinstance(argument, int) and abs(argument) >= 1 << 32:
        return hex(argument)
    if isinstance(argument, float) and not math.isfinite(argument):
        return repr(argument)  # JSON has no word for it
    return str(argument) if isinstance(argument, Data) else argument


# ---------------------------------------------------------------- given


def from_json(text: str) -> tuple[Launch, ...]:
    """One launch, or a list of them. Raises ValueError with a message for the user."""
    given = parsed(text)
    return tuple(_launch(one) for one in (given if isinstance(given, list) else [given]))


_KEYS = frozenset({
    "grid", "block", "args", "shared", "memory", "variables", "only", "fuzz", "seed", "races",
})  # fmt: skip


def _launch(given: Any) -> Launch:
    if not isinstance(given, dict) or not {"grid", "block", "args"} <= given.keys():
        raise ValueError("a launch is an object with grid, block and args")
    unknown = given.keys() - _KEYS
    if unknown:
        raise ValueError(f"a launch has no {min(unknown)!r}")
    args, shared, seed = given["args"], given.get("shared", 0), given.get("seed")
    if not isinstance(args, list):
        raise ValueError(f"args is {args!r}; it must be a list")
    if not _is_count(shared):
        raise ValueError(f"shared is {shared!r}; it must be a number of bytes")
    if seed is not None and not _is_count(seed):
        raise ValueError(f"seed is {seed!r}; it must be a number")
    launch = Launch(
        shape(given["grid"]), shape(given["block"]), tuple(map(_from_json, args)), shared,
        _memory(given.get("memory", {})), _only(given.get("only")),
        variables=tuple(_buffers("variables", "name", given.get("variables", {}))), seed=seed,
        races=bool(given.get("races", False)),
    )  # fmt: skip
    return replace(launch, fuzz=bool(given.get("fuzz", launch.threads <= 256)))


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _only(given: Any) -> tuple[int, int] | None:
    """Numbers of blocks, from the first to before the second."""
    match given:
        case None:
            return None
        case [first, end] if _is_count(first) and _is_count(end) and first < end:
            return first, end
    raise ValueError(f"only is {given!r}; it must be two block numbers: [first, end]")


def _memory(given: Any) -> tuple[tuple[int, Data], ...]:
    """Buffers by their addresses."""
    placed = []
    for address, data in _buffers("memory", "address", given):
        try:
            placed.append((int(address, 0), data))
        except ValueError:
            raise ValueError(f"{address!r} is not an address; write 0x100000000") from None
    return tuple(placed)


def _buffers(field: str, key: str, given: Any) -> Iterator[tuple[str, Data]]:
    if not isinstance(given, dict):
        raise ValueError(f"{field} is {given!r}; it must be an object of {key}: buffer")
    for name, word in given.items():
        data = parse_argument(str(word))
        if not isinstance(data, Data):
            raise ValueError(f"{field} holds buffers, not numbers")
        yield name, data


def _from_json(value: Any) -> Argument | Fields:
    match value:
        case bool():
            raise ValueError("true and false are not arguments")
        case int() | float():
            return value
        case str():
            return parse_argument(value)
        case dict():
            fields = []
            for key, inner in value.items():
                at, _, type_ = key.partition(":")
                argument = _from_json(inner)
                if isinstance(argument, Fields) or type_width(type_) == 0 or not at.isdecimal():
                    raise ValueError(f"{key!r} is not a field; write offset:type")
                fields.append((int(at), type_, argument))
            return Fields(tuple(fields))
    raise ValueError(f"{value!r} is not an argument")


def shape(given: Any) -> Shape:
    """`[x, y, z]` or a number, with what is missing 1. Raises ValueError."""
    sizes = given if isinstance(given, list) else [given]
    if not 1 <= len(sizes) <= 3 or not all(_is_count(size) and size for size in sizes):
        raise ValueError(f"{given!r} is not the size of a grid or block; write [16, 16, 1]")
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


# ---------------------------------------------------------------- staying in bounds

MARGIN = 1 << 10
"""Elements of a buffer before the pointer, at first."""
LARGEST = 1 << 22
"""Elements beyond which no buffer grows."""

_FAULT = pattern(r" at (0x[0-9a-f]+): ")


def repaired(launch: Launch, message: str) -> Launch | None:
    """The launch with the buffer longer that a memory fault was nearest to, or with smaller
    sizes; None where nothing more can be tried."""
    match = _FAULT.search(message)
    if match is None:
        return None
    address = int(match[1], 16)
    number, distance = divmod(address - BASE, STEP)
    if distance > STEP * 3 // 4:  # before the next one
        number, distance = number + 1, distance - STEP
    places = list(buffers(launch))
    if not 0 <= number < len(places):
        return _shrunk(launch)
    where, data = places[number]
    size = data.array().itemsize
    before = distance // size
    if before < 0:
        more = data.longer(-before + MARGIN, 0)
    else:
        more = data.longer(0, max(before - data.count, 0) + data.count)
    if more.count > LARGEST or data.kind == "file":
        return _shrunk(launch)
    return with_argument(launch, where, more)


def buffers(launch: Launch) -> Iterator[tuple[tuple[int, int], Data]]:
    """The buffers among the arguments, each with its place: argument, field (or -1)."""
    for at, argument in enumerate(launch.args):
        if isinstance(argument, Data):
            yield (at, -1), argument
        elif isinstance(argument, Fields):
            for field, (_, _, value) in enumerate(argument.fields):
                if isinstance(value, Data):
                    yield (at, field), value


def with_argument(launch: Launch, place: tuple[int, int], value: Argument) -> Launch:
    """The launch with another value at a place: argument, field (or -1)."""
    args = list(launch.args)
    argument = args[place[0]]
    if isinstance(argument, Fields):
        fields = list(argument.fields)
        fields[place[1]] = (*fields[place[1]][:2], value)
        args[place[0]] = Fields(tuple(fields))
    else:
        args[place[0]] = value
    return replace(launch, args=tuple(args))


def reseeded(launch: Launch, seed: int) -> Launch:
    """The launch with other contents in buffers of drawn ones."""
    for place, data in buffers(launch):
        launch = with_argument(launch, place, replace(data, seed=data.seed + 1000 * seed))
    return launch


def _shrunk(launch: Launch) -> Launch | None:
    """With the largest integer halved."""
    sizes = [(a, at) for at, a in enumerate(launch.args) if isinstance(a, int) and a > 1]
    if not sizes:
        return None
    _, at = max(sizes)
    args = list(launch.args)
    args[at] = int(args[at]) // 2  # type: ignore[arg-type]
    return replace(launch, args=tuple(args))
