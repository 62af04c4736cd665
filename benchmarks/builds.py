"""What the wrapper costs whole builds.

    python -m benchmarks.builds [--rounds 3] [NAME ...]

Three builds with nvcc: `many`, the programs of `benchmarks/programs` with `make -j2`; `long`, one
file of 17,000 lines, sixteen kernels of unrolled rate equations in which nothing can be gained;
`archs`, one file for nine architectures through CMake. Each is built plain, then through
`ptxsw exec` with an empty cache (cold) and again with a full one (warm), in mode auto; and cold in
mode force.

A figure is the median over the rounds of CPU time of all processes in terms of that of plain
builds, of which one goes before and one behind each build: a machine may be twice as fast a minute
later. Elapsed time stands in brackets.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.children import Cost, cost, typical
from benchmarks.programs.memory import MEMORY

PROGRAMS = Path(__file__).parent / "programs" / "cuda"
PTXSW = Path(sys.executable).with_name("ptxsw")
ARCHITECTURES = (75, 80, 86, 87, 89, 90, 100, 103, 120)
WAYS = ("cold auto", "warm auto", "cold force")
BUDGETS = {
    "many": {"cold auto": 1.35, "warm auto": 1.2},
    "long": {"cold auto": 1.2, "warm auto": 1.2},
    "archs": {"cold auto": 1.35, "warm auto": 1.2},
}

_SPECIES, _RATES, _KERNELS = 52, 1000, 16


def many(folder: Path) -> list[str]:
    """Twenty files, each a rule of a Makefile."""
    names = sorted(MEMORY)[:20]
    for name in names:
        _copy(name, folder)
    objects = " ".join(f"{name}.o" for name in names)
    (folder / "Makefile").write_text(
        f"all: {objects}\n%.o: %.cu\n\tnvcc -arch=sm_80 -c $< -o $@\nclean:\n\trm -f *.o\n"
    )
    return ["make", "-s", "-j2"]


def _copy(name: str, folder: Path) -> None:
    """A program with what it expects to be defined."""
    program = MEMORY[name]
    defined = "".join(f"#define {key} {value}\n" for key, value in program.defines.items())
    text = (PROGRAMS / f"{program.source}.cu").read_text()
    (folder / f"{name}.cu").write_text(defined + text)


def long(folder: Path) -> list[str]:
    """One file of 17,000 lines."""
    (folder / "rates.cu").write_text("\n".join(map(_rates, range(_KERNELS))))
    (folder / "Makefile").write_text(
        "rates.o: rates.cu\n\tnvcc -arch=sm_80 -c $< -o $@\nclean:\n\trm -f *.o\n"
    )
    return ["make", "-s", "-j2"]


def _rates(number: int) -> str:
    """A kernel as chemistry codes generate them: concentrations are loaded, each rate is a product
    of some of them, and each change a sum of rates."""
    lines = [
        f"__global__ void rates{number}(const double *c, const double *k, double *d, int n) {{",
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;",
        "  if (i >= n) return;",
        *(f"  double s{s} = 0.0;" for s in range(_SPECIES)),
    ]
    for rate in range(_RATES - 2 * _SPECIES):
        a, b, to = (rate * 7 + number) % _SPECIES, (rate * 11 + 3) % _SPECIES, rate % _SPECIES
        lines.append(
            f"  s{to} += k[{rate}] * c[{a} * n + i] * c[{b} * n + i] - s{(to + 1) % _SPECIES};"
        )
    lines += [f"  d[{s} * n + i] = s{s};" for s in range(_SPECIES)]
    return "\n".join([*lines, "}", ""])


def archs(folder: Path) -> list[str]:
    """One library for nine architectures."""
    _copy(name := min(MEMORY), folder)
    listed = ";".join(f"{arch}-real" for arch in ARCHITECTURES)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(one LANGUAGES CUDA)\n"
        f"add_library(one STATIC {name}.cu)\n"
        f'set_target_properties(one PROPERTIES CUDA_ARCHITECTURES "{listed}")\n'
    )
    return ["sh", "-c", "cmake -S . -B build >cmake.log && cmake --build build -j2 >build.log"]


BUILDS: dict[str, Callable[[Path], list[str]]] = {"many": many, "long": long, "archs": archs}


class Build:
    """A build in a folder of its own, with a cache of its own."""

    def __init__(self, folder: Path, lay_out: Callable[[Path], list[str]]) -> None:
        self.folder = folder
        self._sources = folder / "sources"
        self._sources.mkdir()
        self._command = lay_out(self._sources)

    def cost(self, mode: str | None, *, cold: bool) -> Cost:
        """What the build costs from the sources alone; mode None is without us."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self._sources, work)
        cache = self.folder / f"cache-{mode}"
        if cold:
            shutil.rmtree(cache, ignore_errors=True)
        environ: Mapping[str, str] = {
            **os.environ, "PTXSW_CACHE": str(cache), "PTXSW_MODE": mode or "auto",
            "XDG_DATA_HOME": str(self.folder / "data"), "PTXSW_LOG": str(self.folder / "log"),
        }  # fmt: skip
        ours = [] if mode is None else [str(PTXSW), "exec", "--"]
        took = cost(["env", "-C", str(work), *ours, *self._command], environ)
        way = "plain" if mode is None else f"{'cold' if cold else 'warm'} {mode}"
        print(f"    {way} {took.elapsed:.1f} s, {took.cpu:.1f} of CPU", file=sys.stderr, flush=True)
        return took


class Ratio(NamedTuple):
    """What a build costs in terms of plain ones."""

    elapsed: float
    cpu: float


def ratios(name: str, rounds: int) -> dict[str, Ratio]:
    """The medians of all ways to build; prints a line."""
    plain: list[Cost] = []
    by_way: dict[str, list[Ratio]] = {way: [] for way in WAYS}
    with TemporaryDirectory() as folder:
        build = Build(Path(folder), BUILDS[name])
        build.cost(None, cold=False)  # the first one reads the disk
        plain.append(build.cost(None, cold=False))
        for _ in range(rounds):
            for way, each in by_way.items():
                temperature, mode = way.split()
                cost = build.cost(mode, cold=temperature == "cold")
                plain.append(build.cost(None, cold=False))
                each.append(_beside(cost, plain[-2:]))
    middle = {
        way: Ratio(median(r.elapsed for r in each), median(r.cpu for r in each))
        for way, each in by_way.items()
    }
    shown = "".join(f"{way:>12} {one.cpu:5.2f}x ({one.elapsed:.2f})" for way, one in middle.items())
    print(f"{name:8} plain {typical(plain).cpu:7.2f} s{shown}", flush=True)
    return middle


def _beside(cost: Cost, plain: Sequence[Cost]) -> Ratio:
    return Ratio(
        cost.elapsed / fmean(one.elapsed for one in plain),
        cost.cpu / fmean(one.cpu for one in plain),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="What the wrapper costs whole builds.")
    parser.add_argument("name", nargs="*", help=f"of {', '.join(BUILDS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    needed = [tool for tool in ("nvcc", "make", "cmake") if shutil.which(tool) is None]
    if needed:
        print(f"not found: {', '.join(needed)}", file=sys.stderr)
        return 2
    every = {name: ratios(name, asked.rounds) for name in asked.name or BUILDS}
    within = all(
        every[name][way].cpu <= most for name in every for way, most in BUDGETS[name].items()
    )
    print("within the budgets" if within else "OVER a budget")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
