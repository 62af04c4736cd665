"""The full matrix: every text, in every scheme and form, against the original.

    python -m tests.verify.matrix [--jobs N] [--only NAME …] [--log FILE]

For each rewritten text ptxas must accept it for every architecture for which it accepts the
original; each rewritten kernel must be proved equal, or at least show no difference, and none on
one launch for each shape of block, with threads that meet again and under fuzzed schedules. Kernels
with uniform loops run, too, under schedules that merge lanes of different iterations of a loop.
Prints a line for each rewritten kernel. Exit 0: nothing wrong, 1: something is.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from time import perf_counter

from benchmarks.kernelgen import operators
from benchmarks.provenance import provenance
from ptxsw.driver import pipeline
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.ptx.errors import Unsupported
from ptxsw.ptx.ir import Function, Module
from ptxsw.report.model import Kernel
from ptxsw.verify.differential import cleaned, compare
from ptxsw.verify.invented import arguments
from ptxsw.verify.launches import Launch, Shape
from ptxsw.verify.parameters import parameters
from ptxsw.verify.proving import Proof, prove
from ptxsw.verify.runs import Outcome, run
from tests.real import FIXTURES, text_of
from tests.sass.sass import tool

KERNELGEN = Path(operators.__file__).parent / "ptx"
OWN = Path(__file__).parent / "ptx"
FOLDERS = (".", "double", "clang", "clang/double", "gcc", "gcc/double")

ARCHES = ("sm_75", "sm_80", "sm_90", "sm_100")
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)(.*)$", re.MULTILINE)
WAYS = (
    *((scheme, form) for scheme in ("paper", "early", "halo")
      for form in ("keep", "versioned", "uniform")),
    ("keep", "uniform"),
)  # fmt: skip

# Block, grid, and the integers among a kernel's arguments in turn, for two points of margin on
# each side.
PLAIN: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((7, 1, 1), (2, 2, 1), (24, 6, 5, 6, 3)),
    ((32, 1, 1), (3, 2, 2), (131, 7, 6, 5, 4)),
    ((33, 1, 1), (2, 2, 1), (75, 6, 5, 6, 4)),
    ((48, 1, 1), (3, 2, 2), (131, 7, 6, 5, 4)),
    ((128, 1, 1), (2, 2, 1), (300, 6, 5, 6, 4)),
    ((1024, 1, 1), (1, 1, 1), (1100, 5, 4, 3, 2)),
    ((16, 16, 1), (2, 2, 1), (40, 22, 5, 4, 3)),
    ((32, 4, 1), (1, 2, 2), (40, 12, 7, 4, 3)),
    ((8, 8, 4), (1, 2, 1), (16, 14, 12, 10, 9)),
)
# One block of a shape, integers, and the seed of the schedule; odd seeds split warps often. The
# last integer is how deep the recursion of the texts `functions` goes, which costs most.
FUZZED: tuple[tuple[Shape, tuple[int, ...], int], ...] = (
    ((7, 1, 1), (15, 5, 5, 6, 3, 1), 1),
    ((32, 1, 1), (45, 5, 5, 6, 3, 1), 2),
    ((33, 1, 1), (45, 5, 5, 6, 3, 1), 3),
    ((48, 1, 1), (60, 5, 5, 6, 3, 1), 4),
    ((128, 1, 1), (132, 5, 4, 6, 3, 1), 6),
    ((32, 4, 1), (36, 6, 4, 6, 3, 1), 8),
    ((16, 16, 1), (20, 7, 4, 4, 3, 1), 10),
)


@dataclass(frozen=True, slots=True)
class Line:
    """What came of one kernel in one way, or of a text if `kernel` is empty."""

    file: str
    kernel: str
    way: tuple[str, str]
    shuffles: int = 0
    copies: int = 0
    loops: int = 0
    proved: bool = False
    launches: int = 0
    runs: int = 0
    arches: tuple[str, ...] = ()
    wrong: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        made = f"{self.shuffles} shuffles {self.copies} copies {self.loops} loops"
        held = "proved; " if self.proved else ""
        arches = "/".join(a.removeprefix("sm_") for a in self.arches) or "none"
        said = self.wrong or (
            f"{held}no difference in {self.launches} launches, {self.runs} runs; ptxas {arches}"
        )
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{self.file} {self.kernel} {'+'.join(self.way)}: {made}; {said}{notes}"


_FUZZED_FOLDERS = (KERNELGEN, KERNELGEN / "double")
"""What nvcc makes of KernelGen; the other compilers' texts are proved and run as they are."""

