"""How time and memory of `ptxsw optimize` grow with what a file holds.

    python -m benchmarks.scale [--kernels 25 200 2334] [--loads 1000 8000 50000] [--jobs N]
                               [FILE ...]

First files of many kernels: the KernelGen operators, one after another, each under a name of its
own. Then files of one kernel with rows of five neighbouring loads. Mode auto, nothing remembered of
earlier runs; time is that of the whole process and of those that it starts, memory that of the
largest of them. The exponents say how CPU time grows; the budgets are 1.1 for both, and for the
longest file of kernels 90 seconds on two cores and 400 MB for all processes together.

Then two files of 44,000 and 98,000 lines, or those that are given, against `ptxas -O3`: CPU time of
`optimize` in mode auto, at most 2 times that of ptxas, and of `analyze`, at most 3 times. What
`optimize` asks ptxas counts with it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.children import Cost, cost
from benchmarks.loads import exponent, kernel
from ptxsw.driver.workers import cores

OPERATORS = Path(__file__).parent / "kernelgen" / "ptx"
BUDGET_EXPONENT = 1.1
BUDGET_SECONDS = 90.0
BUDGET_MEMORY = 400.0  # MB
BUDGETS = {"optimize": 2.0, "analyze": 3.0}  # in times of ptxas -O3

_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
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


def measured(text: str, *options: str) -> Cost:
    """What `optimize` of a text costs in mode auto."""
    return _cost_of(text, sys.executable, "-m", "ptxsw", "optimize", "-o", "/dev/null", *options)


def _cost_of(text: str, *command: str) -> Cost:
    """What a program costs that is given a text, and remembers nothing of earlier runs."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.ptx"
        path.write_text(text)
        environ = {**os.environ, "PTXSW_CACHE": str(Path(folder) / "cache")}
        return cost([*command, str(path)], environ)


def against_ptxas(name: str, text: str) -> bool:
    """Prints how many times as long as ptxas our commands take; are they within the budgets?"""
    target = _TARGET.search(text)
    assert target is not None, f"{name} has no .target"
    made = _cost_of(text, "ptxas", "-O3", f"-arch={target[1]}", "-c", "-o", "/dev/null")
    took = {
        "optimize": measured(text, "--jobs", "1"),
        "analyze": _cost_of(text, sys.executable, "-m", "ptxsw", "analyze"),
    }
    ratios = {what: one.cpu / made.cpu for what, one in took.items()}
    lines = text.count("\n")
    shown = "".join(f"  {what} {one.cpu:6.2f} ({ratios[what]:.2f}x)" for what, one in took.items())
    print(f"{name:24} {lines:7,} lines  ptxas -O3 {made.cpu:6.2f} CPU s{shown}", flush=True)
    return all(ratios[what] <= BUDGETS[what] for what in ratios)


def show(what: str, texts: dict[int, str], jobs: int) -> tuple[list[Cost], bool]:
    """Prints a line for each text; does their time grow within the budget?"""
    costs = []
    for size, text in texts.items():
        costs.append(one := measured(text, "--jobs", str(jobs)))
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
    parser.add_argument("file", nargs="*", type=Path, help="PTX texts to hold against ptxas")
    asked = parser.parse_args()
    if asked.file:
        return _verdict(all([against_ptxas(each.name, each.read_text()) for each in asked.file]))
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
    if shutil.which("ptxas"):
        within = against_ptxas("500 kernels", many_kernels(500)) and within
        within = against_ptxas("20,000 loads", kernel(20_000, "rows")) and within
    return _verdict(within)


def _verdict(within: bool) -> int:
    print("within the budgets" if within else "OVER a budget")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
