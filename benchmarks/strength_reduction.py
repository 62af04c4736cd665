"""What an iteration of the hot loop takes, before and after `strength-reduction`: a row for each
program and target.

    python -m benchmarks.strength_reduction [NAME ...] [--arch sm_80 ...] [--rewrites NAME ...]
        [--operators] [--mode auto] [--jobs N]

An iteration is one of the source: instructions of SASS for each store to global memory, or for each
load where a loop stores nothing, since `ptxas` and the compilers unroll loops. The hot loop is that
of the innermost ones that the launch executes which has most accesses. `--operators` takes those of
KernelGen, as nvcc, clang and GCC compile them, in place of the programs. What was made is "proved"
by the check that each rewrite has, and gives "numpy's" results where there is a launch. Exit 0
where no iteration takes more than before, and no result is another.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Struct

from benchmarks.kernelgen.cases import CASES, Run
from benchmarks.kernelgen.make import path as operator_path
from benchmarks.machine_loops import Counts, count, inner_loops
from benchmarks.programs.addresses import ADDRESSES
from benchmarks.programs.program import Program
from benchmarks.rewrites import ARCHS, lines
from benchmarks.wavefronts import Executed, execute
from ptxsw.cost import sass
from ptxsw.cost.machine_code import MachineInstruction
from ptxsw.driver.pipeline import MODES, Options, optimize
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.simt.run import launch

REWRITE = "strength-reduction"
WRONG = "NOT NUMPY'S"


class Subject(Struct, frozen=True):
    """A text and the launches that it is checked with."""

    name: str
    path: Path
    launches: Callable[[], Sequence[Run]]


class Iteration(Struct, frozen=True):
    """Instructions of an iteration of the hot loop, None where there is none, and registers."""

    instructions: float | None
    registers: int


class Row(Struct, frozen=True):
    """What the rewrites made of one program for one target."""

    program: str
    arch: str
    before: Iteration
    after: Iteration
    verdict: str

    @property
    def good(self) -> bool:
        """Is no iteration longer than before, and is the result right?"""
        old, new = self.before.instructions, self.after.instructions
        longer = old is not None and new is not None and new > old
        return not longer and self.verdict != WRONG


def programs() -> dict[str, Subject]:
    """Those of `benchmarks/programs/addresses.py`."""
    return {
        name: Subject(name, each.path, partial(_launches, each)) for name, each in ADDRESSES.items()
    }


def _launches(program: Program) -> list[Run]:
    return [run() for run in program.launches]


def operators() -> dict[str, Subject]:
    """KernelGen's, by name and compiler, but for those that ptxas cannot link. GCC's, which have
    their arguments in a struct, are counted without a launch."""
    found = {}
    for name, case in CASES.items():
        for compiler in ("", "clang", "gcc"):
            path = operator_path(name, "float", compiler)
            if path.exists() and "sinf" not in path.read_text():
                label = f"{name}-{compiler or 'nvcc'}"
                runs = tuple if compiler == "gcc" else partial(case.runs, "float")
                found[label] = Subject(label, path, runs)
    return found


# ---------------------------------------------------------------- counted


def iteration(text: str, arch: str, runs: Sequence[Run]) -> Iteration:
    """The hot loop of the only kernel of a text, as ptxas makes it for a target."""
    module = parse(text)
    (function,) = module.kernels
    executed = execute(module, function.name, runs[0]) if runs else None
    kernel = sass.read(text, arch).kernel(function.name)
    counts = [_counts(loop, executed) for loop in inner_loops(kernel)]
    hot = max(counts, key=lambda c: c.of("STG") + c.of("LDG"), default=None)
    if hot is None:
        return Iteration(None, kernel.registers)
    return Iteration(hot.instructions / (hot.of("STG") or hot.of("LDG") or 1), kernel.registers)


def _aimed(text: str, arch: str) -> str:
    """The text for a target, in a version of PTX that knows it."""
    recent = re.sub(r"(?m)^(\s*\.version\s+)[\d.]+", r"\g<1>8.7", text)
    return re.sub(r"(?m)^(\s*\.target\s+)sm_\d+", rf"\g<1>{arch}", recent)


def _counts(loop: Sequence[MachineInstruction], executed: Executed | None) -> Counts:
    return count(
        i for i in loop
        if executed is None or i.ptx is None or i.ptx in executed.instructions
    )  # fmt: skip


# ---------------------------------------------------------------- checked


def verdict(runs: Sequence[Run], text: str, made: str) -> str:
    """ "-" where nothing was made, else what is known of it."""
    if made == text:
        return "-"
    module = parse(made)
    if not all(_like_numpy(module, run) for run in runs):
        return WRONG
    return "proved, numpy's" if runs else "proved"


def _like_numpy(module: Module, run: Run) -> bool:
    (function,) = module.kernels
    done = launch(module, function.name, run.grid, run.block, run.args, shared=run.shared)
    return all(
        done.buffers[run.arrays.index(name)].tobytes() == expected.tobytes()
        for name, expected in run.expected.items()
    )


# ---------------------------------------------------------------- the table


def rows(
    subject: Subject, archs: Sequence[str], rewrites: Sequence[str], mode: str
) -> Iterator[Row]:
    """What is made of one program, for each target."""
    original = subject.path.read_text()
    runs = subject.launches()
    block = runs[0].block if runs else None
    verdicts: dict[str, str] = {}
    for arch in archs:
        text = _aimed(original, arch)
        options = Options(mode, rewrites=tuple(rewrites), block=block, arch=arch)
        made = optimize(text, options, subject.path.name).text
        anywhere = _aimed(made, ARCHS[0])
        if anywhere not in verdicts:
            verdicts[anywhere] = verdict(runs, text, made)
        before = iteration(text, arch, runs)
        after = before if made == text else iteration(made, arch, runs)
        yield Row(subject.name, arch, before, after, verdicts[anywhere])


def _all_rows(name: str, archs: Sequence[str], rewrites: Sequence[str], mode: str) -> list[Row]:
    return list(rows((programs() | operators())[name], archs, rewrites, mode))


HEAD = ("program", "arch", "instructions an iteration", "registers", "verdict")


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table, below `HEAD`."""
    iterations = _pair(_figure(row.before.instructions), _figure(row.after.instructions))
    registers = _pair(str(row.before.registers), str(row.after.registers))
    return row.program, row.arch, iterations, registers, row.verdict


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _pair(before: str, after: str) -> str:
    return before if before == after else f"{before} > {after}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    asked = parser.parse_args(argv)
    names = asked.name or list(operators() if asked.operators else programs())
    for name in asked.name:
        if name not in (every := programs() | operators()):
            parser.error(f"no such name: {name}; there are {', '.join(every)}")
    given = [asked.arch] * len(names), [asked.rewrites] * len(names), [asked.mode] * len(names)
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = [row for part in pool.map(_all_rows, names, *given) for row in part]
    print("\n".join(lines([HEAD, *map(cells, found)])))
    return 0 if all(row.good for row in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.strength_reduction",
        description="What an iteration of the hot loop takes.",
    )
    parser.add_argument("name", nargs="*", help="programs or operators (default: all programs)")
    parser.add_argument("--operators", action="store_true", help="all operators of KernelGen")
    parser.add_argument("--arch", nargs="+", default=ARCHS, metavar="sm_XX")
    parser.add_argument("--rewrites", nargs="+", default=[REWRITE], metavar="NAME")
    parser.add_argument("--mode", choices=MODES, default="force")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
