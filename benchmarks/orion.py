"""Orion's two findings on our programs: time over occupancy has one minimum, and where it is flat
behind that, the lowest occupancy is the one to have.

    python -m benchmarks.orion [KERNEL ...] [--gpu h100] [--measured occupancy.csv ...] [--csv FILE]

Each program of `benchmarks.gpu` is forecast on the launch that is timed there, at each number of
resident blocks: fewer by dynamic shared memory that nobody uses, with the code as it is; more under
`.maxnreg`, with what ptxas then makes. These are the points that `benchmarks.gpu.occupancy`
measures; `--measured` are tables that it wrote, for the columns beside the forecasts. A curve has
one minimum if on both sides of it no step towards it is longer by more than `NOISE`; its plateau
are the occupancies around it with times within `FLAT` of the best. Of what was measured, `as it is
costs` says how much longer the kernel takes as it is than at its best occupancy, and `plateau
costs` the same of the lowest occupancy of the plateau that was forecast. Padding takes memory from
the first-level cache, so that fewer blocks have less of it, too: forecasts count that.

Source: A. Hayes et al., "Orion: A Framework for GPU Occupancy Tuning", Middleware 2016, section 3.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.gpu.forecasts import without_floats
from benchmarks.gpu.occupancy import AS_IT_IS, PADDED, Shape, limits_of, paddings
from benchmarks.gpu.subjects import Subject, subjects
from benchmarks.rewrites import lines
from ptxsw.cost import sass
from ptxsw.cost.estimate import estimate
from ptxsw.cost.gpu import Gpu, find
from ptxsw.cost.launched import account
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.merged_accesses import widths
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.sampled import Sample, sample
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.verify.launches import Launch

NOISE, FLAT = 0.02, 0.05
HEAD = (
    "kernel", "levels", "as it is", "one minimum", "best", "plateau", "worst/best", "bound",
    "measured: one minimum", "best", "plateau", "worst/best", "as it is costs", "plateau costs",
)  # fmt: skip
_ROWS = ("kernel", "way", "blocks", "occupancy", "registers", "shared", "us", "bound")


class Point(Struct, frozen=True):
    """A kernel at one occupancy, from 0 to 1; `bound` is the resource that is busiest, as far as it
    is known."""

    way: str
    blocks: int
    occupancy: float
    registers: int
    shared: int
    seconds: float
    bound: str = ""


class Curve(Struct, frozen=True):
    """Points, lowest occupancy first, each occupancy once."""

    points: tuple[Point, ...]

    @property
    def best(self) -> int:
        """The place of the least time."""
        return min(range(len(self.points)), key=lambda at: self.points[at].seconds)

    @property
    def has_one_minimum(self) -> bool:
        """Does the time fall up to the best occupancy, and rise behind it?"""
        times = [point.seconds for point in self.points]
        falling = all(b <= a * (1 + NOISE) for a, b in pairwise(times[: self.best + 1]))
        return falling and all(b >= a / (1 + NOISE) for a, b in pairwise(times[self.best :]))

    @property
    def plateau(self) -> tuple[Point, ...]:
        """The points around the best that are as good as it."""
        most = self.points[self.best].seconds * (1 + FLAT)
        first = last = self.best
        while first > 0 and self.points[first - 1].seconds <= most:
            first -= 1
        while last + 1 < len(self.points) and self.points[last + 1].seconds <= most:
            last += 1
        return self.points[first : last + 1]

    @property
    def spread(self) -> float:
        """The longest time over the least."""
        return max(p.seconds for p in self.points) / self.points[self.best].seconds

    def cost(self, blocks: int) -> float | None:
        """The time with so many resident blocks over the least; None where that is not known."""
        times = (point.seconds for point in self.points if point.blocks == blocks)
        found = next(times, None)
        return None if found is None else found / self.points[self.best].seconds


def curve(points: Sequence[Point]) -> Curve:
    """Of several points of one occupancy the fastest counts."""
    fastest: dict[int, Point] = {}
    for point in sorted(points, key=lambda p: -p.seconds):
        fastest[point.blocks] = point
    return Curve(tuple(fastest[blocks] for blocks in sorted(fastest)))


# ---------------------------------------------------------------- forecasts


class NotForecast(Exception):
    """Why there is no forecast of a kernel."""


def forecast(subject: Subject, gpu: Gpu, share: float) -> list[Point]:
    """The kernel at each occupancy. Raises NotForecast."""
    if subject.large is None:
        raise NotForecast("no launch of it is timed")
    large = subject.large(share)
    launch = large.launch if large.floats else without_floats(large.launch)
    module = parse(subject.text, subject.name)
    function = module.kernel(subject.entry)
    try:
        original, _ = sass.read_several([module], subject.entry, gpu.arch)
        x, y, z = launch.block
        code = _made(original[0])
        shape = Shape(gpu.arch, x * y * z, code.registers, code.shared, launch.shared)
        now, _ = shape.blocks(registers=shape.registers, shared=shape.shared)
        if not now:
            raise NotForecast(f"no block of it fits on {gpu.name}")
        limited = list(limits_of(subject.text, subject.entry, shape))
        codes: Sequence[object] = ()
        if limited:
            texts = [parse(variant.text) for variant in limited]
            codes, _ = sass.read_several(texts, subject.entry, gpu.arch)
        resident = int(now * gpu.of("sms").high)
        seen = sample(module, subject.entry, launch, resident, widths(function, code))
    except (*sass.NOT_MADE, PtxError, ValueError) as error:
        raise NotForecast(" ".join(str(error).split())[:150]) from error
    ask = _Asked(gpu, subject, launch, seen, shape)
    found = [ask.point(AS_IT_IS, code, shape.shared)]
    there = _blocks(launch) / gpu.of("sms").high
    found += [ask.point(PADDED, code, shared) for shared in paddings(shape, there)]
    for variant, other in zip(limited, codes, strict=True):
        found.append(ask.point(variant.scheme, _made(other), shape.shared))
    return found


def _made(code: object) -> MachineKernel:
    if not isinstance(code, MachineKernel):
        raise NotForecast(f"ptxas rejects it: {code}")
    return code


class _Asked(Struct):
    """A kernel whose launch was looked at."""

    gpu: Gpu
    subject: Subject
    launch: Launch
    seen: Sample
    shape: Shape

    def point(self, way: str, code: MachineKernel, shared: int) -> Point:
        """The forecast of the launch with this code and so much shared memory of a block."""
        fits = occupancy(
            self.gpu.arch, block_threads=self.shape.threads, registers=code.registers, shared=shared
        )
        function = parse(self.subject.text).kernel(self.subject.entry)
        asked = account(self.gpu, function, self.seen, _blocks(self.launch), fits, shared, code)
        told = estimate(self.gpu, asked)
        there = _blocks(self.launch) / self.gpu.of("sms").high
        used = fits.fraction * min(1.0, there / fits.blocks)
        return Point(way, fits.blocks, used, code.registers, shared, told.expected, told.bound)


def _blocks(launch: Launch) -> int:
    x, y, z = launch.grid
    return x * y * z


# ---------------------------------------------------------------- measured


def measured(paths: Sequence[Path]) -> Mapping[str, list[Point]]:
    """By kernel what `benchmarks.gpu.occupancy` has timed. Raises OSError; ValueError for another
    kind of table."""
    found: dict[str, list[Point]] = defaultdict(list)
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                try:
                    if row["seconds"] and not row["wrong"]:
                        found[row["kernel"]].append(
                            Point(
                                row["way"], int(row["blocks"]), float(row["occupancy"]),
                                int(row["registers"]), int(row["shared"]), float(row["seconds"]),
                            )
                        )  # fmt: skip
                except (KeyError, TypeError) as error:
                    raise ValueError(
                        f"{path} is not a table of benchmarks.gpu.occupancy"
                    ) from error
    return found


# ---------------------------------------------------------------- shown


def cells(name: str, told: Sequence[Point], timed: Sequence[Point]) -> tuple[str, ...]:
    """A line below `HEAD`."""
    own = curve(told)
    now = next(point for point in told if point.way == AS_IT_IS)
    row = [name, str(len(own.points)), _percent(now), *_found(own), own.points[own.best].bound]
    if len(timed) < 2:
        return (*row, *["-"] * 6)
    real = curve(timed)
    costs = (real.cost(now.blocks), real.cost(own.plateau[0].blocks))
    return (*row, *_found(real), *("-" if cost is None else f"{cost:.2f}" for cost in costs))


def _found(own: Curve) -> tuple[str, str, str, str]:
    first, last = own.plateau[0], own.plateau[-1]
    width = _percent(first) if first is last else f"{100 * first.occupancy:.0f} to {_percent(last)}"
    one = "yes" if own.has_one_minimum else "no"
    return one, _percent(own.points[own.best]), width, f"{own.spread:.2f}"


def _percent(point: Point) -> str:
    return f"{100 * point.occupancy:.0f} %"


def summary(told: Mapping[str, Sequence[Point]], what: str) -> Iterator[str]:
    """How often Orion's findings hold, of the kernels with more than two occupancies."""
    curves = [curve(points) for points in told.values()]
    curves = [one for one in curves if len(one.points) > 2]
    if not curves:
        return
    single = sum(one.has_one_minimum for one in curves)
    flat = [one for one in curves if len(one.plateau) > 1]
    lower = [one.plateau[0].occupancy / one.plateau[-1].occupancy for one in flat]
    mean = sum(lower) / len(lower) if lower else 1.0
    yield (
        f"{what}: {single} of {len(curves)} kernels have one minimum; {len(flat)} have a plateau "
        f"(within {100 * FLAT:.0f} %), whose lowest occupancy is {100 * mean:.0f} % of its highest "
        "on average"
    )


