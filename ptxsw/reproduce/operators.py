"""The operators of the paper: what each takes, its PTX, and the launch that was timed.

Sources: D. Mikushin et al., "KernelGen", IPDPSW 2014, written again in CUDA and compiled by nvcc;
as measured, they are compiled with constants of double precision, as NVHPC compiled them. The
wheel carries the texts; a checkout has them in `benchmarks/kernelgen/ptx`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch

_HERE: Final = Path(__file__).parent
_PLACES: Final = (_HERE / "ptx", _HERE.parents[1] / "benchmarks" / "kernelgen" / "ptx")
_TEXTURE: Final = ("jacobi",)  # whose loads went through the texture unit of the K40
_GRID: Final = 65535  # blocks at most, which take rows or planes in turn
_THREADS: Final = 512  # of a block along x
_OTHER_THREADS: Final = {"gameoflife": 128}


class Operator(Struct, frozen=True):
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
    scalars: Mapping[str, float] = field(default_factory=dict)
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


# ---------------------------------------------------------------- texts and launches


def operator_text(name: str) -> str:
    """The PTX of an operator, in float. Raises OSError where this installation has none."""
    return _read(f"{name}.ptx")


def measured_text(name: str) -> str:
    """The PTX that stands for what was timed, of the operators of `paper.logs`: constants are
    doubles, and loads are plain ones but for jacobi's. Raises OSError as `operator_text` does."""
    text = _read(f"nvhpc/{name}.ptx")
    return text if name in _TEXTURE else text.replace("ld.global.nc.", "ld.global.")


def _read(name: str) -> str:
    path = next((folder / name for folder in _PLACES if (folder / name).exists()), None)
    if path is None:
        raise FileNotFoundError(f"{name}: this installation of ptxsw has no such operator")
    return path.read_text(encoding="utf-8")


def launched(operator: Operator, sizes: Sequence[int]) -> Launch:
    """As the directives said: a block for each row or plane, 512 threads along x (128 in the game
    of life)."""
    data = Data("zeros", prod(sizes))
    args = (*sizes, *(operator.scalars.get(name, data) for name in operator.params))
    outer = sizes[-1] - operator.low - operator.high
    threads = _OTHER_THREADS.get(operator.name, _THREADS)
    return Launch((min(_GRID, outer), 1, 1), (threads, 1, 1), args)
