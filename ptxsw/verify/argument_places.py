"""The places of arguments in a launch, and what is put there: values, buffers that overlap or are
misaligned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.ptx.ir import type_width
from ptxsw.verify.arguments import Argument, Data
from ptxsw.verify.contents import float_bits, is_float, width_of
from ptxsw.verify.launches import BASE, STEP, Fields, Launch, buffers, with_argument
from ptxsw.verify.parameters import Parameter


class ArgumentPlace(Struct, frozen=True):
    """A parameter, or a field of one, and its place among the arguments."""

    place: tuple[int, int]
    parameter: Parameter


def argument_places(inferred: Sequence[Parameter]) -> Iterator[ArgumentPlace]:
    for at, parameter in enumerate(inferred):
        if parameter.fields:
            inner = (field for _, field in parameter.fields)
            yield from (ArgumentPlace((at, number), field) for number, field in enumerate(inner))
        else:
            yield ArgumentPlace((at, -1), parameter)


def at_place(launch: Launch, place: tuple[int, int]) -> Argument:
    """The argument, or field of one, at a place."""
    argument = launch.args[place[0]]
    if isinstance(argument, Fields):
        return argument.fields[place[1]][2]
    return argument


def as_argument(bits: int, parameter: Parameter) -> Argument:
    """A value of a parameter by its bits: signed, as people write it."""
    width = type_width(parameter.type)
    if is_float(parameter.type):
        one = Data("values", 1, parameter.type, values=(bits,)).array()[0]
        return float(one) if float_bits(float(one), parameter.type) == bits else 0.0
    return bits - (bits >> width - 1 << width) if width else bits


def with_values(data: Data, loaded: Sequence[tuple[int, int]]) -> Data:
    """A buffer of the same bytes that holds some values in turn, each with its width in bits."""
    width = max(loaded[0][1], 8)
    if width not in (8, 16, 32, 64):
        return data
    size = width_of(data.type)
    count, first = data.count * size // width, data.first * size // width
    values = tuple(value for value, _ in loaded)
    return Data("values", count, f"u{width}", 0, first, values=values)


# ---------------------------------------------------------------- where buffers lie


def overlapped(launch: Launch, one: ArgumentPlace, two: ArgumentPlace, distance: int) -> Launch:
    """With `two` pointing `distance` bytes behind where `one` points to, in one buffer."""
    data, other = at_place(launch, one.place), at_place(launch, two.place)
    if not isinstance(data, Data) or not isinstance(other, Data):
        return launch
    launch = with_argument(launch, two.place, 0)
    at = next(n for n, (place, _) in enumerate(buffers(launch)) if place == one.place)
    size, size2 = width_of(data.type) // 8, width_of(other.type) // 8
    before = max(data.first * size, other.first * size2 - distance)
    behind = max((data.count - data.first) * size, (other.count - other.first) * size2 + distance)
    first = -(-before // size)
    longer = replace(data, first=first, count=first + -(-behind // size))
    launch = with_argument(launch, one.place, longer)
    launch = with_argument(launch, two.place, BASE + at * STEP + distance)
    names = f"{two.parameter.name} and {one.parameter.name}"
    apart = f"{names} overlap, {abs(distance)} bytes apart" if distance else f"{names} are the same"
    return replace(launch, condition=f"where {apart}", fuzz=False)


def shifted(launch: Launch, at: ArgumentPlace, shift: int) -> Launch:
    """With a pointer that is aligned to `shift` bytes only."""
    data = at_place(launch, at.place)
    if not isinstance(data, Data):
        return launch
    size = width_of(data.type) // 8
    start, longer = 2 * BASE, replace(data.longer(0, -(-shift // size)), first=0)
    launch = with_argument(launch, at.place, start + data.first * size + shift)
    condition = f"where {at.parameter.name} is aligned to {shift} bytes only"
    return replace(launch, memory=((start, longer),), condition=condition, fuzz=False)
