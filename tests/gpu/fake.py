"""A GPU without a GPU: kernels run in the interpreter, and take as long as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat

import numpy as np

from ptxsw.gpu.driver import Array, Device, GpuError, LoadedKernel, Shape
from ptxsw.ir import Function, Module, type_width
from ptxsw.parser import parse
from ptxsw.simt import RunError
from ptxsw.simt import launch as simulate

DEVICE = Device("Imaginary 1", "sm_80", "580.1", 1410, 1593, 1 << 16, 1 << 30)
FIRST = 0x7F0000000000
APART = 1 << 28


@dataclass(frozen=True)
class Loaded:
    module: Module
    function: Function
    text: str
    registers: int = 32
    local: int = 0
    threads: int = 1024


@dataclass
class FakeDriver:
    """`cost` says what a launch of a text takes, in seconds; `noise` what each sample is
    multiplied by, 1 after its end; `change` may spoil the bytes of the buffers after a run."""

    cost: Callable[[str], float] = lambda text: 1e-4
    device: Device = DEVICE
    noise: Iterator[float] = field(default_factory=lambda: repeat(1.0))
    change: Callable[[str, dict[int, Array]], None] = lambda text, memory: None
    threads: Callable[[str], int] = lambda text: 1024
    memory: dict[int, Array] = field(default_factory=dict)
    launches: list[tuple[Shape, Shape, bytes]] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    copied: int = 0
    closed: bool = False
    broken: bool = False
    _timing: list[float] | None = None
    _next: int = FIRST

    def load(self, text: str, kernel: str, arch: str, cubin: bytes | None = None) -> LoadedKernel:
        self.loaded.append(arch)
        module = parse(text)
        function = next(f for f in module.functions if f.name == kernel)
        return Loaded(module, function, text, threads=self.threads(text))

    def allocate(self, size: int) -> int:
        if size > self.device.memory:
            raise GpuError(f"allocating {size} bytes: out of memory")
        address = self._next
        self._next += APART
        self.memory[address] = np.zeros(size, np.uint8)
        return address

    def free(self, address: int) -> None:
        if self.broken:
            raise GpuError("freeing memory: an illegal memory access was encountered")
        del self.memory[address]

    def upload(self, address: int, data: Array) -> None:
        data = np.ascontiguousarray(data)
        self.memory[address][: data.nbytes] = data.reshape(-1).view(np.uint8)

    def download(self, address: int, size: int) -> Array:
        return self.memory[address][:size].copy()

    def copy(self, destination: int, source: int, size: int) -> None:
        self.copied += 1
        self.memory[destination][:size] = self.memory[source][:size]

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        assert isinstance(kernel, Loaded)
        if self._timing is not None:
            self._timing.append(self.cost(kernel.text))
            return
        self.launches.append((grid, block, arguments))
        values = unpack(kernel.function, arguments)
        try:
            done = simulate(
                kernel.module, kernel.function.name, grid, block, values, shared=shared,
                memory=self.memory, counters=False,
            )  # fmt: skip
        except RunError as error:
            if "a value nobody defined" in str(error.message):
                return  # a GPU would not mind
            raise GpuError(f"running a kernel: {error.message}") from error
        for address, array in done.memory.items():
            self.memory[address][...] = array
        self.change(kernel.text, self.memory)

    def wait(self) -> None:
        pass

    def seconds(self, work: Callable[[], None]) -> float:
        self._timing = []
        work()
        total = sum(self._timing)
        self._timing = None
        return total * next(self.noise, 1.0)

    def close(self) -> None:
        self.closed = True


def unpack(function: Function, arguments: bytes) -> list[object]:
    """The parameter block taken apart again, as PTX lays it out."""
    at = 0
    values: list[object] = []
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


def drifting(step: float) -> Iterator[float]:
    """Each sample a little slower than the one before."""
    return (1.0 + step * number for number in chain(range(10**6)))
