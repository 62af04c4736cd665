"""Predicted against measured times of the CC'23 operators.

    python -m benchmarks.predict [OPERATOR ...] [--csv FILE] [--rows FILE]

The measured times are those of `ptxsw/reproduce/cc23.csv` (`ptxsw.reproduce.paper` says where they
are from), and `ptxsw reproduce figure2` shows the speed-ups among them.

They were made by NVHPC's OpenACC compiler. KernelGen's operators in `benchmarks/kernelgen` stand
for them, launched in the same shape, with constants that are doubles and loads that are plain ones,
as NVHPC made them (`kernelgen.make --as-measured`). jacobi alone was Fortran, whose arguments do
not alias: on the K40 it alone waits for the texture unit (`stall_texture`), so its loads are `.nc`.
Registers are those that were measured. Nothing else is taken from the table, and no number of the
model was chosen by it.

The prediction is the interval called likely, which is at most a factor of 2.5 wide: that is the one
held against the measured times. The bounds beside it hold whatever overlaps; how many of them are
as narrow is only told.

Last, the operators of which the order is exchanged, pair by pair, and for each row of which
something is not as wanted its reason: how wide its bounds are and by what, and what the profiler
saw the warps wait for.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

from msgspec import Struct, field

from benchmarks.kernelgen.cases import operator_path
from benchmarks.ranks import rank_correlation
from ptxsw.changes.options import Options
from ptxsw.cost.estimate import Estimate
from ptxsw.cost.gpu import find
from ptxsw.driver.pipeline import optimize
from ptxsw.reproduce.paper import GPUS, LOGS, VARIANTS, logs
from ptxsw.reproduce.speedups import Predictor, Timed

BOUNDED = ("original", "noload")  # whose errors are limited
WIDTH, OFF, RANK = 2.5, 0.35, 0.9  # wanted: at most, at most, at least
_ROUNDING = 1e-9
HEAD = "gpu operator variant measured-ms low high likely-low likely-high expected/measured bound"


class Row(Struct, frozen=True):
    """One measured time, in seconds of a launch, and what is predicted."""

    gpu: str
    operator: str
    variant: str
    measured: float
    predicted: Estimate
    stalls: Mapping[str, float] = field(default_factory=dict)
    """Percent of the time in which warps waited, by the reason that the profiler gave."""

    @property
    def off(self) -> float:
        """The time that is expected over what was measured."""
        return self.predicted.expected / self.measured

    @property
    def inside(self) -> bool:
        return self.predicted.time.low <= self.measured <= self.predicted.time.high

    @property
    def inside_likely(self) -> bool:
        return self.predicted.likely.low <= self.measured <= self.predicted.likely.high


class Figure(Struct, frozen=True):
    """A figure of the whole, and what it should be: at least, or at most. Without `wanted` it is
    only told."""

    name: str
    value: float
    wanted: float | None = None
    at_least: bool = True

    @property
    def met(self) -> bool:
        if self.wanted is None:
            return True
        return self.value >= self.wanted if self.at_least else self.value <= self.wanted

    def __str__(self) -> str:
        if self.wanted is None:
            return f"{self.name}: {self.value:.3f}"
        sign, verdict = ">=" if self.at_least else "<=", "met" if self.met else "NOT MET"
        return f"{self.name}: {self.value:.3f} (wanted {sign} {self.wanted:g}) {verdict}"


def row_of(timed: Timed) -> Row:
    """A measured version, predicted."""
    log = timed.log
    return Row(log.gpu, log.operator, log.variant, log.seconds, timed.predicted, log.stalls)


# ---------------------------------------------------------------- judging


def figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """What is asked of the model."""
    bounded = [row for row in rows if row.variant in BOUNDED]
    yield Figure(
        "median error, originals and noload", median(abs(r.off - 1) for r in bounded), 0.35, False
    )
    worst = max(max(r.off, 1 / r.off) for r in bounded)
    yield Figure("largest factor of a row, originals and noload", worst, 2.5, False)
    for gpu in dict.fromkeys(row.gpu for row in rows):
        for variant in BOUNDED:
            some = [r for r in rows if (r.gpu, r.variant) == (gpu, variant)]
            if len(some) > 2:
                found = rank_correlation([(r.measured, r.predicted.expected) for r in some])
                yield Figure(f"rank correlation, {variant}, {gpu}", found, RANK, True)
    compared = list(ratios(rows))
    if compared:
        off = median(abs(predicted / measured - 1) for _, measured, predicted in compared)
        yield Figure("median error of a version's ratio to its original", off, 0.15, False)
    sure = [row for row in rows if row.predicted.likely.width <= WIDTH + _ROUNDING]
    yield Figure(
        f"share of likely intervals no wider than {WIDTH}", len(sure) / len(rows), 1.0, True
    )
    yield Figure(
        "share of measured times within these", _share(r.inside_likely for r in sure), 0.8, True
    )
    yield Figure("share of measured times within the bounds", _share(r.inside for r in rows))
    narrow = [row for row in rows if row.predicted.time.width <= WIDTH]
    yield Figure(f"share of bounds no wider than {WIDTH}", len(narrow) / len(rows))
    if narrow:
        yield Figure("share of measured times within these", _share(r.inside for r in narrow))
    signs = [
        (predicted > 1) == (measured > 1)
        for row, measured, predicted in compared
        if row.variant == "paper" and abs(measured - 1) > 0.1
    ]
    if signs:
        yield Figure(
            "right signs of paper against original, beyond 10 %", _share(signs), 0.85, True
        )


def reasons(row: Row) -> Iterator[str]:
    """Why a row is not as wanted: its bounds are wide, or what is expected is off."""
    found = row.predicted
    middles = {resource.name: resource.time.middle for resource in found.resources}
    if found.time.width > WIDTH:
        overlap = sum(middles.values()) / max(middles.values())
        much = [name for name, time in middles.items() if time > max(middles.values()) / 4]
        yield (
            f"bounds {found.time.width:.1f} apart: {overlap:.1f} between all and no overlap of "
            f"{', '.join(much)}; {found.time.width / overlap:.1f} by ranges of the GPU and caches"
        )
    if abs(row.off - 1) > OFF or not row.inside_likely:
        waits = sorted(row.stalls.items(), key=lambda item: -item[1])[:3]
        seen = ", ".join(f"{name} {share:.0f} %" for name, share in waits)
        yield (
            f"expected {row.off:.2f} of what was measured, bound by {found.bound}; warps were seen "
            f"to wait for {seen or 'nothing: it was not profiled'}"
        )


def orders(rows: Sequence[Row]) -> Iterator[str]:
    """Where ranks are not as wanted: the operators in the order of measured and expected times."""
    for gpu in dict.fromkeys(row.gpu for row in rows):
        for variant in BOUNDED:
            some = [r for r in rows if (r.gpu, r.variant) == (gpu, variant)]
            pairs = [(r.measured, r.predicted.expected) for r in some]
            if len(some) > 2 and rank_correlation(pairs) < RANK:
                measured = sorted(some, key=lambda r: r.measured)
                named = [f"{r.operator} {r.measured / measured[0].measured:.2f}" for r in measured]
                expected = sorted(some, key=lambda r: r.predicted.expected)
                yield f"{gpu}, {variant}: measured {', '.join(named)}"
                yield f"{gpu}, {variant}: expected {', '.join(r.operator for r in expected)}"
                yield from (f"{gpu}, {variant}: {pair}" for pair in exchanged(measured))


def exchanged(rows: Sequence[Row]) -> Iterator[str]:
    """The pairs of operators that are expected in another order than that of these rows, and how
    far each is off; whether `predict` claims that order, or what is likely of both overlaps."""
    for first, second in combinations(rows, 2):
        a, b = first.predicted, second.predicted
        if a.expected > b.expected:
            claimed = "overlap" if a.likely.low <= b.likely.high else "do not overlap"
            yield (
                f"{first.operator} takes {first.measured / second.measured:.2f} of "
                f"{second.operator}, expected {a.expected / b.expected:.2f}: expected "
                f"{first.off:.2f} and {second.off:.2f} of what was measured, bound by {a.bound} "
                f"and {b.bound}; the likely intervals {claimed}"
            )


def ratios(rows: Sequence[Row]) -> Iterator[tuple[Row, float, float]]:
    """Each version with its time over its original's, measured and predicted."""
    originals = {(r.gpu, r.operator): r for r in rows if r.variant == "original"}
    for row in rows:
        original = originals.get((row.gpu, row.operator))
        if original is not None and row is not original:
            predicted = row.predicted.expected / original.predicted.expected
            yield row, row.measured / original.measured, predicted


