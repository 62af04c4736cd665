"""ptxsw: symbolic execution of PTX, memory traces, and proved shuffle synthesis.

`parse`, `analyze`, `optimize` and `verify` are imported when they are first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would double what the stand-in costs a build
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

__all__ = ["__version__", "analyze", "optimize", "parse", "verify"]

_HOMES = {"parse": "ptxsw.parser", "analyze": "ptxsw.pipeline", "optimize": "ptxsw.pipeline"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "verify":  # a package that can be called
        return import_module("ptxsw.verify")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
