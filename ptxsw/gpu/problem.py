"""What a kernel is run on: a launch with its buffers, and their place on the device."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
from msgspec import Struct

from ptxsw.gpu.driver import Array, Driver, GpuError, LoadedKernel, Shape
from ptxsw.ptx.ir import Function, Variable, type_width
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Fields, Launch


class DeviceArray(Struct, frozen=True):
    """An array on the device; the kernel is given the address of byte `before`. One array given
    several times is one buffer. `pointers` are the addresses that lie in it: at which byte, of
    which buffer of the launch, by number, and of which byte of that."""

    array: Array
    before: int = 0
    pointers: tuple[tuple[int, int, int], ...] = ()


class Structure(Struct, frozen=True):
    """A parameter given by value: offset in bytes, PTX type, value of each field."""

    fields: tuple[tuple[int, str, int | float | DeviceArray], ...]


_ADDRESS = 8  # bytes
Value: TypeAlias = int | float | DeviceArray | Structure


class PreparedLaunch(Struct, frozen=True):
    """One launch. `values` are the kernel's arguments in order, `shared` is dynamic, in bytes,
    `behind` are buffers that pointers alone reach."""

    grid: Shape
    block: Shape
    values: tuple[Value, ...]
    shared: int = 0
    behind: tuple[DeviceArray, ...] = ()

    @property
    def buffers(self) -> list[DeviceArray]:
        """Each buffer once, in order: those among the arguments, then those behind pointers."""
        unique: dict[int, DeviceArray] = {}
        for each in (*buffers(self.values), *self.behind):
            unique.setdefault(id(each.array), each)
        return list(unique.values())

    @property
    def bytes(self) -> int:
        return sum(int(b.array.nbytes) for b in self.buffers)


def buffers(values: Sequence[Value]) -> list[DeviceArray]:
    """The buffers among arguments, in order."""
    arrays = []
    for value in values:
        if isinstance(value, DeviceArray):
            arrays.append(value)
        elif isinstance(value, Structure):
            arrays += [inner for _, _, inner in value.fields if isinstance(inner, DeviceArray)]
    return arrays


def from_launch(launch: Launch) -> PreparedLaunch:
    """The problem of a launch as `ptxsw verify` takes it. Raises ValueError for what only the
    interpreter can do."""
    if launch.memory:
        raise ValueError("a launch on a GPU has no memory at given addresses")
    if launch.only is not None:
        raise ValueError("a launch on a GPU runs all its blocks: leave out only")

    def value(given: Any) -> int | float | DeviceArray:
        # A view, since equal words give one array, and are two buffers.
        return DeviceArray(given.array().view(), given.before) if isinstance(given, Data) else given

    return PreparedLaunch(
        launch.grid,
        launch.block,
        tuple(
            Structure(tuple((at, type_, value(inner)) for at, type_, inner in argument.fields))
            if isinstance(argument, Fields)
            else value(argument)
            for argument in launch.args
        ),
        launch.shared,
    )


class OnDevice:
    """Memory on the device that is given back at the end. A context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # On a device that a failed kernel has left unusable this fails, too: that is no news.
        with suppress(GpuError) if error is not None else nullcontext():
            self.free()

    def free(self) -> None:
        """Gives the memory back."""
        raise NotImplementedError


