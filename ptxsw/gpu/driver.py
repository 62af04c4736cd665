"""What the GPU part needs of a driver: a few calls, behind which pycuda (or a test) stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, int, int]


class NoGpu(Exception):
    """There is no GPU to run on; the message is one sentence for the user."""


class GpuError(Exception):
    """The driver refused something, or a kernel failed. After a failed kernel nothing more can
    be done on the device."""


class Device(Struct, frozen=True):
    """A GPU. Clocks are the highest in MHz, 0 where the driver does not tell."""

    name: str
    arch: str  # "sm_80"
    driver: str
    clock: int
    memory_clock: int
    l2: int  # bytes
    memory: int  # bytes
    grid: Shape = (2**31 - 1, 65535, 65535)  # the most blocks along x, y and z

    def __str__(self) -> str:
        clocks = f", {self.clock} MHz" if self.clock else ""
        memory = f" (memory {self.memory_clock} MHz)" if self.memory_clock else ""
        return f"{self.name} ({self.arch}), driver {self.driver}{clocks}{memory}"


class LoadedKernel(Protocol):
    """A kernel loaded on the device."""

    @property
    def registers(self) -> int: ...  # per thread

    @property
    def local(self) -> int: ...  # bytes of local memory per thread, spills among them

    @property
    def threads(self) -> int: ...  # the most in a block


class Driver(Protocol):
    """One device with one context. Addresses are those of the device; every call may raise
    GpuError."""

    @property
    def device(self) -> Device: ...

    def load(self, text: str, kernel: str, arch: str) -> LoadedKernel:
        """A kernel of a PTX text, compiled for an architecture. Raises AssemblyError, too."""
        ...

    def allocate(self, size: int) -> int: ...

    def free(self, address: int) -> None: ...

    def upload(self, address: int, data: Array) -> None: ...

    def download(self, address: int, size: int) -> Array:
        """So many bytes, as an array of them."""
        ...

    def copy(self, destination: int, source: int, size: int) -> None: ...

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        """Starts a kernel; `arguments` is the parameter block. Does not wait for it."""
        ...

    def wait(self) -> None:
        """Until all that was started is done."""
        ...

    def seconds(self, work: Callable[[], None]) -> float:
        """The time on the device from before `work` to after what it started."""
        ...

    def close(self) -> None: ...
