"""The whole way on one kernel: `python -m benchmarks.demo [NAME]`, or `make demo`.

Prints the memory trace of a KernelGen operator, the lines that `optimize` changes, and what
ptxas makes of the kernel before and after. The rewritten PTX and the report are left in
`demo-out/`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from time import perf_counter

from ptxsw.driver import pipeline
from ptxsw.report import Kernel, to_json
from ptxsw.report.layout import draw_text
from ptxsw.report.tables import Table
from ptxsw.report.text import analysis_text, optimization_text
from ptxsw.toolchain import ptxas

HERE = Path(__file__).parent
OUT = HERE.parent / "demo-out"
ARCHES = ("sm_80", "sm_90")


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "jacobi"
    path = HERE / "kernelgen" / "ptx" / f"{name}.ptx"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.ptx")))
        sys.stderr.write(f"no operator {name!r}; there are {known}\n")
        return 2
    text = path.read_text()
    shown = os.path.relpath(path)

    _title(f"What {shown} accesses")
    print(analysis_text(pipeline.analyze(text, shown)))

    _title("What becomes of its loads (mode force, scheme paper)")
    options = pipeline.Options(mode="force", scheme="paper")
    result = pipeline.optimize(text, options, shown)
    print(optimization_text(result.report))

    _title("The lines that change")
    print("".join(_changes(text, result.text)))

    _title("Before and after")
    try:
        print("\n".join(_figures(text, result)))
    except ptxas.NoPtxas as error:
        sys.stderr.write(f"{error}\n")
        return 2
    OUT.mkdir(exist_ok=True)
    (OUT / path.name).write_text(result.text)
    (OUT / f"{name}.json").write_text(json.dumps(to_json(result.report), indent=1) + "\n")
    print(f"\nThe rewritten PTX and the report are in {os.path.relpath(OUT)}.")
    return 0


def _title(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}")


def _changes(before: str, after: str) -> Iterator[str]:
    """The changed lines with one line around them."""
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for line in unified_diff(*lines, n=1):
        if not line.startswith(("---", "+++")):
            yield line


def _figures(text: str, result: pipeline.Result) -> list[str]:
    """A table with a row for each architecture, before and after."""
    header = (
        "target", "", "loads", "shuffles", "mean |N|", "registers", "spills", "ptxsw s", "ptxas s",
    )  # fmt: skip
    [kernel] = result.report.kernels
    untouched = Kernel(kernel.name, kernel.loads, 0, 0)
    rows = []
    for arch in ARCHES:
        rows.append((arch, "before", *_row(text, arch, untouched, None)))
        rows.append(("", "after", *_row(result.text, arch, kernel, result.report.seconds)))
    return draw_text(Table(header, tuple(rows), frozenset(header[2:])))


def _row(text: str, arch: str, kernel: Kernel, seconds: float | None) -> tuple[str, ...]:
    """`seconds` is what ptxsw took. Loads that became shuffles remain as corner cases only."""
    begin = perf_counter()
    assembly = ptxas.assemble(text, arch)
    took = perf_counter() - begin
    [resources] = assembly.resources
    replaced = (kernel.shuffles or 0) + (kernel.copies or 0)
    return (
        str(kernel.loads - replaced),
        str(kernel.shuffles or 0),
        "" if kernel.mean_delta is None else f"{kernel.mean_delta:.2f}",
        str(resources.registers),
        str(resources.spill_stores + resources.spill_loads),
        "" if seconds is None else f"{seconds:.3f}",
        f"{took:.3f}",
    )


if __name__ == "__main__":
    sys.exit(main())
