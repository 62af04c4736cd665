"""What one `ptxsw optimize` costs, process start included, beside the import of its libraries.

    python -m benchmarks.synthesis [--rounds 7] [NAME ...]

CPU seconds of `import ptxsw.driver.pipeline`; then, for each KernelGen operator, of the whole
process with shuffles alone (mode force, scheme paper) and with all rewrites (mode force): their
ratios to `python -c "import z3, lark"` measured in the same round, and the most memory that either
held. The
ratios are what holds on another machine; the budgets are 1, 2.5 and 4, and 90 MB. Then how
detection grows with the number of loads: `benchmarks.loads`.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from statistics import median

from benchmarks import loads
from benchmarks.children import cost, typical

HERE = Path(__file__).parent / "kernelgen" / "ptx"
BUDGET_IMPORT, BUDGET_ONE, BUDGET_ALL = 1.0, 2.5, 4.0  # in times of the yardstick
BUDGET_MEMORY = 90.0  # MB
YARDSTICK = (sys.executable, "-c", "import z3, lark")
IMPORT = (sys.executable, "-c", "import ptxsw.driver.pipeline")
_IMPORTS = 30  # pairs of runs: an import is short


def command(name: str, *options: str) -> list[str]:
    file = HERE / f"{name}.ptx"
    whole = [sys.executable, "-m", "ptxsw", "optimize", str(file), "-o", "/dev/null"]
    return [*whole, "--mode", "force", *options]


ONE = ("--scheme", "paper")


def import_ratio(rounds: int) -> float:
    """CPU seconds of the import in times of the yardstick: the median over pairs of runs."""
    for each in (IMPORT, YARDSTICK):
        cost(each)  # the first run reads the disk
    return median(cost(IMPORT).cpu / cost(YARDSTICK).cpu for _ in range(rounds))


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU time and memory of one optimize.")
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    names = arguments.name or sorted(path.stem for path in HERE.glob("*.ptx"))
    imported = import_ratio(_IMPORTS)
    print(f"import ptxsw.driver.pipeline {imported:.2f} x the yardstick")
    print(
        f"{'operator':12} {'yardstick s':>12} {'one s':>7} {'ratio':>6} {'all s':>7} {'ratio':>6} "
        f"{'MB':>5}"
    )
    found, within = [], imported <= BUDGET_IMPORT
    for name in names:
        ways = command(name, *ONE), command(name)
        for way in ways:
            cost(way)
        rounds = [[cost(each) for each in (*ways, YARDSTICK)] for _ in range(arguments.rounds)]
        one, every, yardstick = (typical(list(each)) for each in zip(*rounds, strict=True))
        ratios = [median(r[way].cpu / r[2].cpu for r in rounds) for way in (0, 1)]
        memory = max(one.memory, every.memory)
        found.append(ratios)
        within = within and ratios[0] <= BUDGET_ONE and ratios[1] <= BUDGET_ALL
        within = within and memory <= BUDGET_MEMORY
        print(
            f"{name:12} {yardstick.cpu:12.3f} {one.cpu:7.3f} {ratios[0]:6.2f} {every.cpu:7.3f} "
            f"{ratios[1]:6.2f} {memory:5.0f}",
            flush=True,
        )
    means = [math.exp(sum(map(math.log, way)) / len(way)) for way in zip(*found, strict=True)]
    print(
        f"geometric means of the ratios {means[0]:.2f} and {means[1]:.2f}; "
        f"{'within' if within else 'OVER'} the budgets"
    )
    linear = loads.show([1000, 3000, 10000])
    return 0 if within and linear else 1


if __name__ == "__main__":
    sys.exit(main())
