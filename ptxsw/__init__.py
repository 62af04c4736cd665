"""ptxsw: symbolic execution of PTX, memory traces, and proved shuffle synthesis."""

__version__ = "0.1.0"
