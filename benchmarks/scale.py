"""How time and memory of `ptxsw optimize` grow with what a file holds.

    python -m benchmarks.scale [--kernels 25 200 2334] [--loads 1000 8000 50000] [--jobs N]

First files of many kernels: the KernelGen operators, one after the other, each under a name of its
own. Then files of one kernel with rows of five neighbouring loads. Mode auto, nothing remembered of
earlier runs; time is that of the whole process and of those that it starts, memory that of the
largest of them. The exponents say how CPU time grows; the budgets are 1.1 for both, and for the
longest file of kernels 90 seconds on two cores and 400 MB for all processes together.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.children import Cost, cost
from benchmarks.loads import exponent, kernel
from ptxsw.workers import cores

OPERATORS = Path(__file__).parent / "kernelgen" / "ptx"
BUDGET_EXPONENT = 1.1
BUDGET_SECONDS = 90.0
BUDGET_MEMORY = 400.0  # MB

_ENTRY = re.compile(r"(\.entry\s+)([A-Za-z0-9_]+)")


def many_kernels(count: int) -> str:
    """A module of `count` kernels, all operators in turn."""
    texts = [path.read_text() for path in sorted(OPERATORS.glob("*.ptx"))]
    heads, bodies = zip(*(_parted(text) for text in texts), strict=True)
    shared = dict.fromkeys(line for head in heads for line in head)
    named = (
        _ENTRY.sub(rf"\g<1>\g<2>_{number}", bodies[number % len(bodies)], count=1)
        for number in range(count)
    )
    return "\n".join([*shared, ""]) + "".join(named)


def _parted(text: str) -> tuple[list[str], str]:
    """The lines before the first kernel that are no comments, and the rest."""
    at = text.index(".visible .entry")
    lines = text[:at].splitlines()
    return [line for line in lines if line and not line.startswith(("//", "\t//"))], text[at:]


def measured(text: str, jobs: int) -> Cost:
    """What `optimize` of a text costs in mode auto."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.ptx"
        path.write_text(text)
        command = [sys.executable, "-m", "ptxsw", "optimize", str(path), "-o", "/dev/null"]
        environ = {**os.environ, "PTXSW_CACHE": str(Path(folder) / "cache")}
        return cost([*command, "--jobs", str(jobs)], environ)


def show(what: str, texts: dict[int, str], jobs: int) -> tuple[list[Cost], bool]:
    """Prints a line for each text; does their time grow within the budget?"""
    costs = []
    for size, text in texts.items():
        costs.append(one := measured(text, jobs))
        print(
            f"{f'{size:,} {what}':16} {len(text) / 1e6:6.2f} MB {one.cpu:8.2f} CPU s "
            f"{one.elapsed:8.2f} s {one.memory:6.0f} MB",
            flush=True,
        )
    if len(costs) < 2:
        return costs, True
    grows = exponent(list(texts), [one.cpu for one in costs])
    print(f"{what}^{grows:.2f}")
    return costs, grows <= BUDGET_EXPONENT


def main() -> int:
    parser = argparse.ArgumentParser(description="Time and memory of long files.")
    parser.add_argument("--kernels", type=int, nargs="*", default=[25, 200, 2334])
    parser.add_argument("--loads", type=int, nargs="*", default=[1000, 8000, 50000])
    parser.add_argument("--jobs", type=int, default=cores())
    asked = parser.parse_args()
    print(f"ptxsw optimize FILE --jobs {asked.jobs}")
    within = True
    if asked.kernels:
        costs, within = show("kernels", {n: many_kernels(n) for n in asked.kernels}, asked.jobs)
        total = costs[-1].memory * (asked.jobs + 1)
        print(f"longest: {costs[-1].elapsed:.1f} s, at most {total:.0f} MB in all processes")
        within = within and costs[-1].elapsed <= BUDGET_SECONDS and total <= BUDGET_MEMORY
    if asked.loads:
        texts = {n: kernel(n, "rows") for n in asked.loads}
        within = show("loads", texts, asked.jobs)[1] and within
    print("within the budgets" if within else "OVER a budget")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
