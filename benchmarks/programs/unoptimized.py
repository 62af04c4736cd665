"""Programs as a compiler writes them that does not optimize, or not across functions: generic
addresses, and 64-bit divisions of which nobody has asked how wide their operands are.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.kernelgen.cases import Run
from benchmarks.programs.program import Program, launched, noise

_THREADS, _WIDTH = 64, 16
_F = np.float32
_FLAGS = ("-Xcicc", "-O0")


def _coordinates(nx: int, ny: int, nz: int) -> Run:
    a = noise((nz, ny, nx))
    sizes = tuple(np.int64(n) for n in (nx, ny, nz))
    blocks = -(-a.size // _THREADS)
    turned = np.ascontiguousarray(a.transpose(2, 1, 0))
    return launched((blocks, 1, 1), (_THREADS, 1, 1), sizes, {"in": a}, {"out": turned})


def _buffers(steps: int) -> Run:
    a = noise((3, _THREADS))
    rows = a
    for _ in range(steps):
        rows = _F(0.5) * (rows + np.roll(rows, -1, axis=1)) + a
    return launched((3, 1, 1), (_THREADS, 1, 1), (steps,), {"in": a}, {"out": rows})


def _called(blocks: int) -> Run:
    a, before = noise((blocks, _THREADS, _WIDTH)), noise((blocks, _THREADS, _WIDTH), seed=1)
    first, second = (np.tile(a.reshape(-1)[n : n + 2], _WIDTH // 2) for n in (0, 2))
    rows = before + second * (_F(1) + first * a)
    return launched((blocks, 1, 1), (_THREADS, 1, 1), (), {"in": a, "out": before}, {"out": rows})


UNOPTIMIZED: dict[str, Program] = {
    each.name: each
    for each in (
        Program(
            "coordinates", "coordinates", {},
            (partial(_coordinates, 7, 5, 9), partial(_coordinates, 64, 1, 3)), flags=_FLAGS,
        ),
        Program(
            "buffers", "buffers", {"THREADS": str(_THREADS)},
            (partial(_buffers, 5), partial(_buffers, 0)), flags=_FLAGS,
        ),
        Program(
            "called", "called", {"THREADS": str(_THREADS), "WIDTH": str(_WIDTH)},
            (partial(_called, 3), partial(_called, 1)),
        ),
    )
}  # fmt: skip
