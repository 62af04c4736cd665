"""Programs whose loads wait for stores: without `__restrict__` no compiler may take a value from
the iteration before, keep a sum in a register, or load an input once. Results are numpy's, bit for
bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.kernelgen.operators import Array
from benchmarks.programs.program import Program, launched, noise

_THREADS = 128
_COUNT = 2 * _THREADS - 5  # the last warp has lanes without work
_ACROSS = ((2, 1, 1), (_THREADS, 1, 1))
_F = np.float32


# ---------------------------------------------------------------- one input again and again


def _column_scale(rows: int) -> Run:
    a, b = noise((rows, _COUNT)), noise(_COUNT, seed=1)
    return launched(*_ACROSS, (_COUNT, rows), {"b": b, "a": a}, {"a": a * b})


def _three_outputs() -> Run:
    x, y = noise(_COUNT, seed=1), noise(_COUNT, seed=2)
    out = {"p": x * y, "q": x - y, "r": x + _F(2) * y}
    return launched(*_ACROSS, (_COUNT,), {"x": x, "y": y}, out)


def _arms() -> Run:
    before = noise((_COUNT, 4))
    wet, depth, visits, slope = before.T
    after = before.copy()
    after[:, 2] = np.where(wet > 0.5, visits + _F(1), visits)
    flow = np.where(wet > 0.5, depth * _F(3) + slope, np.sqrt(depth) - slope)
    return launched(*_ACROSS, (_COUNT,), {"cells": before}, {"flow": flow, "cells": after})


# ---------------------------------------------------------------- what the iteration before has
# loaded


def _z_march(iterations: int) -> Run:
    nx, ny, nz = 13, 6, iterations + 2
    a = noise((nz, ny, nx))
    out = np.full_like(a, 9)
    out[1:-1] = _F(0.5) * a[1:-1] + _F(0.25) * (a[:-2] + a[2:])
    return launched((2, 2, 1), (8, 4, 1), (nx, ny, nz), {"in": a}, {"out": out})


def _stencil7(iterations: int) -> Run:
    nx, ny, nz = 2 * _THREADS - 3, 5, iterations + 2
    c0, c1, a = _F(0.6), _F(0.1), noise((nz, ny, nx))

    def at(x: int = 0, y: int = 0, z: int = 0) -> Array:
        return a[1 + z : nz - 1 + z, 1 + y : ny - 1 + y, 1 + x : nx - 1 + x]

    faces = at(z=1) + at(z=-1) + at(y=1) + at(y=-1) + at(x=1) + at(x=-1)
    out = np.full_like(a, 9)
    out[1:-1, 1:-1, 1:-1] = c1 * faces - c0 * at()
    grid = (2, ny - 2, 1)
    return launched(grid, (_THREADS, 1, 1), (nx, ny, nz, c0, c1), {"in": a}, {"out": out})


def _fdtd2d(iterations: int) -> Run:
    nx, ny = _COUNT, iterations + 1
    ex, ey, before = (noise((ny, nx), seed=n) for n in (1, 2, 3))
    hz = before.copy()
    curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
    hz[:-1, :-1] -= _F(0.7) * curl
    return launched(*_ACROSS, (nx, ny), {"ex": ex, "ey": ey, "hz": before}, {"hz": hz})


def _jacobi_step(iterations: int, columns: int) -> tuple[Array, Array, Any]:
    a, c = noise((iterations + 2, columns)), _F(0.25)
    out = np.full_like(a, 9)
    out[1:-1, 1:-1] = c * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
    return a, out, c


def _jacobi(iterations: int) -> Run:
    a, out, c = _jacobi_step(iterations, _COUNT)
    return launched(*_ACROSS, (_COUNT, iterations + 2, c), {"in": a}, {"out": out})


def _jacobi_of_gcc(iterations: int) -> Run:
    """GCC hands the kernel one pointer: to the addresses of the variables of the host's function,
    in the order out, in, c, ny, nx."""
    a, out, c = _jacobi_step(iterations, 70)
    words, values, first, second = (1 << n for n in (40, 41, 42, 43))
    sizes = np.array([c.view(np.int32), iterations + 2, 70], np.int32)
    offsets = np.array([0, 8, 16, 20, 24])
    placed = {
        "addresses": (words, values + offsets),
        "values": (values, np.concatenate([np.array([second, first]).view(np.int32), sizes])),
        "in": (first, a.reshape(-1)),
        "out": (second, np.full(a.size, 9, np.float32)),
    }  # fmt: skip
    expected = {"out": out.reshape(-1)}
    return Run((2, 1, 1), (32, 1, 1), (words,), (), expected, placed=placed)


def _thomas(rows: int) -> Run:
    lower, upper, above, right = (noise((rows, _COUNT), seed=n) for n in range(4))
    before = above + _F(3)
    diagonal, x = before.copy(), right.copy()
    for k in range(1, rows):
        w = lower[k] / diagonal[k - 1]
        diagonal[k] -= w * upper[k - 1]
        x[k] -= w * x[k - 1]
    x[-1] /= diagonal[-1]
    for k in range(rows - 2, -1, -1):
        x[k] = (x[k] - upper[k] * x[k + 1]) / diagonal[k]
    inputs = {"lower": lower, "upper": upper, "diagonal": before, "right": right}
    return launched(*_ACROSS, (_COUNT, rows), inputs, {"diagonal": diagonal, "right": x})


# ---------------------------------------------------------------- sums that are kept in memory


def _row_sums(columns: int) -> Run:
    a, x, before = noise((columns, _COUNT)), noise(columns, seed=1), noise(_COUNT, seed=2)
    y = before.copy()
    for j in range(columns):
        y += a[j] * x[j]
    inputs = {"a": a, "x": x, "y": before}
    return launched(*_ACROSS, (_COUNT, columns), inputs, {"y": y})


def _jagged(most: int) -> Run:
    """Rows of up to so many elements: in launches of few, all have as many."""
    length = most - np.arange(_COUNT, dtype=np.int32) % (4 if most > 3 else 1)
    a, before = noise((most, _COUNT)), noise(_COUNT, seed=2)
    total = before.copy()
    for k in range(most):
        total = np.where(k < length, total + a[k], total)
    inputs = {"length": length, "a": a, "sum": before}
    return launched(*_ACROSS, (_COUNT, most), inputs, {"sum": total})


def _gather() -> Run:
    at = np.random.default_rng(1).integers(0, 500, (8, _COUNT), np.int32)
    x, before = noise(500), noise(_COUNT, seed=1)
    total = before.copy()
    for k in range(8):
        total += x[at[k]]
    return launched(*_ACROSS, (_COUNT,), {"at": at, "x": x, "sum": before}, {"sum": total})


def _spmv(most: int) -> Run:
    """Rows of up to so many elements, one after the other."""
    lengths = np.maximum(most - np.arange(_COUNT) % 3, 0)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = np.random.default_rng(2).integers(0, 500, max(start[-1], 1), np.int32)
    a, x, before = noise(len(column), seed=1), noise(500), noise(_COUNT, seed=2)
    total = before.copy()
    for k in range(most):
        at = np.minimum(start[:-1] + k, len(column) - 1)
        total = np.where(k < lengths, total + a[at] * x[column[at]], total)
    inputs = {"start": start, "column": column, "a": a, "x": x, "y": before}
    return launched(*_ACROSS, (_COUNT,), inputs, {"y": total})


def _bins(values: int) -> Run:
    bin_of = np.random.default_rng(3).integers(0, 64, _COUNT, np.int32)
    a, before = noise((max(values, 1), _COUNT)), noise((64, _COUNT), seed=1)
    total = before.copy()
    for k in range(values):
        total[bin_of, np.arange(_COUNT)] += a[k]
    inputs = {"bin": bin_of, "a": a, "sum": before}
    return launched(*_ACROSS, (_COUNT, values), inputs, {"sum": total})


def _fused(a: Array, b: Array, c: Array) -> Array:
    """A product and a sum, rounded once: 64 bits hold any product of two numbers of 24 bits."""
    wide = np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(np.float32)


def _forces() -> Run:
    """Contracted as nvcc does."""
    others, scale = 100, _F(0.5)
    at, before = noise((_COUNT, 4), seed=1), noise((_COUNT, 4), seed=2)
    near, charge = noise((others, 4), seed=3), noise(others, seed=4)
    force = before.copy()
    v, x, y, z = at.T
    for j in range(others):
        dot = _fused(z, near[j, 3], _fused(x, near[j, 1], y * near[j, 2]))
        r = (v + near[j, 0]) - dot
        power = (r * scale) * _F(-1.4426950216293335)
        e = np.exp2(power.astype(np.float64)).astype(np.float32)
        force[:, 0] = _fused(e, charge[j], force[:, 0])
        for axis, place in enumerate((x, y, z), 1):
            pull = (e + e) * (place - near[j, axis])
            force[:, axis] = _fused(charge[j], pull, force[:, axis])
    inputs = {"at": at, "near": near, "charge": charge, "force": before}
    return launched(*_ACROSS, (_COUNT, scale), inputs, {"force": force})


# ---------------------------------------------------------------- all of them


_Sized = Callable[[int], Run]


def _turning(run: _Sized, least: int = 0) -> tuple[Callable[[], Run], ...]:
    """Launches of many iterations, of two, one and none, if `least` sizes make none."""
    return tuple(partial(run, least + iterations) for iterations in (21, 2, 1, 0))


def _one(name: str, run: _Sized, sums: int, least: int = 0) -> Program:
    return Program(name.replace("_", "-"), name, {}, _turning(run, least), sums=sums)


def _programs() -> Iterator[Program]:
    yield _one("column_scale", _column_scale, 1)
    yield Program("three-outputs", "three_outputs", {}, (_three_outputs,))
    yield Program("arms", "arms", {}, (_arms,))
    yield _one("z_march", _z_march, 4)
    yield _one("stencil7", _stencil7, 8)
    yield _one("row_sums", _row_sums, 2)
    yield _one("jagged", _jagged, 1)
    yield _one("spmv", _spmv, 2)
    yield _one("bins", _bins, 1)
    yield Program("forces", "forces", {}, (_forces,), fused=True, sums=20)
    yield Program("gather", "gather", {}, (_gather,))
    yield _one("fdtd2d", _fdtd2d, 5)
    yield _one("thomas", _thomas, 0, 1)
    for by in ("nvcc", "clang"):
        launches = _turning(_jacobi)
        yield Program(f"jacobi-{by}", "jacobi", {}, launches, compiler=by, sums=4)
    launches = _turning(_jacobi_of_gcc)
    yield Program("jacobi-gcc", "jacobi", {}, launches, compiler="gcc-12", sums=4)


LOADS: dict[str, Program] = {program.name: program for program in _programs()}
