"""What the GPU part needs of a driver: a few calls, behind which a Python package for CUDA (or a
test) stands. `ptxsw.gpu.cuda.open_device` gives one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from numpy.typing import NDArray

from ptxsw.ptx.text_files import encoded
from ptxsw.toolchain.ptxas import NoPtxas, assemble

Array = NDArray[Any]
Shape = tuple[int, int, int]


class NoGpu(Exception):
    """There is no GPU to run on; the message is one sentence for the user."""


class GpuError(Exception):
    """The driver refused something, or a kernel failed: "what was done: CUDA_ERROR_NAME (in
    words)", without the name where the package does not tell it. After a failed kernel nothing
    more can be done on the device in this process."""


class Device(Struct, frozen=True):
    """A GPU. Clocks are the highest in MHz, 0 where the driver does not tell."""

    name: str
    arch: str  # "sm_80"
    driver: str  # "580.95.05"; "for CUDA 13.0" where only that is known
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
    """A kernel loaded on the device, which stays there until the driver is closed."""

    @property
    def registers(self) -> int: ...  # per thread

    @property
    def local(self) -> int: ...  # bytes of local memory per thread, spills among them

    @property
    def threads(self) -> int: ...  # the most in a block


class Driver(Protocol):
    """One device with one context, used from one thread. Addresses are those of the device, sizes
    are bytes. Every call may raise GpuError; for a kernel that failed, the first call that
    notices does."""

    @property
    def device(self) -> Device: ...

    def load(self, text: str, kernel: str, arch: str, cubin: bytes | None = None) -> LoadedKernel:
        """The kernel of that name of a PTX text, compiled for an architecture ("sm_90") by ptxas,
        or by the CUDA driver where there is no ptxas. `cubin` is that text compiled beforehand,
        which is then loaded as it is. Raises AssemblyError, too."""
        ...

    def allocate(self, size: int) -> int:
        """The address of `size` bytes of any content; at least one."""
        ...

    def free(self, address: int) -> None:
        """Gives back what `allocate` gave."""
        ...

    def upload(self, address: int, data: Array) -> None:
        """Copies the bytes of an array to the device, and waits for it."""
        ...

    def download(self, address: int, size: int) -> Array:
        """So many bytes, as an array of them."""
        ...

    def copy(self, destination: int, source: int, size: int) -> None:
        """Starts a copy on the device, after all that was started."""
        ...

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        """Starts a kernel; `arguments` is the parameter block, `shared` dynamic shared memory of
        a block, as much as the device has. Does not wait for it."""
        ...

    def wait(self) -> None:
        """Until all that was started is done."""
        ...

    def seconds(self, work: Callable[[], None]) -> float:
        """The time on the device from before `work` to after what it started, by events."""
        ...

    def close(self) -> None:
        """Frees all that was allocated and loaded. Never raises; a second time it does
        nothing."""
        ...


# ---------------------------------------------------------------- what every driver tells and loads

LOADED_DRIVER = Path("/proc/driver/nvidia/version")
FREE_SHARED = 48 << 10
"""A block has so much shared memory, static and dynamic, without asking for more."""


def describe(
    number: int,
    name: str,
    capability: tuple[int, int],
    *,
    memory: int,
    version: int,
    attribute: Callable[[str], int],
) -> Device:
    """The device of that number. `version` is CUDA's, 1000 for each major one; `attribute` gives
    one by the name that it has after CU_DEVICE_ATTRIBUTE_, 0 where it is not known."""
    major, minor = capability
    x, y, z = (attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ")
    return Device(
        name,
        f"sm_{major}{minor}",
        _driver_version(number) or f"for CUDA {version // 1000}.{version % 1000 // 10}",
        attribute("CLOCK_RATE") // 1000,
        attribute("MEMORY_CLOCK_RATE") // 1000,
        attribute("L2_CACHE_SIZE"),
        memory,
        (x, y, z),
    )


def _driver_version(number: int) -> str | None:
    """The driver's own version, which CUDA does not tell: as Linux shows it, or by a program, which
    takes a second."""
    try:
        shown = LOADED_DRIVER.read_text()
    except OSError:
        shown = ""
    if (found := re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)", shown)) is not None:
        return found[1]
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, f"--id={number}", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


@lru_cache(maxsize=64)
def image(text: str, arch: str) -> bytes:
    """A cubin by ptxas, as a build would make it; without ptxas the text, for the driver's own
    compiler. `arch` is one such as "sm_90"; a text for sm_90a keeps its own. Raises
    AssemblyError."""
    own = re.search(rf"^\s*\.target\s+({arch}[a-z]?)\b", text, re.MULTILINE)
    try:
        return assemble(text, own[1] if own else arch).cubin
    except NoPtxas:
        return encoded(text) + b"\0"  # a C string to the driver
