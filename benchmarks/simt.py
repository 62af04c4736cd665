"""How fast the interpreter is: thread instructions per second of KernelGen operators, one core.

python -m benchmarks.simt [--operator jacobi ...] [--size 512]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.kernelgen.operators import OPERATORS, Operator, make_inputs
from ptxsw.parser import parse
from ptxsw.simt import LaunchResult, launch

PTX = Path(__file__).parent / "kernelgen" / "ptx"
BUDGET = 20e6  # thread instructions per second, for jacobi


def sizes_of(operator: Operator, size: int) -> tuple[int, ...]:
    """About as many points for every operator."""
    if operator.name == "matmul":
        return (size // 4, size // 4, 32)
    if operator.dims == 2:
        return (size, size)
    return (size, max(size // 32, 8), max(size // 32, 8))


def measure(operator: Operator, *, size: int, repeats: int) -> tuple[LaunchResult, float]:
    """The result of a launch, and the CPU seconds of the fastest."""
    module = parse((PTX / f"{operator.name}.ptx").read_text())
    sizes = sizes_of(operator, size)
    arrays = make_inputs(operator, sizes, np.dtype("f4"))
    scalars = operator.scalars
    args = [*sizes, *(scalars[p] if p in scalars else arrays[p] for p in operator.params)]
    grid = (sizes[1], 1, -(-sizes[0] // 128)) if operator.dims == 2 else (sizes[1], sizes[2], 4)
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        result = launch(module, operator.entry, grid, 128, args)
        best = min(best, time.process_time() - start)
    return result, best


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each operator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--operator", nargs="*", default=["jacobi"], help="or `all`")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    names = sorted(OPERATORS) if options.operator == ["all"] else options.operator
    print(f"{'operator':12} {'instructions':>14} {'CPU s':>8} {'M/s':>8} {'sectors/load':>13}")
    for name in names:
        result, seconds = measure(OPERATORS[name], size=options.size, repeats=options.repeats)
        counters = result.counters
        assert counters is not None
        rate = counters.thread_instructions / seconds
        sectors = counters.load_sectors / max(counters.warp_loads, 1)
        print(
            f"{name:12} {counters.thread_instructions:14,} {seconds:8.3f} {rate / 1e6:8.1f}"
            f" {sectors:13.2f}"
        )
        if name == "jacobi":
            print(
                f"{'':12} budget: {BUDGET / 1e6:.0f} M/s: {'met' if rate >= BUDGET else 'MISSED'}"
            )


if __name__ == "__main__":
    main()
