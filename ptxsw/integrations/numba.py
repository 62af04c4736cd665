"""Numba: rewrites the PTX of each CUDA kernel before Numba links it.

    import ptxsw.integrations.numba as ptxsw_numba
    ptxsw_numba.install()

Works on what Numba compiles to PTX; with link-time optimisation (`lto=True`) there is none.
"""

from __future__ import annotations

from typing import Any

from ptxsw.driver.pipeline import Options
from ptxsw.integrations import rewrite

_original: list[Any] = []


def install(options: Options | None = None) -> None:
    """Rewrites all kernels that are compiled from now on. Raises ImportError without Numba."""
    from numba.cuda.codegen import CUDACodeLibrary

    uninstall()
    original = CUDACodeLibrary.get_asm_strs

    def get_asm_strs(self: Any, *arguments: Any, **named: Any) -> list[str]:
        return [rewrite(ptx, options) for ptx in original(self, *arguments, **named)]

    CUDACodeLibrary.get_asm_strs = get_asm_strs
    _original.append(original)


def uninstall() -> None:
    """Undoes `install`."""
    if _original:
        from numba.cuda.codegen import CUDACodeLibrary

        CUDACodeLibrary.get_asm_strs = _original.pop()
