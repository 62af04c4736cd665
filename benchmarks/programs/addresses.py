"""Programs whose loops compute addresses: neighbours by unsigned indices, planes one above another,
a column and rows by an index of 64 bits. `python -m benchmarks.strength_reduction` counts their
iterations.

Each source is compiled by several compilers, whose name ends that of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.kernelgen.operators import Array
from benchmarks.programs.program import Program, launched, noise

_THREADS = 40  # a whole warp and a quarter of one


def _launch(scalars: tuple[Any, ...], given: Array, expected: Array, blocks: int = 1) -> Run:
    """A launch over an array and one that it is to leave, which holds nines before. Blocks are
    one above another."""
    grid, block = (1, blocks, 1), (_THREADS, 1, 1)
    return launched(grid, block, scalars, {"in": given}, {"out": expected})


def _row(n: int, step: int) -> tuple[Array, Array]:
    """A row, and the places that some threads come to, `step` apart."""
    places = np.arange(2, n - 2)
    return noise(n), places[(places - 2) % step < _THREADS]


def _neighbours(n: int, step: int) -> Run:
    x, at = _row(n, step)
    out = np.full_like(x, 9)
    out[at] = x[at - 2] + x[at - 1] + x[at] + x[at + 1] + x[at + 2]
    return _launch((n, step), x, out)


def _edges(n: int, step: int) -> Run:
    x, at = _row(n, step)
    limit = np.float32(1.8)
    here, around = x[at - 1] + x[at] + x[at + 1], x[at - 2] + x[at + 2]
    out = np.full_like(x, 9)
    out[at] = np.where(here > limit, here / around, here)
    return _launch((n, step, limit), x, out)


def _box(height: int) -> Run:
    x = noise((height, _THREADS + 1))
    out = np.full_like(x, 9)
    total = np.zeros_like(x[1:-1, 1:-1])
    for number, (dy, dx) in enumerate(product((0, 1, 2), repeat=2)):
        part = x[dy : height - 2 + dy, dx : _THREADS - 1 + dx]
        total = part if number == 0 else total + part
    out[1:-1, 1:-1] = total
    return _launch((_THREADS + 1, height), x, out)


def _stencil(nz: int) -> Run:
    nx, ny = _THREADS, 5
    x = noise((nz, ny, nx))
    c0, c1 = np.float32(0.5), np.float32(0.25)
    inner = x[1:-1, 1:-1, 1:-1]
    around = x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1]
    around = around + x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1]
    around = around + x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2]
    out = np.full_like(x, 9)
    out[1:-1, 1:-1, 1:-1] = around * c1 - inner * c0
    return _launch((nx, ny, nz, c0, c1), x, out, ny - 2)


def _column(rows: int) -> Run:
    width = _THREADS - 3
    x, out = noise((rows, width)), np.zeros(width, np.float32)
    for row in x[::2]:
        out = out + row
    return _launch((rows, width), x, out)


def _rows(height: int) -> Run:
    x = noise((height, _THREADS + 2))
    out = np.full_like(x, 9)
    sides = x[1:-1, :-2] + x[1:-1, 2:]
    out[1:-1, 1:-1] = (sides + x[:-2, 1:-1]) + x[2:, 1:-1]
    return _launch((_THREADS + 2, height), x, out, 3)


_SOURCES: Mapping[str, tuple[Callable[[], Run], ...]] = {
    "neighbours": (partial(_neighbours, 300, 45), partial(_neighbours, 4, 45)),
    "edges": (partial(_edges, 300, 45), partial(_edges, 4, 45)),
    "box": (partial(_box, 12), partial(_box, 2)),
    "stencil": (partial(_stencil, 11), partial(_stencil, 2)),
    "column": (partial(_column, 23), partial(_column, 0)),
    "rows": (partial(_rows, 12), partial(_rows, 2)),
}


def _all() -> Iterator[Program]:
    for source, launches in _SOURCES.items():
        yield Program(f"{source}-nvcc", source, {}, launches)
        for level in ("-O1", "-O3"):
            name = f"{source}-clang{level}"
            yield Program(name, source, {}, launches, compiler="clang", flags=(level,))
    yield Program("box-nvcc-rolled", "box", {"ROLLED": "1"}, _SOURCES["box"])


ADDRESSES: dict[str, Program] = {each.name: each for each in _all()}
"""By name, such as "box-clang-O3"."""
