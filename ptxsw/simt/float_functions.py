"""Instructions on floating-point numbers as functions over arrays of bits, by name."""

from __future__ import annotations

from functools import cache

from ptxsw.simt.conversion import conversion
from ptxsw.simt.floats import Function, arithmetic, comparison, float_property


@cache
def function(name: str) -> Function:
    """The function over arrays of bits that an instruction computes. Raises NoFunction."""
    opcode, *modifiers = name.split(".")
    if opcode == "cvt":
        return conversion(modifiers)
    if opcode == "setp":
        return comparison(modifiers)
    if opcode == "testp":
        return float_property(modifiers)
    return arithmetic(opcode, modifiers)
