"""What one `ptxsw optimize` costs, process start included, beside the import of its libraries.

    python -m benchmarks.synthesis [--rounds 7] [NAME ...]

For each KernelGen operator: CPU seconds of the whole process (mode force, scheme paper), the
ratio to `python -c "import z3, lark"` measured in the same round, and the most memory it held.
The ratio is what holds on another machine; the budget is 8, and 120 MB. Then how detection grows
with the number of loads: `benchmarks.loads`.
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
BUDGET_RATIO = 8.0
BUDGET_MEMORY = 120.0  # MB
YARDSTICK = (sys.executable, "-c", "import z3, lark")


def command(name: str) -> list[str]:
    file = HERE / f"{name}.ptx"
    options = ["--mode", "force", "--scheme", "paper"]
    return [sys.executable, "-m", "ptxsw", "optimize", str(file), "-o", "/dev/null", *options]


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU time and memory of one optimize.")
    parser.add_argument("name", nargs="*", help="operators (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    names = arguments.name or sorted(path.stem for path in HERE.glob("*.ptx"))
    cost(YARDSTICK)  # the first run reads the disk
    print(f"{'operator':12} {'CPU s':>7} {'yardstick s':>12} {'ratio':>6} {'MB':>6}")
    ratios, within = [], True
    for name in names:
        cost(command(name))
        pairs = [(cost(command(name)), cost(YARDSTICK)) for _ in range(arguments.rounds)]
        ours, yardstick = typical([a for a, _ in pairs]), typical([b for _, b in pairs])
        ratio = median(a.cpu / b.cpu for a, b in pairs)
        ratios.append(ratio)
        within = within and ratio <= BUDGET_RATIO and ours.memory <= BUDGET_MEMORY
        print(
            f"{name:12} {ours.cpu:7.3f} {yardstick.cpu:12.3f} {ratio:6.2f} {ours.memory:6.0f}",
            flush=True,
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios {mean:.2f}; {'within' if within else 'OVER'} the budget")
    linear = loads.show([1000, 3000, 10000])
    return 0 if within and linear else 1


if __name__ == "__main__":
    sys.exit(main())
