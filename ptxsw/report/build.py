"""The reports of a whole build, summed up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from ptxsw.json_text import parsed
from ptxsw.printable import one_line
from ptxsw.report.layout import Paint, draw_text, plain
from ptxsw.report.serial import from_json
from ptxsw.report.shown import Report
from ptxsw.report.tables import Table


class Build(Struct, frozen=True):
    """Reports, and the files that are none with what is wrong with them."""

    reports: tuple[Report, ...]
    problems: tuple[str, ...]


def load(directory: Path) -> Build:
    """All reports in a directory. Raises OSError where it can't be read."""
    reports: list[Report] = []
    problems: list[str] = []
    for path in sorted(directory.iterdir()):
        if path.suffix != ".json" or path.name.startswith(".") or not path.is_file():
            continue
        one = load_one(path.read_bytes(), str(path))
        reports += one.reports
        problems += one.problems
    return Build(tuple(reports), tuple(problems))


def load_one(text: str | bytes, name: str) -> Build:
    """The one report in a text."""
    try:
        return Build((from_json(parsed(text)),), ())
    except ValueError as error:
        return Build((), (f"{one_line(name)}: {error}",))


def summary(build: Build, paint: Paint = plain, width: int | None = None) -> str:
    """A line for each kernel, the totals, why loads were left alone, and what a report warns of,
    for a terminal of so many characters."""
    kernels = [(report, kernel) for report in build.reports for kernel in report.kernels]
    rows = [
        (
            _shown(report.file), report.arch or "?", kernel.readable or kernel.name,
            str(kernel.loads), str(kernel.shuffles or 0), str(kernel.copies or 0),
        )
        for report, kernel in kernels
    ]  # fmt: skip
    loads, shuffles, copies = (
        sum(counts) for counts in (_column(rows, 3), _column(rows, 4), _column(rows, 5))
    )
    count = f"{len(kernels)} kernel{'' if len(kernels) == 1 else 's'}"
    rows.append(("total", "", count, str(loads), str(shuffles), str(copies)))
    header = ("file", "arch", "kernel", "loads", "shuffles", "copies")
    lines = draw_text(Table(header, tuple(rows), frozenset(header[3:])), paint, width)
    reasons = _reasons(build.reports)
    if reasons:
        table = Table(("loads left alone", "because"), reasons, frozenset({"loads left alone"}))
        lines += ["", *draw_text(table, paint, width)]
    warnings = [
        one_line(f"{_shown(r.file)}: {r.warning}") for r in build.reports if r.warning is not None
    ]
    warnings += [
        one_line(f"{_shown(report.file)}: {kernel.readable or kernel.name} {kernel.failed}")
        for report, kernel in kernels if kernel.failed is not None
    ]  # fmt: skip
    lines += ["", *warnings] if warnings else []
    seconds = sum(report.seconds or 0 for report in build.reports)
    files = f"{len(build.reports)} file{'' if len(build.reports) == 1 else 's'}"
    lines += ["", f"{files}, {seconds:.1f} s of analysis"]
    return "\n".join(lines) + "\n"


def _shown(file: str) -> str:
    """A file's name; of nvcc's temporary files the part that comes from their source."""
    return re.sub(r"^.*/tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_", "", file)


def _column(rows: Iterable[tuple[str, ...]], index: int) -> Iterator[int]:
    return (int(row[index]) for row in rows)


def _reasons(reports: Iterable[Report]) -> tuple[tuple[str, str], ...]:
    """How often loads were refused for what reason, the most frequent first."""
    counts: dict[str, int] = {}
    for report in reports:
        for kernel in report.kernels:
            for refusal in kernel.refusals or ():
                counts[refusal.reason] = counts.get(refusal.reason, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple((str(count), reason) for reason, count in ordered)
