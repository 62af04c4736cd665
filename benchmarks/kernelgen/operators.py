"""Inputs to run the operators with; what they take is told by `ptxsw.reproduce.operators`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxsw.reproduce.operators import OPERATORS as OPERATORS
from ptxsw.reproduce.operators import Operator as Operator

Array = NDArray[Any]
Shape = tuple[int, ...]


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
