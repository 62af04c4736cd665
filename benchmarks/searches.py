"""What rewrites cost that find nothing, in shares of the symbolic run of the kernel.

    python -m benchmarks.searches [--rounds 3] [--alone] [--corpus] [--rewrite NAME …] [FILE …]

Each rewrite looks at a text that was read anew: what several of them ask, such as which block
dominates which, counts for each of them. Of some rounds the fastest counts; that in which modules
and Z3 are imported does not. Time is CPU time. Kernels in which a rewrite finds something are left
out of its row.

All rewrites are considered, as by default: what load elimination, uniform loops and shuffles are
planned with counts for shuffles, which lead. With `--alone` each is named by itself, as by
`optimize --rewrites NAME`: whoever does so is also told why loops and loads stay as they are.

A row sums up all kernels, and then the quarter of them with the largest shares. `unread` are those
of which the words of the text, or that there is no loop, already say that nothing is there.

Without files: the fixtures, KernelGen's operators, and the programs of `benchmarks/programs`;
`--corpus` adds the corpus, where it is there. Exit 1: a rewrite takes more than 3 % over all
kernels.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import process_time

from msgspec import Struct
from msgspec.structs import replace

from ptxsw.changes.change import Change
from ptxsw.changes.options import Options
from ptxsw.codegen.excerpt import Excerpt, Excerpts
from ptxsw.driver.passes import followed
from ptxsw.emulator.budget import Budget
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.rewrites import every, named
from ptxsw.rewrites.base import Kernel, Rewrite
from ptxsw.terms.solver import Solver
from tests.real import CORPUS, FIXTURES, name_of, text_of

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs" / "ptx").glob("*.ptx"))
KERNELGEN = sorted((HERE / "kernelgen" / "ptx").glob("*.ptx"))
BUDGET = 0.03
"""Of the symbolic run."""


class Search(Struct, frozen=True):
    """One kernel in which a rewrite finds nothing: CPU seconds of looking for it, which may be 0,
    and of the symbolic run. `read`: did it have to look further than at the words?"""

    kernel: str
    seconds: float
    run: float
    read: bool = True

    @property
    def share(self) -> float:
        return self.seconds / self.run


def share(searches: Iterable[Search]) -> float:
    """The time of some searches in terms of that of the symbolic runs; 0 where there is none."""
    searches = list(searches)
    runs = math.fsum(each.run for each in searches)
    return math.fsum(each.seconds for each in searches) / runs if runs else 0.0


def worst_quarter(searches: Iterable[Search]) -> list[Search]:
    """A quarter of the searches, rounded up: those of the largest shares, the worst first."""
    ranked = sorted(searches, key=lambda each: -each.share)
    return ranked[: math.ceil(len(ranked) / 4)]


def fastest(rounds: Sequence[Search]) -> Search:
    """The least time of a search and of the run, each out of all rounds of one kernel."""
    return Search(
        rounds[0].kernel,
        min(each.seconds for each in rounds),
        min(each.run for each in rounds),
        rounds[0].read,
    )


# ---------------------------------------------------------------- measuring


def searched(one: Rewrite, excerpt: Excerpt, alone: bool = False) -> Search | None:
    """One rewrite let loose on one kernel, as mode force does; None where it finds something, or
    where the kernel's symbolic run does not come to an end."""
    module, function, solver = excerpt.module, excerpt.function, Solver()
    assert function.body  # what it takes to read the text is no part of the run
    with Budget(Options().budget_s) as budget:
        note = followed(every(), module, function)
        begin = process_time()
        trace = emulate(module, function, solver=solver, note=note)
        run = process_time() - begin
        if trace.statistics.timed_out:
            return None
        options = Options(mode="force", rewrites=(one.name,) if alone else None)
        names = frozenset({one.name} if alone else named(["all"]))
        kernel = Kernel(module, function, trace, solver, options, "sm_80", names, budget)
        begin = process_time()
        read = _has_to_read(one, kernel)
        if read and _finds(one, kernel):
            return None
        return Search(function.name, process_time() - begin, run, read)


def _has_to_read(one: Rewrite, kernel: Kernel) -> bool:
    """Does not already the kernel's text, or that it has no loop, say that nothing is there?"""
    span, loops = kernel.function.span, kernel.trace.cfg.loops
    if not one.requires.may_apply(kernel.text[span.start : span.end]):
        return False
    if one.requires.loops and not loops and not kernel.explains:
        return False
    return one.requires.missing(kernel.module) is None


def _finds(one: Rewrite, kernel: Kernel) -> bool:
    trace, solver = kernel.trace, Solver() if one.follows else kernel.solver
    if not one.follows <= trace.followed:
        trace = emulate(kernel.module, kernel.function, solver=solver, follow=one.follows)
    kernel = replace(kernel, trace=trace, solver=solver)
    return any([isinstance(outcome, Change) for outcome in one.find(kernel)])


def searches(
    rewrites: Sequence[Rewrite], paths: Sequence[Path], rounds: int, alone: bool = False
) -> dict[str, list[Search]]:
    """The searches of each rewrite that find nothing in the kernels of some texts."""
    by_rewrite: dict[str, list[Search]] = {one.name: [] for one in rewrites}
    for path in paths:
        for one in rewrites:
            each_round = [_in_file(one, path, alone) for _ in range(rounds)]
            for several in zip(*each_round, strict=True):
                silent = [search for search in several if search is not None]
                if len(silent) == rounds:
                    by_rewrite[one.name].append(fastest(silent))
        gc.collect()
    return by_rewrite


def _in_file(one: Rewrite, path: Path, alone: bool) -> list[Search | None]:
    """One for each kernel of a text."""
    module = parse(text_of(path), name_of(path))
    return [searched(one, excerpt, alone) for excerpt in map(Excerpts(module).of, module.kernels)]


# ---------------------------------------------------------------- the table


def row(name: str, own: Sequence[Search]) -> str:
    worst = worst_quarter(own)
    most = f"{worst[0].share:7.1%} {worst[0].kernel[:30]}" if worst else ""
    over = "  OVER the budget" if share(own) > BUDGET else ""
    return (
        f"{name:20} {len(own):7} {sum(not each.read for each in own):7} "
        f"{1000 * math.fsum(each.seconds for each in own):8.1f} {share(own):10.1%} "
        f"{share(worst):14.1%} {most}{over}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="What rewrites cost that find nothing.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    parser.add_argument("--alone", action="store_true", help="name each by itself")
    parser.add_argument("--rewrite", nargs="+", help="by default all but registers")
    parser.add_argument("--corpus", action="store_true", help="takes many minutes")
    arguments = parser.parse_args()
    names = named(arguments.rewrite or ["all"])
    rewrites = [one for one in every() if one.name in names]
    files = arguments.files or [*FIXTURES, *KERNELGEN, *PROGRAMS]
    files += CORPUS if arguments.corpus else []
    searches(rewrites, [*KERNELGEN, *PROGRAMS], 1, arguments.alone)  # imports
    gc.freeze()
    gc.disable()
    by_rewrite = searches(rewrites, files, arguments.rounds, arguments.alone)
    print(
        f"{'rewrite':20} {'kernels':>7} {'unread':>7} {'ms':>8} {'of the run':>10} "
        f"{'worst quarter':>14} {'worst':>7}"
    )
    for name, own in by_rewrite.items():
        print(row(name, own))
    return int(any(share(own) > BUDGET for own in by_rewrite.values()))


if __name__ == "__main__":
    sys.exit(main())
