"""A GPU without a GPU: kernels run in the interpreter, and take as long as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

from msgspec.structs import replace

from benchmarks.gpu.interpreter import APART, FIRST, InterpreterDriver, LoadedText, unpack
from ptxsw.gpu.driver import Array, Device, GpuError, LoadedKernel, Shape

__all__ = ["APART", "DEVICE", "FIRST", "FakeDriver", "drifting", "unpack"]

DEVICE = Device("Imaginary 1", "sm_80", "580.1", 1410, 1593, 1 << 16, 1 << 30)
_UNDEFINED = "an undefined value"


class FakeDriver(InterpreterDriver):
    """`cost` says what a launch of a text takes, in seconds; `noise` what each sample is
    multiplied by, 1 after its end; `change` may spoil the bytes of the buffers after a run. What
    the interpreter calls undefined a GPU does not mind: the kernel has then done nothing."""

    def __init__(
        self,
        cost: Callable[[str], float] = lambda text: 1e-4,
        device: Device = DEVICE,
        noise: Iterator[float] | None = None,
        change: Callable[[str, dict[int, Array]], None] = lambda text, memory: None,
        threads: Callable[[str], int] = lambda text: 1024,
    ) -> None:
        super().__init__(device)
        self.broken = False
        self.launches: list[tuple[Shape, Shape, bytes]] = []
        self.loaded: list[str] = []
        self.copied = 0
        self.change = change
        self._cost, self._threads = cost, threads
        self._noise = repeat(1.0) if noise is None else noise

    def load(self, text: str, kernel: str, arch: str, cubin: bytes | None = None) -> LoadedKernel:
        self.loaded.append(arch)
        loaded = super().load(text, kernel, arch, cubin)
        assert isinstance(loaded, LoadedText)
        return replace(loaded, registers=32, threads=self._threads(text))

    def free(self, address: int) -> None:
        if self.broken:
            raise GpuError("freeing memory: an illegal memory access was encountered")
        super().free(address)

    def copy(self, destination: int, source: int, size: int) -> None:
        self.copied += 1
        super().copy(destination, source, size)

    def run(
        self, kernel: LoadedText, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> float:
        self.launches.append((grid, block, arguments))
        try:
            super().run(kernel, grid, block, arguments, shared)
        except GpuError as error:
            if _UNDEFINED not in str(error):
                raise
            self.mended()
        else:
            self.change(kernel.text, self.memory)
        return self._cost(kernel.text)

    def seconds(self, work: Callable[[], None]) -> float:
        return super().seconds(work) * next(self._noise, 1.0)


def drifting(step: float) -> Iterator[float]:
    """Each sample a little slower than the one before."""
    return (1.0 + step * number for number in chain(range(10**6)))
