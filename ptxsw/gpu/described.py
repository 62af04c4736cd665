"""What every driver tells of a device, and what it loads there."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from ptxsw.gpu.driver import Device
from ptxsw.ptx.text_files import encoded
from ptxsw.toolchain.ptxas import NoPtxas, assemble

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
