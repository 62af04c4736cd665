"""Launches that are large enough to be timed, for the programs of `benchmarks/programs`.

They move some 256 MB, twice what a second-level cache holds, or compute for as long as that takes:
about 100 microseconds on an H100. A share of it is for devices that are slower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.programs.program import Program
from ptxsw.verify.arguments import Argument, Data
from ptxsw.verify.launches import Launch

Shape = tuple[int, int, int]
_THREADS = 128
_TOTAL = 1 << 25  # floats of an array


class Large(Struct, frozen=True):
    """A launch, and the bytes that it has to move at least: what it reads and what it writes, each
    once. `floats`: do branches depend on the floats among its data?"""

    launch: Launch
    moved: int
    floats: bool = False


Made = Callable[[Program, float], Large]


def large(program: Program) -> Callable[[float], Large] | None:
    """By a share the large launch of a program; None where there is none. GCC's programs take
    addresses that lie in memory, which no launch can give."""
    made = _MADE.get(program.source)
    if made is None or program.compiler == "gcc-12":
        return None
    return lambda share: made(program, share)


def _random(count: int, type_: str = "f32", seed: int = 1) -> Data:
    return Data("random", count, type_, seed)


def _blank(count: int, type_: str = "f32") -> Data:
    return Data("zeros", count, type_)


def _launch(
    grid: Shape | int, block: Shape | int, args: tuple[Argument, ...], moved: int, shared: int = 0
) -> Large:
    grid, block = (size if isinstance(size, tuple) else (size, 1, 1) for size in (grid, block))
    return Large(Launch(grid, block, args, shared, fuzz=False), moved)


def _blocks(threads: int, block: int = _THREADS) -> int:
    return -(-threads // block)


def _scaled(count: int, share: float, of: int = 1) -> int:
    """A share of a count, a multiple of `of` that is not 0."""
    return max(round(count * share) // of, 1) * of


# ---------------------------------------------------------------- what one thread loads whole


def _particles(program: Program, share: float) -> Large:
    fields = int(program.defines["FIELDS"])
    n = _scaled(2 * _TOTAL // fields, share)
    moved = 2 * 4 * n * 2 * int(program.defines["DIMS"])
    args = (n, 0.125, 0.9, _random(n * fields))
    return _launch(_blocks(n), _THREADS, args, moved)


def _quaternions(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL // 8, share)
    args = (n, _random(4 * n), _random(4 * n, seed=2), _blank(4 * n))
    return _launch(_blocks(n), _THREADS, args, 3 * 16 * n)


def _complex(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL // 8, share)
    arrays = (_random(2 * n, "f64", seed) for seed in (1, 2, 3))
    return _launch(_blocks(n), _THREADS, (n, *arrays), 4 * 16 * n)


def _rgba(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL, share)
    args = (n, _random(4 * n, "u8"), _random(4 * n, "u8", 2), _blank(4 * n, "u8"))
    return _launch(_blocks(n), _THREADS, args, 3 * 4 * n)


def _chunks(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL, share, 8)
    return _launch(_blocks(n // 8), _THREADS, (n, _random(n), _blank(n)), 8 * n)


# ---------------------------------------------------------------- tiles


def _tiles(share: float, side: int, width: int) -> int:
    """Tiles along one side of a square matrix of a share of the points."""
    return max(round(width * sqrt(share)) // side, 1)


def _transpose(program: Program, share: float) -> Large:
    side, double = int(program.defines["SIDE"]), program.defines["REAL"] == "double"
    tiles = _tiles(share, side, 4096 if double else 6144)
    count, type_ = (tiles * side) ** 2, "f64" if double else "f32"
    args = (tiles, _random(count, type_), _blank(count, type_))
    return _launch((tiles, tiles, 1), (side, side, 1), args, 2 * count * (8 if double else 4))


def _staged(program: Program, share: float) -> Large:
    side = int(program.defines["SIDE"])
    tiles = _tiles(share, side, 6144) ** 2
    count = tiles * side * side
    args = (tiles, _random(side), _random(count, seed=2), _blank(count))
    return _launch((tiles, 1, 1), (side, side, 1), args, 8 * count)


def _dynamic(program: Program, share: float) -> Large:
    side = 16
    tiles = _tiles(share, side, 6144)
    count = (tiles * side) ** 2
    args = (tiles, _random(count), _blank(count))
    return _launch((tiles, tiles, 1), (side, side, 1), args, 8 * count, 4 * side * side)


def _matmul(program: Program, share: float) -> Large:
    side, double = int(program.defines["SIDE"]), program.defines["REAL"] == "double"
    tiles, type_ = _tiles(share, side, 1024), "f64" if double else "f32"
    count = (tiles * side) ** 2
    args = (tiles, _random(count, type_), _random(count, type_, 2), _blank(count, type_))
    return _launch((tiles, tiles, 1), (side, side, 1), args, 3 * count * (8 if double else 4))


def _dct(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL, share, 256)
    return _launch(n // 256, 32, (_random(64), _random(n), _blank(n)), 8 * n)


def _lu(program: Program, share: float) -> Large:
    n = _scaled(1 << 22, share, 256)
    return _launch(n // 256, 16, (_random(n),), 8 * n)


def _alignment(program: Program, share: float) -> Large:
    n = _scaled(1 << 22, share, 256)
    return _launch(n // 256, 16, (3, _random(n, "s32"), _blank(n, "s32")), 8 * n)


# ---------------------------------------------------------------- trees and exchanges


def _reduction(program: Program, share: float) -> Large:
    size, double = int(program.defines["SIZE"]), program.defines["REAL"] == "double"
    width, type_ = (8, "f64") if double else (4, "f32")
    n = _scaled(4 * _TOTAL // width, share, size)
    args = (_random(n, type_), _blank(n // size, type_))
    return _launch(n // size, size, args, width * (n + n // size))


def _bitreversal(program: Program, share: float) -> Large:
    size = 1 << int(program.defines["BITS"])
    n = _scaled(_TOTAL, share, size)
    return _launch(n // size, size, (_random(n), _blank(n)), 8 * n)


def _scan(program: Program, share: float) -> Large:
    size, element = int(program.defines["SIZE"]), program.defines["TYPE"]
    width, type_ = {"float": (4, "f32"), "double": (8, "f64"), "int": (4, "s32"),
                    "short": (2, "s16")}[element]  # fmt: skip
    n = _scaled(4 * _TOTAL // width, share, size)
    args = (_random(n, type_), _blank(n, type_))
    return _launch(n // size, size // 2, args, 2 * width * n)


def _bitonic(program: Program, share: float) -> Large:
    size = int(program.defines["SIZE"])
    n = _scaled(_TOTAL // 2, share, size)
    return _launch(n // size, size // 2, (_random(n, "u32"), _blank(n, "u32")), 8 * n)


# ---------------------------------------------------------------- columns, one thread each


def _columns(share: float, rows: int = 256) -> int:
    return _scaled(_TOTAL // rows, share)


def _column_scale(program: Program, share: float) -> Large:
    n, rows = _columns(share), 256
    args = (n, rows, _random(n, seed=2), _random(n * rows))
    return _launch(_blocks(n), _THREADS, args, 4 * (2 * n * rows + n))


def _three_outputs(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL // 2, share)
    args = (n, _random(n), _random(n, seed=2), _blank(n), _blank(n), _blank(n))
    return _launch(_blocks(n), _THREADS, args, 5 * 4 * n)


def _arms(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL // 4, share)
    return _launch(_blocks(n), _THREADS, (n, _blank(n), _random(4 * n)), 4 * 6 * n)


def _z_march(program: Program, share: float) -> Large:
    nx, ny, nz = 512, _scaled(256, share), 256
    n = nx * ny * nz
    grid = (nx // 32, -(-ny // 8), 1)
    return _launch(grid, (32, 8, 1), (nx, ny, nz, _random(n), _blank(n)), 8 * n)


def _stencil7(program: Program, share: float) -> Large:
    nx, ny, nz = 512, _scaled(254, share) + 2, 256
    n = nx * ny * nz
    args = (nx, ny, nz, 0.6, 0.1, _random(n), _blank(n))
    return _launch((nx // _THREADS, ny - 2, 1), _THREADS, args, 8 * n)


def _fdtd2d(program: Program, share: float) -> Large:
    nx, ny = _columns(share), 256
    arrays = (_random(nx * ny, seed=seed) for seed in (1, 2, 3))
    return _launch(_blocks(nx), _THREADS, (nx, ny, *arrays), 4 * 4 * nx * ny)


def _jacobi(program: Program, share: float) -> Large:
    nx, ny = _columns(share), 256
    args = (nx, ny, 0.25, _random(nx * ny), _blank(nx * ny))
    return _launch(_blocks(nx), _THREADS, args, 8 * nx * ny)


def _thomas(program: Program, share: float) -> Large:
    n, rows = _columns(share, 512), 128
    arrays = (_random(n * rows, seed=seed) for seed in (1, 2, 3, 4))
    return _launch(_blocks(n), _THREADS, (n, rows, *arrays), 6 * 4 * n * rows)


def _row_sums(program: Program, share: float) -> Large:
    n, columns = _columns(share), 256
    args = (n, columns, _random(n * columns), _random(columns, seed=2), _random(n, seed=3))
    return _launch(_blocks(n), _THREADS, args, 4 * (n * columns + columns + 2 * n))


def _jagged(program: Program, share: float) -> Large:
    n, most = _columns(share, 64), 64  # lengths are from 0 to 63
    args = (n, most, _random(n, "s32"), _random(n * most), _random(n, seed=2))
    return _launch(_blocks(n), _THREADS, args, 4 * (n * most // 2 + 3 * n))


def _gather(program: Program, share: float) -> Large:
    n = _scaled(_TOTAL // 16, share)
    args = (n, Data("iota", 8 * n, "s32"), _random(8 * n), _random(n, seed=2))
    return _launch(_blocks(n), _THREADS, args, 4 * (16 * n + 2 * n))


def _forces(program: Program, share: float) -> Large:
    n, others = _scaled(1 << 20, share), 100
    args = (n, 0.5, _random(4 * n), _random(4 * others, seed=2), _random(others, seed=3),
            _random(4 * n, seed=4))  # fmt: skip
    return _launch(_blocks(n), _THREADS, args, 4 * (12 * n + 5 * others))


# ---------------------------------------------------------------- addresses


def _strided(program: Program, share: float) -> Large:
    threads = _scaled(1 << 17, share, _THREADS)
    n = threads * (_TOTAL >> 17)
    return _launch(threads // _THREADS, _THREADS, (n, threads, _random(n), _blank(n)), 8 * n)


def _edges(program: Program, share: float) -> Large:
    launch = _strided(program, share).launch
    n, threads, *arrays = launch.args
    return Large(replace(launch, args=(n, threads, 0.5, *arrays)), 8 * int(str(n)), floats=True)


def _box(program: Program, share: float) -> Large:
    width, height = _columns(share) + 2, 256
    args = (width, height, _random(width * height), _blank(width * height))
    return _launch(_blocks(width - 2), _THREADS, args, 8 * width * height)


def _stencil(program: Program, share: float) -> Large:
    nx, ny, nz = 514, _scaled(256, share) + 2, 256
    n = nx * ny * nz
    args = (nx, ny, nz, 0.5, 0.25, _random(n), _blank(n))
    return _launch((512 // _THREADS, ny - 2, 1), _THREADS, args, 8 * n)


def _column(program: Program, share: float) -> Large:
    rows, width = 512, _columns(share)
    args = (rows, width, _random(rows * width), _blank(width))
    return _launch(_blocks(width), _THREADS, args, 4 * (rows // 2 * width + width))


def _rows(program: Program, share: float) -> Large:
    width, height = 514, _scaled(1 << 16, share) + 2
    args = (width, height, _random(width * height), _blank(width * height))
    return _launch((1, min(2048, height), 1), width - 2, args, 8 * width * height)


def _collapsed(program: Program, share: float) -> Large:
    n, rows = 4096, _scaled(_TOTAL // 4096, share)
    points = (n + 2) * (rows + 2)
    args = (n, rows, 0.25, _random(points), _blank(points))
    return _launch(_blocks(n * rows), _THREADS, args, 8 * points)


def _wavelet(program: Program, share: float) -> Large:
    half = 50 if program.name.endswith("-constant") else 4096
    rows = _scaled(_TOTAL // (2 * half), share)
    args = (half, rows, _random((2 * half + 1) * rows), _blank(half * rows))
    return _launch(_blocks(half * rows), _THREADS, args, 4 * (3 * half + 1) * rows)


_MADE: Mapping[str, Made] = {
    "particles": _particles, "quaternions": _quaternions, "complex": _complex, "rgba": _rgba,
    "chunks": _chunks, "transpose": _transpose, "dynamic": _dynamic, "matmul": _matmul,
    "staged": _staged,
    "dct": _dct, "lu": _lu, "alignment": _alignment, "reduction": _reduction,
    "bitreversal": _bitreversal, "scan": _scan, "bitonic": _bitonic,
    "column_scale": _column_scale, "three_outputs": _three_outputs, "z_march": _z_march,
    "arms": _arms,
    "stencil7": _stencil7, "fdtd2d": _fdtd2d, "jacobi": _jacobi, "thomas": _thomas,
    "row_sums": _row_sums, "jagged": _jagged, "gather": _gather, "forces": _forces,
    "neighbours": _strided, "edges": _edges, "box": _box, "stencil": _stencil,
    "column": _column, "rows": _rows, "collapsed": _collapsed, "wavelet": _wavelet,
}  # fmt: skip
"""By the name of the source."""
