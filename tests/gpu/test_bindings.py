"""The driver on cuda-bindings: the package itself, above a libcuda.so.1 that only writes down what
it is asked (tests/gpu/libcuda.c). So what we pass is what arrives in C."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from ctypes.util import find_library
from pathlib import Path

import pytest

from ptxsw.gpu.cuda import open_device
from ptxsw.gpu.driver import NoGpu

HERE = Path(__file__).parent
BEGIN = """
import sys
from pathlib import Path
import numpy as np
from ptxsw.gpu import driver
from ptxsw.gpu.cuda import open_device
from ptxsw.gpu.driver import GpuError, NoGpu
driver.LOADED_DRIVER = Path("/nonexistent")
try:
    driver = open_device(NUMBER)
except NoGpu as error:
    sys.exit(print(error))
def tried(work):
    try:
        print(work())
    except GpuError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*command, "-o", library, HERE / "libcuda.c", "-ldl"], check=True)
    return library


Script = Callable[..., list[str]]


@pytest.fixture
def script(libcuda: Path, tmp_path: Path) -> Script:
    """Runs a text that has a `driver`; gives the lines it prints and those that the library
    wrote."""
    log = tmp_path / "log"

    def call(text: str, number: int = 0, **more: str) -> list[str]:
        environ = {
            **os.environ, "LD_LIBRARY_PATH": str(libcuda.parent), "LAUNCHES": str(log), **more,
            "PATH": "/nonexistent",  # no nvidia-smi
        }  # fmt: skip
        log.write_text("")
        done = subprocess.run(
            [sys.executable, "-c", BEGIN.replace("NUMBER", str(number)) + text],
            env=environ, capture_output=True, text=True, cwd=HERE.parents[1],
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return [*done.stdout.splitlines(), *log.read_text().splitlines()]

    return call


def test_the_way_of_a_launch(script: Script) -> None:
    said = script("""
print(driver.device)
print(driver.device.l2 >> 20, driver.device.memory >> 30, driver.device.grid)
kernel = driver.load("", "stencil", "sm_90", cubin=b"has a stencil\\0")
print(kernel.registers, kernel.local, kernel.threads)
one, other = driver.allocate(16), driver.allocate(16)
driver.upload(one, np.arange(8, dtype=np.float32)[::2])
driver.copy(other, one, 16)
print(driver.download(other, 16).view(np.float32))
driver.launch(kernel, (1, 2, 3), (64, 2, 1), b"\\x01\\x02\\x00\\xff\\x00", 47 << 10)
driver.launch(kernel, (4, 1, 1), (32, 1, 1), b"", 48 << 10)
driver.launch(kernel, (4, 1, 1), (32, 1, 1), b"", 48 << 10)
driver.wait()
print(driver.seconds(lambda: None))
driver.free(one)
driver.close()
driver.close()
""")
    assert said == [
        "Stub 7 (sm_90), driver for CUDA 13.0, 1980 MHz",
        "50 80 (2147483647, 65535, 65535)",
        "40 16 768",
        "[0. 2. 4. 6.]",
        "0.0025",
        "launch 1 2 3, 64 2 1, shared 48128: 01 02 00 ff 00",
        "attribute 8 is 49152",  # the kernel has static shared memory, too
        "launch 4 1 1, 32 1 1, shared 49152:",
        "launch 4 1 1, 32 1 1, shared 49152:",
        "events left: 1",
        "events left: 0",
        "freed",
        "freed",
        "unloaded",
        "released 7",
    ]


ERRORS = """
tried(lambda: driver.allocate(1 << 41))
tried(lambda: driver.load("", "absent", "sm_90", cubin=b"another\\0"))
tried(driver.wait)
driver.close()
"""


def test_errors_have_the_names_that_cuda_gives_them(script: Script) -> None:
    said = script(ERRORS, FAIL="cuCtxSynchronize", STATUS="700")
    assert said[:3] == [
        "allocating 2199023255552 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)",
        "loading absent: CUDA_ERROR_NOT_FOUND",
        "running a kernel: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)",
    ]
    newer = script(ERRORS, FAIL="cuCtxSynchronize", STATUS="12345")
    assert newer[2] == "running a kernel: 12345 is not a valid CUresult"


def test_no_device(script: Script) -> None:
    assert script("", FAIL="cuInit", STATUS="100") == [
        "No GPU can be used: starting CUDA: CUDA_ERROR_NO_DEVICE "
        "(no CUDA-capable device is detected)."
    ]
    assert script("", number=3) == ["No GPU can be used: there is no device 3, there are 1."]


@pytest.mark.skipif(find_library("cuda") is not None, reason="a CUDA driver is installed")
def test_no_driver() -> None:
    with pytest.raises(NoGpu, match=r"^No GPU can be used: there is no CUDA driver, or it"):
        open_device()