Runs = list[tuple[Launch, Outcome, int | None]]


@dataclass
class Original:
    """A text, and what its kernels do on the launches on which they stay in bounds."""

    path: Path
    text: str
    module: Module
    runs: dict[str, Runs] = field(default_factory=dict)

    def of(self, function: Function) -> Runs:
        """Launches of a kernel, what it leaves behind, and the seed with which the rewritten one
        is to be run: None where threads meet again."""
        if function.name not in self.runs:
            known = parameters(emulate(self.module, function))
            own = function.block_shape
            tried = [
                (Launch(grid, own or block, arguments(known, sizes), fuzz=False), None)
                for block, grid, sizes in PLAIN
            ] + [
                (Launch((1, 1, 1), own or block, arguments(known, sizes)), seed)
                for block, sizes, seed in FUZZED
                if not self.path.is_relative_to(KERNELGEN) or self.path.parent in _FUZZED_FOLDERS
            ]
            self.runs[function.name] = list(self._clean(function.name, tried))
        return self.runs[function.name]

    def _clean(self, kernel: str, launches: Iterable[tuple[Launch, int | None]]) -> Iterator[
        tuple[Launch, Outcome, int | None]
    ]:  # fmt: skip
        for launch, seed in launches:
            found, outcome = cleaned(self.module, kernel, launch)
            if outcome.error is not None or outcome.idle:
                continue
            # Where the threads of the original race, its results say nothing.
            if seed is None or run(self.module, kernel, found, seed).same(outcome):
                yield found, outcome, seed


def texts() -> list[Path]:
    """All texts of the matrix."""
    found = [path for folder in FOLDERS for path in sorted((KERNELGEN / folder).glob("*.ptx"))]
    return [*found, *sorted(OWN.glob("*.ptx")), *FIXTURES]


def lines(path: Path) -> list[Line]:
    """Everything about one text."""
    text = text_of(path)
    original = Original(path, text, parse(text, path.name))
    found: list[Line] = []
    seen = {text: ("", "")}
    for way in WAYS:
        if way[1] not in pipeline.FORMS or way[0] not in pipeline.SCHEMES:
            continue
        options = pipeline.Options(mode="force", scheme=way[0], form=way[1])
        made = pipeline.optimize(text, options, path.name)
        if made.text in seen:
            continue
        seen[made.text] = way
        found += _way(original, made, way)
    return found


def _way(original: Original, made: pipeline.Result, way: tuple[str, str]) -> Iterator[Line]:
    file = shown(original.path)
    accepted = tuple(a for a in ARCHES if accepts(original.text, a) is None)
    refused = [f"{a}: {said}" for a in accepted if (said := accepts(made.text, a)) is not None]
    if refused:
        yield Line(file, "", way, wrong=f"ptxas rejects it for {refused[0]}")
        return
    second = parse(made.text, "rewritten")
    kernels = {k.name: k for k in made.report.kernels}
    for function in original.module.functions:
        kernel = kernels.get(function.name)
        if kernel is None or function.body_span is None:
            continue
        other = next(f for f in second.functions if f.name == function.name)
        if original.module.source.slice(function.span) != second.source.slice(other.span):
            yield _kernel(original, second, function, kernel, way, accepted)


def _kernel(
    original: Original, second: Module, function: Function, kernel: Kernel,
    way: tuple[str, str], arches: tuple[str, ...],
) -> Line:  # fmt: skip
    proof = prove(original.module, second, function.name)
    loops = proof.loops if isinstance(proof, Proof) else 0
    counts = (kernel.shuffles or 0, kernel.copies or 0, loops)
    line = Line(shown(original.path), function.name, way, *counts, isinstance(proof, Proof))
    notes = () if isinstance(proof, Proof) else (proof.reason,)
    try:
        wrong, launches, runs = _runs(original, second, function, merging=loops > 0)
    except Unsupported as error:
        wrong, launches, runs, notes = "", 0, 0, (*notes, error.message)
    if not wrong and not line.proved and not launches:
        wrong = "NOT DECIDED"
    return Line(
        line.file,
        line.kernel,
        way,
        *counts,
        line.proved,
        launches,
        runs,
        arches,
        wrong,
        notes,
    )


