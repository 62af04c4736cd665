"""What the operators take: parameters in kernel order, margins, and inputs to run them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One KernelGen operator.

    `sizes` are the int parameters, which come first in the kernel's parameter list; `scalars`
    and `arrays` follow in the order of `params`. Arrays are indexed [k, j, i] in numpy, so that
    i is contiguous as in the kernels.
    """

    name: str
    entry: str  # the kernel's name in the PTX
    dims: int
    params: tuple[str, ...]  # after the sizes, in kernel order
    outputs: tuple[str, ...]
    scalars: Mapping[str, float]
    low: int = 0  # points left out at the lower end of each dimension
    high: int = 0
    loads: int | None = None  # static loads of data, as in the paper's Table 2

    @property
    def sizes(self) -> tuple[str, ...]:
        if self.name == "matmul":
            return ("nx", "ny", "nl")
        return ("nx", "ny", "nz")[: self.dims]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(p for p in self.params if p not in self.scalars and p not in self.outputs)


def _stencil(
    name: str, dims: int, scalars: Mapping[str, float], arrays: str, outputs: str, **more: Any
) -> Operator:
    params = (*scalars, *arrays.split())
    return Operator(
        name, more.pop("entry", name), dims, params, tuple(outputs.split()), scalars, **more
    )


OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        _stencil("divergence", 3, {"alpha": 0.3, "beta": 0.7, "gamma": 1.1}, "ux uy uz u", "u",
                 low=1, high=1, loads=6),
        _stencil("gameoflife", 2, {}, "w0 w1", "w1", low=1, high=1, loads=9),
        _stencil("gaussblur", 2, {"f": 1 / 331, "s0": 52.0, "s1": 26.0, "s2": 16.0, "s4": 7.0,
                 "s5": 4.0, "s8": 1.0}, "w0 w1", "w1", low=2, high=2, loads=25),
        _stencil("gradient", 3, {"alpha": 0.3, "beta": 0.7, "gamma": 1.1}, "u ux uy uz",
                 "ux uy uz", low=1, high=1, loads=6),
        _stencil("jacobi", 2, {"c0": 0.5, "c1": 0.1, "c2": 0.025}, "w0 w1", "w1",
                 low=1, high=1, loads=9),
        _stencil("lapgsrb", 3, {"c0": 0.4, "c1": 0.05, "c2": 0.02, "c3": 0.01}, "w0 w1", "w1",
                 low=2, high=2, loads=25),
        _stencil("laplacian", 3, {"alpha": 0.4, "beta": 0.1}, "w0 w1", "w1",
                 low=1, high=1, loads=7),
        _stencil("matmul", 2, {}, "a b c", "c", loads=8),
        _stencil("matvec", 2, {}, "a x y", "y", loads=7),
        _stencil("sincos", 3, {}, "x y xy", "xy", entry="sincos_xy", loads=2),
        _stencil("tricubic", 3, {}, "u0 u1 a b c", "u1", low=1, high=2, loads=67),
        _stencil("tricubic2", 3, {}, "u0 u1 a b c", "u1", low=1, high=2, loads=67),
        _stencil("uxx1", 3, {"c1": 9 / 8, "c2": -1 / 24, "dth": 0.2}, "d1 u0 xx xy xz u1", "u1",
                 low=2, high=2, loads=17),
        _stencil("vecadd", 3, {}, "a b c", "c", loads=2),
        _stencil("wave13pt", 3, {"c0": 1.2, "c1": 0.15, "c2": -0.02}, "w0 w1 w2", "w2",
                 low=2, high=2, loads=14),
        _stencil("whispering", 2, {"mu": 1.25}, "ca cb da db eps e0_0 e0_1 h u0 e1_0 e1_1 h1 u1",
                 "e1_0 e1_1 h1 u1", low=1, high=1, loads=19),
    )
}  # fmt: skip


def array_shape(operator: Operator, array: str, sizes: Shape) -> Shape:
    """The numpy shape of one of an operator's arrays; `sizes` are the int parameters in order."""
    if operator.name == "matmul":
        nx, ny, nl = sizes
        return {"a": (nl, nx), "b": (ny, nl), "c": (ny, nx)}[array]
    if operator.name == "matvec":
        nx, ny = sizes
        return {"a": (ny, nx), "x": (ny,), "y": (nx,)}[array]
    return tuple(reversed(sizes))


def make_inputs(operator: Operator, sizes: Shape, dtype: Any, seed: int = 1) -> dict[str, Array]:
    """Random values in (0, 1) for the inputs (0 or 1 for the game of life), -1 for the outputs."""
    random = np.random.default_rng(seed)

    def fill(array: str) -> Array:
        shape = array_shape(operator, array, sizes)
        if array in operator.outputs:
            return np.full(shape, -1, dtype)
        if operator.name == "gameoflife":
            return random.integers(0, 2, shape).astype(dtype)
        return (random.random(shape) + 2**-20).astype(dtype)

    return {array: fill(array) for array in (*operator.inputs, *operator.outputs)}
