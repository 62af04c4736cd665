"""The driver on pycuda, against a module that has pycuda's names and records what it is asked."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptxsw.gpu.cuda import open_device
from ptxsw.gpu.driver import GpuError, NoGpu, image
from tests.heads import head

PTX = (
    head("8.0", "sm_90a")
    + """.visible .entry k(.param .u64 p) { ret; }
"""
)


class Error(Exception):
    pass


class Function:
    num_regs, local_size_bytes, max_threads_per_block, shared_size_bytes = 40, 16, 768, 1024

    def set_attribute(self, kind: str, value: int) -> None:
        Pycuda.calls.append((kind, value))

    def prepare(self, formats: list[str]) -> Function:
        self.format = "".join(formats)
        return self

    def prepared_call(self, grid: Any, block: Any, *args: Any, shared_size: int = 0) -> None:
        if block[0] > 768:
            raise Error("cuLaunchKernel failed: invalid argument")
        Pycuda.calls.append((grid, block, struct.pack(self.format, *args), shared_size))


class Memory(int):
    def free(self) -> None:
        Pycuda.held.remove(int(self))


class Pycuda:
    """State of the imaginary driver."""

    calls: list[Any]
    held: set[int]
    images: list[bytes]
    devices = 1
    broken: str | None = None
    contexts: list[str]


def event(times: list[float]) -> type:
    class Event:
        def record(self) -> None:
            self.at = times.pop(0)

        def synchronize(self) -> None:
            pass

        def time_till(self, other: Event) -> float:
            return other.at - self.at

    return Event


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    Pycuda.calls, Pycuda.held, Pycuda.images, Pycuda.contexts = [], set(), [], []
    monkeypatch.setattr(Pycuda, "devices", 1)
    monkeypatch.setattr(Pycuda, "broken", None)

    def init() -> None:
        if Pycuda.broken is not None:
            raise Error(Pycuda.broken)

    def allocate(size: int) -> Memory:
        if size > 1 << 40:
            raise Error("cuMemAlloc failed: out of memory")
        made = Memory(0x1000 * (len(Pycuda.held) + 1))
        Pycuda.held.add(int(made))
        return made

    def load(data: bytes) -> Any:
        Pycuda.images.append(data)
        return SimpleNamespace(get_function=lambda name: Function())

    monkeypatch.setitem(sys.modules, "cuda.bindings", None)  # which comes first
    attributes = {"CLOCK_RATE": 1980000, "L2_CACHE_SIZE": 50 << 20, "MAX_GRID_DIM_X": 2**31 - 1,
                  "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535}  # fmt: skip
    context = SimpleNamespace(
        pop=lambda: Pycuda.contexts.append("popped"), detach=lambda: Pycuda.contexts.append("gone")
    )
    device = SimpleNamespace(
        name=lambda: "Recorder", compute_capability=lambda: (9, 0), total_memory=lambda: 80 << 30,
        get_attribute=attributes.__getitem__, make_context=lambda: context,
    )  # fmt: skip

    class Device:
        def __new__(cls, number: int) -> Any:
            return device

        @staticmethod
        def count() -> int:
            return Pycuda.devices

    driver = ModuleType("pycuda.driver")
    vars(driver).update(
        Error=Error, init=init, Device=Device, mem_alloc=allocate, module_from_buffer=load,
        function_attribute=SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic"),
        device_attribute=SimpleNamespace(**{name: name for name in attributes}),
        get_driver_version=lambda: 12040, Event=event([1.0, 3.5]),
        Context=SimpleNamespace(synchronize=lambda: None),
        memcpy_htod=lambda to, array: Pycuda.calls.append(("up", to, bytes(array))),
        memcpy_dtoh=lambda array, at: array.fill(7),
        memcpy_dtod=lambda to, at, size: Pycuda.calls.append(("copy", to, at, size)),
    )  # fmt: skip
    package = ModuleType("pycuda")
    vars(package)["driver"] = driver
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.setenv("PATH", "/nonexistent")  # no nvidia-smi
    monkeypatch.setattr("ptxsw.gpu.driver.LOADED_DRIVER", Path("/nonexistent"))
    return driver


def test_what_the_device_is(cuda: Any) -> None:
    device = open_device().device
    assert str(device) == "Recorder (sm_90), driver for CUDA 12.4, 1980 MHz"
    assert (device.l2, device.memory, device.grid[1]) == (50 << 20, 80 << 30, 65535)


@pytest.mark.parametrize("kind", ["Kernel Module  ", "Open Kernel Module for x86_64  "])
def test_the_drivers_own_version(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """As Linux shows it, without another program."""
    shown = tmp_path / "version"
    shown.write_text(f"NVRM version: NVIDIA UNIX {kind}580.159.04  Tue Oct 27\nGCC version: 13.3\n")
    monkeypatch.setattr("ptxsw.gpu.driver.LOADED_DRIVER", shown)
    assert open_device().device.driver == "580.159.04"


def test_calls(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = open_device()
    monkeypatch.setattr("ptxsw.gpu.on_pycuda.image", lambda text, arch: f"{arch}:{text}".encode())
    kernel = driver.load("text", "k", "sm_90")
    assert Pycuda.images == [b"sm_90:text"]
    assert (kernel.registers, kernel.local, kernel.threads) == (40, 16, 768)
    address = driver.allocate(64)
    driver.upload(address, np.arange(4, dtype=np.float32)[::2])
    driver.copy(address, address, 8)
    driver.launch(kernel, (2, 3, 4), (64, 1, 1), b"\x01\x02\x03", 256)
    driver.wait()
    uploaded = np.array([0, 2], np.float32).tobytes()
    assert Pycuda.calls == [
        ("up", address, uploaded), ("copy", address, address, 8),
        ((2, 3, 4), (64, 1, 1), b"\x01\x02\x03", 256),
    ]  # fmt: skip
    assert driver.download(address, 3).tolist() == [7, 7, 7]
    assert driver.seconds(lambda: None) == pytest.approx(2.5e-3)
    other = driver.allocate(8)
    driver.free(address)
    assert Pycuda.held == {other}
    driver.close()
    assert not Pycuda.held
    assert Pycuda.contexts == ["popped", "gone"]


def test_much_dynamic_shared_memory_is_asked_for(cuda: Any) -> None:
    """48 KiB are free, the static ones of the kernel among them."""
    driver = open_device()
    kernel = driver.load("", "k", "sm_90", cubin=b"\x7fELF")
    assert Pycuda.images == [b"\x7fELF"]
    for size in (47 << 10, 48 << 10, 48 << 10, 96 << 10):
        driver.launch(kernel, (1, 1, 1), (32, 1, 1), b"", size)
    asked = [call for call in Pycuda.calls if call[0] == "dynamic"]
    assert asked == [("dynamic", 48 << 10), ("dynamic", 96 << 10)]


def test_errors_say_what_was_done(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = open_device()
    with pytest.raises(GpuError, match=r"allocating \d+ bytes: cuMemAlloc failed: out of memory"):
        driver.allocate(1 << 41)
    monkeypatch.setattr("ptxsw.gpu.on_pycuda.image", lambda text, arch: b"")
    kernel = driver.load("", "k", "sm_90")
    with pytest.raises(GpuError, match=r"launching grid \(1, 1, 1\), block \(1024, 1, 1\): cu"):
        driver.launch(kernel, (1, 1, 1), (1024, 1, 1), b"", 0)


def test_no_gpu(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence for each way not to have one."""

    def said() -> str:
        with pytest.raises(NoGpu) as error:
            open_device()
        return str(error.value)

    monkeypatch.setattr(Pycuda, "broken", "cuInit failed: no CUDA-capable device is detected")
    assert said() == "No GPU can be used: cuInit failed: no CUDA-capable device is detected."
    monkeypatch.setattr(Pycuda, "broken", None)
    monkeypatch.setattr(Pycuda, "devices", 0)
    assert said() == "No GPU can be used: there is no device 0, there are 0."
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    assert said() == (
        "No GPU can be used: neither cuda-bindings (pip install 'ptxsw[gpu]') "
        "nor pycuda (pip install 'ptxsw[pycuda]') is installed."
    )


def test_images(ptxas: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cubin for the architecture that is asked for, or the text where there is no ptxas."""
    if ptxas is not None:
        assert image(PTX, "sm_90").startswith(b"\x7fELF")
        assert image(PTX.replace("sm_90a", "sm_80"), "sm_90").startswith(b"\x7fELF")
    monkeypatch.setattr("ptxsw.toolchain.find.real_ptxas", lambda environ, prefix=None: None)
    image.cache_clear()
    assert image(PTX, "sm_90") == PTX.encode() + b"\0"
    image.cache_clear()


@pytest.fixture
def ptxas() -> str | None:
    from ptxsw.toolchain.ptxas import NoPtxas, locate

    try:
        return locate()
    except NoPtxas:
        return None
