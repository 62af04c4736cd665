"""Kernels of any number of loads, and how the time to find and judge their sources grows.

    python -m benchmarks.loads [--loads 1000 3000 10000]

Each kernel is rows of five neighbouring loads, each row at an address of its own, and stores the
sum of each row in another array. In `rows` and `blocks` the loads are by .nc, so that no store
matters to them; in `stores` each load has earlier stores to be held against; in `blocks` every row
stands in a branch of its own. Time is CPU time of finding, judging and drafting, the emulation left
out (`benchmarks.emulate` has it). The exponent says how it grows with loads.
"""

from __future__ import annotations

import argparse
import math
import sys
from time import process_time

from ptxsw.changes.assumptions import LOCKSTEP, NO_RACE
from ptxsw.emulator.run import emulate
from ptxsw.parser import parse
from ptxsw.shuffle.candidate_plan import draft
from ptxsw.shuffle.legality import Legality
from ptxsw.terms.solver import Solver

KINDS = ("rows", "stores", "blocks")
BUDGET_EXPONENT = 1.1
ROW = 5

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 u, .param .u64 v, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .f32 %f<8>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [u];
	ld.param.u64 %rd2, [v];
	ld.param.u32 %r4, [n];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r1, %r1, %r2, %r3;
	mul.wide.s32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	mul.wide.s32 %rd6, %r4, 4;
	setp.eq.s32 %p1, %r4, 0;
"""


def kernel(loads: int, kind: str) -> str:
    """A kernel of `loads` loads, rounded down to whole rows."""
    through = "ld.global.f32" if kind == "stores" else "ld.global.nc.f32"
    lines = []
    for row in range(loads // ROW):
        if kind == "blocks":
            lines.append(f"\t@%p1 bra SKIP{row};")
        for at in range(ROW):
            lines.append(f"\t{through} %f{at + 1}, [%rd4+{4 * (at - ROW // 2)}];")
        lines.append("\tadd.s64 %rd4, %rd4, %rd6;")
        lines += [f"\tadd.f32 %f1, %f1, %f{at};" for at in range(2, ROW + 1)]
        lines.append(f"\tst.global.f32 [%rd5+{4 * row}], %f1;")
        if kind == "blocks":
            lines.append(f"SKIP{row}:")
    return HEAD + "\n".join(lines) + "\n\tret;\n}\n"


def seconds(loads: int, kind: str, scheme: str = "paper") -> tuple[float, int]:
    """CPU seconds to draft the rewrites of a kernel, and how many there are."""
    module = parse(kernel(loads, kind))
    solver = Solver()
    trace = emulate(module, module.functions[0], budget_s=math.inf, solver=solver)
    begin = process_time()
    judge = Legality(trace, solver, frozenset({LOCKSTEP, NO_RACE}))
    made = draft(trace, judge, scheme=scheme, form="keep", max_delta=31, hoist=scheme == "halo")
    return process_time() - begin, len(made.plan.rewrites)


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of the times over the sizes, both as logarithms, by least squares."""
    xs, ys = [math.log(s) for s in sizes], [math.log(t) for t in times]
    middle, level = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - middle) * (y - level) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - middle) ** 2 for x in xs)


def show(sizes: list[int]) -> bool:
    """Prints a line for each kind and scheme; is all of it within the budget?"""
    print(
        f"{'kernel':10} {'scheme':7}" + "".join(f"{f'{n:,} loads':>16}" for n in sizes) + "  growth"
    )
    within = True
    for kind in KINDS:
        for scheme in ("paper", "halo"):
            results = [seconds(n, kind, scheme) for n in sizes]
            grows = exponent(sizes, [time for time, _ in results])
            within = within and grows <= BUDGET_EXPONENT
            figures = "".join(f"{f'{t:.2f} s, {made}':>16}" for t, made in results)
            print(f"{kind:10} {scheme:7}{figures}  loads^{grows:.2f}", flush=True)
    print(f"{'within' if within else 'OVER'} the budget of loads^{BUDGET_EXPONENT}")
    return within


def main() -> int:
    parser = argparse.ArgumentParser(description="How detection grows with the number of loads.")
    parser.add_argument("--loads", type=int, nargs="+", default=[1000, 3000, 10000])
    return 0 if show(parser.parse_args().loads) else 1


if __name__ == "__main__":
    sys.exit(main())
