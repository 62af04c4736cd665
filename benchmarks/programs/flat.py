"""Programs whose threads take a flat index apart: a stencil whose two loops were collapsed into
one, as `collapse(2)` does, and a step of a wavelet over rows. GCC collapses the loops of OpenACC
sources itself.

Rows are longer than a warp, shorter, as long, and of one point. Each source is compiled by several
compilers, whose name ends that of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.kernelgen.operators import Array
from benchmarks.programs.program import Program, launched, noise

_F = np.float32
_THREADS = 64
_CONSTANT = 50  # details of a row, where the compiler knows them


def _blocks(threads: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    return (-(-threads // _THREADS), 1, 1), (_THREADS, 1, 1)


def _frame(n: int, rows: int) -> tuple[Array, Array]:
    """A frame of points, and what a step makes of it."""
    a, out = noise((rows + 2, n + 2)), np.full((rows + 2, n + 2), 9, _F)
    sides = a[1:-1, :-2] + a[1:-1, 2:]
    out[1:-1, 1:-1] = _F(0.25) * ((sides + a[:-2, 1:-1]) + a[2:, 1:-1])
    return a, out


def _collapsed(n: int, rows: int) -> Run:
    a, out = _frame(n, rows)
    return launched(*_blocks(n * rows), (n, rows, _F(0.25)), {"in": a}, {"out": out})


def _lifted(half: int, rows: int) -> tuple[Array, Array]:
    """Rows, and their details."""
    x = noise((rows, 2 * half + 1))
    return x, x[:, 1::2] - _F(0.5) * (x[:, :-2:2] + x[:, 2::2])


def _wavelet(half: int, rows: int) -> Run:
    x, details = _lifted(half, rows)
    return launched(*_blocks(half * rows), (half, rows), {"in": x}, {"details": details})


def _by_gcc(
    arrays: dict[str, Array], output: str, scalars: tuple[np.generic, ...], result: Array
) -> Run:
    """GCC hands a kernel one pointer: to the addresses of the variables of the host's function,
    here those of arrays and then scalars, in the order given."""
    words, values, first = 1 << 40, 1 << 41, 1 << 42
    places = [first + (n << 32) for n in range(len(arrays))]
    held: list[Array] = [
        np.array(places, np.int64),
        np.array([s.view(np.int32) for s in scalars], np.int32),
    ]
    offsets = [8 * n for n in range(len(arrays))]
    offsets += [8 * len(arrays) + 4 * n for n in range(len(scalars))]
    placed = {
        "addresses": (words, values + np.array(offsets)),
        "values": (values, np.concatenate([part.view(np.int32) for part in held])),
    }
    placed |= {
        name: (at, a.reshape(-1)) for at, (name, a) in zip(places, arrays.items(), strict=True)
    }
    return Run((3, 1, 1), (32, 1, 1), (words,), (), {output: result.reshape(-1)}, placed=placed)


def _collapsed_by_gcc(n: int, rows: int) -> Run:
    a, out = _frame(n, rows)
    scalars = (_F(0.25), np.int32(rows), np.int32(n))
    return _by_gcc({"out": np.full_like(out, 9), "in": a}, "out", scalars, out)


def _wavelet_by_gcc(half: int, rows: int) -> Run:
    x, details = _lifted(half, rows)
    scalars = (np.int32(rows), np.int32(half))
    return _by_gcc({"details": np.full_like(details, 9), "in": x}, "details", scalars, details)


_FRAMES = ((100, 3), (32, 4), (7, 9), (1, 40))
_ROWS = ((90, 3), (64, 2), (5, 20), (1, 40))


def _all() -> Iterator[Program]:
    for by in ("nvcc", "clang"):
        frames = tuple(partial(_collapsed, *size) for size in _FRAMES)
        yield Program(f"collapsed-{by}", "collapsed", {}, frames, compiler=by)
        rows = tuple(partial(_wavelet, *size) for size in _ROWS)
        yield Program(f"wavelet-{by}", "wavelet", {}, rows, compiler=by)
    frames = tuple(partial(_collapsed_by_gcc, *size) for size in _FRAMES)
    yield Program("collapsed-gcc", "collapsed", {}, frames, compiler="gcc-12")
    rows = tuple(partial(_wavelet_by_gcc, *size) for size in _ROWS)
    yield Program("wavelet-gcc", "wavelet", {}, rows, compiler="gcc-12")
    known = (partial(_wavelet, _CONSTANT, 5),)
    yield Program("wavelet-nvcc-constant", "wavelet", {"HALF": str(_CONSTANT)}, known)
    flags = (f"-DHALF={_CONSTANT}",)
    yield Program("wavelet-clang-constant", "wavelet", {}, known, compiler="clang", flags=flags)


FLAT: dict[str, Program] = {each.name: each for each in _all()}
"""By name, such as "collapsed-nvcc"."""