def _runs(
    original: Original, second: Module, function: Function, *, merging: bool
) -> tuple[str, int, int]:
    """What differs, on how many launches there was something to compare, in how many runs. With
    `merging` fuzzed schedules are tried, too, that merge lanes of different iterations of a
    loop."""
    name = function.name
    launches = runs = 0
    for entry in tuple(original.of(function)):
        launch, first, seed = entry
        launches += 1
        for merge in (False, True) if merging and seed is not None else (False,):
            runs += 1
            if run(second, name, launch, seed, merge_iterations=merge).same(first):
                continue
            found = compare(
                original.module, second, name, [launch], seeds=() if seed is None else (seed,),
                repair_launch=False, merge_iterations=merge,
            )  # fmt: skip
            if found.difference is not None:
                return f"DIFFERENT: {found.difference.what} [{launch} seed {seed}]", 0, 0
            launches -= 1  # the results of the original depend on the schedule
            original.runs[name].remove(entry)
            break
    return "", launches, runs


def shown(path: Path) -> str:
    """A path without what is the same everywhere."""
    for root, name in ((KERNELGEN, "kernelgen"), (OWN, "own")):
        if path.is_relative_to(root):
            return f"{name}/{path.relative_to(root).with_suffix('')}"
    return f"fixtures/{path.stem}"


@cache
def accepts(text: str, arch: str) -> str | None:
    """What ptxas has against a text for an architecture; None where it takes it. For one before
    its own target a text is said to be for that one: few kernels need more."""
    target = _TARGET.search(text)
    if target is not None and int(target[1]) > int(arch.removeprefix("sm_")):
        text = text[: target.start(1)] + arch.removeprefix("sm_") + text[target.end(1) :]
    level = "0" if target is not None and "debug" in target[2] else "1"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "a.ptx")
        source.write_bytes(text.encode("utf-8", errors="surrogateescape"))
        run = (str(tool("ptxas")), f"-arch={arch}", "--opt-level", level, str(source))
        done = subprocess.run(
            (*run, "-o", os.devnull), capture_output=True, text=True, timeout=300, check=False
        )
    return None if done.returncode == 0 else done.stderr.strip().split("\n")[0]


def rewritten(paths: Sequence[Path], jobs: int) -> Iterator[Line]:
    """All lines of some texts, as they are found."""
    with Pool(jobs) as pool:
        for found in pool.imap_unordered(lines, paths, chunksize=1):
            yield from found


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", help="texts whose name holds one of these words")
    parser.add_argument("--log", type=Path, help="write the lines here, too, in order")
    asked = parser.parse_args(argv)
    chosen = [p for p in texts() if not asked.only or any(w in shown(p) for w in asked.only)]
    begin = perf_counter()
    found: list[Line] = []
    # The longest first: so no process is left alone with one of them at the end.
    for line in rewritten(sorted(chosen, key=lambda p: -p.stat().st_size), asked.jobs):
        found.append(line)
        print(line, flush=True)
    said = summary(found, len(chosen))
    print(f"{said}\n{perf_counter() - begin:.0f} s in {asked.jobs} processes", flush=True)
    if asked.log is not None:
        notes = provenance(shlex.join(["python", "-m", "tests.verify.matrix", *argv]))
        head = "".join(f"# {note}\n" for note in notes)
        body = "\n".join(sorted(map(str, found)))
        asked.log.parent.mkdir(parents=True, exist_ok=True)
        asked.log.write_text(f"{head}\n{said}\n\n{body}\n")
    return int(any(line.wrong for line in found))


def summary(found: Sequence[Line], count: int) -> str:
    """The figures of all lines."""
    wrong = [line for line in found if line.wrong]
    by_way = [
        f"  {'+'.join(way)}: {len(own)} kernels, {sum(x.proved for x in own)} proved, "
        f"{sum(x.launches > 0 for x in own)} run"
        for way in WAYS
        if (own := [line for line in found if line.way == way])
    ]
    return "\n".join((
        f"{count} texts, {len(found)} rewritten kernels, {len(wrong)} wrong",
        f"proved: {sum(line.proved for line in found)}; run on "
        f"{sum(line.launches for line in found)} launches in {sum(line.runs for line in found)} "
        f"runs; accepted by ptxas {sum(len(line.arches) for line in found)} times",
        *by_way,
    ))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
