"""Launches to compare two kernels on: given as JSON, or invented from a kernel's parameters.

Which parameters are pointers, and to what, the emulator's trace says. Buffers begin generous; the
original is run, and where it leaves a buffer, the buffer grows, or its sizes shrink, until it
runs clean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.emulator.trace import Trace
from ptxsw.ptx.ir import Variable, type_width
from ptxsw.ptx.patterns import pattern
from ptxsw.ptx.text_files import parsed
from ptxsw.terms import op
from ptxsw.terms.node import Term, split, walk
from ptxsw.verify.arguments import Argument, Data, parse_argument

Shape = tuple[int, int, int]

BASE = 0x100000000000
"""Where the buffer of the first parameter begins; that of the next is 4 GiB further."""
STEP = 1 << 32


class Launch(Struct, frozen=True):
    """`args` are those of the kernel in order, a structure as its fields (offset, type, value).

    `memory` puts buffers at addresses, for pointers given as numbers; `only` runs some blocks of
    the grid, by number. `fuzz`: is it small enough for a fuzzed schedule?
    """

    grid: Shape
    block: Shape
    args: tuple[Argument | Fields, ...]
    shared: int = 0
    memory: tuple[tuple[int, Data], ...] = ()
    only: tuple[int, int] | None = None
    fuzz: bool = True

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
        if self.only is not None:
            fields["only"] = list(self.only)
        return fields

    def __str__(self) -> str:
        return json.dumps(self.json())


class Fields(Struct, frozen=True):
    """A structure given by value."""

    fields: tuple[tuple[int, str, Argument], ...]


def _to_json(argument: Argument | Fields) -> Any:
    if isinstance(argument, Fields):
        return {f"{at}:{type_}": _to_json(value) for at, type_, value in argument.fields}
    return str(argument) if isinstance(argument, Data) else argument


# ---------------------------------------------------------------- given


def from_json(text: str) -> tuple[Launch, ...]:
    """One launch, or a list of them. Raises ValueError with a message for the user."""
    given = parsed(text)
    return tuple(_launch(one) for one in (given if isinstance(given, list) else [given]))


def _launch(given: Any) -> Launch:
    if not isinstance(given, dict) or not {"grid", "block", "args"} <= given.keys():
        raise ValueError("a launch is an object with grid, block and args")
    unknown = given.keys() - {"grid", "block", "args", "shared", "memory", "only", "fuzz"}
    if unknown:
        raise ValueError(f"a launch has no {min(unknown)!r}")
    args, shared = given["args"], given.get("shared", 0)
    if not isinstance(args, list):
        raise ValueError(f"args is {args!r}; it has to be a list")
    if not _is_count(shared):
        raise ValueError(f"shared is {shared!r}; it has to be a number of bytes")
    launch = Launch(
        shape(given["grid"]), shape(given["block"]), tuple(map(_from_json, args)), shared,
        _memory(given.get("memory", {})), _only(given.get("only")),
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
    raise ValueError(f"only is {given!r}; it has to be two block numbers: [first, end]")


def _memory(given: Any) -> tuple[tuple[int, Data], ...]:
    """Buffers by their addresses."""
    if not isinstance(given, dict):
        raise ValueError(f"memory is {given!r}; it has to be an object of address: buffer")
    placed = []
    for address, word in given.items():
        try:
            at = int(address, 0)
        except ValueError:
            raise ValueError(f"{address!r} is not an address; write 0x100000000") from None
        data = parse_argument(str(word))
        if not isinstance(data, Data):
            raise ValueError("memory holds buffers, not numbers")
        placed.append((at, data))
    return tuple(placed)


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


# ---------------------------------------------------------------- invented

# Grid, block and the integers among the arguments, in turn: enough for two points of margin on each
# side. Small launches come first, and may be run under fuzzed schedules.
_SMALL: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((1, 1, 1), (7, 1, 1), (15, 5, 5, 6, 3)),
    ((1, 1, 1), (32, 1, 1), (45, 5, 5, 6, 3)),
    ((1, 1, 1), (33, 1, 1), (45, 5, 5, 6, 3)),
    ((1, 1, 1), (16, 4, 1), (24, 5, 5, 6, 3)),
    ((2, 1, 1), (48, 1, 1), (60, 6, 5, 6, 3)),
    ((1, 2, 1), (32, 2, 1), (45, 5, 6, 6, 3)),
)
_WIDE: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((3, 2, 2), (32, 1, 1), (131, 7, 6, 5, 4)),
    ((3, 2, 2), (48, 1, 1), (131, 7, 6, 5, 4)),
    ((2, 3, 1), (128, 1, 1), (300, 7, 6, 5, 4)),
    ((3, 2, 2), (16, 16, 1), (75, 40, 5, 4, 3)),
    ((2, 2, 3), (32, 4, 1), (75, 40, 7, 4, 3)),
    ((3, 2, 2), (8, 8, 4), (45, 44, 43, 42, 41)),
    ((3, 2, 2), (7, 1, 1), (40, 7, 6, 5, 4)),
    ((2, 2, 2), (33, 3, 1), (100, 9, 8, 7, 6)),
    ((3, 1, 2), (1024, 1, 1), (1100, 5, 4, 3, 2)),
)
_COUNT = 1 << 14  # elements of a buffer at first
_BEFORE = 1 << 10  # of which before the pointer
LARGEST = 1 << 22
"""Elements beyond which no buffer grows."""


class Parameter(Struct, frozen=True):
    """What a parameter, or a field of one, is for: `pointee` is the type it points to."""

    name: str
    type: str
    pointee: str | None = None
    fields: tuple[tuple[int, Parameter], ...] = ()


def parameters(trace: Trace) -> tuple[Parameter, ...]:
    """The parameters of a kernel, pointers told from numbers."""
    pointees = _pointees(trace)
    named = {
        str(node.value)
        for access in trace.accesses
        for variant in access.variants
        for node in walk(variant.address, variant.guard, *variant.conditions)
        if node.kind is op.ATOM
    }
    return tuple(_parameter(p, trace, pointees, named) for p in trace.function.params)


def _pointees(trace: Trace) -> Mapping[str, str]:
    """The type of element behind each parameter that is the base of an address; atoms of
    parameters are named after them, with the offset of the field."""
    pointees: dict[str, str] = {}
    for access in trace.accesses:
        if access.space == "param":
            continue
        type_ = next((m for m in reversed(access.instruction.modifiers) if type_width(m) > 1), "b8")
        for variant in access.variants:
            for name in _bases(variant.address):
                if pointees.setdefault(name, type_) != type_ and type_[0] == "f":
                    pointees[name] = type_
    return pointees


def _bases(address: Term) -> Iterator[str]:
    for term, coefficient in split(address)[1]:
        if term.kind is op.ATOM and coefficient == 1:
            yield str(term.value)


def _parameter(
    variable: Variable, trace: Trace, pointees: Mapping[str, str], named: set[str]
) -> Parameter:
    name = variable.name
    if variable.dims:
        fields = []
        for offset, type_ in _read_fields(variable, trace):
            inner = f"{name}+{offset}" if offset else name
            fields.append((offset, Parameter(inner, type_, pointees.get(inner))))
        return Parameter(name, variable.type, None, tuple(fields))
    pointee = pointees.get(name)
    wide = type_width(variable.type) == trace.module.address_size
    if pointee is None and wide and variable.type[0] != "f":
        # Passed on to a function, or never used for what the trace follows.
        pointee = "f32" if "ptr" in variable.attributes or name not in named else None
    return Parameter(name, variable.type, pointee)


def _read_fields(variable: Variable, trace: Trace) -> Iterator[tuple[int, str]]:
    """Offset and type of each piece of a structure that the kernel reads."""
    seen = set()
    for access in trace.accesses:
        if access.space != "param" or access.kind != "load":
            continue
        address = access.variants[0].address
        offset, items = split(address)
        if [str(t.value) for t, _ in items] != [f"&{variable.name}"]:
            continue
        type_ = access.instruction.modifiers[-1]
        for element in range(access.elements):
            at = offset + element * access.bits // 8
            if at not in seen:
                seen.add(at)
                yield at, type_


def invent(trace: Trace, *, wide: bool = True) -> Iterator[Launch]:
    """Launches of a kernel, the smallest first; whether they stay in bounds is yet to be seen."""
    inferred = parameters(trace)
    required = _required(trace)
    for given, fuzz in ((_SMALL, True), (_WIDE if wide else (), False)):
        seen: set[tuple[Shape, Shape]] = set()
        for grid, block, sizes in given:
            block = required or block
            if (grid, block) not in seen:
                seen.add((grid, block))
                small_enough = fuzz and block[0] * block[1] * block[2] <= 128
                yield Launch(grid, block, arguments(inferred, sizes), fuzz=small_enough)


def _required(trace: Trace) -> Shape | None:
    """The block that `.reqntid` asks for."""
    return trace.function.block_shape


def arguments(
    inferred: Sequence[Parameter], sizes: Sequence[int], count: int = _COUNT, before: int = _BEFORE
) -> tuple[Argument | Fields, ...]:
    """Values for the parameters: integers get `sizes` in turn, pointers buffers of `count`
    elements, of which `before` lie before the pointer."""
    numbers = iter((*sizes, *[3] * 64))
    seeds = iter(range(1, 1000))

    def value(parameter: Parameter) -> Argument:
        seed = next(seeds)
        if parameter.pointee is not None:
            return Data("random", count, parameter.pointee, seed, before)
        if parameter.type in ("f32", "f64"):
            return 0.25 + seed / 16
        return next(numbers)

    return tuple(
        Fields(tuple((at, inner.type, value(inner)) for at, inner in p.fields))
        if p.fields
        else value(p)
        for p in inferred
    )


# ---------------------------------------------------------------- staying in bounds

_FAULT = pattern(r" at (0x[0-9a-f]+): ")


def amended(launch: Launch, message: str) -> Launch | None:
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
        more = data.longer(-before + _BEFORE, 0)
    else:
        more = data.longer(0, max(before - data.count, 0) + data.count)
    if more.count > LARGEST or data.kind == "file":
        return _shrunk(launch)
    return _with(launch, where, more)


def buffers(launch: Launch) -> Iterator[tuple[tuple[int, int], Data]]:
    """The buffers among the arguments, each with its place: argument, field (or -1)."""
    for at, argument in enumerate(launch.args):
        if isinstance(argument, Data):
            yield (at, -1), argument
        elif isinstance(argument, Fields):
            for field, (_, _, value) in enumerate(argument.fields):
                if isinstance(value, Data):
                    yield (at, field), value


def _with(launch: Launch, place: tuple[int, int], data: Data) -> Launch:
    args = list(launch.args)
    argument = args[place[0]]
    if isinstance(argument, Fields):
        fields = list(argument.fields)
        fields[place[1]] = (*fields[place[1]][:2], data)
        args[place[0]] = Fields(tuple(fields))
    else:
        args[place[0]] = data
    return replace(launch, args=tuple(args))


def _shrunk(launch: Launch) -> Launch | None:
    """With the largest integer halved."""
    sizes = [(a, at) for at, a in enumerate(launch.args) if isinstance(a, int) and a > 1]
    if not sizes:
        return None
    _, at = max(sizes)
    args = list(launch.args)
    args[at] = int(args[at]) // 2  # type: ignore[arg-type]
    return replace(launch, args=tuple(args))
