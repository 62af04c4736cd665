"""The driver on whichever package for CUDA is installed."""

from __future__ import annotations

from ptxsw.gpu import on_bindings, on_pycuda
from ptxsw.gpu.driver import Driver, NoGpu

PACKAGES = (on_bindings.open_device, on_pycuda.open_device)
"""NVIDIA's own first: it comes as a wheel, the other is compiled against a toolkit."""


def open_device(number: int = 0) -> Driver:
    """The device of that number. Raises NoGpu."""
    try:
        for opened in PACKAGES:
            try:
                return opened(number)
            except ImportError:
                continue
    except NoGpu as error:
        raise NoGpu(f"No GPU can be used: {error}.") from error
    raise NoGpu(
        "No GPU can be used: neither cuda-bindings (pip install 'ptxsw[gpu]') "
        "nor pycuda (pip install 'ptxsw[pycuda]') is installed."
    )
