"""What is run on a GPU: every program of `benchmarks/programs` and KernelGen, by one name each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import numpy as np
from msgspec import Struct

from benchmarks.gpu.sizes import Large, large
from benchmarks.kernelgen.cases import CASES, Case, Run
from benchmarks.kernelgen.measure import as_launch
from benchmarks.programs.addresses import ADDRESSES
from benchmarks.programs.cases import PROGRAMS
from benchmarks.programs.flat import FLAT
from benchmarks.programs.loads import LOADS
from benchmarks.programs.memory import MEMORY
from benchmarks.programs.program import Program

GROUPS = ("bank conflicts", "vectors", "loads over stores", "addresses", "shuffles", "further")
"""In the order in which they are timed."""
_VECTORS = frozenset({"particles", "quaternions", "complex", "rgba", "chunks"})
_BLOCK = 128
_MOST = 1 << 29  # bytes of all arrays of a launch


class Subject(Struct, frozen=True):
    """A kernel. `runs` are launches with numpy's results, `large` is by a share the one that is
    timed."""

    name: str
    group: str
    path: Path
    entry: str
    runs: tuple[Callable[[], Run], ...]
    large: Callable[[float], Large] | None = None

    @property
    def text(self) -> str:
        return self.path.read_text()


@cache
def subjects() -> Mapping[str, Subject]:
    """By name."""
    return {each.name: each for each in (*_programs(), *_operators())}


def _programs() -> Iterator[Subject]:
    for programs, group in (
        (MEMORY, "bank conflicts"), (LOADS, "loads over stores"),
        (ADDRESSES, "addresses"), (FLAT, "addresses"),
    ):  # fmt: skip
        for program in programs.values():
            own = "vectors" if program.source in _VECTORS else group
            yield _program(program, own)
    for case in PROGRAMS.values():
        yield _case(case, case.name, case.reals[0], "further", timed=True)


def _program(program: Program, group: str) -> Subject:
    name, path, entry = program.name, program.path, program.entry
    return Subject(name, group, path, entry, program.launches, large(program))


def _operators() -> Iterator[Subject]:
    for case in CASES.values():
        yield _case(case, f"kernelgen-{case.name}", "float", "shuffles", timed=True)
        yield _case(case, f"kernelgen-{case.name}-double", "double", "shuffles", timed=False)


def _case(case: Case, name: str, real: str, group: str, *, timed: bool) -> Subject:
    runs = tuple(partial(_run, case, real, number) for number in range(3))
    made = partial(_large, case, real) if timed else None
    return Subject(name, group, case.path(real), case.entry, runs, made)


def _run(case: Case, real: str, number: int) -> Run:
    return (*case.runs(real), case.tiny(real))[number]


def _large(case: Case, real: str, share: float) -> Large:
    """A launch whose arrays are not too large together."""
    run = case.large(real, _BLOCK, share)
    size = sum(value.nbytes for value in run.args if isinstance(value, np.ndarray))
    if size > _MOST:
        dims = max(sum(n > 1 for n in run.grid), 1)
        run = case.large(real, _BLOCK, share * (_MOST / size) ** (1 / dims))
        size = sum(value.nbytes for value in run.args if isinstance(value, np.ndarray))
    return Large(as_launch(run), size)
