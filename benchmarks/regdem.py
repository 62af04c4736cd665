"""RegDem's predictor against counts: how often is the version that it chooses the best?

    python -m benchmarks.regdem [KERNEL ...] [--arch sm_80] [--threads 256] [--measured tune.csv]

Of each kernel that needs more registers than full occupancy leaves it there are these versions: as
it is; under the limit of each of the two next steps of occupancy, spilled by ptxas to local or to
shared memory; and under the nearest limit with 2 to 24 values demoted by us as RegDem does
(`benchmarks.demotion`). The predictor (`cost/stalls.py`) chooses the one that it expects to stall
least. By counts a warp takes at least as long as its busiest resource, waiting among them, and at
most as long as all one after another (`cost/decide.py`); columns say how much longer that of the
chosen version is than the least of all, 1.00 if it is the best. `beaten by` is a version that gains
on the choice whatever overlaps: its most is less than the choice's least. `registers takes` is the
choice by the rule of that rewrite among the versions that ptxas spills: nothing may spill more to
local memory than in the kernel as it is, and 5 % must be gained. `--measured` is a table that
`ptxsw tune --csv` wrote, and stands below: the speed-up of what `registers` took there, and that of
the best of its candidates.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.demotion import DEMOTED, PTX, demoted, limited, of_block
from benchmarks.rewrites import lines
from ptxsw.cost import counted, sass
from ptxsw.cost.account import Account
from ptxsw.cost.combined import Question
from ptxsw.cost.decide import account
from ptxsw.cost.executions import executions
from ptxsw.cost.machine_code import MachineKernel
from ptxsw.cost.occupancy import occupancy
from ptxsw.cost.stalls import LOOP_FACTOR, pace
from ptxsw.cost.wavefronts import wavefronts_of
from ptxsw.emulator.run import emulate
from ptxsw.flow.cfg import build
from ptxsw.parser import parse
from ptxsw.ptx.ir import Module
from ptxsw.rewrites import REGISTERS
from ptxsw.rewrites.registers import candidate_steps
from ptxsw.toolchain.ptxas import assemble

AS_IT_IS = "as it is"
FOLDERS = {"": "", "double/": "double", "nvhpc/": "nvhpc", "clang/": "clang",
           "clang/double/": "clang/double"}  # fmt: skip
FLUX = PTX.parents[1] / "programs" / "ptx" / "flux.ptx"
STEPS = 2
SAME, GAIN = 0.01, 0.05
HEAD = (
    "kernel", "registers", "versions", "predictor's choice", "at least", "at most", "beaten by",
    "registers takes", "at least", "at most", "beaten by",
)  # fmt: skip
MEASURED_HEAD = ("measured", "registers", "registers takes", "speed-up", "best", "speed-up")


class Version(Struct, frozen=True):
    """A text of a kernel as ptxas makes it: registers of a thread, bytes that it spills to local
    memory, the predictor's stalls over the share of resident warps, and by counts the cycles of a
    multiprocessor for a warp, at least and at most."""

    name: str
    registers: int
    local: int
    pace: float
    least: float
    most: float

    @property
    def is_ours(self) -> bool:
        """Were values demoted by us?"""
        return ", us " in self.name


# ---------------------------------------------------------------- versions


def kernels() -> Mapping[str, Path]:
    """All that may be asked for, by name."""
    found = {
        f"{prefix}{path.stem}": path
        for prefix, folder in FOLDERS.items()
        for path in sorted((PTX / folder).glob("*.ptx"))
    }
    return {**found, "flux": FLUX}


def texts(text: str, arch: str, threads: int) -> dict[str, str]:
    """The versions of a kernel by name; the original alone if no limit lets more blocks in."""
    (used,) = assemble(text, arch).resources
    steps = candidate_steps(arch, threads=threads, registers=used.registers, shared=0)
    fewer = [step.at for step in steps if step.at < used.registers][:STEPS]
    made = {AS_IT_IS: text}
    for limit in fewer:
        for where, to_shared in (("local", False), ("shared", True)):
            made[f"{limit}, {where}"] = limited(text, limit, spills_to_shared=to_shared)
    for count in DEMOTED if fewer else ():
        own = demoted(text, count=count, threads=threads)
        made[f"{fewer[0]}, us {count}"] = limited(own, fewer[0], spills_to_shared=False)
    return made


def versions(made: Mapping[str, str], arch: str, threads: int) -> list[Version]:
    """What ptxas makes of them, but for those that it refuses or that no block fits."""
    modules = [parse(text) for text in made.values()]
    name = modules[0].kernels[0].name
    codes, _ = sass.read_several(modules, name, arch)
    there = [
        (version, module, code)
        for version, module, code in zip(made, modules, codes, strict=True)
        if isinstance(code, MachineKernel)
    ]
    question = Question(tuple(module for _, module, _ in there), name, arch)
    (answer,) = counted.answers([question], counted.tools(arch))
    if isinstance(answer, counted.NotCounted):
        raise answer
    found = (
        _version(version, module, code, own, arch, threads)
        for (version, module, code), own in zip(there, answer, strict=True)
    )
    return [version for version in found if version is not None]


def _version(
    name: str, module: Module, code: MachineKernel, own: counted.Counted, arch: str, threads: int
) -> Version | None:
    (function,) = module.kernels
    fits = occupancy(arch, block_threads=threads, registers=code.registers, shared=code.shared)
    if not fits.blocks:
        return None
    executed = executions(code, build(function.body), LOOP_FACTOR)
    number = int(re.sub(r"\D", "", arch))
    shape = (threads, 1, 1)
    figures = account(own, wavefronts_of(emulate(module, function), shape), arch, shape)
    least, most = _ends(figures, threads)
    stalls = pace(code, number, fits.fraction, executed)
    return Version(name, code.registers, own.local, stalls, least, most)


def _ends(figures: Account, threads: int) -> tuple[float, float]:
    """Cycles for a warp beside those that are resident, at least and at most."""
    warps = figures.occupancy[threads] * figures.warps
    busy = [case.beside(warps).values() for case in figures.cases]
    return min(map(max, busy)), max(map(sum, busy))


# ---------------------------------------------------------------- judging


def chosen(found: Sequence[Version]) -> Version:
    """The predictor's choice; of equal ones that with fewer registers."""
    return min(found, key=lambda v: (v.pace, v.registers))


