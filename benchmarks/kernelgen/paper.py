"""Table 2 of Matsumura et al., "A Symbolic Emulator for Shuffle Synthesis on the NVIDIA PTX Code"
(CC'23): what its tool found in NVHPC's PTX, and how long it took on an Intel Core i7-5930K."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """One line of the table."""

    shuffles: int
    loads: int
    delta: float | None  # mean |N|
    seconds: float


TABLE_2: Mapping[str, Figures] = {
    "divergence": Figures(1, 6, 2.0, 4.281),
    "gameoflife": Figures(6, 9, 1.5, 3.470),
    "gaussblur": Figures(20, 25, 2.5, 7.938),
    "gradient": Figures(1, 6, 2.0, 4.668),
    "jacobi": Figures(6, 9, 1.5, 4.119),
    "lapgsrb": Figures(12, 25, 1.83, 14.296),
    "laplacian": Figures(2, 7, 1.5, 4.816),
    "matmul": Figures(0, 8, None, 13.971),
    "matvec": Figures(0, 7, None, 4.929),
    "sincos": Figures(0, 2, None, 101.424),
    "tricubic": Figures(48, 67, 2.0, 99.476),
    "tricubic2": Figures(48, 67, 2.0, 101.855),
    "uxx1": Figures(3, 17, 2.0, 7.466),
    "vecadd": Figures(0, 2, None, 3.281),
    "wave13pt": Figures(4, 14, 2.5, 6.967),
    "whispering": Figures(6, 19, 0.83, 6.288),
}
