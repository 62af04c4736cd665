"""How many faults the checks find, and how much of clean kernels they prove.

    python -m benchmarks.faults [--rule RULE] [--seconds S] [--verbose] [NAME…]

Asks `ptxsw.check(text, select="correctness")` about all programs of this folder and their twins.
Exit 1: something is said of a twin or a clean kernel, a witness does not replay, or a fault is
proved absent.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Iterator
from functools import partial

import ptxsw
from benchmarks.faults.judging import Judged, judged
from benchmarks.faults.programs import CLEAN, RULES, programs


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the rules of correctness.")
    parser.add_argument("name", nargs="*")
    parser.add_argument("--rule", default="", choices=("", CLEAN, *RULES))
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time of a kernel")
    parser.add_argument("--verbose", action="store_true", help="each verdict that is not absent")
    asked = parser.parse_args()
    ptxsw.check(programs()[0].path().read_text(), select="correctness")  # imports
    ask = partial(ptxsw.check, seconds=asked.seconds)
    answers = [
        judged(program, twin, ask)
        for program in programs(asked.rule, tuple(asked.name))
        for twin in program.twins
    ]
    for line in lines(answers, asked.verbose):
        print(line)
    return 1 if any(map(_wrong, answers)) else 0


def _wrong(answer: Judged) -> bool:
    said = not answer.faulty and answer.besides
    return bool(said or answer.denied or not all(answer.replayed))


def lines(answers: list[Judged], verbose: bool) -> Iterator[str]:
    yield from _faults([a for a in answers if a.faulty])
    replayed = [it for a in answers for it in a.replayed]
    yield f"witnesses: {sum(replayed)} of {len(replayed)} replay"
    yield from (f"  {_name(a)}: no run shows what its witness should" for a in answers
                if not all(a.replayed))  # fmt: skip
    false = [a for a in answers if a.denied]
    yield f"faults that are proved absent: {len(false)} {' '.join(map(_name, false))}"
    others = [a for a in answers if not a.faulty]
    yield f"said of twins and clean kernels: {sum(len(a.besides) for a in others)}"
    yield from (f"  {_name(a)}: {said}" for a in others for said in a.besides)
    for problem, count in Counter(a.problem for a in answers if a.problem).items():
        first = next(a for a in answers if a.problem == problem)
        yield f"{count} failed, {_name(first)}: {problem}"
    yield from _proved([a for a in answers if a.program.rule == CLEAN], verbose)
    if answers:
        times = sorted(a.seconds for a in answers)
        p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
        yield f"CPU seconds: median {statistics.median(times):.2f}, p99 {p99:.2f}, " \
              f"most {times[-1]:.2f} ({_name(max(answers, key=lambda a: a.seconds))})"  # fmt: skip


def _name(answer: Judged) -> str:
    return f"{answer.program.rule}/{answer.program.name}{answer.twin}"


def _faults(answers: list[Judged]) -> Iterator[str]:
    yield f"faults found: {sum(a.found for a in answers)} of {len(answers)}"
    for rule in RULES:
        own = [a for a in answers if a.program.rule == rule]
        if not own:
            continue
        missed = [a.program.name for a in own if not a.found]
        yield f"  {rule:18} {len(own) - len(missed):3} of {len(own):3}  {' '.join(missed)}"
    yield from (f"  {_name(a)}, besides: {said}" for a in answers for said in a.besides)


def _proved(answers: list[Judged], verbose: bool) -> Iterator[str]:
    pairs = [(a, rule, *verdict) for a in answers for rule, verdict in a.pairs().items()]
    if not pairs:
        return
    absent = [pair for pair in pairs if pair[2] == "absent"]
    yield f"clean kernels: absent in {_share(len(absent), len(pairs))} of pairs"
    for rule in RULES:
        own = [pair for pair in pairs if pair[1] == rule]
        if own:
            yield f"  {rule:18} {_share(sum(p[2] == 'absent' for p in own), len(own))}"
    reasons = Counter(f"{rule}: {why}" for _, rule, kind, why in pairs if kind == "unknown")
    yield "commonest reasons for unknown:"
    yield from (f"  {count:4} {why}" for why, count in reasons.most_common(12))
    if verbose:
        for answer, rule, kind, why in pairs:
            if kind != "absent":
                yield f"  {_name(answer)}: {rule} {kind}: {why}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})"


if __name__ == "__main__":
    raise SystemExit(main())
