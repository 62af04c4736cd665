"""Strength reduction where indices wrap: what real compilers make of the programs and operators
whose iterations are counted leaves the same bytes behind, wherever its addresses go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import Struct

from benchmarks.kernelgen.operators import OPERATORS
from benchmarks.programs.addresses import ADDRESSES
from benchmarks.strength_reduction import REWRITE, operators
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.simt import MemoryFault, launch
from tests.parsed import parsed

WORD, WIDE = 1 << 32, 1 << 64
FAR = 1 << 30  # bytes, more than any launch covers without wrapping
IN, OUT = 1 << 44, 1 << 45
WINDOW = 1 << 16
MOST_WINDOWS = 400


class Launch(Struct, frozen=True):
    """Of one block of a grid, with its scalars; arrays are those behind them."""

    scalars: tuple[Any, ...]
    block: tuple[int, int, int] = (40, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    number: int = 0


def run(
    text: str, launched: Launch, arrays: Sequence[int], windows: Mapping[int, Any]
) -> dict[int, bytes]:
    """What some windows of memory hold behind a launch."""
    args = (*launched.scalars, *arrays)
    only = range(launched.number, launched.number + 1)
    done = launch(
        parsed(text), None, launched.grid, launched.block, args,
        memory=windows, only=only, counters=False,
    )  # fmt: skip
    return {at: bytes(array.tobytes()) for at, array in done.memory.items()}


def touched(text: str, launched: Launch, arrays: Sequence[int]) -> dict[int, Any]:
    """Noise wherever a launch goes: a window more for each fault."""
    windows: dict[int, Any] = {}
    while len(windows) < MOST_WINDOWS:
        try:
            run(text, launched, arrays, windows)
            return windows
        except MemoryFault as fault:
            address = re.search(r"at (0x[0-9a-f]+): ", str(fault))
            assert address is not None, fault
            begin = int(address[1], 16) // WINDOW * WINDOW
            random = np.random.default_rng(begin % (1 << 63))
            windows[begin] = random.random(WINDOW // 4, "f4") + np.float32(0.5)
    raise AssertionError("the launch goes to too many places")


def far(windows: Mapping[int, Any], arrays: Sequence[int]) -> bool:
    """Does a launch go farther from its arrays than it has elements for?"""
    return any(min(abs(at - array) for array in arrays) > FAR for at in windows)


def check(
    text: str, new: str, launches: Sequence[Launch], arrays: Sequence[int] = (IN, OUT)
) -> bool:
    """The same bytes behind each launch, some of which go far; is what `untested` makes of the new
    text another?"""
    anywhere, wrong = False, False
    for launched in launches:
        windows = touched(text, launched, arrays)
        anywhere = anywhere or far(windows, arrays)
        expected = run(text, launched, arrays, windows)
        assert run(new, launched, arrays, windows) == expected, launched
        try:
            wrong = wrong or run(untested(new), launched, arrays, windows) != expected
        except MemoryFault:
            wrong = True
    assert anywhere, "no launch goes where an index wraps"
    return wrong


def untested(new: str) -> str:
    """Always the loop with new addresses."""
    return re.sub(r"@!%sw_exact\d+ bra \$sw_slow\d+;", "", new)


def reduced(text: str, arch: str = "sm_80") -> str:
    return optimize(text, Options("force", rewrites=(REWRITE,), arch=arch)).text


HALF = 1 << 31
LAUNCHES: Mapping[str, Sequence[Launch]] = {
    # Downwards to below 0; the first indices are 0 and 1, of the last block of a launch; a step
    # that goes around.
    "neighbours": [
        Launch((102, WORD - 3)),
        Launch((102, 7), (1024, 1, 1), (1 << 22, 1, 1), (1 << 22) - 1),
        Launch(((13 << 28) + 2, 5 << 29)),
    ],
    "edges": [
        Launch((102, WORD - 3, np.float32(2.6))),
        Launch((102, 7, np.float32(2.6)), (1024, 1, 1), (1 << 22, 1, 1), (1 << 22) - 1),
        Launch(((13 << 28) + 2, 5 << 29, np.float32(2.6))),
    ],
    "box": [
        Launch((HALF + 1, 12)), Launch((WORD - 3, 12)), Launch(((1 << 30) + 77, 9)),
        Launch((WORD - 1, 7)),
    ],
    "stencil": [
        Launch((nx, ny, 11, np.float32(0.5), np.float32(0.25)))
        for nx, ny in [((1 << 30) + 77, 3), (HALF - 1, 5), (1 << 16, 1 << 15), (1 << 15, 1 << 16)]
    ],
    "column": [Launch((23, (1 << 60) + 5)), Launch((9, WIDE - 1)), Launch((22, (1 << 61) + 5))],
    "rows": [
        Launch(((1 << 61) + 3, 13), grid=(1, 3, 1)),
        Launch((WIDE - 1, 13), grid=(1, 3, 1), number=1),
        Launch(((1 << 63) + 1, 10), grid=(1, 2, 1)),
    ],
}  # fmt: skip
REDUCED = {name for name in ADDRESSES if not name.startswith(("column-clang", "rows-clang"))}
"""But for those in which clang carries pointers already."""
FEW = {"neighbours-clang-O3", "edges-nvcc", "box-clang-O3", "stencil-clang-O3"}
FEW |= {"column-nvcc", "rows-nvcc"}


@pytest.mark.parametrize("name", sorted(FEW))
def test_programs(name: str) -> None:
    check_program(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REDUCED - FEW))
def test_more_programs(name: str) -> None:
    check_program(name)


def check_program(name: str) -> None:
    program = ADDRESSES[name]
    text = program.path.read_text()
    new = reduced(text)
    assert new != text
    wrong = check(text, new, LAUNCHES[program.source])
    # The index of 32 bits of `column` wraps only where its loop has no end.
    assert wrong or program.source in ("column", "rows")


@pytest.mark.parametrize("name", ["jacobi-nvcc", "laplacian-clang"])
def test_operators(name: str) -> None:
    check_operator(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "divergence-clang", "gameoflife-nvcc", "gaussblur-nvcc", "gradient-clang", "lapgsrb-nvcc",
        "lapgsrb-clang", "matvec-clang", "tricubic2-clang", "uxx1-nvcc", "uxx1-clang",
        "wave13pt-clang", "whispering-nvcc", "whispering-clang",
    ],
)  # fmt: skip
def test_more_operators(name: str) -> None:
    check_operator(name)


def check_operator(label: str) -> None:
    name = label.partition("-")[0]
    text = operators()[label].path.read_text()
    new = reduced(text)
    assert new != text
    operator = OPERATORS[name]
    arrays = [IN + n * (OUT - IN) for n in range(len(operator.params) - len(operator.scalars))]
    scalars = [np.float32(operator.scalars[p]) for p in operator.params if p in operator.scalars]
    grid = (1 << 19, 1, 1) if name == "matvec" else (1, 1, 1 << 19)
    launches = [
        Launch((nx, *(6,) * (len(operator.sizes) - 1), *scalars), (1024, 1, 1), grid)
        for nx in ((3 << 29) - 5, (1 << 30) + 77)
    ]
    assert check(text, new, launches, arrays)