def _share(answers: Iterable[bool]) -> float:
    given = list(answers)
    return sum(given) / len(given)


def chosen_by_auto(operators: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    """GPU, operator and the shuffles that mode auto makes."""
    for gpu, name in GPUS.items():
        for operator in operators:
            text = operator_path(operator, "float").read_text()
            options = Options(arch=find(name).arch)
            kernel = optimize(text, options).report.kernels[0]
            yield gpu, operator, kernel.shuffles or 0


# ---------------------------------------------------------------- printing


def line(row: Row) -> tuple[str, ...]:
    """Cells below `HEAD`; times in milliseconds."""
    times = (row.measured, row.predicted.time.low, row.predicted.time.high)
    likely = (row.predicted.likely.low, row.predicted.likely.high)
    shown = [f"{1e3 * t:.2f}" for t in (*times, *likely)]
    return (row.gpu, row.operator, row.variant, *shown, f"{row.off:.2f}", row.predicted.bound)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.predict", description=__doc__)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    parser.add_argument("--measured", type=Path, default=LOGS, metavar="CSV")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows there")
    given = parser.parse_args(arguments)
    table = logs(given.measured)
    wanted = given.operators or list(dict.fromkeys(log.operator for log in table))
    predictor, rows = Predictor(), []
    print("  ".join(HEAD.split()))
    for variant in VARIANTS:
        for log in table:
            if log.operator in wanted and log.variant == variant:
                rows.append(row_of(predictor.timed(log)))
                print("  ".join(line(rows[-1])), flush=True)
    if not rows:
        print(f"no rows of {', '.join(wanted)}", file=sys.stderr)
        return 2
    if given.csv is not None:
        with given.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEAD.split(), *map(line, rows)])
    print()
    for figure in figures(rows):
        print(figure)
    pairs = [pair for pair in ratios(rows) if pair[0].variant == "paper"]
    for row, ratio, predicted in pairs:
        if abs(ratio - 1) > 0.1:
            right = "right" if (ratio > 1) == (predicted > 1) else "wrong"
            where = f"{row.gpu}, {row.operator}"
            print(f"paper/original: {where}: {ratio:.2f}, predicted {predicted:.2f}: {right}")
    measured = {(row.gpu, row.operator): ratio for row, ratio, _ in pairs}
    for gpu, operator, shuffles in chosen_by_auto(wanted):
        if shuffles:
            paper = measured.get((gpu, operator), float("nan"))
            print(f"auto makes {shuffles} shuffles: {gpu}, {operator}; paper measured {paper:.2f}")
    print()
    for text in orders(rows):
        print(f"ranks: {text}")
    for row in rows:
        for reason in reasons(row):
            print(f"reason: {row.gpu}, {row.operator}, {row.variant}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
