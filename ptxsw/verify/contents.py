"""What buffers hold: numbers of all sizes, and those at which programs go wrong."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES: Mapping[str, str] = {
    "f16": "f2", "f32": "f4", "f64": "f8", "b16": "u2", "bf16": "u2", "b8": "u1",
    **{f"u{bits}": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    "b32": "u4", "b64": "u8",
}  # fmt: skip
"""The array type of each PTX type. bfloat16, which numpy does not have, is held by its bits."""

# Bits of a mantissa, and the exponent of 1.0.
_FORMATS = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}
_PACKED = {"f16": "<e", "f32": "<f", "f64": "<d"}
_NEAR = 6  # powers of two from 1.0 that floats of all mantissas lie: sums then need rounding


def width_of(type_: str) -> int:
    """Bits of an element."""
    return 8 * np.dtype(DTYPES.get(type_, "u1")).itemsize


def is_float(type_: str) -> bool:
    return type_ in _FORMATS


def full(generator: np.random.Generator, count: int, type_: str) -> Array:
    """Words of random bits: floats from 1/64 to 64 and their negatives, integers of all lengths."""
    width = width_of(type_)
    words = generator.integers(0, 1 << width, count, np.uint64, endpoint=False) if width < 64 else (
        generator.integers(0, (1 << 64) - 1, count, np.uint64, endpoint=True)
    )  # fmt: skip
    if type_ in _FORMATS:
        mantissa, one = _FORMATS[type_]
        exponents = generator.integers(one - _NEAR, one + _NEAR, count, np.uint64)
        kept = np.uint64((1 << mantissa) - 1 | 1 << width - 1)
        words = words & kept | exponents << np.uint64(mantissa)
    else:
        shifts = generator.integers(0, width, count, np.uint64)
        words = np.where(generator.random(count) < 0.5, words, words >> shifts)
    return words.astype(f"u{width // 8}")


def mixed(generator: np.random.Generator, count: int, type_: str, values: Sequence[int]) -> Array:
    """Words, one half as in `full`, the others corners of the type and the values given, the first
    of them more often than the last."""
    words = full(generator, count, type_)
    chosen = generator.integers(0, 4, count)
    for number, listed in enumerate((corners(type_), values or corners(type_))):
        pool = np.array(listed, np.uint64).astype(words.dtype)
        places = (generator.random(count) ** 2 * len(pool)).astype(np.int64)
        words = np.where(chosen == number, pool[places], words)
    return words


def corners(type_: str) -> tuple[int, ...]:
    """The bits of the values at which operations of a type change what they do."""
    width = width_of(type_)
    top, mask = 1 << width - 1, (1 << width) - 1
    if type_ not in _FORMATS:
        powers = (value for bit in (5, 8, 16, 24, 32) if bit < width
                  for value in ((1 << bit) - 1, 1 << bit, (1 << bit) + 1))  # fmt: skip
        plain = (mask, 0, top, 1, top - 1, 2, mask - 1, top + 1, 3, 31, mask // 3, mask // 3 * 2)
        return tuple(dict.fromkeys((*plain, *powers)))
    mantissa, bias = _FORMATS[type_]
    infinity = (mask ^ top) >> mantissa << mantissa
    one = bias << mantissa
    positive = (
        infinity | 1 << mantissa - 1, 0, infinity, one, 1, (1 << mantissa) - 1, 1 << mantissa,
        infinity - 1, one + 1, one - 1, bias - 1 << mantissa, one + (1 << mantissa - 1),
        bias + 1 << mantissa | 1 << mantissa - 2,  # 2.5, a tie
        *(min(bias + power, 2 * bias) << mantissa for power in (mantissa, mantissa + 1, 31, 32)),
    )  # fmt: skip
    return tuple(dict.fromkeys(bits for value in positive for bits in (value, value | top)))


# ---------------------------------------------------------------- as words


def spelled(bits: int, type_: str) -> str:
    """A value as `pattern_of` reads it: a number if that gives the same bits."""
    width = width_of(type_)
    if type_ in _PACKED:
        value = struct.unpack(_PACKED[type_], bits.to_bytes(width // 8, "little"))[0]
        word = repr(value)
        return word if pattern_of(word, type_) == bits else f"0x{bits:x}"
    if type_ == "bf16":
        return f"0x{bits:x}"
    return str(bits - (bits >> width - 1 << width) if type_.startswith("s") else bits)


def pattern_of(word: str, type_: str) -> int:
    """The bits of a value: of a number, or with 0x the bits themselves. Raises ValueError."""
    width = width_of(type_)
    if word.lower().startswith("0x") or not is_float(type_):
        value = int(word, 0)
        if not -(1 << width - 1) <= value < 1 << width:
            raise ValueError(f"{word} has more than {width} bits")
        return value % (1 << width)
    return float_bits(float(word), type_)


def float_bits(value: float, type_: str) -> int:
    """The bits of the nearest number of a type, infinity beyond the largest."""
    if type_ == "bf16":
        return float_bits(value, "f32") >> 16
    if math.isnan(value):
        mantissa, _ = _FORMATS[type_]
        width = width_of(type_)
        return ((1 << width - 1) - 1) >> mantissa - 1 << mantissa - 1
    with np.errstate(over="ignore"):
        return int(np.array(value, DTYPES[type_]).view(f"u{width_of(type_) // 8}"))
