"""What the rules of correctness say of real texts: how much they prove, and what stands in the way.

    python -m benchmarks.faults.corpus [FILE.ptx ...] [--corpus DIR] [--every N] [--largest BYTES]
        [--block X,Y,Z] [--seconds S] [--jobs N] [--verdicts OUT.jsonl]

Without files: each Nth of the corpus, where one is given or `PTXSW_CORPUS` names it, up to a size
in bytes. A pair is a kernel and a rule whose instructions occur in it. `--block` is for kernels
that declare none. Lines and names in reasons are left out when they are counted; `--verdicts`
writes each pair with its whole reason. What is found is listed: each has to be a real fault. Exit 1
where there is an error, or a kernel could not be finished.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from msgspec import Struct, to_builtins

import ptxsw
from benchmarks.faults.programs import RULES
from ptxsw.correctness.verdict import NOTHING
from ptxsw.ptx.errors import PtxError

LARGEST = 60_000
REASONS = 10


class Pair(Struct, frozen=True):
    """What one rule says of a kernel."""

    file: str
    kernel: str
    rule: str
    verdict: str
    reason: str


class Said(Struct, frozen=True):
    """Of one file. `found` are errors and warnings, `problems` what could not be finished."""

    pairs: tuple[Pair, ...]
    found: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    seconds: tuple[tuple[float, str], ...] = ()
    """CPU time of each kernel, with its name."""


def said(path: Path, block: Sequence[int] | None, seconds: float) -> Said:
    """What the rules say of the kernels of a file."""
    text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    file = f"{path.parent.name}/{path.stem}"
    times: list[tuple[float, str]] = []
    begin = process_time()

    def timed(*progress: Any) -> None:
        nonlocal begin
        times.append((process_time() - begin, f"{file}: {progress[-1].name}"))
        begin = process_time()

    try:
        report = ptxsw.check(
            text, path.name, select="correctness", block=block, seconds=seconds, ptxas=False,
            finished=timed,
        )  # fmt: skip
    except (PtxError, ValueError) as error:
        return Said((), problems=(f"{file}: {str(error).splitlines()[0]}",))
    pairs, found, problems = list[Pair](), list[str](), list[str]()
    for kernel in report.kernels:
        for rule, verdict in (kernel.verdicts or {}).items():
            if verdict.reason != NOTHING:
                pairs.append(Pair(file, kernel.name, rule, verdict.verdict, verdict.reason))
        for f in kernel.findings or ():
            if f.level != "note":
                found.append(
                    f"{f.level} {f.rule} in {file}, {kernel.name}, line {f.line}: {f.what}"
                )
        if kernel.failed is not None:
            problems.append(f"{file}: {kernel.name}: {kernel.failed}")
    return Said(tuple(pairs), tuple(found), tuple(problems), tuple(times))


def lines(answers: Sequence[Said]) -> Iterator[str]:
    """The table, the reasons, and what has to be judged by hand."""
    pairs = [pair for answer in answers for pair in answer.pairs]
    kernels = {(pair.file, pair.kernel) for pair in pairs}
    yield f"{len(answers)} texts, {len(kernels)} kernels; pairs of kernel and rule:"
    yield f"{'rule':18} {'pairs':>6} {'absent':>12} {'found':>12} {'unknown':>12}"
    for rule in (*RULES, ""):
        own = [pair.verdict for pair in pairs if pair.rule == rule or not rule]
        if own:
            counts = (_share(own.count(k), len(own)) for k in ("absent", "found", "unknown"))
            yield f"{rule or 'all':18} {len(own):6} {' '.join(f'{c:>12}' for c in counts)}"
    unknown = [pair for pair in pairs if pair.verdict == "unknown"]
    yield ""
    yield "commonest reasons for unknown, with the rules that give them:"
    for why, count in Counter(plain(pair.reason) for pair in unknown).most_common(REASONS):
        rules = Counter(pair.rule for pair in unknown if plain(pair.reason) == why)
        yield f"{count:5} {why} ({', '.join(f'{r} {n}' for r, n in rules.most_common())})"
    times = sorted(time for answer in answers for time in answer.seconds)
    if times:
        yield ""
        p99, (most, name) = times[min(len(times) - 1, int(0.99 * len(times)))][0], times[-1]
        middle = median(time for time, _ in times)
        yield f"CPU seconds: median {middle:.2f}, p99 {p99:.2f}, most {most:.2f} ({name})"
    for title, which in (("errors and warnings", "found"), ("not finished", "problems")):
        rows = [row for answer in answers for row in getattr(answer, which)]
        yield f"{title}: {len(rows)}"
        yield from (f"  {row}" for row in rows)


def plain(reason: str) -> str:
    """A reason without the lines and names of its text."""
    reason = re.sub(r"\(line \d+\)|\bat line(s \d+ and)? \d+", "", reason)
    reason = re.sub(r"\bline(s \d+ and)? \d+", "line N", reason)
    reason = re.sub(r"^in \S+: ", "in a function: ", reason)
    reason = re.sub(r"(depends on data): .*", r"\1", reason)
    reason = re.sub(r"%\w+(\.\w+)?( and %\w+(\.\w+)?)+", "places of threads", reason)
    return " ".join(reason.split()).replace(" :", ":")


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})"


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    paths = asked.file or files(asked.corpus, asked.largest, asked.every)
    block = [int(size) for size in asked.block.split(",")] if asked.block else None
    work = partial(said, block=block, seconds=asked.seconds)
    with ProcessPoolExecutor(asked.jobs) as pool:
        answers = list(pool.map(work, paths))
    if asked.verdicts:
        rows = (json.dumps(to_builtins(p)) for answer in answers for p in answer.pairs)
        asked.verdicts.write_text("".join(f"{row}\n" for row in rows))
    print("\n".join(lines(answers)))
    bad = (row for a in answers for row in (*a.found, *a.problems) if not row.startswith("warning"))
    return 1 if any(True for _ in bad) else 0


def files(corpus: Path | None, largest: float, every: int) -> list[Path]:
    """Each Nth of the texts below a folder that are not too large."""
    found = [] if corpus is None else sorted(corpus.rglob("*.ptx"))
    return [path for path in found if path.stat().st_size <= largest][::every]


def _parser() -> argparse.ArgumentParser:
    named = os.environ.get("PTXSW_CORPUS")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults.corpus", description="What is proved of real texts."
    )
    parser.add_argument("file", nargs="*", type=Path, metavar="FILE.ptx")
    parser.add_argument("--corpus", type=Path, default=Path(named) if named else None)
    parser.add_argument("--every", type=int, default=1, help="text of the corpus")
    parser.add_argument("--largest", type=float, default=LARGEST, help="bytes of a text")
    parser.add_argument("--block", default="", help="threads along x, y, z where none are declared")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time of a kernel")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--verdicts", type=Path, help="a file for each pair's verdict")
    return parser


if __name__ == "__main__":
    sys.exit(main())
