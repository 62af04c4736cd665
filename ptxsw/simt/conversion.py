"""`cvt` where either side is floating point, over arrays of bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsw.simt import floats, rounding
from ptxsw.simt.floats import (
    ArithmeticModifiers,
    Function,
    NoFunction,
    arithmetic,
    comparison,
    float_property,
)

Array = NDArray[Any]

_READ: dict[str, Callable[[Array], Array]] = {
    "f32": floats.read32, "f64": floats.read64, "f16": floats.read_half,
    "bf16": floats.read_bfloat,
}  # fmt: skip
_PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
_INTEGERS = {f"{kind}{width}": (kind, width) for kind in "us" for width in (8, 16, 32, 64)}
_TYPES = {*_READ, *_PACKED, *_INTEGERS, "tf32"}


def conversion(modifiers: list[str]) -> Function:
    """By the modifiers of a `cvt`. Raises NoFunction for formats that are not modelled."""
    types = [m for m in modifiers if m in _TYPES]
    flags = [m for m in modifiers if m not in _TYPES]
    if len(types) != 2 or set(flags) - {
        "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu",
    }:  # fmt: skip
        raise NoFunction("cvt." + ".".join(modifiers))
    target, source = types
    mode = next((f for f in flags if f.startswith("r") and f != "relu"), "rn")
    shape = ArithmeticModifiers(mode, "ftz" in flags, "sat" in flags, "relu" in flags)
    if target in _PACKED:
        return _pack(_PACKED[target], source, shape)
    if target == "tf32":
        return lambda a: rounding.tf32(a, mode)
    if target in _INTEGERS:
        return _to_integer(source, *_INTEGERS[target], shape)
    if source in _INTEGERS:
        return _from_integer(target, *_INTEGERS[source], shape)
    return _between(target, source, shape)


def _read(source: str, shape: ArithmeticModifiers) -> Callable[[Array], Array]:
    if source == "f32" and shape.ftz:
        return lambda bits: floats.read32(floats.flush(bits))
    if source not in _READ:
        raise NoFunction(f"cvt from {source}")
    return _READ[source]


def _write(target: str, value: Array, shape: ArithmeticModifiers) -> Array:
    """A double, exact, to a format."""
    if target == "f64":
        return floats.write64(value, shape)
    if target == "f32":
        value = np.where(value < 0, 0.0, value) if shape.relu else value
        return floats.write32(rounding.narrow(value, np.float32, shape.mode), shape)
    write = floats.write_half if target == "f16" else floats.write_bfloat
    return write(value, shape)


def _between(target: str, source: str, shape: ArithmeticModifiers) -> Function:
    read = _read(source, shape)
    integral = rounding.TO_INTEGRAL.get(shape.mode)
    plain = ArithmeticModifiers("rn", shape.ftz, shape.sat, shape.relu) if integral else shape

    def compute(a: Array) -> Array:
        value = read(a).astype(np.float64)
        return _write(target, integral(value) if integral else value, plain)

    return compute


def _pack(half: str, source: str, shape: ArithmeticModifiers) -> Function:
    one = _between(half, source, shape)

    def compute(high: Array, low: Array) -> Array:
        upper, lower = one(high).astype(np.uint32), one(low).astype(np.uint32)
        return upper << np.uint32(16) | lower

    return compute


def _to_integer(source: str, kind: str, width: int, shape: ArithmeticModifiers) -> Function:
    """Rounded to an integer and brought into the range; no number gives 0, or only the highest
    bit where 64 bits are involved."""
    read = _read(source, shape)
    integral = rounding.TO_INTEGRAL.get(shape.mode, np.trunc)
    dtype = np.dtype(f"{'i' if kind == 's' else 'u'}{width // 8}")
    info = np.iinfo(dtype)
    wide = source == "f64" or width == 64
    missing = np.uint64(1 << (width - 1) if wide else 0).astype(f"u{width // 8}")

    def compute(a: Array) -> Array:
        value = integral(read(a).astype(np.float64))
        nan = np.isnan(value)
        high, low = value >= float(info.max), value <= float(info.min)
        inside = np.where(nan | high | low, 0.0, value).astype(dtype)
        out = np.where(high, dtype.type(info.max), np.where(low, dtype.type(info.min), inside))
        return np.where(nan, missing, out.astype(dtype).view(f"u{width // 8}"))

    return compute


def _from_integer(target: str, kind: str, width: int, shape: ArithmeticModifiers) -> Function:
    signed = np.dtype(f"{'i' if kind == 's' else 'u'}{width // 8}")

    def compute(a: Array) -> Array:
        number = a.view(signed)
        if width <= 32:
            return _write(target, number.astype(np.float64), shape)
        # The x87 format holds 64-bit integers exactly; where it does not exist, say so.
        exact = number.astype(np.longdouble)
        if np.finfo(np.longdouble).nmant < 63:
            raise NoFunction("cvt from 64-bit integers needs extended precision")
        if target == "f64":
            rounded = number.astype(np.float64)
        elif target == "f32":
            rounded = number.astype(np.float32)
        else:
            return _write(target, _odd(number, exact), shape)
        error = np.asarray(exact - rounded.astype(np.longdouble), np.float64)
        result = rounding.direct(rounded, error, shape.mode)
        write = floats.write64 if target == "f64" else floats.write32
        return write(result, shape)

    return compute


def _odd(number: Array, exact: Array) -> Array:
    """64-bit integers as doubles rounded to odd."""
    rounded = number.astype(np.float64)
    error = np.asarray(exact - rounded.astype(np.longdouble), np.float64)
    even = (rounded.view(np.uint64) & np.uint64(1)) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where((error != 0) & even, np.nextafter(rounded, toward), rounded)


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
