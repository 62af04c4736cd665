"""Launches in which a 32-bit index wraps inside a warp.

Only the block that works on the critical row is run, of a grid as large as it takes. Buffers lie
where the wrapped and the other indices lead, with different contents.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch, Shape

FIRST, SECOND = 1 << 44, 1 << 45  # where the pointers point to
HALF = 2048  # elements of a buffer on each side of where it is placed


def _window(address: int, seed: int) -> tuple[int, Data]:
    return address - 4 * HALF, Data("random", 2 * HALF, "f32", seed)


def _signed() -> tuple[tuple[int, Data], ...]:
    """Around elements 2^31 and -2^31 of two arrays."""
    span = 4 << 31
    return (
        _window(FIRST + span, 1), _window(FIRST - span, 2),
        _window(SECOND + span, 3), _window(SECOND - span, 4),
    )  # fmt: skip


def _one(grid: Shape, number: int, args: tuple[int | float, ...]) -> Launch:
    return Launch(grid, (32, 1, 1), args, 0, _signed(), (number, number + 1), False)


def jacobi() -> Iterator[Launch]:
    """Rows of 48; that which begins 32 elements before 2^31 is the upper, middle, lower one."""
    for j in range(44739241, 44739244):
        yield _one((j + 2, 1, 1), j - 1, (48, j + 2, 0.5, 0.1, 0.025, FIRST, SECOND))


def jacobi_alone() -> Iterator[Launch]:
    """The same in rows of 96: where one row wraps the other two are far from it."""
    for j in range(22369620, 22369623):
        yield _one((j + 2, 1, 1), j - 1, (96, j + 2, 0.5, 0.1, 0.025, FIRST, SECOND))


def gaussblur() -> Iterator[Launch]:
    weights = (1 / 331, 52.0, 26.0, 16.0, 7.0, 4.0, 1.0)
    for j in range(44739240, 44739245):
        yield _one((j + 3, 1, 1), j - 2, (48, j + 3, *weights, FIRST, SECOND))


def laplacian() -> Iterator[Launch]:
    """Planes of 8 rows of 40; of the plane's rows the third begins 8 elements before 2^31."""
    k, grid = 6710886, (6710888, 6, 1)
    yield _one(grid, k - 1 + 2 * grid[0], (40, 8, k + 2, 0.4, 0.1, FIRST, SECOND))


def smooth() -> Iterator[Launch]:
    """An unsigned index that wraps at 2^32 in the first warp of the block."""
    memory = tuple(
        _window(at + distance, seed)
        for seed, (at, distance) in enumerate(
            (at, distance) for at in (FIRST, SECOND) for distance in (0, 4 << 32)
        )
    )
    block = (1 << 32) // 48
    args = (FIRST, SECOND, block + 1)
    yield Launch((block + 1, 1, 1), (48, 1, 1), args, 0, memory, (block, block + 1), False)


WRAPPING = {"jacobi": jacobi, "gaussblur": gaussblur, "laplacian": laplacian, "smooth": smooth}
