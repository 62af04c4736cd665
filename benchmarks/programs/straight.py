"""Programs without a loop whose addresses differ by products of sizes: neighbours in a plane and in
space, with indices of 64 bits or unsigned ones, and fields behind a pitch. Numba and OpenCL count
in 64 bits anyway.
`python -m benchmarks.rewrites --rewrite strength-reduction` counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.kernelgen.operators import Array
from benchmarks.programs.program import Program, launched, noise

_THREADS = 40  # a whole warp and a quarter of one
_STEPS = (-1, 0, 1)


def _at(x: Array, *steps: int) -> Array:
    """All inner points of an array, moved by some steps."""
    inner = (slice(1 + n, size - 1 + n) for n, size in zip(steps, x.shape, strict=True))
    return x[tuple(inner)]


def _inside(x: Array, inner: Array) -> Array:
    """The array that is left: nines around what was computed."""
    out = np.full_like(x, 9)
    out[(slice(1, -1),) * x.ndim] = inner
    return out


def _in_space(compute: Callable[[Array], Array], nx: int, ny: int, nz: int) -> Run:
    x = noise((nz, ny, nx))
    grid, block = (1, ny - 2, nz - 2), (_THREADS, 1, 1)
    out = _inside(x, compute(x))
    return launched(grid, block, (nx, ny, nz), {"in": x}, {"out": out})


def _cube(x: Array) -> Array:
    total = np.zeros_like(_at(x, 0, 0, 0))
    for steps in product(_STEPS, repeat=3):
        total = total + _at(x, *steps)
    return total


def _points(x: Array) -> Array:
    sides = _at(x, 0, 0, -1) + _at(x, 0, 0, 1)
    for z, y in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        sides = sides + _at(x, z, y, 0)
    corners = [_at(x, *steps) for steps in product((-1, 1), repeat=3)]
    total = corners[0]
    for corner in corners[1:]:
        total = total + corner
    here = _at(x, 0, 0, 0) * np.float32(0.5)
    return here + sides * np.float32(0.0625) + total * np.float32(0.015625)


def _life(width: int, height: int) -> Run:
    x = noise((height, width), np.int32) % 3 // 2
    here = _at(x, 0, 0)
    around = sum(_at(x, *steps) for steps in product(_STEPS, repeat=2)) - here
    alive = (around == 3) | ((around == 2) & (here != 0))
    out = _inside(x, alive.astype(np.int32))
    grid, block = (1, height, 1), (_THREADS, 1, 1)
    return launched(grid, block, (width, height), {"in": x}, {"out": out})


def _fields(width: int, height: int) -> Run:
    pitch = width + 3
    x = noise((height, 8, pitch))
    out = x[:, 0, :width]
    for number in range(1, 8):
        out = out + x[:, number, :width]
    grid, block = (2, height, 1), (_THREADS, 1, 1)
    return launched(grid, block, (4 * pitch, width), {"in": x}, {"out": out})


def _near(x: Array) -> Array:
    """Seven points."""
    total = _at(x, 0, 0, -1) + _at(x, 0, 0, 1)
    total = total + (_at(x, 0, -1, 0) + _at(x, 0, 1, 0))
    total = total + (_at(x, -1, 0, 0) + _at(x, 1, 0, 0))
    result: Array = _at(x, 0, 0, 0) * np.float32(0.25) + total * np.float32(0.125)
    return result


def _strided(width: int, height: int, depth: int) -> Run:
    """Rows are four elements longer than they say, as Numba passes arrays."""
    x = noise((depth, height, width + 4))
    out = np.full_like(x, 9)
    out[:, :, :width] = _inside(x[:, :, :width], _near(x[:, :, :width]))
    given = (0, 0, width * height * depth, 4), (depth, height, width, *x.strides)
    blank = np.full_like(x, 9)
    arguments = [one for each in (x, blank) for one in (*given[0], each.reshape(-1), *given[1])]
    grid, block = (1, height, depth), (_THREADS, 1, 1)
    return Run(grid, block, tuple(arguments), ("given", "out"), {"out": out.reshape(-1)})


_SOURCES: Mapping[str, tuple[Callable[[], Run], ...]] = {
    "stencil27": (partial(_in_space, _cube, 38, 5, 4), partial(_in_space, _cube, 3, 3, 3)),
    "points15": (partial(_in_space, _points, 42, 4, 5), partial(_in_space, _points, 3, 3, 3)),
    "life": (partial(_life, 38, 6), partial(_life, 3, 3)),
}


def _all() -> Iterator[Program]:
    for source, launches in _SOURCES.items():
        for name, index in (("long", "long long"), ("unsigned", "unsigned")):
            yield Program(f"{source}-{name}", source, {"INDEX": index}, launches)
    yield Program("fields", "fields", {}, (partial(_fields, 50, 3), partial(_fields, 1, 1)))
    sizes = (38, 5, 4), (3, 3, 3)
    for by, run in (("opencl", partial(_in_space, _near)), ("numba", _strided)):
        launches = tuple(partial(run, *size) for size in sizes)
        yield Program(f"diffusion-{by}", "diffusion", {}, launches, compiler=by)


STRAIGHT: dict[str, Program] = {each.name: each for each in _all()}
"""By name, such as "stencil27-long"."""