def of_ptxas(found: Sequence[Version]) -> Version:
    """The predictor's choice where nothing is demoted by us."""
    return chosen([version for version in found if not version.is_ours])


def registers_takes(found: Sequence[Version]) -> Version:
    """What the rewrite would take of these."""
    original = found[0]
    best = of_ptxas([version for version in found if version.local <= original.local])
    return best if best.pace <= (1 - GAIN) * original.pace else original


def beaten(choice: Version, found: Sequence[Version]) -> Version | None:
    """The version that is certainly faster by counts."""
    best = min(found, key=lambda v: v.most)
    return best if best.most < choice.least else None


class Row(Struct, frozen=True):
    """A kernel: its versions, the original first."""

    kernel: str
    versions: tuple[Version, ...]

    def against(self, choice: Version, *, ours: bool) -> tuple[float, float]:
        """Its least and its most over those of the best version, of ours among them or not."""
        there = [version for version in self.versions if ours or not version.is_ours]
        return choice.least / min(v.least for v in there), choice.most / min(v.most for v in there)


def cells(row: Row) -> tuple[str, ...]:
    """A line below `HEAD`."""
    out = [row.kernel, str(row.versions[0].registers), str(len(row.versions))]
    for choice, ours in ((chosen(row.versions), True), (registers_takes(row.versions), False)):
        better = beaten(choice, row.versions)
        ratios = [f"{ratio:.2f}" for ratio in row.against(choice, ours=ours)]
        out += [choice.name, *ratios, "-" if better is None else better.name]
    return tuple(out)


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """How often each choice is the best."""
    ways = {
        "the predictor's choice": chosen,
        "its choice among ptxas's versions": of_ptxas,
        "what registers takes": registers_takes,
    }
    for name, choose in ways.items():
        choices = [(row, choose(row.versions)) for row in rows]
        ratios = [row.against(choice, ours=choose is chosen) for row, choice in choices]
        least, most = ([ratio[at] for ratio in ratios] for at in (0, 1))
        lost = sum(beaten(choice, row.versions) is not None for row, choice in choices)
        yield (
            f"{name}, {len(rows)} kernels: the best by what it takes at least in {_best(least)}, "
            f"at most in {_best(most)}, by both in {_both(ratios)}; certainly beaten in {lost}; "
            f"longest against the best {max(least):.2f} and {max(most):.2f}"
        )


def _best(ratios: Sequence[float]) -> int:
    return sum(ratio <= 1 + SAME for ratio in ratios)


def _both(ratios: Sequence[tuple[float, float]]) -> int:
    return sum(max(pair) <= 1 + SAME for pair in ratios)


# ---------------------------------------------------------------- measured


def measured(path: Path) -> Iterator[tuple[str, ...]]:
    """Of each kernel in a table of `ptxsw tune` whose registers were limited: those it has as it
    is, what `registers` took and the speed-up, and the same of its best candidate. Raises OSError;
    ValueError for another kind of table."""
    with path.open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(line for line in file if not line.startswith("#")))
    if not table or not {"kernel", "scheme", "speed-up", "registers"} <= table[0].keys():
        raise ValueError(f"{path} is not a table of ptxsw tune")
    yield MEASURED_HEAD
    for kernel in dict.fromkeys(row["kernel"] for row in table):
        own = [row for row in table if row["kernel"] == kernel and row["speed-up"] != "-"]
        limited = [row for row in own if row["scheme"].partition("=")[0] == REGISTERS]
        if limited:
            original = own[0]
            taken = next((row for row in limited if row["scheme"] == REGISTERS), original)
            best = max((original, *limited), key=lambda row: float(row["speed-up"]))
            shown = [cell for row in (taken, best) for cell in (row["registers"], row["speed-up"])]
            yield kernel, original["registers"], *shown


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regdem", description=__doc__)
    parser.add_argument("kernel", nargs="*")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--threads", type=int, default=256)
    parser.add_argument("--measured", type=Path, metavar="CSV")
    given = parser.parse_args(argv)
    try:
        timed = list(measured(given.measured)) if given.measured is not None else []
    except (OSError, ValueError) as error:
        print(f"benchmarks.regdem: {error}", file=sys.stderr)
        return 2
    unknown = set(given.kernel) - kernels().keys()
    if unknown:
        print(f"no kernel {min(unknown)!r}; available: {', '.join(kernels())}", file=sys.stderr)
        return 2
    rows = []
    for name in given.kernel or kernels():
        text = re.sub(r"(?m)^\.version [\d.]+", ".version 9.0", kernels()[name].read_text())
        if ".func" in text:
            continue  # it calls functions, which have registers of their own
        made = texts(of_block(text, given.threads), given.arch, given.threads)
        if len(made) > 1:
            found = versions(made, given.arch, given.threads)
            rows.append(Row(name, tuple(found)))
            print(f"{name}: {len(found)} versions", file=sys.stderr, flush=True)
    print("\n".join(lines([HEAD, *map(cells, rows)])), "", sep="\n")
    print("\n".join(summary(rows)))
    print("\n".join(("", *lines(timed))) if timed else "")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
