"""Drivers that go wrong, to be named on the command line of the experiment: each is the interpreter
up to the launch of a rewritten text."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from benchmarks.gpu.interpreter import InterpreterDriver
from ptxsw.gpu.driver import GpuError, LoadedKernel, NoGpu, Shape

REWRITTEN = "%sw_"


class Broken(InterpreterDriver):
    """Does something else before it launches a rewritten text."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self._before = before

    def launch(
        self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
    ) -> None:
        if REWRITTEN in getattr(kernel, "text"):  # noqa: B009 (the protocol has none)
            self._before()
        super().launch(kernel, grid, block, arguments, shared)


def crashing() -> Broken:
    return Broken(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def hanging() -> Broken:
    return Broken(lambda: time.sleep(100))


def failing() -> Broken:
    return Broken(_illegal)


def _illegal() -> None:
    raise GpuError("running a kernel: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access)")


def spoiling() -> InterpreterDriver:
    class Spoiling(Broken):
        def launch(
            self, kernel: LoadedKernel, grid: Shape, block: Shape, arguments: bytes, shared: int
        ) -> None:
            super().launch(kernel, grid, block, arguments, shared)
            if REWRITTEN in getattr(kernel, "text"):  # noqa: B009
                for content in self.memory.values():
                    content[:1] ^= 1

    return Spoiling(lambda: None)


def missing() -> InterpreterDriver:
    raise NoGpu("No GPU can be used: there is none in this test.")
