"""Programs whose cost lies in how threads meet memory: structs and chunks that a thread loads
whole, and shared memory whose banks conflict, with and without the usual padding.

A source in `cuda/` is compiled once for each of its variants, as `defines` say. Each variant has
launches, whose results numpy knows bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.kernelgen.operators import Array
from benchmarks.programs.program import Program, launched, noise

# ---------------------------------------------------------------- what one thread loads whole

_THREADS = 128
_COUNT = 2 * _THREADS - 5  # the last warp has lanes without work
_ACROSS = ((2, 1, 1), (_THREADS, 1, 1))


def _particles(fields: int, dims: int) -> Run:
    before = noise((_COUNT, fields))
    dt, drag = np.float32(0.125), np.float32(0.9)
    after = before.copy()
    after[:, dims : 2 * dims] *= drag
    after[:, :dims] += dt * after[:, dims : 2 * dims]
    return launched(*_ACROSS, (_COUNT, dt, drag), {"all": before}, {"all": after})


def _quaternions() -> Run:
    a, b = noise((_COUNT, 4), seed=1), noise((_COUNT, 4), seed=2)
    (pw, px, py, pz), (qw, qx, qy, qz) = a.T, b.T
    out = np.stack([
        pw * qw - px * qx - py * qy - pz * qz,
        pw * qx + px * qw + py * qz - pz * qy,
        pw * qy - px * qz + py * qw + pz * qx,
        pw * qz + px * qy - py * qx + pz * qw,
    ], axis=1)  # fmt: skip
    return launched(*_ACROSS, (_COUNT,), {"a": a, "b": b}, {"out": out})


def _complex() -> Run:
    a, b, out = (noise((_COUNT, 2), np.float64, seed) for seed in (1, 2, 3))
    real = out[:, 0] + (a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1])
    imaginary = out[:, 1] + (a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0])
    both = np.stack([real, imaginary], axis=1)
    return launched(*_ACROSS, (_COUNT,), {"a": a, "b": b, "out": out}, {"out": both})


def _rgba() -> Run:
    above, below = (noise((_COUNT, 4), np.uint8, seed) for seed in (1, 2))
    share = above[:, 3:].astype(int)
    mixed = (above * share + below * (255 - share) + 128) >> 8
    out = np.concatenate([mixed[:, :3], below[:, 3:]], axis=1).astype(np.uint8)
    return launched(*_ACROSS, (_COUNT,), {"above": above, "below": below}, {"out": out})


def _chunks() -> Run:
    count = 8 * _COUNT
    x = noise((_COUNT, 8))
    return launched(*_ACROSS, (count,), {"in": x}, {"out": np.cumsum(x, axis=1, dtype=x.dtype)})


# ---------------------------------------------------------------- tiles


def _transpose(side: int, dtype: Any, shared: int = 0) -> Run:
    matrix = noise((2 * side, 2 * side), dtype)
    block = (side, side, 1)
    return launched((2, 2, 1), block, (2,), {"in": matrix}, {"out": matrix.T}, shared)


def _staged(side: int) -> Run:
    weights, tiles = noise(side, seed=1), noise((2, side, side))
    total = np.float32(0)
    for one in weights:
        total = total + one
    out = tiles.transpose(0, 2, 1) + total
    inputs = {"weights": weights, "in": tiles}
    return launched((2, 1, 1), (side, side, 1), (2,), inputs, {"out": out})


def _matmul(side: int, dtype: Any) -> Run:
    width = 2 * side
    a, b = noise((width, width), dtype, 1), noise((width, width), dtype, 2)
    c = np.zeros_like(a)
    for k in range(width):
        c = c + a[:, k, None] * b[None, :, k]
    return launched((2, 2, 1), (side, side, 1), (2,), {"a": a, "b": b}, {"c": c})


def _dct() -> Run:
    """Rows, then columns, each sum in the order of its points."""
    k = np.arange(8)
    cosines = (np.cos(np.pi * (2 * k[None] + 1) * k[:, None] / 16) / 2).astype(np.float32)
    points = noise((8, 8, 8))

    def along(x: Array) -> Array:
        total = np.zeros_like(x)
        for n in range(8):
            total = total + cosines[:, n] * x[..., n, None]
        return total

    rows = along(points)
    out = along(rows.swapaxes(1, 2)).swapaxes(1, 2)
    return launched((2, 1, 1), (32, 1, 1), (), {"cosines": cosines, "in": points}, {"out": out})


def _lu(dtype: Any) -> Run:
    before = noise((2, 16, 16), dtype) + 16 * np.eye(16, dtype=dtype)
    after = before.copy()
    for a in after:
        for i in range(15):
            for k in range(i):
                a[i + 1 :, i] -= a[i + 1 :, k] * a[k, i]
            a[i + 1 :, i] /= a[i, i]
            for k in range(i + 1):
                a[i + 1, i + 1 :] -= a[i + 1, k] * a[k, i + 1 :]
    return launched((2, 1, 1), (16, 1, 1), (), {"blocks": before}, {"blocks": after})


def _alignment() -> Run:
    gap = 3
    reward = noise((2, 16, 16), np.int32) - 50
    best = np.zeros((2, 17, 17), np.int32)
    best[:, 0] = best[:, :, 0] = -gap * np.arange(17)
    for i in range(16):
        for j in range(16):
            across = best[:, i, j] + reward[:, i, j]
            beside = np.maximum(best[:, i + 1, j], best[:, i, j + 1]) - gap
            best[:, i + 1, j + 1] = np.maximum(across, beside)
    inside = best[:, 1:, 1:]
    return launched((2, 1, 1), (16, 1, 1), (gap,), {"reward": reward}, {"scores": inside})


# ---------------------------------------------------------------- trees and exchanges

_SIZE = 512
_BITS = 10


def _reduction(dtype: Any) -> Run:
    parts = noise((2, _SIZE), dtype)
    total = parts
    while total.shape[1] > 1:
        total = total[:, ::2] + total[:, 1::2]
    return launched((2, 1, 1), (_SIZE, 1, 1), (), {"in": parts}, {"out": total})


def _bitreversal() -> Run:
    x = noise((2, 1 << _BITS))
    order = [int(f"{n:0{_BITS}b}"[::-1], 2) for n in range(1 << _BITS)]
    return launched((2, 1, 1), (1 << _BITS, 1, 1), (), {"in": x}, {"out": x[:, order]})


def _scan(dtype: Any) -> Run:
    x = noise((2, _SIZE), dtype)
    tree, step = x.copy(), 1
    while step < _SIZE:
        tree[:, 2 * step - 1 :: 2 * step] += tree[:, step - 1 :: 2 * step]
        step *= 2
    tree[:, -1] = 0
    while step > 1:
        step //= 2
        left, right = tree[:, step - 1 :: 2 * step], tree[:, 2 * step - 1 :: 2 * step]
        left[:], right[:] = right.copy(), right + left
    return launched((2, 1, 1), (_SIZE // 2, 1, 1), (), {"in": x}, {"out": tree})


def _bitonic() -> Run:
    x = np.random.default_rng(1).integers(0, 1 << 32, (2, _SIZE), np.uint32)
    out = np.sort(x, axis=1)
    return launched((2, 1, 1), (_SIZE // 2, 1, 1), (), {"in": x}, {"out": out})


# ---------------------------------------------------------------- all of them

_TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "short": np.int16}


def _one(name: str, entry: str, *runs: Callable[[], Run], **defines: object) -> Program:
    return Program(name, entry, {key: str(value) for key, value in defines.items()}, runs)


def _structs() -> Iterator[Program]:
    for fields, dims in ((2, 1), (3, 1), (7, 3), (8, 2)):
        run = partial(_particles, fields, dims)
        yield _one(f"particles{4 * fields}", "particles", run, FIELDS=fields, DIMS=dims)
    yield _one("quaternions", "quaternions", _quaternions)
    yield _one("complex", "complex", _complex)
    yield _one("rgba", "rgba", _rgba)
    yield _one("chunks", "chunks", _chunks)


def _tiles(pad: int) -> Iterator[Program]:
    end = "-padded" if pad else ""
    for kind, run, real, side in (
        ("transpose", _transpose, "float", 32),
        ("transpose", _transpose, "double", 16),
        ("matmul", _matmul, "float", 16),
        ("matmul", _matmul, "double", 16),
    ):
        made = partial(run, side, _TYPES[real])
        yield _one(f"{kind}-{real}{end}", kind, made, SIDE=side, REAL=real, PAD=pad)
    yield _one(f"lu{end}", "lu", partial(_lu, np.float32), REAL="float", PAD=pad)


def _others() -> Iterator[Program]:
    for real in ("float", "double"):
        run = partial(_reduction, _TYPES[real])
        yield _one(f"reduction-{real}", "reduction", run, SIZE=_SIZE, REAL=real)
    yield _one("bitreversal", "bitreversal", _bitreversal, BITS=_BITS, REAL="float")
    for element, dtype in _TYPES.items():
        run = partial(_scan, dtype)
        yield _one(f"scan-{element}", "scan", run, SIZE=_SIZE, TYPE=element)
    yield _one("bitonic", "bitonic", _bitonic, SIZE=_SIZE)
    yield _one("staged", "staged", partial(_staged, 32), SIDE=32)
    yield _one("dct", "dct", _dct)
    yield _one("alignment", "alignment", _alignment)
    tiles = (partial(_transpose, side, np.float32, 4 * side * side) for side in (16, 10))
    yield _one("dynamic", "dynamic", *tiles)


MEMORY: dict[str, Program] = {
    each.name: each for each in (*_structs(), *_tiles(0), *_tiles(1), *_others())
}
