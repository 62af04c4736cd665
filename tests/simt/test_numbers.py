"""Compiled arithmetic against Python's integers and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ptxsw.simt import launch
from tests.simt.exact import bfloat, half, rounded, single
from tests.simt.programs import program

NUMBERS = program("numbers")
RANDOM = np.random.default_rng(11)


def test_integers() -> None:
    a = RANDOM.integers(0, 2**32, 64).astype(np.uint32)
    b = RANDOM.integers(0, 2**32, 64).astype(np.uint32) >> RANDOM.integers(0, 20, 64).astype("u4")
    result = launch(NUMBERS, "integers", 1, 64, [a, b, np.zeros((64, 12), np.uint32)])
    for x, y, row in zip(a.tolist(), b.tolist(), result.buffers[2].tolist(), strict=True):
        word = (y << 32 | x).to_bytes(8, "little")
        sx, sy = (v - 2**32 if v >= 2**31 else v for v in (x, y))
        odd = (y | 1) - 2**32 if y >= 2**31 else y | 1
        w = (x * y + (y << 32 | x)) % 2**64
        first = (x & -x).bit_length()
        want = [
            x * y >> 32,
            x.bit_count() + (32 - x.bit_length() << 8) + (first << 16),
            int(f"{x:032b}"[::-1], 2),
            int.from_bytes(bytes(word[n] for n in (0, 4, 2, 6)), "little"),
            (y << 32 | x) << (x & 31) >> 32 & 0xFFFFFFFF,
            abs(x - y) + 7,
            int(math.copysign(abs(sx) // abs(odd), sx * odd)) if sx else 0,
            x % (y | 1),
            sx >> (y & 31),
            5 + sum(
                int.from_bytes(p, "little", signed=True) * int.from_bytes(q, "little", signed=True)
                for p, q in zip(*([bytes([c]) for c in v.to_bytes(4, "little")] for v in (x, y)),
                                strict=True)
            ),
            w >> 29,
            (w * (w * 0x9E3779B97F4A7C15 % 2**64) >> 64) >> 13,
        ]  # fmt: skip
        assert row == [v % 2**32 for v in want], (x, y, sy)


def test_carries() -> None:
    a = RANDOM.integers(0, 2**64, 64, dtype=np.uint64)
    a[:8] = 2**64 - 1
    result = launch(NUMBERS, "wide", 1, 32, [a, np.zeros(64, np.uint64)])
    out = result.buffers[1].tolist()
    for i in range(32):
        x = int(a[2 * i + 1]) << 64 | int(a[2 * i])
        want = (x * x + int(a[i])) % 2**128
        assert out[2 * i] | out[2 * i + 1] << 64 == want


def inputs(count: int, low: int, high: int) -> np.ndarray:
    """Numbers of many sizes, both signs, some of them round so that sums tie."""
    values = RANDOM.standard_normal(count) * 2.0 ** RANDOM.integers(low, high, count)
    values[::5] = np.round(values[::5] * 8) / 8
    return values


def test_singles() -> None:
    count = 512
    a, b, c = (inputs(count, -30, 30).astype(np.float32) for _ in range(3))
    c[::3] = -(a[::3] * b[::3])  # cancellation: only the rounding error is left
    result = launch(NUMBERS, "singles", 1, count, [a, b, c, np.zeros((count, 12), np.float32)])
    out = result.buffers[3]
    for x, y, z, row in zip(a, b, c, out, strict=True):
        fx, fy, fz = Fraction(float(x)), Fraction(float(y)), Fraction(float(z))
        assert row[0] == single(fx * fy + fz)
        assert row[1] == single(fx + fy, "rz")
        assert row[2] == single(fx + fy, "rp")
        assert row[3] == single(fx * fy, "rm")
        if y != 0:
            assert row[4] == single(fx / fy)
        assert row[5] == np.sqrt(np.abs(x))
        assert row[6] == min(x, y)
        assert row[7] == max(x, z)
        assert row[8] == min(max(x, np.float32(0)), np.float32(1))
        assert row[10] == single(fx * fy + fz, "rz")


def test_doubles() -> None:
    count = 512
    a, b, c = (inputs(count, -40, 40) for _ in range(3))
    c[::3] = -(a[::3] * b[::3])
    a[:4], b[:4], c[:4] = 2.0**-600, 2.0**-500, [0.0, 5e-324, -5e-324, 2.0**-1060]
    b[b == 0] = 1.5
    result = launch(NUMBERS, "doubles", 1, count, [a, b, c, np.zeros((count, 6))])
    for x, y, z, row in zip(a, b, c, result.buffers[3], strict=True):
        fx, fy, fz = Fraction(float(x)), Fraction(float(y)), Fraction(float(z))
        assert row[0] == float(fx * fy + fz)
        assert row[1] == float(fx / fy)
        assert row[2] == math.sqrt(abs(x))
        assert row[3] == rounded(fx + fy, 53, -1074, "rm")
        assert row[4] == int(x)
        assert row[5] == np.float32(y)


@pytest.mark.parametrize("span", [(-4, 4), (-12, 3), (-3, 8)])
def test_halves(span: tuple[int, int]) -> None:
    count = 256
    a, b = (inputs(2 * count, *span).astype(np.float16) for _ in range(2))
    words = [v.view(np.uint32) for v in (a, b)]
    result = launch(
        NUMBERS, "halfs", 1, count, [*words, np.zeros(3 * count, np.uint32), np.zeros(count, "u4")]
    )
    out = result.buffers[2].view(np.float16).reshape(count, 3, 2)
    brain = result.buffers[3].view(np.uint16).reshape(count, 2)
    for i in range(count):
        for h in range(2):
            x, y = Fraction(float(a[2 * i + h])), Fraction(float(b[2 * i + h]))
            assert out[i, 0, h] == half(x * y + x)
            assert out[i, 1, h] == half(x + y)
            assert out[i, 2, h] == half(x * y)
            bx, by = (Fraction(bfloat(v)) for v in (x, y))
            got = np.array([int(brain[i, h]) << 16], np.uint32).view(np.float32)[0]
            assert float(got) == bfloat(bx * by + by)
