"""Programs of the kind users have, beside KernelGen: what they take, and numpy's results.

The sources are in `cuda/`; `make.py` compiles them. Sums are in the sources' order, and the PTX
is compiled with `-fmad=false`, so results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernelgen.cases import BLOCK, RAGGED, Case, Run, Size
from benchmarks.kernelgen.operators import Array

HERE = Path(__file__).parent
Arrays = Mapping[str, Array]
Reference = Callable[[Arrays, tuple[Any, ...]], dict[str, Array]]

_SEISMIC = (-2.847222, 1.6, -0.2, 0.02539683, -0.001785714)
_FLUX = (0.8, -0.2, 0.03809524, -0.003571429)
_DIRECTIONS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
_WEIGHTS = (4.0 / 9, *[1.0 / 9] * 4, *[1.0 / 36] * 4)


def _shift(array: Array, low: Sequence[int], offsets: Sequence[int]) -> Array:
    """The interior of an array (`low` points in from each end of each axis), shifted."""
    return array[
        tuple(
            slice(edge + offset, size - edge + offset)
            for edge, offset, size in zip(low, offsets, array.shape, strict=True)
        )
    ]


def _seismic(a: Arrays, c: tuple[Any, ...]) -> dict[str, Array]:
    c0, *rest = c

    def at(name: str, axis: int = 0, d: int = 0) -> Array:
        return _shift(a[name], (4, 4, 4), [d if axis == n else 0 for n in range(3)])

    lap = c0 * at("p")
    for axis in (2, 1, 0):
        terms = [
            factor * (at("p", axis, d) + at("p", axis, -d)) for d, factor in enumerate(rest, 1)
        ]
        lap = lap + (((terms[0] + terms[1]) + terms[2]) + terms[3])
    two = a["p"].dtype.type(2)
    return {"next": two * at("p") - at("old") + at("v") * lap}


def _lbm(a: Arrays, c: tuple[Any, ...]) -> dict[str, Array]:
    (omega,) = c
    real = a["f0"].dtype.type
    f = [_shift(a[f"f{n}"], (1, 1), (-ey, -ex)) for n, (ex, ey) in enumerate(_DIRECTIONS)]
    rho = f[0]
    for one in f[1:]:
        rho = rho + one
    ux = (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / rho
    uy = (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / rho
    uu = ux * ux + uy * uy
    out = {}
    for n, (ex, ey) in enumerate(_DIRECTIONS):
        eu = real(ex) * ux + real(ey) * uy
        inner = real(1) + real(3) * eu + real(4.5) * eu * eu - real(1.5) * uu
        out[f"g{n}"] = f[n] - omega * (f[n] - real(_WEIGHTS[n]) * rho * inner)
    return out


def _conv1d(a: Arrays, c: tuple[Any, ...]) -> dict[str, Array]:
    size = a["x"].size
    total = np.zeros(size - 8, a["x"].dtype)
    for tap in range(9):
        total = total + a["taps"][tap] * a["x"][tap : size - 8 + tap]
    return {"y": total}


def _flux(a: Arrays, c: tuple[Any, ...]) -> dict[str, Array]:
    def at(name: str, offset: int) -> Array:
        return _shift(a[name], (0, 0, 4), (0, 0, offset))

    def diff(f: Callable[[int], Array]) -> Array:
        one, two, three, four = (x * (f(d) - f(-d)) for d, x in enumerate(c, 1))
        total: Array = -(((one + two) + three) + four)
        return total

    return {
        "fr": diff(lambda o: at("mx", o)),
        "fx": diff(lambda o: at("mx", o) * at("u", o) + at("p", o)),
        "fy": diff(lambda o: at("my", o) * at("u", o)),
        "fz": diff(lambda o: at("mz", o) * at("u", o)),
        "fe": diff(lambda o: (at("e", o) + at("p", o)) * at("u", o) + at("k", o)),
    }


def _upwind(a: Arrays, c: tuple[Any, ...]) -> dict[str, Array]:
    q = {(j, i): _shift(a["q"], (1, 1), (j, i)) for j in (-1, 0, 1) for i in (-1, 0, 1)}
    u, v = _shift(a["u"], (1, 1), (0, 0)), _shift(a["v"], (1, 1), (0, 0))
    here = q[0, 0]
    dx = np.where(u > 0, here - q[0, -1], q[0, 1] - here)
    dy = np.where(v > 0, here - q[-1, 0], q[1, 0] - here)
    return {"out": here - (c[0] * (u * dx) + c[1] * (v * dy))}


def _image(a: Arrays, c: tuple[Any, ...]) -> dict[str, Array]:
    total = np.zeros(tuple(size - 2 for size in a["in"].shape), np.int32)
    for j, row in zip((-1, 0, 1), (1, 2, 1), strict=True):
        for i, column in zip((-1, 0, 1), (1, 2, 1), strict=True):
            total += row * column * _shift(a["in"], (1, 1), (j, i)).astype(np.int32)
    return {"out": ((total + 8) >> 4).astype(np.uint8)}


def _case(
    name: str, low: tuple[int, ...], arrays: str, scalars: tuple[float, ...], reference: Reference,
    dtype: Any = np.float32,
) -> Case:  # fmt: skip
    """`low`: the margin of each dimension, i first; outputs begin after a `|` in `arrays`."""
    inputs, outputs = (part.split() for part in arrays.split("|"))
    values = tuple(np.dtype(dtype).type(value) for value in scalars)

    def run(block: int) -> Run:
        grid = _GRIDS[name] if block == BLOCK else (_GRIDS[name][0] + 1, *_GRIDS[name][1:])
        return sized((2 * block + (0 if block % 32 == 0 else 5), 4, 3), grid, block)

    def large(block: int, share: float) -> Run:
        points = _LARGE[len(low)]
        i, j, k = (max(round(n * share), 1) for n in points)
        across = -(-i // block)
        flat = {"conv1d": (across, 1, 1), "lbm": (j, 1, across)}
        grid = flat.get(name, (k, j, across) if len(low) == 3 else (across, j, 1))
        return sized((i, j, k), grid, block, expect=False)

    def sized(points: Size, grid: Size, block: int, expect: bool = True) -> Run:
        sizes = tuple(n + 2 * edge for n, edge in zip(points, low, strict=False))
        shape = sizes[::-1]
        made = {each: _random(each, shape, dtype) for each in inputs}
        made |= {each: np.full(shape, 9, dtype) for each in outputs}
        expected = {each: made[each].copy() for each in outputs} if expect else {}
        edges = low[::-1]
        for each, interior in reference(made, values).items() if expect else ():
            _shift(expected[each], edges, [0] * len(edges))[...] = interior
        names = (*inputs, *outputs)
        args = (*sizes, *values, *(made[each] for each in names))
        return Run(grid, (block, 1, 1), args, names, expected)

    return Case(
        name,
        name,
        lambda _: HERE / "ptx" / f"{name}.ptx",
        lambda _: (run(BLOCK), run(RAGGED)),
        lambda _: sized((RAGGED + 5, 2, 1), _TINY.get(name, (1, 1, 1)), RAGGED),
        lambda _, block, share: large(block, share),
        reals=("double",) if dtype is np.float64 else ("float",),
    )


def _random(name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    random = np.random.default_rng(len(name) + ord(name[-1]))
    if name == "taps":
        return random.random(9).astype(dtype)
    if dtype is np.uint8:
        return random.integers(0, 256, shape).astype(dtype)
    if name in ("u", "v"):
        return (random.random(shape) - 0.5).astype(dtype)
    return (random.random(shape) + 0.1).astype(dtype)


_GRIDS: Mapping[str, Size] = {
    "seismic": (3, 4, 2),
    "lbm": (4, 1, 2),
    "conv1d": (2, 1, 1),
    "flux": (3, 4, 2),
    "upwind": (2, 4, 1),
    "image": (2, 4, 1),
}
_LARGE = {1: (1 << 25, 1, 1), 2: (6144, 4096, 1), 3: (384, 256, 256)}
_TINY: Mapping[str, Size] = {"conv1d": (2, 1, 1), "upwind": (2, 2, 1), "image": (2, 2, 1)}
_F = " ".join(f"f{n}" for n in range(9)) + " | " + " ".join(f"g{n}" for n in range(9))

PROGRAMS: dict[str, Case] = {
    case.name: case
    for case in (
        _case("seismic", (4, 4, 4), "p old v | next", _SEISMIC, _seismic),
        _case("lbm", (1, 1), _F, (0.6,), _lbm),
        _case("conv1d", (4,), "x taps | y", (), _conv1d),
        _case("flux", (4, 0, 0), "mx my mz e p u k | fr fx fy fz fe", _FLUX, _flux),
        _case("upwind", (1, 1), "q u v | out", (0.3, 0.2), _upwind, np.float64),
        _case("image", (1, 1), "in | out", (), _image, np.uint8),
    )
}
