"""What mode auto changes, and on which figures: each kernel before and after.

    python -m benchmarks.auto [FILE.ptx ...] [--corpus DIR] [--largest BYTES] [--jobs N]
        [--seconds S]

Without files: `benchmarks/programs`, KernelGen's operators, and the corpus, where one is given or
`PTXSW_CORPUS` names it. Each file is taken for its own target, or for sm_80 where that is older
than sm_75, of which ptxas 13 makes no code. Nothing is said of blocks, so no number of threads a
block may lose occupancy.

Figures are those of the report (`decision`): registers, occupancy (of the block that loses or gains
most), bytes spilled, and for a warp that runs through once, each loop taken 16 times, instructions,
wavefronts, and the ends of its time in cycles of a multiprocessor. A kernel that gives away warps
or spills, and gains in spite of it whatever overlaps, is marked `*`. Below: what was proved and not
kept. Exit 1 where a kernel was changed by what was not weighed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.rewrites import lines
from ptxsw.cost.decide import PTXAS
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.ptx.target import plain_name
from ptxsw.report.model import Cost, Kernel

HERE = Path(__file__).parent
_OLDEST = 75
_OTHER = "sm_80"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one kernel in which something was proved."""

    file: str
    arch: str
    kernel: Kernel

    @property
    def changed(self) -> frozenset[str]:
        """The rewrites that changed it."""
        return frozenset(rewrite.rewrite for rewrite in self.kernel.rewrites or ())

    @property
    def in_spite(self) -> bool:
        """Does it gain although warps are lost, or registers spilled?"""
        decision = self.kernel.decision
        return self.certain and decision is not None and decision.reason.startswith("although")

    @property
    def certain(self) -> bool:
        """Is what was changed known to dominate, or to gain whatever overlaps?"""
        decision = self.kernel.decision
        return decision is not None and decision.kept and decision.by == PTXAS


def outcomes(path: Path, seconds: float) -> list[Outcome]:
    """The kernels of a file of which anything is to be told."""
    text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    try:
        targets = [t for t in parse(text, path.name).targets if plain_name(t)]
        arch = targets[0] if targets and _number(targets[0]) >= _OLDEST else _OTHER
        report = optimize(text, Options(arch=arch, budget_s=seconds), path.name).report
    except (PtxError, ValueError) as error:
        print(f"{path}: {str(error).splitlines()[0]}", file=sys.stderr)
        return []
    name = f"{path.parent.name}/{path.stem}"
    return [Outcome(name, arch, k) for k in report.kernels if k.rewrites or k.decision]


def _number(target: str) -> int:
    return int(str(plain_name(target)).removeprefix("sm_"))


# ---------------------------------------------------------------- the tables

HEAD = (
    "file", "kernel", "arch", "rewrites", "regs", "occupancy", "spilled", "instructions",
    "wavefronts", "at least", "at most",
)  # fmt: skip


def row(outcome: Outcome) -> tuple[str, ...]:
    """A line of the table, below `HEAD`."""
    kernel, decision = outcome.kernel, outcome.kernel.decision
    names = ", ".join(sorted(outcome.changed or _refused(kernel))) + " *" * outcome.in_spite
    start = (outcome.file, _short(kernel), outcome.arch, names)
    if decision is None or decision.before is None or decision.after is None:
        return (*start, *[""] * 7)
    a, b = decision.before, decision.after
    return (
        *start, _pair(a.registers, b.registers), _occupancy(a, b), _pair(a.local, b.local),
        *(_pair(_whole(getattr(a, f)), _whole(getattr(b, f)))
          for f in ("instructions", "wavefronts", "at_least", "at_most")),
    )  # fmt: skip


def _refused(kernel: Kernel) -> set[str]:
    """The rewrites that were proved and not kept."""
    decision = kernel.decision
    reasons = {decision.reason} if decision is not None else set()
    return {r.rewrite for r in kernel.refusals or () if r.reason in reasons}


def _short(kernel: Kernel) -> str:
    name = kernel.readable or kernel.name
    return name if len(name) <= 40 else name[:37] + "..."


def _occupancy(before: Cost, after: Cost) -> str:
    threads = max(
        before.occupancy, key=lambda t: abs(before.occupancy[t] - after.occupancy.get(t, 0.0))
    )
    old, new = (f"{100 * each.occupancy[threads]:.0f}" for each in (before, after))
    return f"{_pair(old, new)} % of {threads}"


def _whole(figure: float | None) -> int | None:
    """None where a figure is open, as the time of a kernel with tensor work."""
    return None if figure is None else round(figure)


def _pair(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} > {after}"


def show(found: Sequence[Outcome]) -> Iterator[str]:
    """The lines of all tables."""
    kept = [o for o in found if o.changed]
    left = [o for o in found if o.kernel.decision is not None and not o.changed]
    yield f"{len(kept)} kernels changed"
    yield from lines([HEAD, *map(row, kept)])
    yield ""
    yield f"{len(left)} kernels in which something was proved and nothing kept"
    yield from lines([HEAD, *map(row, left)])
    yield ""
    made = Counter(name for o in kept for name in o.changed)
    yield "kernels by rewrite: " + ", ".join(f"{n} {count}" for n, count in made.most_common())
    yield f"of these in spite of fewer warps or spills (*): {sum(o.in_spite for o in kept)}"


# ---------------------------------------------------------------- all of them


def files(corpus: Path | None, largest: float) -> list[Path]:
    """The files that are taken where none is named; of the corpus those up to a size in bytes."""
    found = sorted((HERE / "programs" / "ptx").glob("*.ptx"))
    found += sorted((HERE / "kernelgen" / "ptx").rglob("*.ptx"))
    if corpus is not None:
        found += [p for p in sorted(corpus.rglob("*.ptx")) if p.stat().st_size <= largest]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    work = partial(outcomes, seconds=asked.seconds)
    paths = asked.file or files(asked.corpus, asked.largest)
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = [one for part in pool.map(work, paths) for one in part]
    print("\n".join(show(found)))
    uncertain = [o for o in found if o.changed and not o.certain]
    for outcome in uncertain:
        decision = outcome.kernel.decision
        print(f"{outcome.file}: {outcome.kernel.name}: {decision and decision.reason}")
    return 1 if uncertain else 0


def _parser() -> argparse.ArgumentParser:
    named = os.environ.get("PTXSW_CORPUS")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.auto", description="What mode auto changes, and why."
    )
    parser.add_argument("file", nargs="*", type=Path, metavar="FILE.ptx")
    parser.add_argument("--corpus", type=Path, default=Path(named) if named else None)
    parser.add_argument("--largest", type=float, default=float("inf"), help="file of the corpus")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time for a kernel")
    return parser


if __name__ == "__main__":
    sys.exit(main())