class Stage(OnDevice):
    """A problem's buffers on the device, each with a copy that is never written, from which
    `reset` makes the working one anew."""

    def __init__(self, driver: Driver, function: Function, problem: PreparedLaunch) -> None:
        """Raises ValueError where the arguments do not fit the kernel's parameters."""
        if len(problem.values) != len(function.params):
            raise ValueError(
                f"{function.name} has {len(function.params)} parameters, "
                f"the launch gives {len(problem.values)}"
            )
        self._driver = driver
        self._problem = problem
        self._buffers = problem.buffers
        self._pristine: list[int] = []
        self._working: list[int] = []
        try:
            for buffer in self._buffers:
                size = max(int(buffer.array.nbytes), 1)
                for places in (self._pristine, self._working):
                    places.append(driver.allocate(size))
            for buffer, at in zip(self._buffers, self._pristine, strict=True):
                driver.upload(at, _linked(buffer, self._working))
            at_place = {
                id(buffer.array): at
                for buffer, at in zip(self._buffers, self._working, strict=True)
            }
            self._arguments = _pack(function.params, problem.values, at_place)
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        for places in (self._pristine, self._working):
            while places:
                self._driver.free(places.pop())

    def reset(self) -> None:
        """Gives the buffers their first contents again."""
        for buffer, source, destination in zip(
            self._buffers, self._pristine, self._working, strict=True
        ):
            self._driver.copy(destination, source, int(buffer.array.nbytes))

    def launch(self, kernel: LoadedKernel) -> None:
        """Starts the kernel once on whatever the buffers hold."""
        problem = self._problem
        self._driver.launch(kernel, problem.grid, problem.block, self._arguments, problem.shared)

    def results(self, kernel: LoadedKernel) -> list[Array]:
        """The bytes of all buffers after one run on their first contents; addresses that lie in
        them are zeros."""
        self.reset()
        self.launch(kernel)
        self._driver.wait()
        found = []
        for buffer, at in zip(self._buffers, self._working, strict=True):
            found.append(self._driver.download(at, int(buffer.array.nbytes)))
            for place, _, _ in buffer.pointers:
                found[-1][place : place + _ADDRESS] = 0
        return found


def _linked(buffer: DeviceArray, places: Sequence[int]) -> Array:
    """The array with the addresses that are to lie in it."""
    if not buffer.pointers:
        return buffer.array
    content = np.frombuffer(buffer.array.tobytes(), np.uint8).copy()
    for at, number, byte in buffer.pointers:
        address = (places[number] + byte).to_bytes(_ADDRESS, "little")
        content[at : at + _ADDRESS] = np.frombuffer(address, np.uint8)
    return content


# ---------------------------------------------------------------- the parameter block


def _pack(params: Sequence[Variable], values: Sequence[Value], places: Mapping[int, int]) -> bytes:
    """The bytes of all parameters, each at a multiple of its alignment. `places` are the addresses
    of arrays, by their identity."""
    block = bytearray()
    for param, value in zip(params, values, strict=True):
        width = type_width(param.type) // 8
        block += bytes(-len(block) % (param.align if param.dims and param.align else width))
        if isinstance(value, Structure):
            size = (param.dims[0] or 1) * width if param.dims else width
            block += _structure(value, size, places)
        else:
            block += _scalar(value, param.type, places)
    return bytes(block)


def _structure(value: Structure, size: int, places: Mapping[int, int]) -> bytes:
    content = bytearray(size)
    for at, type_, inner in value.fields:
        data = _scalar(inner, type_, places)
        if at + len(data) > size:
            raise ValueError(f"a field at {at} leaves its structure of {size} bytes")
        content[at : at + len(data)] = data
    return bytes(content)


def _scalar(
    value: int | float | DeviceArray | Structure, type_: str, places: Mapping[int, int]
) -> bytes:
    width = type_width(type_) // 8
    if isinstance(value, DeviceArray):
        if width != 8:
            raise ValueError(f"a buffer is given for a parameter of type {type_}")
        return (places[id(value.array)] + value.before).to_bytes(_ADDRESS, "little")
    assert not isinstance(value, Structure)
    if type_ in ("f32", "f64"):
        return struct.pack("<f" if width == 4 else "<d", value)
    if type_ == "f16":
        return np.float16(value).tobytes()
    if isinstance(value, float):
        raise ValueError(f"{value!r} is given for a parameter of type {type_}")
    return (int(value) % (1 << 8 * width)).to_bytes(width, "little")
