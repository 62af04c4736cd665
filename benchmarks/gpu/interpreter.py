"""A device without a GPU: the interpreter behind the protocol of a driver.

What it computes is real. Its times are invented from what it counted, so its name says what it is,
and results that it gives are marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

import ptxsw
from ptxsw.gpu.driver import Array, Device, GpuError, LoadedKernel, Shape
from ptxsw.parser import parse
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Function, Module, type_width
from ptxsw.simt import RunError
from ptxsw.simt import launch as simulate
from ptxsw.simt.run import LIMIT

NAME = "interpreter"
DEVICE = Device(
    f"{NAME}, in place of an H100", "sm_90", f"ptxsw {ptxsw.__version__}", 0, 0, 1 << 16, 1 << 34
)
FIRST, APART = 0x7F0000000000, 1 << 32
_LAUNCH, _INSTRUCTION, _BYTE = 1e-6, 1e-9, 1e-12  # seconds, invented


def open_device(number: int = 0) -> InterpreterDriver:
    """There is always one."""
    return InterpreterDriver()


class LoadedText(Struct, frozen=True, eq=False):
    """A kernel of a text. Nothing is known of registers."""

    module: Module
    function: Function
    text: str
    registers: int = 0
    local: int = 0
    threads: int = 1024


class InterpreterDriver:
    """With `races` a launch fails that has a race, and one of more than `limit` instructions fails
    in any case. As on a GPU nothing more can be done after a
    kernel that failed."""

    def __init__(self, device: Device = DEVICE, *, races: bool = False, limit: int = LIMIT) -> None:
        self.device = device
        self.closed = False
        self.memory: dict[int, Array] = {}
        self._races, self._limit = races, limit
        self._next = FIRST
        self._broken: str | None = None
        self._costs: dict[tuple[str, Shape, Shape], float] = {}  # of what was run
        self._timing: list[float] | None = None

    def mended(self) -> None:
        """The device can be used again: nothing is wrong with the kernel that failed."""
        self._broken = None

    def _works(self) -> None:
        if self._broken is not None:
            raise GpuError(self._broken)

    def load(self, text: str, kernel: str, arch: str, cubin: bytes | None = None) -> LoadedKernel:
        self._works()
        module = parse(text)
        function = next(f for f in module.functions if f.name == kernel)
        return LoadedText(module, function, text)

    def allocate(self, size: int) -> int:
        self._works()
        if size > min(self.device.memory, APART):
            raise GpuError(f"allocating {size} bytes: out of memory")
        address = self._next
        self._next += APART
        self.memory[address] = np.zeros(size, np.uint8)
        return address

    def free(self, address: int) -> None:
        self._works()
        del self.memory[address]

    def upload(self, address: int, data: Array) -> None:
        self._works()
        data = np.ascontiguousarray(data)
        self.memory[address][: data.nbytes] = data.reshape(-1).view(np.uint8)

    def download(self, address: int, size: int) -> Array:
        self._works()
        return self.memory[address][:size].copy()

    def copy(self, destination: int, source: int, size: int) -> None:
        self._works()
        self.memory[destination][:size] = self.memory[source][:size]
        if self._timing is not None:
            self._timing.append(size * _BYTE)

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        self._works()
        assert isinstance(kernel, LoadedText)
        key = (kernel.text, grid, block)
        if self._timing is None or key not in self._costs:
            self._costs[key] = self.run(kernel, grid, block, arguments, shared)
        if self._timing is not None:
            self._timing.append(self._costs[key])

    def run(
        self, kernel: LoadedText, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> float:
        """Runs a launch, and invents its time from the instructions. Raises GpuError."""
        values = unpack(kernel.function, arguments)
        try:
            done = simulate(
                kernel.module, kernel.function.name, grid, block, values, shared=shared,
                memory=self.memory, races=self._races, limit=self._limit,
            )  # fmt: skip
        except (RunError, Unsupported) as error:
            self._broken = f"running a kernel: {error.message}"
            raise GpuError(self._broken) from error
        for address, array in done.memory.items():
            self.memory[address][...] = array
        assert done.counters is not None
        return _LAUNCH + _INSTRUCTION * sum(done.counters.warp_instructions.values())

    def wait(self) -> None:
        self._works()

    def seconds(self, work: Callable[[], None]) -> float:
        """Invented. What was run before is not run again."""
        timing: list[float] = []
        self._timing = timing
        try:
            work()
        finally:
            self._timing = None
        return sum(timing)

    def close(self) -> None:
        self.closed = True
        self.memory.clear()


def unpack(function: Function, arguments: bytes) -> list[Any]:
    """The parameter block taken apart again, as PTX lays it out."""
    at = 0
    values: list[Any] = []
    for param in function.params:
        width = type_width(param.type) // 8
        size = width * (param.dims[0] or 1) if param.dims else width
        at += -at % (param.align or width)
        piece = arguments[at : at + size]
        at += size
        if param.dims:
            values.append(piece)
        elif param.type in ("f32", "f64"):
            values.append(float(np.frombuffer(piece, "<f4" if width == 4 else "<f8")[0]))
        else:
            values.append(int.from_bytes(piece, "little"))
    assert at == len(arguments)
    return values
