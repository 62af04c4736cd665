"""Which rewrites wrote a text that ptxsw could not prove right: each is a fault of ours.

    python -m benchmarks.unproved [FILE.ptx ...] [--corpus DIR] [--alone] [--seconds S]

Without files: `benchmarks/programs`, KernelGen's operators, and the corpus, where one is given or
`PTXSW_CORPUS` names it. Every rewrite is made in mode force, one behind the other; with `--alone`
each of them is made of the text as it is, too. What ran out of time is listed apart. Exit 1 where
a text could not be proved.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.auto import files
from benchmarks.rewrites import lines
from ptxsw.driver.checked_texts import UNCHECKED
from ptxsw.driver.pipeline import Options, optimize
from ptxsw.emulator.budget import OUT_OF_TIME
from ptxsw.ptx.errors import PtxError
from ptxsw.report.model import Kernel
from ptxsw.rewrites import named


class Unproved(NamedTuple):
    """What a rewrite wrote in one kernel, and why it was taken back."""

    file: str
    kernel: str
    asked: str
    rewrite: str
    line: int
    reason: str


def unproved(path: Path, asked: tuple[str, ...], seconds: float) -> Iterator[Unproved]:
    """What of these rewrites was taken back in a file, once a reason, rewrite and kernel."""
    text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    options = Options(mode="force", rewrites=asked, budget_s=seconds)
    name = f"{path.parent.name}/{path.stem}"
    try:
        kernels = optimize(text, options, path.name).report.kernels
    except (PtxError, ValueError) as error:
        print(f"{path}: {str(error).splitlines()[0]}", file=sys.stderr)
        return
    for kernel in kernels:
        for rewrite, line, reason in _taken_back(kernel):
            yield Unproved(name, kernel.name, "+".join(asked), rewrite, line, reason)


def _taken_back(kernel: Kernel) -> Iterator[tuple[str, int, str]]:
    first: dict[tuple[str, str], int] = {}
    for refusal in kernel.refusals or ():
        if refusal.reason.startswith(UNCHECKED) or refusal.reason == OUT_OF_TIME:
            first.setdefault((refusal.rewrite or "", refusal.reason), refusal.line)
    for (rewrite, reason), line in first.items():
        yield rewrite, line, reason.removeprefix(f"{UNCHECKED}: ")


def show(found: Sequence[Unproved]) -> Iterator[str]:
    """The lines of both tables."""
    late = [one for one in found if one.reason == OUT_OF_TIME]
    wrong = [one for one in found if one.reason != OUT_OF_TIME]
    for title, rows in (("kernels that could not be proved equal", wrong), ("out of time", late)):
        yield f"{title}: {len(rows)}"
        yield from lines([Unproved._fields, *([str(cell) for cell in row] for row in rows)])
        yield ""


def main(argv: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(argv)
    every = named(["all"])
    sets = [("all",), *([(name,) for name in every] if asked.alone else [])]
    found: list[Unproved] = []
    for path in asked.file or files(asked.corpus, asked.largest):
        for rewrites in sets:
            found += unproved(path, rewrites, asked.seconds)
    print("\n".join(show(found)))
    return 1 if any(one.reason != OUT_OF_TIME for one in found) else 0


def _parser() -> argparse.ArgumentParser:
    corpus = os.environ.get("PTXSW_CORPUS")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.unproved", description="Kernels that could not be proved equal."
    )
    parser.add_argument("file", nargs="*", type=Path, metavar="FILE.ptx")
    parser.add_argument("--corpus", type=Path, default=Path(corpus) if corpus else None)
    parser.add_argument("--largest", type=float, default=float("inf"), help="file of the corpus")
    parser.add_argument("--alone", action="store_true", help="each rewrite by itself, too")
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time for a kernel")
    return parser


if __name__ == "__main__":
    sys.exit(main())
