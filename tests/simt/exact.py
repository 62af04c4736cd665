"""Rounding of exact fractions to floating-point formats, bit by bit."""

from __future__ import annotations

import math
from fractions import Fraction


def rounded(value: Fraction, bits: int, least: int, mode: str = "rn", most: int = 1 << 20) -> float:
    """A fraction rounded to `bits` significant bits, none of them below 2^least; beyond 2^most
    infinite (or the largest number where the direction says so)."""
    if value == 0:
        return 0.0
    sign, size = (-1 if value < 0 else 1), abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = max(exponent - bits + 1, least)
    scaled = size / Fraction(2) ** unit
    down = scaled.numerator // scaled.denominator
    rest = scaled - down
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1),
        "rz": False,
        "rm": sign < 0 and rest > 0,
        "rp": sign > 0 and rest > 0,
    }[mode]
    result = (down + up) * Fraction(2) ** unit
    if result >= Fraction(2) ** most:
        inward = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        largest = Fraction(2) ** most - Fraction(2) ** (most - bits)
        return sign * (float(largest) if inward else math.inf)
    return sign * float(result)


def single(value: Fraction, mode: str = "rn") -> float:
    return rounded(value, 24, -149, mode, 128)


def half(value: Fraction, mode: str = "rn") -> float:
    return rounded(value, 11, -24, mode, 16)


def bfloat(value: Fraction, mode: str = "rn") -> float:
    return rounded(value, 8, -133, mode, 128)
