"""Figures of K. Matsumura, S. Garcia De Gonzalo, A. Pena, "A Symbolic Emulator for Shuffle
Synthesis on the NVIDIA PTX Code", CC 2023.

`TABLE_2` is what its tool found in NVHPC's PTX, and how long it took on an Intel Core i7-5930K.
`logs()` are the rows of `cc23.csv`: times, registers and stall reasons from the logs published with
it (https://github.com/khaki3/ptxas-wrapper, MIT licence), nine operators on three GPUs. Each is as
it was (original), with shuffles and the loads of corner lanes (paper), without these loads
(nocorner), and without all loads that shuffles serve (noload; the last two compute nonsense). The
paper's Figure 2 plots their speed-ups, its Figure 3 their stalls.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

TITLE: Final = "A Symbolic Emulator for Shuffle Synthesis on the NVIDIA PTX Code (CC 2023)"
LOGS: Final = Path(__file__).with_name("cc23.csv")
GPUS: Final = {
    "Tesla K40c": "k40",
    "GeForce GTX TITAN X": "titan-x",
    "Tesla V100-SXM2-16GB": "v100",
}
VARIANTS: Final = ("original", "noload", "nocorner", "paper")
SHOWN: Final = {"noload": "NO LOAD", "nocorner": "NO CORNER", "paper": "PTXASW"}
"""What the paper calls them."""


class Figures(Struct, frozen=True):
    """One line of Table 2: loads that became shuffles, all loads of global memory, the mean of |N|
    over the shuffles (None without any), and the seconds of the analysis."""

    language: str
    shuffles: int
    loads: int
    delta: float | None
    seconds: float


TABLE_2: Final[Mapping[str, Figures]] = {
    "divergence": Figures("C", 1, 6, 2.0, 4.281),
    "gameoflife": Figures("C", 6, 9, 1.5, 3.470),
    "gaussblur": Figures("C", 20, 25, 2.5, 7.938),
    "gradient": Figures("C", 1, 6, 2.0, 4.668),
    "jacobi": Figures("F", 6, 9, 1.5, 4.119),
    "lapgsrb": Figures("C", 12, 25, 1.83, 14.296),
    "laplacian": Figures("C", 2, 7, 1.5, 4.816),
    "matmul": Figures("F", 0, 8, None, 13.971),
    "matvec": Figures("C", 0, 7, None, 4.929),
    "sincos": Figures("F", 0, 2, None, 101.424),
    "tricubic": Figures("C", 48, 67, 2.0, 99.476),
    "tricubic2": Figures("C", 48, 67, 2.0, 101.855),
    "uxx1": Figures("C", 3, 17, 2.0, 7.466),
    "vecadd": Figures("C", 0, 2, None, 3.281),
    "wave13pt": Figures("C", 4, 14, 2.5, 6.967),
    "whispering": Figures("C", 6, 19, 0.83, 6.288),
}


class GpuSummary(Struct, frozen=True):
    """What section 7 says of one GPU, over all 16 operators: the best and the mean improvement in
    percent, and the registers that NO LOAD, NO CORNER and PTXASW take more than the original, on
    average."""

    best: float
    mean: float
    registers: tuple[float, float, float]


SECTION_7: Final[Mapping[str, GpuSummary]] = {
    "Tesla K40c": GpuSummary(16.9, -3.3, (-6.4, -5.2, 2.7)),
    "GeForce GTX TITAN X": GpuSummary(132.3, 10.9, (-6.6, -5.9, 4.2)),
    "Tesla V100-SXM2-16GB": GpuSummary(14.7, -15.2, (-6.4, 6.8, 9.2)),
}
"""Of the P100, whose logs are not among those that were published, it says 9.1, 1.8 and -7.0, -5.9,
3.8."""


class Log(Struct, frozen=True):
    """One measured version of an operator: seconds of a launch, registers of a thread, and in
    percent the time in which warps waited, by the reason that the profiler gave (none where it was
    not profiled). `sizes` are the int parameters of the kernel."""

    gpu: str
    operator: str
    variant: str
    sizes: tuple[int, ...]
    seconds: float
    registers: int
    stalls: Mapping[str, float]


_STALL: Final = "stall_"


@lru_cache(maxsize=2)
def logs(path: Path = LOGS) -> tuple[Log, ...]:
    """The rows of a table such as `LOGS`, of the GPUs that are modelled. Raises OSError, and
    ValueError or KeyError for what is no such table."""
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(_log(row) for row in csv.DictReader(file) if row["gpu"] in GPUS)


def _log(row: Mapping[str, str]) -> Log:
    stalls = {
        name.removeprefix(_STALL).replace("_", " "): float(value)
        for name, value in row.items()
        if name.startswith(_STALL) and value
    }
    return Log(
        row["gpu"], row["operator"], row["variant"], tuple(map(int, row["size"].split("x"))),
        float(row["compute_s"]) / int(row["iterations"]), int(row["registers"]), stalls,
    )  # fmt: skip
