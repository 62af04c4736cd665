"""What the symbolic emulation of real kernels costs and how precise it is.

    python -m benchmarks.emulate [FILE...]          each file, then totals
    python -m benchmarks.emulate --growth           time against code size, and 2^20 paths
    python -m benchmarks.emulate --proofs           the obligations of the KernelGen operators

Without files: the committed fixtures, the KernelGen operators, and the corpus where it is there.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from ptxsw.analysis.lane_reuse import candidates
from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.changes.claim import Obligation
from ptxsw.changes.plan import Proof
from ptxsw.emulator.run import emulate
from ptxsw.emulator.trace import Statistics
from ptxsw.parser import parse
from ptxsw.shuffle.legality import Legality
from ptxsw.terms.node import Term, Variance
from ptxsw.terms.solver import Proved, Solver
from ptxsw.terms.terms import Terms
from tests.real import CORPUS, FIXTURES, text_of

KERNELGEN = sorted((Path(__file__).parent / "kernelgen" / "ptx").glob("*.ptx"))
SIZES = (1_000, 10_000, 100_000)


@dataclass
class Total:
    """Sums over functions."""

    kernels: int = 0
    instructions: int = 0
    states: int = 0
    merged: int = 0
    widened: int = 0
    questions: int = 0
    seconds: float = 0.0
    imprecise: int = 0  # functions with widening or time-out
    timed_out: int = 0
    slowest: float = 0.0

    def add(self, one: Statistics) -> None:
        self.kernels += 1
        self.instructions += one.instructions
        self.states += one.states
        self.merged += one.merged
        self.widened += one.widened
        self.questions += one.questions
        self.seconds += one.seconds
        self.imprecise += bool(one.widened or one.timed_out)
        self.timed_out += one.timed_out
        self.slowest = max(self.slowest, one.seconds)

    def row(self, name: str) -> str:
        return (
            f"{name:48.48} {self.kernels:5} {self.instructions:8} {self.states:8} {self.merged:7} "
            f"{self.widened:5} {self.questions:6} {self.seconds:8.3f} {self.slowest:7.3f}"
        )


def run_files(paths: list[Path]) -> None:
    print(f"{'file':48} {'funcs':>5} {'instrs':>8} {'states':>8} {'merged':>7} {'wide':>5} "
          f"{'z3':>6} {'seconds':>8} {'slowest':>7}")  # fmt: skip
    everything = Total()
    for path in paths:
        own = Total()
        for statistics in of_file(path):
            own.add(statistics)
            everything.add(statistics)
        print(own.row(f"{path.parent.name}/{path.name}"), flush=True)
    print(everything.row(f"total of {len(paths)} files"))
    exact = 100 * (1 - everything.imprecise / max(1, everything.kernels))
    print(
        f"{exact:.1f}% of {everything.kernels} functions without widening or time-out; "
        f"{everything.timed_out} timed out; the slowest took {everything.slowest:.2f} s"
    )


def of_file(path: Path) -> Iterator[Statistics]:
    module = parse(text_of(path), path.name)
    for function in module.functions:
        if function.body_span is not None:
            yield emulate(module, function).statistics


# ---------------------------------------------------------------- proofs


def run_proofs() -> None:
    """CPU time of all obligations of each operator, and the longest single question."""
    print(f"{'operator':16} {'pairs':>5} {'questions':>9} {'cpu ms':>8} {'longest ms':>10}")
    for path in KERNELGEN:
        module = parse(text_of(path), path.name)
        for function in module.functions:
            solver = Solver()
            solver.prove(*_WARM)  # Z3 is imported with the first question
            trace = emulate(module, function, solver=solver)
            asked, begin = solver.questions, process_time()
            judge = Legality(trace, solver, frozenset({LOCKSTEP, NO_RACE}))
            proved = sum(
                any(isinstance(judge.legal(pair), Proof) for pair in pairs)
                for _, elements in candidates(trace, 31)
                for pairs in elements
            )
            longest = max((_ask(solver, o) for several in judge.obligations.values()
                           for o in several), default=0.0)  # fmt: skip
            took = process_time() - begin
            print(
                f"{path.stem:16} {proved:5} {solver.questions - asked:9} {1000 * took:8.1f} "
                f"{1000 * longest:10.1f}"
            )


def _ask(solver: Solver, obligation: Obligation) -> float:
    """CPU seconds in which Z3 proves an obligation, those that normal form settled, too."""
    begin = process_time()
    verdict = solver.prove(obligation.claim, obligation.given)
    assert isinstance(verdict, Proved), obligation
    return process_time() - begin


def _warm() -> tuple[Term, tuple[Term, ...]]:
    terms = Terms()
    x = terms.atom("x", 8, Variance.UNIFORM)
    return terms.ule(x, terms.mul(x, x)), ()


_WARM = _warm()


# ---------------------------------------------------------------- growth

_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .pred %p<99999>;
.reg .b32 %r<99999>;
.reg .f32 %f<99999>;
.reg .b64 %rd<99999>;
ld.param.u64 %rd0, [p];
ld.param.u32 %r0, [n];
mov.u32 %r1, %tid.x;
"""


