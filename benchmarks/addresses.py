"""Of how many accesses to global memory the addresses are understood, by producer.

    python -m benchmarks.addresses [DIR ...] [--block 256]

A row for each directory, by default those of `benchmarks/programs` and of KernelGen: the static
accesses to global or generic memory in the kernels of its files (`*.ptx`), for how many of them the
distances of the lanes of a warp and their sectors are known, and what hides the others. A cause is
that part of the address which differs between lanes and is not known from their places.
Kernels whose symbolic run ran out of time, and files that are no PTX, are counted apart.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from ptxsw.analysis.address_text import cause
from ptxsw.analysis.traffic import Traffic
from ptxsw.analysis.warps import Warps
from ptxsw.changes.options import block_shape
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Trace
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.terms.readings import UnwrappedReading

HERE = Path(__file__).parent
DEFAULT = (HERE / "programs" / "ptx", HERE / "kernelgen" / "ptx")
BUDGET_S = 4.0


def figures(trace: Trace, warps: Warps) -> Iterator[str | None]:
    """For each access to global memory None if it is understood, else the cause."""
    unwrapped = UnwrappedReading()
    for access in trace.accesses:
        if access.space in ("global", "generic"):
            known = Traffic.of(access, unwrapped, warps).sectors()[0] is not None
            yield None if known else cause(trace, access)


def of_directory(directory: Path, block: tuple[int, int, int] | None) -> tuple[Counter[str], int]:
    """Accesses by cause, "" for those that are understood; and what could not be looked at."""
    found: Counter[str] = Counter()
    skipped = 0
    for path in sorted(directory.rglob("*.ptx")):
        try:
            module = parse(path.read_text(errors="replace"), path.name)
            for kernel in module.kernels:
                trace = emulate(module, kernel, budget_s=BUDGET_S)
                skipped += trace.statistics.timed_out
                if not trace.statistics.timed_out:
                    warps = Warps(kernel.block_shape or block)
                    found.update(map(_kind, figures(trace, warps)))
        except PtxError:
            skipped += 1
    return found, skipped


def _kind(cause: str | None) -> str:
    """A cause without the lines that it names, "" for none."""
    return (cause or "").partition(" at line")[0]


def row(name: str, found: Counter[str], skipped: int) -> str:
    total, known = found.total(), found[""]
    share = f"{100 * known / total:.0f} %" if total else "-"
    causes = [f"{number} {why}" for why, number in found.most_common() if why][:6]
    apart = f"; {skipped} not looked at" if skipped else ""
    return f"{name:<20} {total:>6} {known:>6} {share:>6}  {', '.join(causes)}{apart}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.addresses")
    parser.add_argument("directory", nargs="*", type=Path, default=list(DEFAULT))
    parser.add_argument("--block", help="threads along x, y and z: 256 or 32x8")
    asked = parser.parse_args(argv)
    block = None if asked.block is None else block_shape(tuple(map(int, asked.block.split("x"))))
    print(f"{'producer':<20} {'access':>6} {'known':>6} {'':>6}  what hides the others")
    total: Counter[str] = Counter()
    for directory in asked.directory:
        found, skipped = of_directory(directory, block)
        total += found
        name = directory.name if directory.name != "ptx" else directory.parent.name
        print(row(name, found, skipped), flush=True)
    print(row("all", total, 0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
