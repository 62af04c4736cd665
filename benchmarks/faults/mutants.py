"""Clean programs with one small change each: do the checks find the fault, where there is one?

    python -m benchmarks.faults.mutants OUT.jsonl [--count 200] [--seed 0] [--seconds 10]

Each seed takes a clean program of this folder or of KernelGen and removes a barrier or a fence,
moves a store over a barrier, or changes an index by one. What the checks do not find is run under
several schedules, and all pairs of accesses of these runs are looked at, by brute force where the
launch is small enough: it is harmless, or missed. One line for each seed is added to OUT.jsonl;
seeds that stand there are not tried again. Exit 1 where a run shows a fault that was proved absent.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import ptxsw
from benchmarks.faults.changes import WAYS, changed
from benchmarks.faults.programs import CLEAN, programs
from benchmarks.faults.runs import SEEDS, SHOWS, Seen, seen
from benchmarks.kernelgen.operators import OPERATORS
from ptxsw.parser import parse
from ptxsw.ptx.errors import PtxError
from ptxsw.simt import Conflict
from ptxsw.verify.arguments import Data
from ptxsw.verify.launches import Launch, Shape
from tests.simt.brute_force import BruteForce

ROOM = 512  # elements that buffers are longer, so that an index that is off by one is in one
BRUTE = 150_000  # accesses of a launch that are compared by brute force
TRIES = 20  # to find a place for a change


@dataclass(frozen=True)
class Clean:
    """A text without a fault, and launches of its kernel."""

    name: str
    text: str
    block: Shape
    launches: tuple[Launch, ...]


@cache
def subjects() -> tuple[Clean, ...]:
    own = [Clean(p.name, p.path().read_text(), p.block, p.launches) for p in programs(CLEAN)]
    return (*own, *(_operator(name) for name in sorted(OPERATORS)))


def _operator(name: str) -> Clean:
    """A KernelGen operator, with a launch that covers a small grid in all three dimensions."""
    operator = OPERATORS[name]
    text = (Path(ptxsw.__file__).parents[1] / f"benchmarks/kernelgen/ptx/{name}.ptx").read_text()
    usual = (37, 9, 7) if operator.dims == 3 else (37, 9)
    sizes = {"matmul": (37, 9, 16), "matvec": (64, 19)}.get(name, usual)
    buffer = Data("random", 37 * 9 * 16, "f32")
    args = (
        float(operator.scalars[p]) if p in operator.scalars else buffer for p in operator.params
    )
    launch = Launch((1, 2, 1), (48, 1, 1), (*sizes, *args))
    return Clean(name, text, launch.block, (launch,))


def roomy(launch: Launch) -> Launch:
    """The launch with buffers that are longer on both ends."""
    args = tuple(a.longer(ROOM, ROOM) if isinstance(a, Data) else a for a in launch.args)
    return Launch(
        launch.grid, launch.block, args, launch.shared, launch.memory, launch.only,
        variables=launch.variables,
    )  # fmt: skip


def shown(text: str, launches: Sequence[Launch]) -> tuple[dict[str, Seen], bool]:
    """The faults that runs show, by rule, and whether all pairs were compared by brute force."""
    module = parse(text)
    found: dict[str, Seen] = {}
    brute = True
    for launch in map(roomy, launches):
        for seed in SEEDS:
            for each in seen(module, launch, seed):
                if "buffer 'memory at" not in each.said:  # whose size nobody has told the checks
                    found.setdefault(each.rule, each)
        second = Few()
        try:
            seen(module, launch, None, second)
            told = second.conflicts_found()
        except TooMany:
            brute = False
            continue
        if any(kind == "race" for kind, *_ in told):
            line = next(at for kind, _, _, at in told if kind == "race")
            found.setdefault("data-race", Seen("data-race", "by brute force", line))
    return found, brute


class TooMany(Exception):
    """The launch has more accesses than are compared by brute force."""


class Few(BruteForce):
    """Brute force over a small launch."""

    @property
    def conflicts(self) -> list[Conflict]:
        """They are told by `conflicts_found`."""
        return []

    def record(self, *given: Any, **named: Any) -> None:
        super().record(*given, **named)
        if len(self.accesses) > BRUTE:
            raise TooMany


def judged(seed: int, seconds: float) -> dict[str, Any]:
    """What became of one seed."""
    random = Random(seed)
    for _ in range(TRIES):
        way = random.choice(tuple(WAYS))
        clean = random.choice(subjects())
        made = changed(clean.text, way, random)
        if made is not None and made[0] != clean.text:
            break
    else:
        return {"seed": seed, "outcome": "none"}
    text, line = made
    told: dict[str, Any] = {"seed": seed, "name": clean.name, "way": way, "line": line}
    begin = process_time()
    try:
        report = ptxsw.check(
            text, f"{clean.name}.ptx", select="correctness", block=clean.block, seconds=seconds
        )
    except PtxError as error:
        return told | {"outcome": "no PTX", "said": error.message}
    told["cpu"] = round(process_time() - begin, 2)
    [kernel] = report.kernels
    found = [f for f in kernel.findings or () if f.level in ("error", "warning")]
    if found:
        what = [f"{f.rule.removeprefix('ptxsw-')} at {f.line}: {f.what}" for f in found]
        return told | {"outcome": "found", "said": what}
    verdicts = {rule: v.verdict for rule, v in (kernel.verdicts or {}).items()}
    return told | _against_runs(text, clean.launches, verdicts)


def _against_runs(
    text: str, launches: Sequence[Launch], verdicts: Mapping[str, str]
) -> dict[str, Any]:
    """Nothing was found: is there anything?"""
    try:
        faults, brute = shown(text, launches)
    except PtxError as error:
        return {"outcome": "cannot be run", "said": error.message}
    if not faults:
        open_ = sorted(rule for rule, verdict in verdicts.items() if verdict == "unknown")
        how = "all pairs" if brute else "clocks"
        return {"outcome": "harmless", "by": how, "unknown": open_}
    said = {rule: one.said for rule, one in faults.items()}
    false = [rule for rule in faults if _denied(rule, verdicts)]
    return {"outcome": "FALSE" if false else "missed", "said": said, "verdicts": dict(verdicts)}


def _denied(shown_rule: str, verdicts: Mapping[str, str]) -> bool:
    """Was a fault that a run shows proved absent, under each name that it may have?"""
    names = [rule for rule, shows in SHOWS.items() if shown_rule in shows]
    return all(verdicts.get(rule) == "absent" for rule in names)


def main() -> int:
    parser = argparse.ArgumentParser(description="Small changes of clean programs.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time of a check")
    asked = parser.parse_args()
    done = {}
    if asked.out.exists():
        done = {t["seed"]: t for t in map(json.loads, asked.out.read_text().splitlines())}
    seed, count = asked.seed, Counter(told["outcome"] for told in done.values())
    while count.total() - count["none"] - count["no PTX"] < asked.count:
        if seed not in done:
            told = done[seed] = judged(seed, asked.seconds)
            count[told["outcome"]] += 1
            with asked.out.open("a") as file:
                file.write(json.dumps(told) + "\n")
        seed += 1
    for outcome, number in count.most_common():
        print(f"{number:6} {outcome}")
    for told in done.values():
        if told["outcome"] in ("missed", "FALSE"):
            what = "; ".join(f"{rule}: {said}" for rule, said in told["said"].items())
            print(f"{told['outcome']} (seed {told['seed']}), {told['name']}, {told['way']} at line "
                  f"{told['line']}: {what}")  # fmt: skip
    return 1 if count["FALSE"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