def costs(
    told: Mapping[str, Sequence[Point]], timed: Mapping[str, Sequence[Point]]
) -> Iterator[str]:
    """How good the kernels are as they are, and at the lowest occupancy of their forecast plateaus,
    by what was measured."""
    ways: dict[str, list[float]] = {"as it is": [], "the lowest occupancy of the plateau": []}
    for name, points in timed.items():
        real, own = curve(points), curve(told[name])
        now = next(point for point in told[name] if point.way == AS_IT_IS)
        for way, blocks in zip(ways, (now.blocks, own.plateau[0].blocks), strict=True):
            cost = real.cost(blocks)
            if cost is not None:
                ways[way].append(cost)
    for way, found in ways.items():
        if found:
            near = sum(cost <= 1 + FLAT for cost in found)
            yield (
                f"{way}: within {100 * FLAT:.0f} % of the best that was measured in {near} of "
                f"{len(found)} kernels, {median(found):.2f} of it in the median, {max(found):.2f} "
                "at most"
            )


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    try:
        timed, gpu = measured(asked.measured), find(asked.gpu)
        chosen = [subjects()[name] for name in asked.kernel or subjects()]
    except (OSError, ValueError, KeyError) as error:
        print(f"benchmarks.orion: {error}", file=sys.stderr)
        return 2
    told: dict[str, list[Point]] = {}
    left_out: list[str] = []
    for subject in chosen:
        if subject.large is None and not asked.kernel:
            continue
        try:
            told[subject.name] = forecast(subject, gpu, asked.share)
        except NotForecast as error:
            left_out.append(f"{subject.name}: not forecast: {error}")
    table = [HEAD, *(cells(name, points, timed.get(name, ())) for name, points in told.items())]
    print("\n".join(lines(table)), "", sep="\n")
    both = {name: timed[name] for name in told if len(timed.get(name, ())) > 1}
    said = (*summary(told, f"forecast, {gpu.name}"), *summary(both, "measured"), *costs(told, both))
    print("\n".join(said))
    print("\n".join(left_out))
    if asked.csv is not None:
        _write(asked.csv, told)
    return 0 if told else 1


def _write(path: Path, told: Mapping[str, Sequence[Point]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_ROWS)
        for name, points in told.items():
            for p in sorted(points, key=lambda p: (p.blocks, p.registers)):
                us = f"{1e6 * p.seconds:.2f}"
                row = (name, p.way, p.blocks, p.occupancy, p.registers, p.shared, us, p.bound)
                writer.writerow(row)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orion", description=__doc__)
    parser.add_argument("kernel", nargs="*")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--share", type=float, default=1.0, help="of the launch that is timed")
    parser.add_argument("--measured", type=Path, nargs="*", default=[], metavar="CSV")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the points there")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
