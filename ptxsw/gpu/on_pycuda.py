"""The driver on pycuda."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from msgspec import Struct

from ptxsw.gpu.driver import (
    FREE_SHARED,
    Array,
    Device,
    Driver,
    GpuError,
    LoadedKernel,
    NoGpu,
    Shape,
    describe,
    image,
)


def open_device(number: int) -> Driver:
    """The device of that number. Raises ModuleNotFoundError without the package, NoGpu without a
    GPU."""
    try:
        with catch_warnings():  # of what is about to be said
            simplefilter("ignore")
            import pycuda.driver as cuda
    except ModuleNotFoundError:
        raise
    except ImportError as error:  # libcuda.so.1 comes with the driver
        raise NoGpu(f"pycuda finds no CUDA driver ({error})") from error
    try:
        cuda.init()
        count = cuda.Device.count()
        if not 0 <= number < count:
            raise NoGpu(f"there is no device {number}, there are {count}")
        return _Pycuda(cuda, number)
    except cuda.Error as error:
        raise NoGpu(str(error)) from error


class _Kernel(Struct):
    function: Any
    registers: int
    local: int
    threads: int
    dynamic: int  # shared memory that a launch may have by now
    module: Any  # unloaded with its last kernel


class _Pycuda:
    def __init__(self, cuda: Any, number: int) -> None:
        self._cuda = cuda
        device = cuda.Device(number)
        self._context = device.make_context()
        self.device = _describe(cuda, device, number)
        self._allocated: dict[int, Any] = {}
        self._closed = False

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._cuda.Error as error:
            raise GpuError(f"{doing}: {error}") from error

    def load(self, text: str, kernel: str, arch: str, cubin: bytes | None = None) -> LoadedKernel:
        binary = cubin if cubin is not None else image(text, arch)
        with self._errors(f"loading {kernel}"):
            module = self._cuda.module_from_buffer(binary)
            function = module.get_function(kernel)
            return _Kernel(
                function, function.num_regs, function.local_size_bytes,
                function.max_threads_per_block, FREE_SHARED - function.shared_size_bytes, module,
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
            if shared > kernel.dynamic:
                most = self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                kernel.function.set_attribute(most, shared)
                kernel.dynamic = shared
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


def _describe(cuda: Any, device: Any, number: int) -> Device:
    def attribute(name: str) -> int:
        kind = getattr(cuda.device_attribute, name, None)
        try:
            return int(device.get_attribute(kind)) if kind is not None else 0
        except cuda.Error:
            return 0

    return describe(
        number, device.name(), device.compute_capability(), memory=device.total_memory(),
        version=cuda.get_driver_version(), attribute=attribute,
    )  # fmt: skip
