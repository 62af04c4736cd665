"""The driver on NVIDIA's cuda-bindings: CUDA's driver API, function by function.

Not on cuda-core, which is built on it: that takes a kernel's arguments one by one, where we have
the bytes of the parameter block.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Any

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
    """The device of that number. Raises ImportError without the package, NoGpu without a GPU."""
    from cuda.bindings import driver as api

    calls = _Calls(api)
    try:
        calls("starting CUDA", api.cuInit, 0)
        count = calls("counting the devices", api.cuDeviceGetCount)
        if not 0 <= number < count:
            raise NoGpu(f"there is no device {number}, there are {count}")
        return _Bindings(calls, number)
    except _NoFunction as error:
        raise NoGpu(
            "there is no CUDA driver, or it is too old for cuda-bindings (libcuda.so.1)"
        ) from error
    except GpuError as error:
        raise NoGpu(str(error)) from error


class _NoFunction(GpuError):
    """The driver has not got the function; without a driver it is so of all."""


class _Calls:
    """Calls functions of the driver API."""

    def __init__(self, api: Any) -> None:
        self.api = api

    def __call__(self, doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function gives beside its status. Raises GpuError."""
        try:
            status, *values = function(*arguments)
        except RuntimeError as error:
            raise _NoFunction(f"{doing}: {error}") from error
        except ValueError as error:  # a status that is newer than the package
            raise GpuError(f"{doing}: {error}") from error
        if status != self.api.CUresult.CUDA_SUCCESS:
            _, words = self.api.cuGetErrorString(status)
            explained = f" ({words.decode()})" if words else ""
            raise GpuError(f"{doing}: {status.name}{explained}")
        return values[0] if values else None


class _Kernel(Struct):
    function: Any
    registers: int
    local: int
    threads: int
    dynamic: int  # shared memory that a launch may have by now


class _Bindings:
    def __init__(self, calls: _Calls, number: int) -> None:
        self._call, self._api = calls, calls.api
        self._device = calls("opening the device", self._api.cuDeviceGet, number)
        # That of the device, which CUDA's own runtime has, too: no other is made or left behind.
        context = calls("opening the device", self._api.cuDevicePrimaryCtxRetain, self._device)
        calls("opening the device", self._api.cuCtxSetCurrent, context)
        self._modules: list[Any] = []
        self._allocated: dict[int, Any] = {}
        self._closed = False
        self.device = self._described(number)

    def _described(self, number: int) -> Device:
        doing = "asking what the device is"

        def needed(name: str) -> int:
            kind = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(self._call(doing, self._api.cuDeviceGetAttribute, kind, self._device))

        def attribute(name: str) -> int:
            try:
                return needed(name)
            except GpuError:
                return 0

        name = self._call(doing, self._api.cuDeviceGetName, 256, self._device)
        return describe(
            number, name.split(b"\0")[0].decode(),
            (needed("COMPUTE_CAPABILITY_MAJOR"), needed("COMPUTE_CAPABILITY_MINOR")),
            memory=self._call(doing, self._api.cuDeviceTotalMem, self._device),
            version=self._call(doing, self._api.cuDriverGetVersion),
            attribute=attribute,
        )  # fmt: skip

    def load(self, text: str, kernel: str, arch: str, cubin: bytes | None = None) -> LoadedKernel:
        doing = f"loading {kernel}"
        binary = cubin if cubin is not None else image(text, arch)
        module = self._call(doing, self._api.cuModuleLoadData, binary)
        self._modules.append(module)
        function = self._call(doing, self._api.cuModuleGetFunction, module, kernel.encode())
        kinds = self._api.CUfunction_attribute

        def attribute(name: str) -> int:
            kind = getattr(kinds, f"CU_FUNC_ATTRIBUTE_{name}")
            return int(self._call(doing, self._api.cuFuncGetAttribute, kind, function))

        return _Kernel(
            function,
            attribute("NUM_REGS"),
            attribute("LOCAL_SIZE_BYTES"),
            attribute("MAX_THREADS_PER_BLOCK"),
            FREE_SHARED - attribute("SHARED_SIZE_BYTES"),
        )

    def allocate(self, size: int) -> int:
        allocation = self._call(f"allocating {size} bytes", self._api.cuMemAlloc, size)
        self._allocated[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        self._call("freeing memory", self._api.cuMemFree, self._allocated.pop(address))

    def upload(self, address: int, data: Array) -> None:
        data = np.ascontiguousarray(data)
        where = data.ctypes.data
        self._call(
            "copying to the device", self._api.cuMemcpyHtoD, address, where, data.nbytes
        )  # fmt: skip

    def download(self, address: int, size: int) -> Array:
        array = np.empty(size, np.uint8)
        where = array.ctypes.data
        self._call("copying from the device", self._api.cuMemcpyDtoH, where, address, size)
        return array

    def copy(self, destination: int, source: int, size: int) -> None:
        self._call("copying on the device", self._api.cuMemcpyDtoD, destination, source, size)

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        assert isinstance(kernel, _Kernel)
        doing = f"launching grid {grid}, block {block}"
        if shared > kernel.dynamic:
            most = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call(doing, self._api.cuFuncSetAttribute, kernel.function, most, shared)
            kernel.dynamic = shared
        parameters = _Parameters(arguments)
        self._call(
            doing, self._api.cuLaunchKernel, kernel.function, *grid, *block, shared, 0, 0,
            parameters.address,
        )  # fmt: skip

    def wait(self) -> None:
        self._call("running a kernel", self._api.cuCtxSynchronize)

    def seconds(self, work: Callable[[], None]) -> float:
        doing, api = "timing a kernel", self._api
        begin = self._call(doing, api.cuEventCreate, 0)
        end = self._call(doing, api.cuEventCreate, 0)
        self._call(doing, api.cuEventRecord, begin, 0)
        work()
        self._call(doing, api.cuEventRecord, end, 0)
        self._call(doing, api.cuEventSynchronize, end)
        elapsed = self._call(doing, api.cuEventElapsedTime, begin, end)
        for event in (begin, end):
            self._call(doing, api.cuEventDestroy, event)
        return float(elapsed) * 1e-3

    def close(self) -> None:
        """After a failed kernel the driver complains about every call, which is no news."""
        if self._closed:
            return
        self._closed = True
        api = self._api
        steps = [(api.cuMemFree, allocation) for allocation in self._allocated.values()]
        steps += [(api.cuModuleUnload, module) for module in self._modules]
        for function, what in [*steps, (api.cuDevicePrimaryCtxRelease, self._device)]:
            with suppress(GpuError):
                self._call("closing the device", function, what)


class _Parameters:
    """A parameter block as `cuLaunchKernel` takes one: by the address of a list of pointers to its
    bytes and their number. To be kept until the call returns."""

    def __init__(self, block: bytes) -> None:
        self._bytes = ctypes.create_string_buffer(block, max(len(block), 1))
        self._size = ctypes.c_size_t(len(block))
        self._list = (ctypes.c_void_p * 5)(
            1, ctypes.addressof(self._bytes),  # CU_LAUNCH_PARAM_BUFFER_POINTER
            2, ctypes.addressof(self._size),  # CU_LAUNCH_PARAM_BUFFER_SIZE
            0,  # CU_LAUNCH_PARAM_END
        )  # fmt: skip
        self.address = ctypes.addressof(self._list)
