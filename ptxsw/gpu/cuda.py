"""The driver on pycuda."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from msgspec import Struct

from ptxsw.gpu.driver import Array, Device, Driver, GpuError, LoadedKernel, NoGpu, Shape
from ptxsw.toolchain.ptxas import NoPtxas, assemble


def open_device(number: int = 0) -> Driver:
    """The device of that number. Raises NoGpu."""
    try:
        with catch_warnings():  # of what is about to be said
            simplefilter("ignore")
            import pycuda.driver as cuda
    except ModuleNotFoundError as error:
        raise NoGpu(
            f"No GPU can be used: {error.name} is not installed (pip install 'ptxsw[gpu]')."
        ) from error
    except ImportError as error:  # libcuda.so.1 comes with the driver
        raise NoGpu(f"No GPU can be used: pycuda finds no CUDA driver ({error}).") from error
    try:
        cuda.init()
        count = cuda.Device.count()
    except cuda.Error as error:
        raise NoGpu(f"No GPU can be used: {error}.") from error
    if not 0 <= number < count:
        raise NoGpu(f"No GPU can be used: there is no device {number}, there are {count}.")
    return _Cuda(cuda, number)


class _Kernel(Struct, frozen=True):
    function: Any
    registers: int
    local: int
    threads: int
    module: Any  # unloaded with its last kernel


class _Cuda:
    def __init__(self, cuda: Any, number: int) -> None:
        self._cuda = cuda
        device = cuda.Device(number)
        try:
            self._context = device.make_context()
        except cuda.Error as error:
            raise NoGpu(f"No GPU can be used: {device.name()}: {error}.") from error
        self.device = _describe(cuda, device, number)
        self._allocated: dict[int, Any] = {}
        self._closed = False

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._cuda.Error as error:
            raise GpuError(f"{doing}: {error}") from error

    def load(self, text: str, kernel: str, arch: str) -> LoadedKernel:
        binary = image(text, arch)
        with self._errors(f"loading {kernel}"):
            module = self._cuda.module_from_buffer(binary)
            function = module.get_function(kernel)
            return _Kernel(
                function, function.num_regs, function.local_size_bytes,
                function.max_threads_per_block, module,
            )  # fmt: skip

    def allocate(self, size: int) -> int:
        with self._errors(f"allocating {size} bytes"):
            allocation = self._cuda.mem_alloc(size)
        self._allocated[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        with self._errors("freeing memory"):
            self._allocated.pop(address).free()

    def upload(self, address: int, data: Array) -> None:
        with self._errors("copying to the device"):
            self._cuda.memcpy_htod(address, np.ascontiguousarray(data))

    def download(self, address: int, size: int) -> Array:
        array = np.empty(size, np.uint8)
        with self._errors("copying from the device"):
            self._cuda.memcpy_dtoh(array, address)
        return array

    def copy(self, destination: int, source: int, size: int) -> None:
        with self._errors("copying on the device"):
            self._cuda.memcpy_dtod(destination, source, size)

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        assert isinstance(kernel, _Kernel)
        with self._errors(f"launching grid {grid}, block {block}"):
            # One field of raw bytes: structures keep the alignment that we gave them.
            prepared = kernel.function.prepare([f"{len(arguments)}s"])
            prepared.prepared_call(grid, block, arguments, shared_size=shared)

    def wait(self) -> None:
        with self._errors("running a kernel"):
            self._cuda.Context.synchronize()

    def seconds(self, work: Callable[[], None]) -> float:
        with self._errors("timing a kernel"):
            begin, end = self._cuda.Event(), self._cuda.Event()
            begin.record()
            work()
            end.record()
            end.synchronize()
            return float(begin.time_till(end)) * 1e-3

    def close(self) -> None:
        """A context that is left on pycuda's stack would abort the process as it ends. After a
        failed kernel the driver complains about every call, which is no news."""
        if self._closed:
            return
        self._closed = True
        for allocation in self._allocated.values():
            with suppress(self._cuda.Error):
                allocation.free()
        self._allocated.clear()
        for step in (self._context.pop, self._context.detach):
            with suppress(self._cuda.Error):
                step()


@lru_cache(maxsize=64)
def image(text: str, arch: str) -> bytes:
    """A cubin by ptxas, as a build would make it; without ptxas the text, for the driver's own
    compiler. `arch` is one such as "sm_90"; a text for sm_90a keeps its own. Raises
    AssemblyError."""
    own = re.search(rf"^\s*\.target\s+({arch}[a-z]?)\b", text, re.MULTILINE)
    try:
        return assemble(text, own[1] if own else arch).cubin
    except NoPtxas:
        return text.encode() + b"\0"  # a C string to the driver


def _describe(cuda: Any, device: Any, number: int) -> Device:
    def attribute(name: str) -> int:
        number = getattr(cuda.device_attribute, name, None)
        try:
            return int(device.get_attribute(number)) if number is not None else 0
        except cuda.Error:
            return 0

    major, minor = device.compute_capability()
    version = cuda.get_driver_version()
    return Device(
        device.name(),
        f"sm_{major}{minor}",
        _driver(number) or f"for CUDA {version // 1000}.{version % 1000 // 10}",
        attribute("CLOCK_RATE") // 1000,
        attribute("MEMORY_CLOCK_RATE") // 1000,
        attribute("L2_CACHE_SIZE"),
        device.total_memory(),
        tuple(attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ"),  # type: ignore[arg-type]
    )


def _driver(number: int) -> str | None:
    """The driver's own version, which CUDA does not tell."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, f"--id={number}", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