def straight(size: int) -> str:
    """A kernel of about `size` instructions without a branch."""
    return _HEAD + "".join(
        f"add.s32 %r{i + 2}, %r{i + 1}, {i % 7};\n"
        f"mul.wide.s32 %rd{2 * i + 1}, %r{i + 2}, 4;\n"
        f"add.s64 %rd{2 * i + 2}, %rd0, %rd{2 * i + 1};\n"
        f"ld.global.f32 %f{i}, [%rd{2 * i + 2}+4];\n"
        f"st.global.f32 [%rd{2 * i + 2}], %f{i};\n"
        for i in range(size // 5)
    ) + "ret;\n}\n"  # fmt: skip


def looped(size: int) -> str:
    """A kernel of about `size` instructions, all in small loops."""
    return _HEAD + "".join(
        f"mov.u32 %r{2 * i + 2}, 0;\nL{i}:\n"
        f"add.s32 %r{2 * i + 3}, %r{2 * i + 2}, %r1;\n"
        f"mul.wide.s32 %rd{2 * i + 1}, %r{2 * i + 3}, 4;\n"
        f"add.s64 %rd{2 * i + 2}, %rd0, %rd{2 * i + 1};\n"
        f"ld.global.f32 %f{i}, [%rd{2 * i + 2}+4];\n"
        f"add.s32 %r{2 * i + 2}, %r{2 * i + 2}, 1;\n"
        f"setp.lt.s32 %p{i}, %r{2 * i + 2}, %r0;\n@%p{i} bra L{i};\n"
        for i in range(size // 8)
    ) + "ret;\n}\n"  # fmt: skip


def ifs(count: int) -> str:
    """A kernel with 2^count paths, on each of which the address is another."""
    return _HEAD + "".join(
        f"setp.lt.s32 %p{i}, %r0, {3 * i};\n@%p{i} bra L{i};\nadd.s32 %r1, %r1, {1 << i};\nL{i}:\n"
        for i in range(count)
    ) + "mul.wide.s32 %rd1, %r1, 4;\nadd.s64 %rd2, %rd0, %rd1;\nld.global.f32 %f1, [%rd2];\nret;\n}\n"  # noqa: E501  # fmt: skip


def cpu_of(text: str, repeats: int = 1) -> float:
    """CPU seconds of an emulation, the body parsed before; the best of several."""
    module = parse(text)
    assert module.functions[0].body.statements
    best = math.inf
    for _ in range(repeats):
        begin = process_time()
        trace = emulate(module, module.functions[0], budget_s=300)
        assert not trace.statistics.timed_out
        best = min(best, process_time() - begin)
    return best


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """The slope of log time over log size, by least squares."""
    xs, ys = [math.log(s) for s in sizes], [math.log(t) for t in times]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - mean_x) ** 2 for x in xs)


def run_growth() -> None:
    for make in (straight, looped):
        times = [cpu_of(make(size), 3 if size < 50_000 else 1) for size in SIZES]
        told = ", ".join(f"{s}: {t:.3f} s" for s, t in zip(SIZES, times, strict=True))
        print(f"{make.__name__}: {told}; exponent {exponent(SIZES, times):.3f}")
    print(f"20 successive ifs: {cpu_of(ifs(20)):.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description="what the symbolic emulation costs")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--proofs", action="store_true")
    options = parser.parse_args()
    if options.growth:
        run_growth()
    if options.proofs:
        run_proofs()
    if not (options.growth or options.proofs):
        run_files(options.files or [*FIXTURES, *KERNELGEN, *CORPUS])


if __name__ == "__main__":
    main()
